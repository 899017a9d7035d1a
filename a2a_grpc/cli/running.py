"""Runs a server until it is told to end, as `a2a_grpc.run` does, and says when it is ready."""

import asyncio
import os
import sys
from collections.abc import Callable

from ..server import Server, _close, _signalled


def run(server: Server, started: Callable[[Server], None]) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(_serve(server, started))
    except BaseException:
        _close(loop)
        raise
    if not _close(loop):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def _serve(server: Server, started: Callable[[Server], None]) -> None:
    async with server:
        started(server)
        await _signalled()
