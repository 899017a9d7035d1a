"""For tests of agents: the agent, served in this process, and a client on each binding."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from ..card import GRPC, HTTP_JSON, JSONRPC
from ..generated.a2a_pb2 import AgentCard
from ..server import Server
from .client import Client
from .connect import connect


class Clients(NamedTuple):
    """Iterate over it to say the same on every binding."""

    grpc: Client
    jsonrpc: Client
    rest: Client


@asynccontextmanager
async def agent_under_test(
    servicer: Any, card: AgentCard | None = None, *, client: dict[str, Any] | None = None, **server: Any
) -> AsyncIterator[Clients]:
    """Serves an agent on free ports; `server` are its options, `client` those of the clients.

    async with agent_under_test(Glossary()) as clients:
        for agent in clients:
            assert "immutable" in (await agent.ask("record")).text
    """
    async with AsyncExitStack() as stack:
        options = {"http_port": 0, "grpc_port": 0, "shutdown_deadline": 1.0, **server}
        served = await stack.enter_async_context(Server(servicer, card, **options))
        card = served.agents[0].card
        clients = [
            await stack.enter_async_context(connect(card, **{**(client or {}), "bindings": [binding]}))
            for binding in (GRPC, JSONRPC, HTTP_JSON)
        ]
        yield Clients(*clients)
