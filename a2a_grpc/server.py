"""The server: agents on their bindings, in one process, from listening to a bounded drain."""

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import grpc.aio
from aiohttp import web

from .assembly import Agent, assemble
from .bindings.cors import with_cors
from .bindings.grpc import A2AHandler, Route, add_services, server_options
from .bindings.http_server import close_http, http_runner
from .bindings.site import Site
from .context import CallError
from .errors import InvalidParamsError, Violation, log
from .generated.a2a_pb2 import AgentCard
from .in_flight import LAST_MOMENT, InFlight
from .inprocess import InProcessServer
from .mounts import mounts_of
from .option_rules import from_keywords
from .options import Options
from .ports import EVERY_ADDRESS, PortError, callable_address, close_all, listen, shown

LONGEST_GRACE = 86400.0  # seconds that grpc.aio would wait; it is told sooner, as a call must not be cancelled twice
LAST_FLUSH = 0.1  # seconds that a connection has to close
_WHICH_AGENT = "several agents are served here: send the tenant of the interface in the card of the one you mean"


class Server:
    """Serves one servicer, or several `Mount`s, on gRPC, JSON-RPC and HTTP+JSON.

        async with Server(Joker(), card, http_port=0, grpc_port=0) as server:
            print(server.http_url, server.grpc_address)

    Options are those of `Options`. Raises TypeError for what is no servicer or option, ValueError for a wrong value.
    Entering raises CardError for a card that cannot be served, PortError for an address that cannot be listened on.
    Leaving drains: see `stop`.
    """

    http_port: int | None = None
    grpc_port: int | None = None
    http_url = ""
    grpc_address = ""

    def __init__(self, servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
        self.options = from_keywords(Options, given)
        self._mounts = mounts_of(servicer, card, self.options)
        self.agents: tuple[Agent, ...] = ()
        self._in_flight = InFlight()
        self._ready = False
        self._http_sockets: Sequence[socket.socket] = ()
        self._grpc_sockets: Sequence[socket.socket] = ()
        self._runner: web.ServerRunner | None = None
        self._grpc: grpc.aio.Server | None = None
        self._health: Any = None

    async def start(self) -> None:
        """Listens, and returns once every binding answers."""
        tls = self.options.tls.ssl_context() if self.options.tls else None
        try:
            self._listen()
            self._assemble()
            if self.grpc_port:
                await self._start_grpc()
            if self.http_port:
                await self._start_http(tls)
        except BaseException:
            await self.stop(0)
            raise
        self._ready = True

    async def stop(self, deadline: float | None = None) -> None:
        """Drains within `deadline` seconds (default: the option), and returns when the handlers have ended.

        Readiness turns false at once. While calls are open the server serves on, for half of the time at most; then it
        takes nothing new and ends the streams. Calls that are open at the deadline are cancelled, and those that do not
        end by that are given up a moment later.
        """
        seconds = self.options.shutdown_deadline if deadline is None else deadline
        until = time.monotonic() + seconds
        runner, grpc_server, self._runner, self._grpc = self._runner, self._grpc, None, None
        self._ready = False
        if grpc_server:
            await self._health.enter_graceful_shutdown()
        await self._in_flight.ended(seconds / 2)
        closing = _closing(runner, grpc_server)
        await self._in_flight.end(seconds / 2)
        await self._close_servicers(max(0.0, until - time.monotonic()))
        await _closed(closing, grpc_server)
        close_all((*self._http_sockets, *self._grpc_sockets))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def card(self) -> AgentCard:
        """The complete card of the first agent."""
        return self.agents[0].card

    async def _close_servicers(self, seconds: float) -> None:
        """Lets servicers that have something to close (the task engine has) close it, each once."""
        closers = {id(a.mount.servicer): getattr(a.mount.servicer, "close", None) for a in self.agents}
        closing = [asyncio.create_task(close(seconds)) for close in closers.values() if close]
        if closing:
            await asyncio.wait(closing, timeout=seconds + LAST_MOMENT)

    # Starting

    def _listen(self) -> None:
        if self.options.http_bindings:
            self._http_sockets = listen(self.options.host, self.options.http_port or 0, "HTTP")
            self.http_port, address = self._place(self._http_sockets)
            self.http_url = f"{'https' if self.options.tls else 'http'}://{address}"
        if self.options.grpc_served:
            self._grpc_sockets = listen(self.options.host, self.options.grpc_port or 0, "gRPC")
            self.grpc_port, self.grpc_address = self._place(self._grpc_sockets)

    def _place(self, sockets: Sequence[socket.socket]) -> tuple[int, str]:
        """The port, and the address at which it can be called."""
        port = sockets[0].getsockname()[1]
        return port, callable_address(self.options.host, port)

    def _assemble(self) -> None:
        http = self.http_url and (self.options.public_url or self.http_url).rstrip("/")
        grpc_address = self.grpc_address and (self.options.public_grpc or self.grpc_address)
        if self.options.host in EVERY_ADDRESS and not self.options.public_url:
            log.warning("listening on every address, and the card names %s; say public_url and public_grpc", http)
        self.agents = tuple(assemble(mount, self.options, http, grpc_address) for mount in self._mounts)
        self._in_flight.servers = [agent.server for agent in self.agents]

    async def _start_grpc(self) -> None:
        server = grpc.aio.server(options=server_options(self.options.max_message_size, self.options.max_connection_age))
        handler = A2AHandler(self._route(), self.agents[0].challenge, self.options.write_timeout)
        self._health = add_services(server, handler, reflection=self.options.reflection)
        await self._health.set("lf.a2a.v1.A2AService", 1)
        names = [shown(*sock.getsockname()[:2]) for sock in self._grpc_sockets]
        close_all(self._grpc_sockets)
        for name in names:
            self._bind(server, name)
        await server.start()
        self._grpc = server

    def _bind(self, server: grpc.aio.Server, name: str) -> None:
        try:
            if self.options.tls:
                server.add_secure_port(name, self.options.tls.server_credentials())
            else:
                server.add_insecure_port(name)
        except RuntimeError as error:
            raise PortError(f"cannot listen on {name} (gRPC): {error}") from None

    async def _start_http(self, tls: ssl.SSLContext | None) -> None:
        site = with_cors(Site([agent.site for agent in self.agents], lambda: self._ready), self.options.cors)
        self._runner = await http_runner(self._in_flight.counted(site), self.options.shutdown_deadline)
        for sock in self._http_sockets:
            await web.SockSite(self._runner, sock, ssl_context=tls).start()

    def _route(self) -> Route:
        """Which agent a gRPC request is for: the only one, or the one of its tenant."""
        servers = {agent.mount.tenant: agent.server for agent in self.agents}
        first = self.agents[0].server
        if len(servers) == 1:
            return lambda request: first

        def route(request: Any) -> InProcessServer:
            tenant = getattr(request, "tenant", self.agents[0].mount.tenant)
            if not tenant and tenant not in servers:
                raise CallError(InvalidParamsError([Violation("tenant", _WHICH_AGENT)]).status())
            return servers.get(tenant, first)  # the first one refuses what is not its own

        return route


def _closing(runner: web.ServerRunner | None, grpc_server: grpc.aio.Server | None) -> list[asyncio.Task[None]]:
    """Takes no new connections and calls from the next step of the event loop on, and waits for the old ones."""
    steps = [close_http(runner)] if runner else []
    steps += [grpc_server.stop(LONGEST_GRACE)] if grpc_server else []
    return [asyncio.create_task(step) for step in steps]


async def _closed(closing: Sequence[asyncio.Task[None]], grpc_server: grpc.aio.Server | None) -> None:
    """Closes what the calls have left: connections, and streams of health and reflection."""
    closing = [*closing, *([asyncio.create_task(grpc_server.stop(LAST_FLUSH))] if grpc_server else [])]
    if closing:
        _, late = await asyncio.wait(closing, timeout=2 * LAST_FLUSH)
        for task in late:
            task.cancel()
        await asyncio.wait(closing, timeout=LAST_FLUSH)
