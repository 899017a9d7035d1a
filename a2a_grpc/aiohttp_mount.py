"""An agent inside someone else's aiohttp application."""

from typing import Any

from aiohttp import web

from .assembly import Agent, assemble
from .bindings.site import mount_paths, mount_point
from .generated.a2a_pb2 import AgentCard
from .mounts import Mount
from .option_rules import from_keywords
from .options import Options


def mount(
    app: web.Application, servicer: Any, card: AgentCard | None = None, *, prefix: str, public_url: str, **given: Any
) -> Agent:
    """Adds an agent's card, JSON-RPC and HTTP+JSON to an existing aiohttp application, below a prefix.

    `public_url` is the base URL of the application. Run it with `handler_cancellation=True`, so that a client that
    disconnects ends its call.
    """
    settings = {"bindings": ("JSONRPC", "HTTP+JSON"), **given, "public_url": public_url}
    options = from_keywords(Options, settings)
    agent = assemble(Mount(servicer, card, prefix), options, http=public_url.rstrip("/"))
    for path in mount_paths(prefix):
        app.router.add_route("*", path, mount_point(agent.site, options.cors))

    async def end_streams(_: web.Application) -> None:
        agent.server.end_streams()

    app.on_shutdown.append(end_streams)
    return agent
