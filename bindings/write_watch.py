"""Ends a call whose client has stopped reading: one timer a stream, run once a timeout, not once a write."""

import asyncio

from ..context import CallContext
from ..errors import ResourceExhaustedError


class WriteWatch:
    """`begin()` before a write, `end()` after it; a write that lasts longer than `timeout` seconds cancels the call."""

    def __init__(self, context: CallContext, timeout: float) -> None:
        self._context, self._timeout = context, timeout
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self._timer = self._loop.call_later(timeout, self._look)
        self.stalled = False

    def begin(self) -> float:
        self._since = now = self._loop.time()
        return now

    def end(self) -> None:
        self._since = None

    @property
    def writing(self) -> bool:
        return self._since is not None

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        waited = 0.0 if self._since is None else self._loop.time() - self._since
        if waited < self._timeout:
            self._timer = self._loop.call_later(self._timeout - waited, self._look)
            return
        self.stalled = True
        self._context.cancel_with(ResourceExhaustedError("The client has not read the stream for too long"))
