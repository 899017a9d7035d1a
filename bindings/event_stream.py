"""The one writer of an SSE response: keep-alive comments while idle, and an end for a reader that stops reading."""

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import HttpVersion11, web

from .cors import prepare
from .http_body import HttpLimits
from .http_context import HttpContext
from .sse import COMMENT
from .write_watch import WriteWatch

LONGEST_LAST_WRITE = 1.0  # seconds for the end of a stream to reach a reader that is behind
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class EventStream:
    """`async with EventStream(...) as events: await events.write(frame)`. Headers go out on entry, the end on exit."""

    def __init__(self, context: HttpContext, limits: HttpLimits) -> None:
        self.response = web.StreamResponse(headers={**context.response_headers(), **_HEADERS})
        if context.request.version < HttpVersion11:
            self.response.force_close()  # without chunks, the end of the connection is the end of the body
        self._context, self._limits = context, limits
        self._loop = asyncio.get_running_loop()
        self._comment: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await prepare(self._context.request, self.response)
        self._watch = WriteWatch(self._context, self._limits.write_timeout)
        self._last = self._loop.time()
        self._timer = self._loop.call_later(self._limits.keepalive, self._look)
        return self

    async def write(self, frame: bytes) -> None:
        self._last = self._watch.begin()
        await self.response.write(frame)
        self._watch.end()

    async def write_last(self, frame: bytes) -> None:
        """The end of a stream that failed. A reader that has stopped is cut off; one that has gone does no harm."""
        within = 0.0 if self._watch.stalled else LONGEST_LAST_WRITE
        await end(self._context.request, self.response, within, frame)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.close()
        self._timer.cancel()
        if self._comment:
            self._comment.cancel()
        if kind is None:
            await end(self._context.request, self.response, self._limits.write_timeout)

    def _look(self) -> None:
        """Runs once an interval, not once an event: writes a comment if nothing else was written meanwhile."""
        keepalive, idle = self._limits.keepalive, self._loop.time() - self._last
        if idle >= keepalive and not self._watch.writing:
            self._comment = self._loop.create_task(self._write_comment())
            idle = 0.0
        self._timer = self._loop.call_later(keepalive - min(idle, keepalive - 0.001), self._look)

    async def _write_comment(self) -> None:
        try:
            await self.write(COMMENT)
        except ConnectionError:
            pass  # the reader has gone, and the call is being cancelled for it


async def end(request: web.BaseRequest, response: web.StreamResponse, within: float, last: bytes = b"") -> None:
    """Sends what is left of a response. A reader that takes longer than `within` seconds is cut off."""
    try:
        async with asyncio.timeout(within):
            await response.write_eof(last)
    except ConnectionError:
        pass
    except TimeoutError:
        if request.transport:
            request.transport.abort()
