"""PushSender: delivers the events of tasks to webhooks, in order, and never holds up a task.

A webhook that has events waiting has a channel: a queue and one asyncio task. An idle one has nothing.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver

from ..encoded import Encoded
from ..errors import log
from ..generated import a2a_pb2 as pb
from .lifecycle import TERMINAL
from .push_http import Outcome, WebhookClient
from .push_policy import PushPolicy


class _Delivery(NamedTuple):
    event: Encoded
    id: str
    attempted: asyncio.Future[None]


class _Channel:
    __slots__ = ("config", "failing", "full", "pending", "worker")

    def __init__(self, config: pb.TaskPushNotificationConfig) -> None:
        self.config = config
        self.pending: deque[_Delivery] = deque()  # the first one is being sent
        self.worker: asyncio.Task[None] | None = None
        self.failing = self.full = False

    def drop(self) -> None:
        for delivery in self.pending:
            _resolve(delivery.attempted)
        if self.worker:
            self.worker.cancel()


class PushSender:
    """Delivers at least once, in order per webhook. Times are in seconds.

    At most `concurrency` requests are on their way, half of them to one host. An event is tried `attempts` times; after
    one that failed, those behind it are tried once each until one gets through; the end of a task is always tried in
    full. `queue` events wait per webhook at most; what comes then is dropped, except the end of a task.
    """

    def __init__(
        self,
        policy: PushPolicy,
        *,
        concurrency: int = 32,
        timeout: float = 15.0,
        attempts: int = 5,
        first_delay: float = 1.0,
        longest_delay: float = 60.0,
        queue: int = 1000,
        resolver: AbstractResolver | None = None,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if min(concurrency, attempts, queue) < 1:
            raise ValueError("concurrency, attempts and queue must be 1 or more")
        self._client = WebhookClient(policy, timeout, resolver)
        self._attempts, self._queue = attempts, queue
        self._first_delay, self._longest_delay, self._sleep, self._jitter = first_delay, longest_delay, sleep, jitter
        self._slots, self._concurrency = asyncio.Semaphore(concurrency), concurrency
        self._host_slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._closed = False

    def deliver(self, config: pb.TaskPushNotificationConfig, event: Encoded) -> asyncio.Future[None]:
        """Queues an event and returns at once; never raises. The future is done after the first attempt, however it
        ended, or when there will be none."""
        delivery = _Delivery(event, token_hex(8), asyncio.get_running_loop().create_future())
        key = config.task_id, config.id
        channel = self._channels.get(key) or _Channel(config)
        channel.config = config
        if self._closed or not self._has_room(channel, event):
            _resolve(delivery.attempted)
            return delivery.attempted
        channel.pending.append(delivery)
        if channel.worker is None:
            self._channels[key] = channel
            channel.worker = asyncio.create_task(self._work(key, channel))
        return delivery.attempted

    def replace(self, config: pb.TaskPushNotificationConfig) -> None:
        """What waits for the webhook of this id goes to its new address, with its new credentials."""
        if channel := self._channels.get((config.task_id, config.id)):
            channel.config = config

    async def forget(self, task_id: str, config_id: str) -> None:
        """Drops all that waits for a webhook, and cuts off a request on its way: none begins or is open after this."""
        if (channel := self._channels.pop((task_id, config_id), None)) is not None:
            channel.drop()
            await _ended([channel])

    async def close(self, deadline: float) -> None:
        """Takes no more events, delivers those that wait for `deadline` seconds at most, and drops the rest."""
        self._closed = True
        await _ended(self._channels.values(), timeout=deadline)
        if self._channels:
            log.warning("%d webhooks were not told everything before the shutdown", len(self._channels))
            for channel in self._channels.values():
                channel.drop()
            await _ended(self._channels.values())
            self._channels.clear()
        await self._client.close()

    def _has_room(self, channel: _Channel, event: Encoded) -> bool:
        if len(channel.pending) < self._queue or _is_end(event):
            return True
        if not channel.full:
            _warn(channel, f"{self._queue} events wait; further ones are dropped")
        channel.full = True
        return False

    async def _work(self, key: tuple[str, str], channel: _Channel) -> None:
        try:
            while channel.pending:
                await self._send(channel, channel.pending[0])
                channel.pending.popleft()
        finally:
            if self._channels.get(key) is channel:
                del self._channels[key]

    async def _send(self, channel: _Channel, delivery: _Delivery) -> None:
        is_end = _is_end(delivery.event)
        attempts = 1 if channel.failing and not is_end else self._attempts
        for attempt in range(attempts):
            outcome = await self._attempt(channel.config, delivery)
            _resolve(delivery.attempted)
            if not outcome.retry or attempt + 1 == attempts:
                break
            await self._sleep(self._delay(attempt, outcome.after))
        if outcome.failure and (is_end or not channel.failing):
            _warn(channel, f"gave up an event: {outcome.failure}")
        channel.failing = bool(outcome.failure)

    async def _attempt(self, config: pb.TaskPushNotificationConfig, delivery: _Delivery) -> Outcome:
        async with self._slots_of(_host(config)), self._slots:
            return await self._client.post(config, delivery.event, delivery.id)

    def _delay(self, attempt: int, asked: float) -> float:
        backoff = self._first_delay * 2.0 ** min(attempt, 30) * (1 + self._jitter()) / 2
        return min(max(backoff, asked), self._longest_delay)

    def _slots_of(self, host: str) -> asyncio.Semaphore:
        """Slow receivers on one host leave room for others."""
        slots = self._host_slots.get(host)
        if slots is None:
            slots = self._host_slots[host] = asyncio.Semaphore((self._concurrency + 1) // 2)
        return slots


async def _ended(channels: Iterable[_Channel], timeout: float | None = None) -> None:
    workers = [channel.worker for channel in channels if channel.worker]
    if workers:
        await asyncio.wait(workers, timeout=timeout)


def _is_end(event: Encoded) -> bool:
    response: Any = event.message
    holder = response.status_update if response.HasField("status_update") else response.task
    return holder.status.state in TERMINAL


def _host(config: pb.TaskPushNotificationConfig) -> str:
    try:
        return urlsplit(config.url).hostname or ""
    except ValueError:
        return ""


def _warn(channel: _Channel, what: str) -> None:
    config = channel.config
    log.warning("task %s, webhook %.80r at %.80r: %s", config.task_id, config.id, _host(config), what)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
