"""Ours: the agent on a server with its default options."""

from a2a_grpc import Server

from . import messages
from .agent import Servicer


async def http(port: int) -> Server:
    return await _started(Server(Servicer(), messages.card(), http_port=port, grpc_port=None))


async def grpc_(port: int) -> Server:
    return await _started(Server(Servicer(), messages.card(), http_port=None, grpc_port=port))


async def _started(server: Server) -> Server:
    await server.start()
    return server
