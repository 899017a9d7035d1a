"""The four operations on webhooks, and how the events of a task come to them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from google.protobuf.empty_pb2 import Empty

from .. import errors
from ..encoded import Encoded
from ..generated import a2a_pb2 as pb
from ..generated.a2a_pb2_grpc import A2AServiceServicer
from .lifecycle import new_id, not_found
from .limits import Limits
from .live import LiveTask
from .push import PushSender
from .push_policy import PushPolicy
from .store import MemoryStore, Scope, TaskStore, scope_of
from .turn import Turn


class Webhooks(A2AServiceServicer):
    """A part of AgentServicer, which authors subclass: so its own names begin with an underscore."""

    limits: Limits
    push: PushPolicy | None
    push_before_reply: float

    def __init__(self, store: TaskStore | None) -> None:
        self.store: TaskStore = store or MemoryStore()
        self._lives: dict[tuple[Scope, str], LiveTask] = {}  # the tasks that something is happening to
        self._sender = PushSender(self.push) if self.push else None

    async def CreateTaskPushNotificationConfig(
        self, request: pb.TaskPushNotificationConfig, context: Any
    ) -> pb.TaskPushNotificationConfig:
        scope = scope_of(request.tenant)
        self._check_config(request, "")
        await self._existing(scope, request.task_id)
        return await self._put_config(scope, request)

    async def GetTaskPushNotificationConfig(
        self, request: pb.GetTaskPushNotificationConfigRequest, context: Any
    ) -> pb.TaskPushNotificationConfig:
        for config in await self._configs(scope_of(request.tenant), request.task_id):
            if config.id == request.id:
                return config
        raise errors.TaskNotFoundError(
            f"Task {request.task_id} has no push notification config {request.id}",
            metadata={"taskId": request.task_id, "configId": request.id},
        )

    async def ListTaskPushNotificationConfigs(
        self, request: pb.ListTaskPushNotificationConfigsRequest, context: Any
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        found = sorted(await self._configs(scope_of(request.tenant), request.task_id), key=lambda config: config.id)
        rest = [config for config in found if config.id > request.page_token]
        page = rest[: request.page_size or None]
        following = page[-1].id if len(page) < len(rest) else ""
        return pb.ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=following)

    async def DeleteTaskPushNotificationConfig(
        self, request: pb.DeleteTaskPushNotificationConfigRequest, context: Any
    ) -> Empty:
        scope = scope_of(request.tenant)
        await self._existing(scope, request.task_id)
        await self.store.delete_config(scope, request.task_id, request.id)
        if live := self._lives.get((scope, request.task_id)):
            live.configs.pop(request.id, None)
        if self._sender:
            await self._sender.forget(request.task_id, request.id)
        return Empty()

    async def _configs(self, scope: Scope, task_id: str) -> Sequence[pb.TaskPushNotificationConfig]:
        await self._existing(scope, task_id)
        return await self.store.configs(scope, task_id)

    async def _existing(self, scope: Scope, id: str) -> None:
        if (scope, id) not in self._lives and await self.store.read(scope, id) is None:
            raise not_found(id)

    def _check_config(self, config: pb.TaskPushNotificationConfig, path: str) -> None:
        if self.push is None:
            raise errors.PushNotificationNotSupportedError
        if violations := self.push.violations(config, path):
            raise errors.InvalidParamsError(violations)

    async def _put_config(
        self, scope: Scope, config: pb.TaskPushNotificationConfig, task_id: str = ""
    ) -> pb.TaskPushNotificationConfig:
        made = pb.TaskPushNotificationConfig()
        made.CopyFrom(config)
        made.id, made.task_id = made.id or new_id(), task_id or made.task_id
        existing = {c.id for c in await self.store.configs(scope, made.task_id)}
        if made.id not in existing and len(existing) >= self.limits.webhooks:
            raise errors.ResourceExhaustedError(f"A task has at most {self.limits.webhooks} webhooks")
        await self.store.put_config(scope, made)
        if self._sender:
            self._sender.replace(made)
        if live := self._lives.get((scope, made.task_id)):
            live.configs[made.id] = made
        return made

    # What the engine calls.

    async def _prepare(self, live: LiveTask, turn: Turn) -> None:
        """Registers the webhook of a message before it is executed, so that it misses nothing."""
        if turn.request.configuration.HasField("task_push_notification_config"):
            await self._put_config(live.scope, turn.request.configuration.task_push_notification_config, live.id)

    def _deliver(self, live: LiveTask, event: Encoded) -> None:
        if self._sender:
            live.deliveries = [self._sender.deliver(config, event) for config in live.configs.values()]

    async def _first_delivery(self, live: LiveTask) -> None:
        if self.push_before_reply and live.deliveries:
            await asyncio.wait(live.deliveries, timeout=self.push_before_reply)
