"""The calls in flight on every binding, known by their tasks: what a drain waits for, and ends."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from .inprocess import InProcessServer

LAST_MOMENT = 0.4  # seconds that a cancelled call has to end


class InFlight:
    """HTTP requests from their first byte on, and what the agents' servers are called for."""

    def __init__(self) -> None:
        self.servers: Iterable[InProcessServer] = ()
        self._requests: set[asyncio.Task[Any]] = set()

    def counted(self, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """The same HTTP handler, whose requests are in flight while it runs."""

        async def counted(request: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            self._requests.add(task)
            try:
                return await answer(request)
            finally:
                self._requests.discard(task)

        return counted

    async def ended(self, within: float) -> bool:
        """Waits, `within` seconds at most, until no call is in flight."""
        until = time.monotonic() + within
        while (tasks := self._tasks()) and (left := until - time.monotonic()) > 0:
            await asyncio.wait(tasks, timeout=left)
        return not tasks

    async def end(self, within: float) -> None:
        """Ends the streams at once, all calls after `within` seconds, and cancels what does not end by that."""
        steps = ((self._end_streams, within), (self._end_calls, LAST_MOMENT / 2), (self._cancel, LAST_MOMENT / 2))
        for step, seconds in steps:
            step()
            if await self.ended(seconds):
                return

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return self._requests.union(*(server.tasks() for server in self.servers))

    def _end_streams(self) -> None:
        for server in self.servers:
            server.end_streams()

    def _end_calls(self) -> None:
        for server in self.servers:
            server.end_calls()

    def _cancel(self) -> None:
        for task in self._tasks():
            task.cancel()
