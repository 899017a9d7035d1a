"""Following a task through streams that break: subscribe again, read the task, never send again. Requirements BR-73."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any

from ...errors import (
    A2AError,
    DeadlineExceededError,
    MethodNotFoundError,
    ResourceExhaustedError,
    UnsupportedOperationError,
    log,
)
from ...generated.a2a_pb2 import (
    GetTaskRequest,
    Message,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from ..calls import Calls, backoff, now, until_of
from ..errors import ConnectError, StreamBrokenError, is_broken
from .progress import Progress
from .sent import find, leave

LINGER = 1.0  # seconds for what may follow the end of a task: a last snapshot, the end of the stream
_NO_STREAM = (UnsupportedOperationError, MethodNotFoundError)


class Following:
    """One task, followed to the end of a turn, or, if it `stays`, to its own end. `broken` tells whether a stream was.

    It ends at `until`, on the clock of the loop, or `deadline` seconds after it has begun.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        until: float | None = None,
        deadline: float | None = None,
        stays: bool = False,
        task_id: str = "",
    ) -> None:
        self._calls, self._progress = calls, Progress(task_id)
        self._until, self._deadline, self._stays = until, deadline, stays
        self._sent: Message | None = None
        self._cause: Exception | None = None
        self._ends_at: float | None = None
        self.broken = False

    async def events(self, name: str, request: Any) -> AsyncGenerator[StreamResponse, None]:
        """What the stream of the RPC says, and what it takes to go on when it breaks.

        Raises StreamBrokenError where the end of the task could not be found out; DeadlineExceededError.
        """
        self._sent = request.message if isinstance(request, SendMessageRequest) else None
        self._until = until_of(self._deadline) if self._until is None else self._until
        try:
            async with aclosing(self._legs(name, request)) as events:
                async for event in events:
                    yield event
        except (asyncio.CancelledError, GeneratorExit):
            if self._sent and not self._progress.over:
                await leave(self._calls, self._sent, self._progress.task_id)
            raise

    async def _legs(self, name: str, request: Any) -> AsyncGenerator[StreamResponse, None]:
        async with aclosing(self._leg(name, request)) as leg:
            async for event in leg:
                yield event
        attempt, seen, quiet = 0, self._progress.news, False
        while not self._is_over():
            attempt = 1 if quiet or self._progress.news > seen else attempt + 1
            seen, came, began = self._progress.news, False, now()
            await self._prepare(attempt)
            async with aclosing(self._again()) as leg:
                async for event in leg:
                    came = True
                    yield event
            quiet = came and now() - began >= self._calls.options.idle_timeout  # on gRPC silence is no fault

    def _is_over(self) -> bool:
        """A stream that was ended is at its end if its task is, or waits for the client; a broken one never waits."""
        return self._progress.over or (self._progress.interrupted and self._cause is None)

    async def _prepare(self, attempt: int) -> None:
        progress, cause, options = self._progress, self._cause, self._calls.options
        if attempt > (options.recoveries if progress.begun else options.attempts - 1):
            if cause and not progress.begun:
                raise cause
            early = "the stream ended early" if progress.begun else "the stream ended before it began"
            raise StreamBrokenError(progress.task_id, f"{early}: {cause}" if cause else early) from cause
        log.info("the stream of task %s ended early (%s): attempt %d", progress.task_id, cause or "closed", attempt)
        self.broken = True
        await self._within(asyncio.sleep(backoff(self._calls.options.backoff, attempt)))

    async def _again(self) -> AsyncGenerator[StreamResponse, None]:
        """Subscribes; where the agent does not stream this task any more, reads it; where it is not known, finds it."""
        id = self._progress.task_id
        if self._sent and not self._progress.begun:
            async for event in self._told(find(self._calls, self._sent, self._until)):
                yield event
            return
        try:
            async with aclosing(self._leg("SubscribeToTask", SubscribeToTaskRequest(id=id))) as leg:
                async for event in leg:
                    yield event
                    if self._progress.interrupted and not self._stays:
                        self._cause = None
                        return
        except _NO_STREAM:
            async for event in self._told(self._calls.unary("GetTask", GetTaskRequest(id=id), self._until)):
                yield event

    async def _told(self, reading: Awaitable[Task | None]) -> AsyncGenerator[StreamResponse, None]:
        """A task that was read, if it is news."""
        try:
            task = await self._within(reading)
        except DeadlineExceededError:
            raise too_late(self._progress.task_id) from None
        except (A2AError, ConnectError) as error:
            if not _is_break(error):
                raise
            self._cause = error
            return
        if task is None:
            return
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
        if over and self._ends_at is None:
            self._ends_at = now() + LINGER
        if self._ends_at is not None and now() >= self._ends_at:
            return None
        try:
            return await self._within(anext(stream, None), self._ends_at)
        except (A2AError, ConnectError) as error:
            if over:
                return None
            if isinstance(error, DeadlineExceededError) and self._until is not None:  # the server was told of it
                raise too_late(self._progress.task_id) from None
            if not _is_break(error) or not (self._progress.begun or self._stays or _is_lost(error)):
                raise
            self._cause = error
            return None

    async def _within(self, step: Any, end: float | None = None) -> Any:
        """None at the `end`; DeadlineExceededError at the deadline."""
        limits = [limit for limit in (self._until, end) if limit is not None]
        try:
            async with asyncio.timeout_at(min(limits, default=None)) as limit:
                return await step
        except TimeoutError:
            if not limit.expired():
                raise
            if end is not None:
                return None
            raise too_late(self._progress.task_id) from None


def too_late(task_id: str) -> DeadlineExceededError:
    """The deadline of whoever waits for a task; "" is a task that is not known yet."""
    if not task_id:
        return DeadlineExceededError()
    return DeadlineExceededError(f"The deadline passed, and task {task_id} goes on", metadata={"taskId": task_id})


def _is_lost(error: Exception) -> bool:
    """Whether nobody knows if the agent has the message."""
    return isinstance(error, ConnectError) and error.sent


def _is_break(error: Exception) -> bool:
    """A slow reader is cut off by RESOURCE_EXHAUSTED, and may begin again."""
    return is_broken(error) or isinstance(error, ResourceExhaustedError)
