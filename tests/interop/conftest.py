"""A server for foreign clients, on free ports."""

from collections.abc import AsyncIterator

import pytest

from a2a_grpc import Server
from tests.interop.agent import Catalogue


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(Catalogue(), http_port=0, grpc_port=0, shutdown_deadline=2) as started:
        yield started
