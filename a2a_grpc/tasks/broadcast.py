"""One task, many subscribers: each event is encoded once, and nobody waits for a slow reader."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from ..encoded import Encoded
from ..errors import A2AError, ResourceExhaustedError


class Subscriber:
    """The events of a task from the moment of subscription on, as an async iterator.

    Holds at most `room` events; a reader that falls further behind is cut off with RESOURCE_EXHAUSTED, and can
    subscribe again. A reader that leaves is forgotten at the next event.
    """

    __slots__ = ("_error", "_events", "_room", "_waiter", "done")

    def __init__(self, room: int) -> None:
        self._events: deque[Encoded] = deque()
        self._room = room
        self._waiter: asyncio.Future[None] | None = None
        self._error: A2AError | None = None
        self.done = False

    def put(self, event: Encoded) -> None:
        if self.done:
            return
        if len(self._events) >= self._room:
            self._events.clear()
            self.end(ResourceExhaustedError("This stream was read too slowly; subscribe again, or read the task"))
            return
        self._events.append(event)
        self._wake()

    def end(self, error: A2AError | None = None) -> None:
        """No event follows. Those that are there are still read."""
        if not self.done:
            self.done, self._error = True, error
            self._wake()

    async def events(self) -> AsyncGenerator[Any, None]:
        """Each event as `Encoded`. Raises the error that the stream was ended with."""
        try:
            while True:
                while self._events:
                    yield self._events.popleft()
                if self.done:
                    break
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            if self._error:
                raise self._error
        finally:
            self.done = True

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Topic:
    """The subscribers of one task."""

    __slots__ = ("_room", "_subscribers")

    def __init__(self, room: int) -> None:
        self._room = room
        self._subscribers: list[Subscriber] = []

    def __len__(self) -> int:
        return sum(not subscriber.done for subscriber in self._subscribers)

    def subscribe(self) -> Subscriber:
        subscriber = Subscriber(self._room)
        self._subscribers = [s for s in self._subscribers if not s.done]
        self._subscribers.append(subscriber)
        return subscriber

    def publish(self, event: Encoded) -> None:
        for subscriber in self._subscribers:
            subscriber.put(event)

    def end(self) -> None:
        for subscriber in self._subscribers:
            subscriber.end()
        self._subscribers = []
