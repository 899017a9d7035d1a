"""The server: agents on their bindings, in one process, from listening to a bounded drain."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from aiohttp import web

from .agent import Address, Agent, assemble
from .behaviors import close_threads
from .bindings.grpc import A2AHandler, add_services, server_options
from .bindings.http_server import http_runner
from .bindings.site import Site, mount_point
from .errors import log
from .generated.a2a_pb2 import AgentCard
from .inprocess import InProcessServer
from .options import Mount, Options, options
from .ports import listen, shown

LAST_MOMENT = 0.5  # seconds that a drained process has for its remaining tasks


class Server:
    """Serves one servicer, or several `Mount`s, on gRPC, JSON-RPC and HTTP+JSON.

        async with Server(Joker(), card, http_port=0, grpc_port=0) as server:
            print(server.http_url, server.grpc_address)

    Options are those of `Options`. Entering raises CardError for a card that cannot be served, PortError for an address
    that cannot be listened on. Leaving drains: see `stop`.
    """

    http_port: int | None = None
    grpc_port: int | None = None
    http_url = ""
    grpc_address = ""

    def __init__(self, servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
        self._mounts = _mounts(servicer, card)
        self.options = options(given)
        self.agents: tuple[Agent, ...] = ()
        self._ready = False
        self._runner: web.ServerRunner | None = None
        self._grpc: grpc.aio.Server | None = None
        self._health: Any = None

    async def start(self) -> None:
        """Listens, and returns once every binding answers."""
        http = _listen(self.options, self.options.http_port, "HTTP") if self.options.http_bindings else []
        try:
            grpc_sockets = _listen(self.options, self.options.grpc_port, "gRPC") if self.options.grpc_served else []
            self._name_addresses(http, grpc_sockets)
            self._assemble()
            await self._start_grpc(grpc_sockets)
            await self._start_http(http)
        except BaseException:
            for sock in http:
                sock.close()
            raise
        self._ready = True

    async def stop(self, deadline: float | None = None) -> None:
        """Drains within `deadline` seconds (default: the option): readiness turns false, nothing new is accepted, open
        streams are ended after half of the time, and what is left at the end is cancelled."""
        if self._grpc is None and self._runner is None:
            return
        self._ready = False
        seconds = self.options.shutdown_deadline if deadline is None else deadline
        stopping = [asyncio.create_task(step) for step in self._steps(seconds)]
        ending = asyncio.create_task(self._end_streams(seconds / 2))
        _, late = await asyncio.wait(stopping, timeout=seconds)
        for task in (*late, ending):
            task.cancel()
        await asyncio.wait([*stopping, ending], timeout=LAST_MOMENT)
        self._grpc = self._runner = None

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

    # Starting

    def _name_addresses(self, http: Sequence[socket.socket], grpc_sockets: Sequence[socket.socket]) -> None:
        scheme = "https" if self.options.tls else "http"
        if http:
            self.http_port = http[0].getsockname()[1]
            self.http_url = f"{scheme}://{_callable(self.options.host, self.http_port)}"
        if grpc_sockets:
            self.grpc_port = grpc_sockets[0].getsockname()[1]
            self.grpc_address = _callable(self.options.host, self.grpc_port)

    def _assemble(self) -> None:
        public = self.options.public_url.rstrip("/") if self.options.public_url else self.http_url
        address = Address(public if self.http_port else "", (self.options.public_grpc or self.grpc_address))
        if self.options.host in ("0.0.0.0", "::", "") and not self.options.public_url:
            log.warning("listening on every address, and the card names %s; say public_url and public_grpc", public)
        self.agents = tuple(assemble(mount, self.options, address) for mount in self._mounts)

    async def _start_grpc(self, sockets: Sequence[socket.socket]) -> None:
        if not sockets:
            return
        server = grpc.aio.server(options=server_options(self.options.max_message_size, self.options.max_connection_age))
        handler = A2AHandler(self._route(), self.agents[0].challenge, self.options.write_timeout)
        self._health = add_services(server, handler, reflection=self.options.reflection)
        await self._health.set("lf.a2a.v1.A2AService", 1)
        names = [shown(*sock.getsockname()[:2]) for sock in sockets]
        for sock in sockets:
            sock.close()
        for name in names:
            if self.options.tls:
                server.add_secure_port(name, self.options.tls.server_credentials())
            else:
                server.add_insecure_port(name)
        await server.start()
        self._grpc = server

    async def _start_http(self, sockets: Sequence[socket.socket]) -> None:
        if not sockets:
            return
        site = Site([agent.site for agent in self.agents], lambda: self._ready, self.options.cors)
        self._runner = await http_runner(site, self.options.shutdown_deadline)
        context = self.options.tls.ssl_context() if self.options.tls else None
        for sock in sockets:
            await web.SockSite(self._runner, sock, ssl_context=context).start()

    def _route(self) -> Any:
        """Which agent a gRPC request is for: the only one, or the one of its tenant."""
        servers = {agent.mount.tenant: agent.server for agent in self.agents}
        first = self.agents[0].server
        if len(servers) == 1:
            return lambda request: first

        def route(request: Any) -> InProcessServer:
            return servers.get(getattr(request, "tenant", ""), first)

        return route

    # Stopping

    def _steps(self, seconds: float) -> list[Coroutine[Any, Any, None]]:
        steps: list[Coroutine[Any, Any, None]] = []
        if self._grpc:
            steps.append(self._stop_grpc(self._grpc, seconds))
        if self._runner:
            steps.append(_stop_http(self._runner))
        return steps

    async def _stop_grpc(self, server: grpc.aio.Server, seconds: float) -> None:
        await self._health.enter_graceful_shutdown()
        await server.stop(seconds)

    async def _end_streams(self, after: float) -> None:
        await asyncio.sleep(after)
        for agent in self.agents:
            agent.server.end_streams()


async def serve(servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
    """Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once. Options: see `Options`."""
    async with Server(servicer, card, **given) as server:
        await _signalled()
        log.info("draining, for %s seconds at most", server.options.shutdown_deadline)


def run(servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
    """`serve`, for a program that does nothing else. The process ends after the drain, whatever hangs in the agent's
    code: where a task or a thread does not end, with exit code 0 and without returning."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(serve(servicer, card, **given))
    except BaseException:
        _close(loop)
        raise
    if not _close(loop):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def mount(
    app: web.Application, servicer: Any, card: AgentCard | None = None, *, prefix: str, public_url: str, **given: Any
) -> Agent:
    """Adds an agent's card, JSON-RPC and HTTP+JSON to an existing aiohttp application, below a prefix.

    `public_url` is the base URL of the application. Run it with `handler_cancellation=True`, so that a client that
    disconnects ends its call.
    """
    settings = options({"bindings": ("JSONRPC", "HTTP+JSON"), **given, "public_url": public_url})
    agent = assemble(Mount(servicer, card, prefix=prefix), settings, Address(http=public_url.rstrip("/")))
    app.router.add_route("*", prefix + "{a2a_path:(/.*)?}", mount_point(agent.site))

    async def end_streams(_: web.Application) -> None:
        agent.server.end_streams()

    app.on_shutdown.append(end_streams)
    return agent


def _mounts(servicer: Any, card: AgentCard | None) -> tuple[Mount, ...]:
    mounts = tuple(servicer) if isinstance(servicer, list | tuple) else (servicer,)
    mounts = tuple(m if isinstance(m, Mount) else Mount(m, card) for m in mounts)
    for kind in ("prefix", "tenant"):
        values = [getattr(m, kind) for m in mounts]
        if len(set(values)) < len(values):
            raise ValueError(f"each agent needs a {kind} of its own: {values}")
    return mounts


def _listen(settings: Options, port: int | None, what: str) -> list[socket.socket]:
    return listen(settings.host, port or 0, what)


def _callable(host: str, port: int) -> str:
    """An address that can be called: an unspecified one is replaced by this machine's name, if that resolves."""
    if host not in ("0.0.0.0", "::", ""):
        return shown(host, port)
    try:
        socket.getaddrinfo(socket.gethostname(), port)
        return f"{socket.gethostname()}:{port}"
    except OSError:
        return f"127.0.0.1:{port}"


async def _stop_http(runner: web.ServerRunner) -> None:
    await runner.cleanup()


async def _signalled() -> None:
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()

    def heard() -> None:
        if signalled.is_set():
            os._exit(1)
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, heard)
    await signalled.wait()


def _close(loop: asyncio.AbstractEventLoop) -> bool:
    """Ends what is left, within a moment; False where a task or a thread does not end."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    late = loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_MOMENT / 2))[1] if tasks else set()
    close_threads()
    loop.run_until_complete(_within(loop.shutdown_default_executor()))
    if late or not _threads_end(time.monotonic() + LAST_MOMENT / 2):
        return False
    loop.run_until_complete(_within(loop.shutdown_asyncgens()))
    loop.close()
    return True


async def _within(step: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait([asyncio.create_task(step)], timeout=LAST_MOMENT / 2)


def _threads_end(until: float) -> bool:
    others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in others)
