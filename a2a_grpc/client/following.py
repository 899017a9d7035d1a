"""Following a task through streams that break: subscribe again, read the task, never send again. Requirements BR-73."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from google.rpc import code_pb2

from ..errors import (
    A2AError,
    DeadlineExceededError,
    InvalidAgentResponseError,
    MethodNotFoundError,
    ResourceExhaustedError,
    UnavailableError,
    UnsupportedOperationError,
    log,
)
from ..generated.a2a_pb2 import GetTaskRequest, StreamResponse, SubscribeToTaskRequest
from .calls import Calls, backoff, now
from .failures import ConnectError, RemoteError, StreamBrokenError
from .progress import Progress

LINGER = 1.0  # seconds for what may follow the end of a task: a last snapshot, the end of the stream
_BROKEN = (ConnectError, UnavailableError, ResourceExhaustedError, InvalidAgentResponseError)
_NO_STREAM = (UnsupportedOperationError, MethodNotFoundError)


class Following:
    """One task, followed to its end, or, unless `stays`, to the end of a turn. `broken` tells whether a stream was."""

    def __init__(self, calls: Calls, progress: Progress, *, until: float | None, stays: bool) -> None:
        self._calls, self._progress, self._until, self._stays = calls, progress, until, stays
        self._cause: Exception | None = None
        self.broken = False

    async def events(self, name: str, request: Any) -> AsyncGenerator[StreamResponse, None]:
        """What the stream of the RPC says, and what it takes to go on when it breaks.

        Raises StreamBrokenError where the end of the task could not be found out; DeadlineExceededError.
        """
        async with aclosing(self._leg(name, request)) as leg:
            async for event in leg:
                yield event
        attempt, seen = 0, self._progress.news
        while not self._is_over():
            attempt = 1 if self._progress.news > seen else attempt + 1
            seen = self._progress.news
            await self._prepare(attempt)
            async with aclosing(self._again()) as leg:
                async for event in leg:
                    yield event

    def _is_over(self) -> bool:
        """A stream that was ended is at its end if its task is, or waits for the client; a broken one never waits."""
        return self._progress.over or (self._progress.interrupted and self._cause is None)

    async def _prepare(self, attempt: int) -> None:
        progress, cause, options = self._progress, self._cause, self._calls.options
        most = options.recoveries if progress.begun else options.attempts - 1 if self._stays else 0
        if attempt > most:
            early = "the stream ended early" if progress.begun else "the stream ended before it began"
            raise StreamBrokenError(progress.task_id, early) from cause
        log.info("the stream of task %s ended early (%s): attempt %d", progress.task_id, cause or "closed", attempt)
        self.broken = True
        await self._within(asyncio.sleep(backoff(self._calls.options.backoff, attempt)))

    async def _again(self) -> AsyncGenerator[StreamResponse, None]:
        """Subscribes; where the agent does not stream this task any more, reads it."""
        id = self._progress.task_id
        try:
            async with aclosing(self._leg("SubscribeToTask", SubscribeToTaskRequest(id=id))) as leg:
                async for event in leg:
                    yield event
                    if self._progress.interrupted and not self._stays:
                        self._cause = None
                        return
        except _NO_STREAM:
            async for event in self._read(id):
                yield event

    async def _read(self, id: str) -> AsyncGenerator[StreamResponse, None]:
        try:
            task = await self._within(self._calls.unary("GetTask", GetTaskRequest(id=id), self._until))
        except _BROKEN as error:
            self._cause = error
            return
        except DeadlineExceededError:
            raise too_late(id) from None
        before, event = self._progress.news, StreamResponse(task=task)
        self._progress.take(event)
        if self._progress.news > before or self._progress.over:
            yield event

    async def _leg(self, name: str, request: Any) -> AsyncGenerator[StreamResponse, None]:
        """One stream, up to its end or to what breaks it, which is kept; other errors are raised.

        Whatever happens after the end of the task is not an error.
        """
        self._cause = None
        async with aclosing(self._calls.stream(name, request, self._until)) as stream:
            while (event := await self._next(stream)) is not None:
                if self._progress.take(event):
                    yield event

    async def _next(self, stream: AsyncGenerator[Any, None]) -> Any:
        over = self._progress.over
        try:
            return await self._within(anext(stream, None), LINGER if over else None)
        except (A2AError, ConnectError) as error:
            if over:
                return None
            if isinstance(error, DeadlineExceededError) and self._until is not None:  # the server was told of it
                raise too_late(self._progress.task_id) from None
            if not _is_break(error) or not (self._progress.begun or self._stays):
                raise
            self._cause = error
            return None

    async def _within(self, step: Any, seconds: float | None = None) -> Any:
        limits = [self._until, None if seconds is None else now() + seconds]
        at = min((limit for limit in limits if limit is not None), default=None)
        try:
            async with asyncio.timeout_at(at):
                return await step
        except TimeoutError:
            if seconds is not None:
                return None
            id = self._progress.task_id
            raise too_late(id) from None


def too_late(task_id: str) -> DeadlineExceededError:
    """The deadline of whoever waits for a task; "" is a task that is not known yet."""
    if not task_id:
        return DeadlineExceededError()
    return DeadlineExceededError(f"The deadline passed, and task {task_id} goes on", metadata={"taskId": task_id})


def _is_break(error: Exception) -> bool:
    """Whether an error is of the way to the agent, or of one stream, and not the agent's answer."""
    if isinstance(error, RemoteError):
        return not error.domain and error.code != code_pb2.DEADLINE_EXCEEDED
    return isinstance(error, _BROKEN)
