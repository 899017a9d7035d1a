"""The shapes in which a servicer's method may be written, each made into a coroutine or an async generator.

Synchronous methods run in a thread, in a copy of the call's context (grpc.aio's own executor loses ContextVars).
"""

import asyncio
import contextvars
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Any, TypeAlias

import grpc

from .context import CallContext, SyncContext

RpcHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Unary = Callable[[Any, Any], Awaitable[Any]]
Stream = Callable[[Any, Any], AsyncGenerator[Any, None]]

THREADS = 64
_threads: list[ThreadPoolExecutor] = []
LONGEST_CLEANUP = 5.0  # seconds that a cancelled coroutine has to end before its stream is given up
_END = object()


def unary(method: Callable[..., Any]) -> Unary:
    return method if _is_coroutine_function(method) else partial(_call_in_thread, method)


def streamed(method: Callable[..., Any]) -> Stream:
    if inspect.isasyncgenfunction(_plain(method)):
        return method
    return partial(_written, method) if _is_coroutine_function(method) else partial(_iterated_in_thread, method)


def close_threads() -> None:
    """Lets the threads go as they become idle; a later call starts new ones."""
    while _threads:
        _threads.pop().shutdown(wait=False, cancel_futures=True)


def _executor() -> ThreadPoolExecutor:
    if not _threads:
        _threads.append(ThreadPoolExecutor(THREADS, thread_name_prefix="a2a_grpc"))
    return _threads[0]


async def _call_in_thread(method: Callable[..., Any], request: Any, context: CallContext) -> Any:
    result = await _in_thread(contextvars.copy_context(), method, request, SyncContext(context))
    return await result if inspect.isawaitable(result) else result


async def _iterated_in_thread(
    method: Callable[..., Any], request: Any, context: CallContext
) -> AsyncGenerator[Any, None]:
    own = contextvars.copy_context()
    result = await _in_thread(own, method, request, SyncContext(context))
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        async with aclosing(result) as items:  # type: ignore[type-var]
            async for item in items:
                yield item
        return
    iterator: Iterator[Any] = iter(result or ())
    try:
        while (item := await _in_thread(own, next, iterator, _END)) is not _END:
            yield item
    finally:
        if hasattr(iterator, "close"):
            _executor().submit(own.copy().run, iterator.close)


async def _in_thread(own: contextvars.Context, function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_executor(), partial(own.run, function, *arguments))


async def _written(method: Callable[..., Any], request: Any, context: CallContext) -> AsyncGenerator[Any, None]:
    writing = _Writing(context)
    task = asyncio.create_task(method(request, writing))
    task.add_done_callback(lambda _: writing.queue.put_nowait(_END))
    try:
        while (item := await writing.queue.get()) is not _END:
            yield item
            writing.room.release()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=LONGEST_CLEANUP)


class _Writing:
    """The context of a coroutine that writes; a write waits until the client has taken the one before."""

    def __init__(self, context: CallContext) -> None:
        self._context = context
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.room = asyncio.Semaphore(1)

    async def write(self, message: Any) -> None:
        await self.room.acquire()
        self.queue.put_nowait(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(method, partial):
        method = method.func
    return method


def _is_coroutine_function(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_plain(method))
