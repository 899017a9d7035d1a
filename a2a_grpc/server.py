"""The server: agents on their bindings, in one process, from listening to a bounded drain."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from aiohttp import web

from .assembly import Address, Agent, assemble
from .behaviors import close_threads
from .bindings.cors import with_cors
from .bindings.grpc import A2AHandler, Route, add_services, server_options
from .bindings.http_server import close_http, http_runner
from .bindings.site import Site, mount_paths, mount_point
from .context import CallError
from .errors import InvalidParamsError, Violation, log
from .generated.a2a_pb2 import AgentCard
from .inprocess import InProcessServer
from .options import Mount, Options, options
from .ports import PortError, close_all, listen, shown

LAST_MOMENT = 0.4  # seconds that a cancelled call has to end
LONGEST_GRACE = 86400.0  # seconds that grpc.aio would wait; it is told sooner, as a call must not be cancelled twice
LAST_FLUSH = 0.1  # seconds that a connection has to close, and each kind of task and thread to end with its process


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
        self.options = options(given)
        self._mounts = _mounts(servicer, card, self.options)
        self.agents: tuple[Agent, ...] = ()
        self._calls = _Calls()
        self._ready = False
        self._runner: web.ServerRunner | None = None
        self._grpc: grpc.aio.Server | None = None
        self._health: Any = None

    async def start(self) -> None:
        """Listens, and returns once every binding answers."""
        tls = self.options.tls.ssl_context() if self.options.tls else None
        sockets: list[socket.socket] = []
        try:
            http = self._listen(sockets, self.options.http_port, "HTTP") if self.options.http_bindings else []
            grpc_sockets = self._listen(sockets, self.options.grpc_port, "gRPC") if self.options.grpc_served else []
            self._name_addresses(http, grpc_sockets)
            self._assemble()
            await self._start_grpc(grpc_sockets)
            await self._start_http(http, tls)
        except BaseException:
            close_all(sockets)
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
        await self._calls.end(seconds / 2)
        closing = _closing(runner, grpc_server)
        for agent in self.agents:
            agent.server.end_streams()
        if not await self._calls.end(seconds / 2):
            for agent in self.agents:
                agent.server.end_calls()
        if not await self._calls.end(LAST_MOMENT / 2):
            self._calls.cancel()
            await self._calls.end(LAST_MOMENT / 2)
        await self._close_servicers(max(0.0, until - time.monotonic()))
        await _closed(closing, grpc_server)

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

    def _listen(self, opened: list[socket.socket], port: int | None, what: str) -> list[socket.socket]:
        sockets = listen(self.options.host, port or 0, what)
        opened += sockets
        return sockets

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
        public_grpc = self.options.public_grpc or self.grpc_address
        address = Address(public if self.http_port else "", public_grpc if self.grpc_port else "")
        if self.options.host in ("0.0.0.0", "::", "") and not self.options.public_url:
            log.warning("listening on every address, and the card names %s; say public_url and public_grpc", public)
        self.agents = self._calls.agents = tuple(assemble(mount, self.options, address) for mount in self._mounts)

    async def _start_grpc(self, sockets: Sequence[socket.socket]) -> None:
        if not sockets:
            return
        server = grpc.aio.server(options=server_options(self.options.max_message_size, self.options.max_connection_age))
        handler = A2AHandler(self._route(), self.agents[0].challenge, self.options.write_timeout)
        self._health = add_services(server, handler, reflection=self.options.reflection)
        await self._health.set("lf.a2a.v1.A2AService", 1)
        names = [shown(*sock.getsockname()[:2]) for sock in sockets]
        close_all(sockets)
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

    async def _start_http(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None) -> None:
        if not sockets:
            return
        site = with_cors(Site([agent.site for agent in self.agents], lambda: self._ready), self.options.cors)

        requests = self._calls.requests

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            task = asyncio.current_task()
            assert task is not None
            requests.add(task)
            try:
                return await site(request)
            finally:
                requests.discard(task)

        self._runner = await http_runner(answer, self.options.shutdown_deadline)
        for sock in sockets:
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


class _Calls:
    """The calls in flight on every binding, known by their tasks: HTTP requests from their first byte on, and what the
    agents are called for."""

    def __init__(self) -> None:
        self.requests: set[asyncio.Task[Any]] = set()
        self.agents: tuple[Agent, ...] = ()

    def tasks(self) -> set[asyncio.Task[Any]]:
        return self.requests.union(*(agent.server.tasks() for agent in self.agents))

    async def end(self, within: float) -> bool:
        """Waits, `within` seconds at most, until no call is in flight."""
        until = time.monotonic() + within
        while (tasks := self.tasks()) and (left := until - time.monotonic()) > 0:
            await asyncio.wait(tasks, timeout=left)
        return not tasks

    def cancel(self) -> None:
        for task in self.tasks():
            task.cancel()


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


async def serve(servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
    """Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once. Options: see `Options`."""
    await _serve(Server(servicer, card, **given))


importing: ContextVar[str] = ContextVar("a2a_grpc.importing", default="")
"""The module that the command line is importing, in which nothing may be served yet."""


def run(servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
    """`serve`, for a program that does nothing else. The process ends after the drain, whatever hangs in the agent's
    code: where a task or a thread does not end, with exit code 0 and without returning."""
    if module := importing.get():
        raise RuntimeError(f'{module} calls run() when it is imported; put the call under `if __name__ == "__main__":`')
    run_server(Server(servicer, card, **given))


def run_server(server: Server, started: Callable[[Server], None] = lambda server: None) -> None:
    """`run`, with a server of one's own; `started` is called with it once it can be called."""
    loop = _event_loop(server.options)
    try:
        loop.run_until_complete(_serve(server, started))
    except BaseException:
        _close(loop)
        raise
    if not _close(loop):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _event_loop(settings: Options) -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (the extra `fast`), but for gRPC, whose events come later on it."""
    if settings.grpc_served:
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(server: Server, started: Callable[[Server], None] = lambda server: None) -> None:
    with _signals() as signalled:
        async with server:
            started(server)
            await signalled.wait()
            log.info("draining, for %s seconds at most", server.options.shutdown_deadline)


def mount(
    app: web.Application, servicer: Any, card: AgentCard | None = None, *, prefix: str, public_url: str, **given: Any
) -> Agent:
    """Adds an agent's card, JSON-RPC and HTTP+JSON to an existing aiohttp application, below a prefix.

    `public_url` is the base URL of the application. Run it with `handler_cancellation=True`, so that a client that
    disconnects ends its call.
    """
    settings = options({"bindings": ("JSONRPC", "HTTP+JSON"), **given, "public_url": public_url})
    agent = assemble(Mount(servicer, card, prefix=prefix), settings, Address(http=public_url.rstrip("/")))
    for path in mount_paths(prefix):
        app.router.add_route("*", path, mount_point(agent.site, settings.cors))

    async def end_streams(_: web.Application) -> None:
        agent.server.end_streams()

    app.on_shutdown.append(end_streams)
    return agent


_WHICH_AGENT = "several agents are served here: send the tenant of the interface in the card of the one you mean"


def _mounts(servicer: Any, card: AgentCard | None, settings: Options) -> tuple[Mount, ...]:
    mounts = tuple(servicer) if isinstance(servicer, list | tuple) else (servicer,)
    mounts = tuple(m if isinstance(m, Mount) else Mount(m, card) for m in mounts)
    if not mounts:
        raise ValueError("there is no agent to serve")
    if settings.http_bindings:
        _told_apart("prefix", "HTTP", [m.prefix for m in mounts])
    if settings.grpc_served:
        _told_apart("tenant", "gRPC", [m.tenant for m in mounts])
    return mounts


def _told_apart(kind: str, binding: str, values: Sequence[str]) -> None:
    if len(set(values)) < len(values):
        given = ", ".join(f'"{value}"' for value in values)
        raise ValueError(f"each agent needs a {kind} of its own, as {binding} tells agents apart by it; given: {given}")


def _callable(host: str, port: int) -> str:
    """An address that can be called: an unspecified one is replaced by this machine's name, if that resolves."""
    if host not in ("0.0.0.0", "::", ""):
        return shown(host, port)
    try:
        socket.getaddrinfo(socket.gethostname(), port)
        return f"{socket.gethostname()}:{port}"
    except OSError:
        return f"127.0.0.1:{port}"


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event for the first SIGTERM or SIGINT; the second one ends the process."""
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    before: dict[signal.Signals, Any] = {}

    def heard() -> None:
        if signalled.is_set():
            os._exit(1)
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # another system, another thread
            handler = signal.getsignal(number)
            loop.add_signal_handler(number, heard)
            before[number] = handler
    try:
        yield signalled
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _close(loop: asyncio.AbstractEventLoop) -> bool:
    """Ends what is left, within a moment; False where a task or a thread does not end."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    late = loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_FLUSH))[1] if tasks else set()
    close_threads()
    loop.run_until_complete(_within(loop.shutdown_default_executor()))
    if late or not _threads_end(time.monotonic() + LAST_FLUSH):
        return False
    loop.run_until_complete(_within(loop.shutdown_asyncgens()))
    loop.close()
    return True


async def _within(step: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait([asyncio.create_task(step)], timeout=LAST_FLUSH)


def _threads_end(until: float) -> bool:
    others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in others)
