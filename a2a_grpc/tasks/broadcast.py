"""One task, many subscribers: each event is encoded once, and nobody waits for a slow reader."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from ..encoded import Encoded
from ..errors import ResourceExhaustedError
from ..generated import a2a_pb2 as pb

Event = Encoded | pb.StreamResponse


class Subscriber:
    """What a topic says from the moment of joining on: `async for event in subscriber: ...`; `close` it at the end.

    Holds at most `room` events; a reader that falls further behind is cut off with RESOURCE_EXHAUSTED, and can
    subscribe again. The iteration raises the error that the subscriber was ended with.
    """

    __slots__ = ("_error", "_events", "_room", "_topic", "_waiter", "done")

    def __init__(self, room: int) -> None:
        self._events: deque[Event] = deque()
        self._room = room
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._topic: Topic | None = None
        self.done = False

    def join(self, topic: "Topic", first: Event) -> None:
        """Reads `first`, and then what the topic publishes. Nothing where it has joined, or its reader has gone."""
        if self._topic is None and not self.done:
            self._topic = topic
            self.put(first)
            topic.add(self)

    def put(self, event: Event) -> None:
        if self.done:
            return
        if len(self._events) >= self._room:
            self._events.clear()
            self.end(ResourceExhaustedError("This stream was read too slowly; subscribe again, or read the task"))
            return
        self._events.append(event)
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """No event follows. Those that are there are still read."""
        if not self.done:
            self.done, self._error = True, error
            self._wake()

    def close(self) -> None:
        """The reader leaves."""
        self.done = True
        self._events.clear()
        if self._topic:
            self._topic.remove(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while not self._events:
            if self.done:
                raise self._error or StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._events.popleft()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Topic:
    """The subscribers of one task. `left` is called when one of them has left."""

    __slots__ = ("_left", "_subscribers")

    def __init__(self, left: Callable[[], None]) -> None:
        self._left = left
        self._subscribers: dict[Subscriber, None] = {}

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber) -> None:
        self._subscribers[subscriber] = None

    def remove(self, subscriber: Subscriber) -> None:
        self._subscribers.pop(subscriber, None)
        self._left()

    def publish(self, event: Encoded) -> None:
        for subscriber in self._subscribers:
            subscriber.put(event)

    def end(self, error: Exception | None = None) -> None:
        """Ends them all. They are counted until they have left."""
        for subscriber in self._subscribers:
            subscriber.end(error)
