"""Client: one agent, whatever the transport."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any, Unpack

from google.protobuf.timestamp_pb2 import Timestamp

from ..errors import InvalidAgentResponseError, TaskNotCancelableError, did_you_mean, quote
from ..generated.a2a_pb2 import (
    TASK_STATE_CANCELED,
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from .answer import Answer, TaskFailedError
from .artifacts import TERMINAL
from .calls import Calls, until_of
from .following.asking import by_polling, by_stream
from .following.following import Following
from .following.sent import leave
from .parts import Content, struct
from .sending import Sending, request_of

MOST_EMPTY_PAGES = 100  # one after another


class Client:
    """Calls one agent: see `connect`. Deadlines are in seconds from the call.

    Methods raise A2AError for what the agent says (`a2a_grpc.errors`; RemoteError for what has no class), ConnectError
    for what the network does. Only calls that read are repeated; a message is sent once. What may go with a message is
    listed in `Sending`. Where an agent calls another one and is cancelled, the task that it waits for is cancelled too.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @property
    def card(self) -> AgentCard:
        """The public card; after `extended_card`, that one."""
        return self._calls.card

    @property
    def interface(self) -> AgentInterface:
        """The interface of the card that is in use."""
        return self._calls.interface

    # Sending.

    async def send(self, content: Content, **sending: Unpack[Sending]) -> Task | Message:
        """Sends a message, and returns what the agent answers first: by default, a task at the end of its turn."""
        request = request_of(content, **sending)
        try:
            response = await self._calls.unary(
                "SendMessage", request, self._until(sending, self._calls.options.deadline)
            )
        except asyncio.CancelledError:
            await leave(self._calls, request.message)
            raise
        kind = response.WhichOneof("payload")
        if kind is None:
            raise InvalidAgentResponseError("The agent answered with neither a task nor a message")
        answer: Task | Message = getattr(response, kind)
        return answer

    def stream(self, content: Content, **sending: Unpack[Sending]) -> AsyncGenerator[StreamResponse, None]:
        """Sends a message, and gives what happens to its task, to the end of the turn.

        A stream that breaks is taken up again by subscribing; the Task that then comes replaces all that was told.
        Raises StreamBrokenError where that does not succeed. Close it with `contextlib.aclosing` if you leave it early.
        """
        following = Following(self._calls, deadline=sending.get("deadline"))
        return following.events("SendStreamingMessage", request_of(content, **sending))

    async def ask(self, content: Content, **sending: Unpack[Sending]) -> Answer:
        """Sends a message and waits for the result, by streaming where the agent can, else by polling.

        An agent that asks back is an answer too: see `Answer.question`. Raises TaskFailedError for a task that ended
        without success, DeadlineExceededError where it has not ended in time (metadata: taskId).
        """
        until = self._until(sending, self._calls.options.answer_deadline)
        ask = by_stream if self.card.capabilities.streaming else by_polling
        answer = await ask(self._calls, request_of(content, **sending), until)
        if answer.task and answer.task.status.state in TERMINAL and not answer.completed:
            raise TaskFailedError(answer)
        return answer

    # Tasks.

    async def get_task(self, task_id: str, *, history_length: int | None = None) -> Task:
        request = GetTaskRequest(id=task_id, history_length=history_length)
        task: Task = await self._calls.unary("GetTask", request)
        return task

    def list_tasks(
        self,
        *,
        context_id: str = "",
        status: TaskState | str | None = None,
        status_timestamp_after: datetime | Timestamp | None = None,
        include_artifacts: bool = False,
        history_length: int | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[Task, None]:
        """All tasks that fit, the newest first; pages are fetched as they are read."""
        request = ListTasksRequest(
            context_id=context_id,
            status=_state(status),
            include_artifacts=include_artifacts,
            history_length=history_length,
            page_size=page_size,
        )
        if status_timestamp_after is not None:
            request.status_timestamp_after.CopyFrom(_timestamp(status_timestamp_after))
        return self._pages("ListTasks", request, "tasks")

    async def cancel(self, task_id: str, *, metadata: Mapping[str, Any] | None = None) -> Task:
        """Asks to cancel; the task may end otherwise. A task that is canceled already is returned as it is."""
        request = CancelTaskRequest(id=task_id, metadata=None if metadata is None else struct(metadata))
        try:
            task: Task = await self._calls.unary("CancelTask", request)
        except TaskNotCancelableError as error:
            if error.metadata.get("state") != TaskState.Name(TASK_STATE_CANCELED):
                raise
            return await self.get_task(task_id)
        return task

    def subscribe(self, task_id: str, *, deadline: float | None = None) -> AsyncGenerator[StreamResponse, None]:
        """The task as it is, and then what happens to it, to its end; `stream` tells of breaks."""
        following = Following(self._calls, deadline=deadline, stays=True, task_id=task_id)
        return following.events("SubscribeToTask", SubscribeToTaskRequest(id=task_id))

    # Push notifications.

    async def create_push_config(
        self, task_id: str, config: TaskPushNotificationConfig | str
    ) -> TaskPushNotificationConfig:
        """Registers a webhook, given by its URL or in full; returns it as the agent keeps it."""
        request = TaskPushNotificationConfig()
        if isinstance(config, str):
            request.url = config
        else:
            request.CopyFrom(config)
        request.task_id = task_id
        created: TaskPushNotificationConfig = await self._calls.unary("CreateTaskPushNotificationConfig", request)
        return created

    async def get_push_config(self, task_id: str, config_id: str) -> TaskPushNotificationConfig:
        request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        config: TaskPushNotificationConfig = await self._calls.unary("GetTaskPushNotificationConfig", request)
        return config

    def list_push_configs(
        self, task_id: str, *, page_size: int = 0
    ) -> AsyncGenerator[TaskPushNotificationConfig, None]:
        request = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=page_size)
        return self._pages("ListTaskPushNotificationConfigs", request, "configs")

    async def delete_push_config(self, task_id: str, config_id: str) -> None:
        request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        await self._calls.unary("DeleteTaskPushNotificationConfig", request)

    # The card.

    async def extended_card(self) -> AgentCard:
        """The card for an authenticated caller, which takes the place of `card`."""
        self._calls.card = await self._calls.unary("GetExtendedAgentCard", GetExtendedAgentCardRequest())
        return self.card

    async def close(self) -> None:
        """`connect` does it."""
        await self._calls.close()

    # Inside.

    def _until(self, sending: Sending, usual: float) -> float:
        deadline = sending.get("deadline")
        until = until_of(usual if deadline is None else deadline)
        assert until is not None
        return until

    async def _pages(self, name: str, request: Any, field: str) -> AsyncGenerator[Any, None]:
        tokens, empty = {""}, 0
        while True:
            page = await self._calls.unary(name, request)
            for item in getattr(page, field):
                yield item
            if not page.next_page_token:
                return
            empty = 0 if getattr(page, field) else empty + 1
            if page.next_page_token in tokens or empty == MOST_EMPTY_PAGES:
                raise InvalidAgentResponseError(f"{name} gave the same page token twice, or too many empty pages")
            tokens.add(page.next_page_token)
            request.page_token = page.next_page_token


def _state(status: TaskState | str | None) -> TaskState | str | None:
    if isinstance(status, str) and status not in TaskState.keys():  # noqa: SIM118
        name = "TASK_STATE_" + status.upper().replace("-", "_")
        raise ValueError(f"status {quote(status)} is no state; {did_you_mean(name, TaskState.keys(), 'see TaskState')}")
    return status


def _timestamp(moment: datetime | Timestamp) -> Timestamp:
    if isinstance(moment, Timestamp):
        return moment
    if not isinstance(moment, datetime):
        raise TypeError(f"status_timestamp_after must be a datetime with a time zone, not {moment!r}")
    if moment.tzinfo is None:
        raise ValueError("status_timestamp_after needs a time zone: 10 o'clock is not the same everywhere")
    made = Timestamp()
    made.FromDatetime(moment)
    return made
