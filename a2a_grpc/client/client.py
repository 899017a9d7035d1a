"""Client: one agent, whatever the transport."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from ..errors import A2AError, DeadlineExceededError, InvalidAgentResponseError, TaskNotCancelableError, nearest
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
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from ..inherited import inherited
from .answer import Answer, TaskFailedError
from .artifacts import INTERRUPTED, TERMINAL, Assembly
from .calls import Calls, now, until_of
from .failures import ClientError, ConnectError, StreamBrokenError
from .following import Following, too_late
from .parts import Content, message, struct
from .progress import Progress

FIRST_POLL, LONGEST_POLL = 0.2, 5.0  # seconds between two looks at a task
LONGEST_CANCEL = 2.0  # seconds, of a task that an agent waited for and does not need any more


class Client:
    """Calls one agent: see `connect`. Deadlines are in seconds from the call.

    Methods raise A2AError for what the agent says (`a2a_grpc.errors`; RemoteError for what has no class), ConnectError
    for what the network does. Only calls that read are repeated; a message is sent once.
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

    async def send(
        self,
        content: Content,
        *,
        task_id: str = "",
        context_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        **configuration: Any,
    ) -> Task | Message:
        """Sends a message, and returns what the agent answers first: by default, a task at the end of its turn.

        `configuration` are the fields of SendMessageConfiguration, such as return_immediately=True.
        """
        request = _request(content, task_id, context_id, metadata, configuration)
        until = until_of(self._calls.options.deadline if deadline is None else deadline)
        response = await self._calls.unary("SendMessage", request, until)
        kind = response.WhichOneof("payload")
        if kind is None:
            raise InvalidAgentResponseError("The agent answered with neither a task nor a message")
        answer: Task | Message = getattr(response, kind)
        return answer

    def stream(
        self,
        content: Content,
        *,
        task_id: str = "",
        context_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        **configuration: Any,
    ) -> AsyncGenerator[StreamResponse, None]:
        """Sends a message, and gives what happens to its task, to the end of the turn.

        A stream that breaks is taken up again by subscribing; the Task that then comes replaces all that was told.
        Raises StreamBrokenError where that does not succeed. Close it with `contextlib.aclosing` if you leave it early.
        """
        request = _request(content, task_id, context_id, metadata, configuration)
        return self._following(until_of(deadline), stays=False).events("SendStreamingMessage", request)

    async def ask(
        self,
        content: Content,
        *,
        task_id: str = "",
        context_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        **configuration: Any,
    ) -> Answer:
        """Sends a message and waits for the result, by streaming where the agent can, else by polling.

        An agent that asks back is an answer too: see `Answer.question`. Raises TaskFailedError for a task that ended
        without success, DeadlineExceededError where it has not ended in time (metadata: taskId). Where an agent asks
        another one and is cancelled, it cancels the task that it waits for.
        """
        until = until_of(self._calls.options.answer_deadline if deadline is None else deadline)
        assert until is not None
        request = _request(content, task_id, context_id, metadata, configuration)
        if self.card.capabilities.streaming:
            answer = await self._by_stream(request, until)
        else:
            answer = await self._by_polling(request, until)
        if answer.task and answer.task.status.state in TERMINAL and not answer.completed:
            raise TaskFailedError(answer)
        return answer

    # Tasks.

    async def get_task(self, task_id: str, *, history_length: int | None = None) -> Task:
        request = GetTaskRequest(id=task_id, history_length=history_length)
        task: Task = await self._calls.unary("GetTask", request)
        return task

    async def list_tasks(
        self,
        *,
        context_id: str = "",
        status: TaskState | str | None = None,
        status_timestamp_after: datetime | Timestamp | None = None,
        include_artifacts: bool = False,
        history_length: int | None = None,
        page_size: int | None = None,
    ) -> AsyncIterator[Task]:
        """All tasks that fit, the newest first; pages are fetched as they are read."""
        request = ListTasksRequest(
            context_id=context_id,
            status=status,
            include_artifacts=include_artifacts,
            history_length=history_length,
            page_size=page_size,
        )
        if status_timestamp_after is not None:
            request.status_timestamp_after.CopyFrom(_timestamp(status_timestamp_after))
        async for task in self._pages("ListTasks", request, "tasks"):
            yield task

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
        following = self._following(until_of(deadline), stays=True, task_id=task_id)
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

    async def list_push_configs(self, task_id: str, *, page_size: int = 0) -> AsyncIterator[TaskPushNotificationConfig]:
        request = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=page_size)
        async for config in self._pages("ListTaskPushNotificationConfigs", request, "configs"):
            yield config

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

    def _following(self, until: float | None, *, stays: bool, task_id: str = "") -> Following:
        return Following(self._calls, Progress(task_id), until=until, stays=stays)

    async def _by_stream(self, request: SendMessageRequest, until: float) -> Answer:
        assembly, following = Assembly(), self._following(until, stays=False)
        try:
            async with aclosing(following.events("SendStreamingMessage", request)) as events:
                async for event in events:
                    assembly.add(event)
        except StreamBrokenError as error:
            if not error.task_id:
                raise
            return Answer(task=await self._settled(error.task_id, until))
        except asyncio.CancelledError:
            await self._leave(assembly.task.id if assembly.task else "")
            raise
        if following.broken and assembly.task:
            return Answer(task=await self._settled(assembly.task.id, until))
        return Answer(assembly.task if assembly.message is None else None, assembly.message)

    async def _by_polling(self, request: SendMessageRequest, until: float) -> Answer:
        """A task that exists may still wait for this very message, so only a new one is looked at from the start."""
        request.configuration.return_immediately = not request.message.task_id
        response = await self._calls.unary("SendMessage", request, until)
        if response.HasField("message"):
            return Answer(message=response.message)
        if not response.HasField("task"):
            raise InvalidAgentResponseError("The agent answered with neither a task nor a message")
        if _is_settled(response.task):
            return Answer(task=response.task)
        return Answer(task=await self._settled(response.task.id, until))

    async def _settled(self, task_id: str, until: float) -> Task:
        """The task, once its turn is over."""
        try:
            return await self._polled(task_id, until)
        except asyncio.CancelledError:
            await self._leave(task_id)
            raise

    async def _leave(self, task_id: str) -> None:
        """Inside an agent, a task ends with the one that it was for."""
        if task_id and inherited.get():
            with suppress(A2AError, ClientError):
                await self._calls.unary("CancelTask", CancelTaskRequest(id=task_id), now() + LONGEST_CANCEL)

    async def _polled(self, task_id: str, until: float) -> Task:
        """By looking again and again."""
        pause = FIRST_POLL
        while True:
            try:
                task: Task = await self._calls.unary("GetTask", GetTaskRequest(id=task_id), until)
                if _is_settled(task):
                    return task
            except ConnectError:
                if now() + pause >= until:
                    raise
            except DeadlineExceededError:
                raise too_late(task_id) from None
            if now() + pause >= until:
                raise too_late(task_id)
            await asyncio.sleep(pause)
            pause = min(LONGEST_POLL, pause * 1.5)

    async def _pages(self, name: str, request: Any, field: str) -> AsyncIterator[Any]:
        tokens = {""}
        while True:
            page = await self._calls.unary(name, request)
            for item in getattr(page, field):
                yield item
            if not page.next_page_token:
                return
            if page.next_page_token in tokens:
                raise InvalidAgentResponseError(f"{name} gave the same page token twice: its pages have no end")
            tokens.add(page.next_page_token)
            request.page_token = page.next_page_token


def _request(
    content: Content,
    task_id: str,
    context_id: str,
    metadata: Mapping[str, Any] | None,
    configuration: Mapping[str, Any],
) -> SendMessageRequest:
    made = Message()
    made.CopyFrom(content if isinstance(content, Message) else message(content))
    made.task_id, made.context_id = task_id or made.task_id, context_id or made.context_id
    request = SendMessageRequest(message=made, metadata=None if metadata is None else struct(metadata))
    if configuration:
        request.configuration.CopyFrom(_configuration(configuration))
    return request


def _configuration(given: Mapping[str, Any]) -> SendMessageConfiguration:
    names = SendMessageConfiguration.DESCRIPTOR.fields_by_name
    for name in given:
        if name not in names:
            near = nearest(name, names)
            advice = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise TypeError(f"unknown setting {name}; {advice}")
    return SendMessageConfiguration(**given)


def _is_settled(task: Task) -> bool:
    return task.status.state in TERMINAL or task.status.state in INTERRUPTED


def _timestamp(moment: datetime | Timestamp) -> Timestamp:
    if isinstance(moment, Timestamp):
        return moment
    if moment.tzinfo is None:
        raise ValueError("status_timestamp_after needs a time zone: 10 o'clock is not the same everywhere")
    made = Timestamp()
    made.FromDatetime(moment)
    return made
