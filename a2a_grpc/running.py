"""A server as a program: until a signal, then a drain, then the end of the process, whatever hangs."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

from .behaviors import close_threads
from .errors import log
from .generated.a2a_pb2 import AgentCard
from .options import Options
from .ports import PortError
from .server import Server

LAST_FLUSH = 0.1  # seconds that each kind of task and thread has to end with its process

importing: ContextVar[str] = ContextVar("a2a_grpc.importing", default="")
"""The module that the command line is importing, in which nothing may be served yet."""


async def serve(servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
    """Serves until SIGTERM or SIGINT, then drains. A second signal ends the process at once. Options: see `Options`."""
    await _until_signalled(Server(servicer, card, **given))


def run(servicer: Any, card: AgentCard | None = None, **given: Any) -> None:
    """`serve`, for a program that does nothing else: where a port is taken, it exits with code 1, saying so on stderr.

    The process ends after the drain, whatever hangs in the agent's code: where a task or a thread does not end, with
    exit code 0 and without returning.
    """
    if module := importing.get():
        raise RuntimeError(f'{module} calls run() when it is imported; put the call under `if __name__ == "__main__":`')
    if _in_event_loop():
        raise RuntimeError("run() makes an event loop of its own, and one is running here: use `await serve(...)`")
    try:
        run_server(Server(servicer, card, **given))
    except PortError as error:
        sys.exit(f"a2a-grpc: {error}")


def run_server(server: Server, started: Callable[[Server], None] | None = None) -> None:
    """`run`, with a server of one's own; `started` is called with it once it can be called. Raises PortError."""
    loop = _event_loop(server.options)
    try:
        loop.run_until_complete(_until_signalled(server, started))
    except BaseException:
        _close(loop)
        raise
    if not _close(loop):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _event_loop(options: Options) -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (the extra `fast`), but for gRPC, whose events come later on it."""
    if options.grpc_served:
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _until_signalled(server: Server, started: Callable[[Server], None] | None = None) -> None:
    with _signals() as signalled:
        async with server:
            if started:
                started(server)
            await signalled.wait()
            log.info("draining, for %s seconds at most", server.options.shutdown_deadline)


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
