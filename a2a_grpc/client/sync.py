"""The client for code that is not asynchronous: an event loop in a thread of its own, one for each `connect_sync`."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack

from ..generated.a2a_pb2 import AgentCard, AgentInterface, Message, StreamResponse, Task, TaskPushNotificationConfig
from .answer import Answer
from .client import Client
from .connect import connect
from .parts import Content
from .sending import Sending

T = TypeVar("T")
_END = object()


@contextmanager
def connect_sync(agent: str | AgentCard | AgentInterface, **given: Any) -> Iterator["SyncClient"]:
    """`connect`, without `async`: `with connect_sync("https://agent.example") as agent: agent.ask("Hi").text`."""
    with _loop() as loop:
        connecting = connect(agent, **given)
        client = loop.run(connecting.__aenter__())
        try:
            yield SyncClient(client, loop)
        finally:
            loop.run(connecting.__aexit__(None, None, None))


class SyncClient:
    """The methods of `Client`, which see; what they iterate, these iterate too. Safe to use from several threads."""

    def __init__(self, client: Client, loop: "_Loop") -> None:
        self._client, self._loop = client, loop

    @property
    def card(self) -> AgentCard:
        return self._client.card

    @property
    def interface(self) -> AgentInterface:
        return self._client.interface

    def send(self, content: Content, **sending: Unpack[Sending]) -> Task | Message:
        return self._loop.run(self._client.send(content, **sending))

    def ask(self, content: Content, **sending: Unpack[Sending]) -> Answer:
        return self._loop.run(self._client.ask(content, **sending))

    def stream(self, content: Content, **sending: Unpack[Sending]) -> Iterator[StreamResponse]:
        return self._loop.iterate(self._client.stream(content, **sending))

    def get_task(self, task_id: str, **more: Any) -> Task:
        return self._loop.run(self._client.get_task(task_id, **more))

    def list_tasks(self, **more: Any) -> Iterator[Task]:
        return self._loop.iterate(self._client.list_tasks(**more))

    def cancel(self, task_id: str, **more: Any) -> Task:
        return self._loop.run(self._client.cancel(task_id, **more))

    def subscribe(self, task_id: str, **more: Any) -> Iterator[StreamResponse]:
        return self._loop.iterate(self._client.subscribe(task_id, **more))

    def create_push_config(self, task_id: str, config: TaskPushNotificationConfig | str) -> TaskPushNotificationConfig:
        return self._loop.run(self._client.create_push_config(task_id, config))

    def get_push_config(self, task_id: str, config_id: str) -> TaskPushNotificationConfig:
        return self._loop.run(self._client.get_push_config(task_id, config_id))

    def list_push_configs(self, task_id: str, **more: Any) -> Iterator[TaskPushNotificationConfig]:
        return self._loop.iterate(self._client.list_push_configs(task_id, **more))

    def delete_push_config(self, task_id: str, config_id: str) -> None:
        self._loop.run(self._client.delete_push_config(task_id, config_id))

    def extended_card(self) -> AgentCard:
        return self._loop.run(self._client.extended_card())


class _Loop:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(step, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # as on KeyboardInterrupt
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        try:
            while (item := self.run(_next(items))) is not _END:
                yield item
        finally:
            self.run(_close(items))


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items, _END)


async def _close(items: Any) -> None:
    await items.aclose()


async def _end() -> None:
    """Ends what still runs: calls of other threads, which would wait for ever, and a token that is being fetched."""
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


@contextmanager
def _loop() -> Iterator[_Loop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="a2a-grpc-client", daemon=True)
    thread.start()
    try:
        yield _Loop(loop)
    finally:
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
