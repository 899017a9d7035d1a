"""AgentServicer: the eleven operations over an executor, a store, a broadcaster and a webhook sender."""

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from typing import Any

from google.protobuf.empty_pb2 import Empty

from .. import errors
from ..caller import Caller, caller
from ..context import CallContext
from ..encoded import Encoded
from ..generated.a2a_pb2 import (
    TASK_STATE_SUBMITTED,
    AgentCard,
    AgentSkill,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskStatus,
)
from ..generated.a2a_pb2_grpc import A2AServiceServicer
from ..inherited import inherited, of
from . import about
from .broadcast import Subscriber
from .lifecycle import new_id, now, with_history
from .limits import Limits
from .push import PushSender
from .push_policy import PushPolicy
from .runner import Engine, LiveTask, Running, has_ended, not_cancelable
from .store import MemoryStore, Position, Query, Scope, TaskStore
from .turn import Turn, agent_message

DEFAULT_PAGE = 50
SHUT_DOWN = "The server was shut down"
LAST_MOMENT = 0.2  # seconds to store how tasks end, where no time is left


class AgentServicer(A2AServiceServicer):
    """Write `execute`; the protocol is done for you. What can be set about an agent are class attributes.

        class Echo(AgentServicer):
            '''Says it again.'''

            async def execute(self, turn: Turn) -> None:
                await turn.add_artifact("echo", turn.text)

    Optional: `answer` replies without a task, `cancel` stops work in the agent's own way, `extended_card` shows more to
    authenticated callers. A subclass with an `__init__` of its own calls `super().__init__()`, which raises TypeError
    where one of these is not a coroutine, or where a name of the engine's own is taken.
    """

    name: str = ""
    description: str = ""
    version: str = "1.0.0"
    skills: Sequence[AgentSkill] = ()
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    limits: Limits = Limits()
    push: PushPolicy | None = None
    push_before_reply: float = 0.0
    anonymous_extended_card: bool = False
    check_input_modes: bool = True

    def __init__(self, *, store: TaskStore | None = None) -> None:
        self.store: TaskStore = store or MemoryStore()
        about.check_methods(type(self), AgentServicer)
        if type(self).execute is AgentServicer.execute and type(self).answer is AgentServicer.answer:
            raise TypeError(f"{type(self).__name__} must have a method `async def execute(self, turn)`")
        self._lives: dict[tuple[Scope, str], LiveTask] = {}
        self._turns, self._turns_of = 0, dict[Scope, int]()
        self._closed = False
        self._sender = PushSender(self.push) if self.push else None
        self._modes: about.Modes | None = None

    # What an author writes.

    async def execute(self, turn: Turn) -> None:
        """One turn of the agent. How it ends decides the state of its task: requirements in the guide on turns."""
        raise NotImplementedError

    async def answer(self, turn: Turn) -> Message | str | None:
        """Runs before a task exists; a Message or text is the whole reply, None goes on to `execute`."""

    async def cancel(self, turn: Turn) -> None:
        """Runs before the coroutine of a turn is cancelled. Raise TaskNotCancelableError to refuse."""

    async def extended_card(self, caller: Caller) -> AgentCard | None:
        """The card for an authenticated caller."""
        return None

    @property
    def card(self) -> AgentCard:
        """Derived from the class; override it to say something else."""
        if not hasattr(self, "store"):
            raise TypeError(f"{type(self).__name__}.__init__ must call super().__init__()")
        return about.card(self)

    async def close(self, deadline: float) -> None:
        """Ends what is under way, within `deadline` seconds, and takes no more messages.

        A turn that runs is cancelled, and its task fails; a message that waits is refused with UNAVAILABLE.
        """
        self._closed = True
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline
        closing = [loop.create_task(live.close(SHUT_DOWN, deadline / 4)) for live in self._lives.values()]
        if closing:
            await asyncio.wait(closing, timeout=max(deadline, LAST_MOMENT))
            for late in closing:
                late.cancel()
        if self._sender:
            await self._sender.close(max(0.0, until - loop.time()))

    # The operations.

    async def SendMessage(self, request: SendMessageRequest, context: Any) -> SendMessageResponse:
        turn, scope = self._turn(request, context), _scope(request.tenant)
        if (reply := await self._reply(turn)) is not None:
            return SendMessageResponse(message=reply)
        live, running = await self._start(turn, scope)
        response = await running.reply
        if self.push_before_reply and not request.configuration.return_immediately:
            await self._first_delivery(live)
        with_history(response.task, self._history_length(request.configuration))
        return response

    async def SendStreamingMessage(
        self, request: SendMessageRequest, context: Any
    ) -> AsyncGenerator[StreamResponse, None]:
        turn, scope = self._turn(request, context), _scope(request.tenant)
        if (reply := await self._reply(turn)) is not None:
            yield StreamResponse(message=reply)
            return
        with Subscriber(self.limits.events_waiting) as stream:
            await self._start(turn, scope, stream)
            async for event in stream:
                yield event

    async def GetTask(self, request: GetTaskRequest, context: Any) -> Task:
        stored = await self.store.read(_scope(request.tenant), request.id)
        if stored is None:
            raise _not_found(request.id)
        return with_history(stored.task, self._history_length(request))

    async def ListTasks(self, request: ListTasksRequest, context: Any) -> ListTasksResponse:
        size = request.page_size if request.HasField("page_size") else DEFAULT_PAGE
        page = await self.store.list(_scope(request.tenant), _query(request, size))
        response = ListTasksResponse(
            tasks=page.tasks, page_size=size, total_size=page.total, next_page_token=_token(page.next)
        )
        length = self._history_length(request)
        for task in response.tasks:
            with_history(task, length)
            if not request.include_artifacts:
                del task.artifacts[:]
        return response

    async def CancelTask(self, request: CancelTaskRequest, context: Any) -> Task:
        live = await self._live(_scope(request.tenant), request.id)
        if live.terminal:
            raise not_cancelable(live.task)
        overridden = type(self).cancel is not AgentServicer.cancel
        self._register(live)
        await live.cancel(self.cancel if overridden else None, request)
        return _copy(live.task)

    async def SubscribeToTask(
        self, request: SubscribeToTaskRequest, context: Any
    ) -> AsyncGenerator[StreamResponse, None]:
        live = await self._live(_scope(request.tenant), request.id)
        if live.terminal:
            raise has_ended(live.task, "nothing will follow; read it with GetTask")
        self._check_subscribers(live)
        self._register(live)
        with Subscriber(self.limits.events_waiting) as stream:
            live.follow(stream)
            async for event in stream:
                yield event

    async def CreateTaskPushNotificationConfig(
        self, request: TaskPushNotificationConfig, context: Any
    ) -> TaskPushNotificationConfig:
        scope = _scope(request.tenant)
        self._check_config(request, "")
        await self._existing(scope, request.task_id)
        return await self._put_config(scope, request)

    async def GetTaskPushNotificationConfig(
        self, request: GetTaskPushNotificationConfigRequest, context: Any
    ) -> TaskPushNotificationConfig:
        for config in await self._configs(_scope(request.tenant), request.task_id):
            if config.id == request.id:
                return config
        raise errors.TaskNotFoundError(
            f"Task {request.task_id} has no push notification config {request.id}",
            metadata={"taskId": request.task_id, "configId": request.id},
        )

    async def ListTaskPushNotificationConfigs(
        self, request: ListTaskPushNotificationConfigsRequest, context: Any
    ) -> ListTaskPushNotificationConfigsResponse:
        found = sorted(await self._configs(_scope(request.tenant), request.task_id), key=lambda config: config.id)
        rest = [config for config in found if config.id > request.page_token]
        page = rest[: request.page_size or None]
        following = page[-1].id if len(page) < len(rest) else ""
        return ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=following)

    async def DeleteTaskPushNotificationConfig(
        self, request: DeleteTaskPushNotificationConfigRequest, context: Any
    ) -> Empty:
        scope = _scope(request.tenant)
        await self._existing(scope, request.task_id)
        await self.store.delete_config(scope, request.task_id, request.id)
        if live := self._lives.get((scope, request.task_id)):
            live.configs.pop(request.id, None)
        if self._sender:
            await self._sender.forget(request.task_id, request.id)
        return Empty()

    async def GetExtendedAgentCard(self, request: GetExtendedAgentCardRequest, context: Any) -> AgentCard:
        who = caller.get()
        if not who.name and not self.anonymous_extended_card:
            raise errors.UnauthenticatedError("The extended card is for authenticated callers")
        found = await self.extended_card(who)
        if found is None:
            raise errors.ExtendedAgentCardNotConfiguredError
        return found

    # Sending.

    def _turn(self, request: SendMessageRequest, context: CallContext) -> Turn:
        self._check_message(request.message)
        handed_down = of(context)
        outlives = request.configuration.return_immediately  # its client has gone before the turn ends
        inherited.set(handed_down._replace(until=None) if outlives else handed_down)
        return Turn(request, caller=caller.get(), extensions=context.extensions, deadline=handed_down.until)

    async def _reply(self, turn: Turn) -> Message | None:
        """The bare message of an agent that overrides `answer`; a message for a task that exists is never one."""
        if type(self).answer is AgentServicer.answer or turn.message.task_id:
            return None
        async with asyncio.timeout(self.limits.inactivity):
            said = await self.answer(turn)
        if said is None:
            return None
        reply = agent_message(said)
        reply.context_id = reply.context_id or turn.message.context_id or new_id()
        return reply

    async def _start(self, turn: Turn, scope: Scope, stream: Subscriber | None = None) -> tuple[LiveTask, Running]:
        """Sends a message to its task, or to a new one. What has been looked up here is used before it can change."""
        if turn.request.configuration.HasField("task_push_notification_config"):
            config = turn.request.configuration.task_push_notification_config
            self._check_config(config, "configuration.task_push_notification_config.")
        if turn.message.reference_task_ids:
            turn.referenced = await self._referenced(scope, turn.message.reference_task_ids)
        live = self._new(turn, scope) if not turn.message.task_id else await self._continued(turn, scope)
        if stream:
            self._check_subscribers(live)
        self._count(scope)
        self._register(live)
        try:
            return live, live.send(turn, stream)
        except errors.A2AError:
            self._turn_over(scope)
            raise

    def _new(self, turn: Turn, scope: Scope) -> LiveTask:
        message = turn.message
        message.context_id = message.context_id or new_id()
        message.task_id = new_id()
        status = TaskStatus(state=TASK_STATE_SUBMITTED, timestamp=now())
        task = Task(id=message.task_id, context_id=message.context_id, status=status, history=[message])
        return LiveTask(self._engine, scope, task, is_new=True)

    async def _continued(self, turn: Turn, scope: Scope) -> LiveTask:
        message = turn.message
        live = await self._live(scope, message.task_id)
        if message.context_id not in ("", live.task.context_id):
            wrong = errors.Violation("message.context_id", f"task {message.task_id} belongs to another context")
            raise errors.InvalidParamsError([wrong])
        if live.terminal:
            raise has_ended(live.task)
        message.context_id = live.task.context_id
        return live

    async def _prepare(self, live: LiveTask, turn: Turn) -> None:
        """Registers the webhook of a message before it is executed, so that it misses nothing."""
        if turn.request.configuration.HasField("task_push_notification_config"):
            config = TaskPushNotificationConfig()
            config.CopyFrom(turn.request.configuration.task_push_notification_config)
            config.task_id = live.task.id
            await self._put_config(live.scope, config)

    def _history_length(self, holder: Any) -> int:
        """How much history is shown: what was asked for, within the limit."""
        most = self.limits.history
        return min(holder.history_length, most) if holder.HasField("history_length") else most

    async def _referenced(self, scope: Scope, ids: Sequence[str]) -> list[Task]:
        found = [await self.store.read(scope, id) for id in list(dict.fromkeys(ids))[:100]]
        return [stored.task for stored in found if stored]

    def _check_message(self, message: Message) -> None:
        if len(message.parts) > self.limits.parts:
            wrong = errors.Violation("message.parts", f"has {len(message.parts)} parts; at most {self.limits.parts}")
            raise errors.InvalidParamsError([wrong])
        if self.check_input_modes and any(part.media_type for part in message.parts):
            self._modes = self._modes or about.Modes(self.card)
            self._modes.check(message)

    # Live tasks.

    @cached_property
    def _engine(self) -> Engine:
        return Engine(
            self.store, self.limits, self.execute, self._prepare, self._deliver, self._release, self._turn_over
        )

    async def _live(self, scope: Scope, id: str) -> LiveTask:
        """The task that something happens to, from the store where nothing did; TaskNotFound outside the scope.

        Who makes something happen to it registers it, before awaiting anything else.
        """
        if (live := self._lives.get((scope, id))) is not None:
            return live
        stored = await self.store.read(scope, id)
        if stored is None:
            raise _not_found(id)
        configs = {c.id: c for c in await self.store.configs(scope, id)} if self._sender else {}
        if (live := self._lives.get((scope, id))) is not None:
            return live
        task = with_history(stored.task, self.limits.history)
        live = LiveTask(self._engine, scope, task, stored.version)
        live.configs = configs
        return live

    def _register(self, live: LiveTask) -> None:
        self._lives[live.scope, live.task.id] = live

    def _release(self, scope: Scope, id: str) -> None:
        live = self._lives.get((scope, id))
        if live is not None and live.idle:
            del self._lives[scope, id]

    def _check_subscribers(self, live: LiveTask) -> None:
        if len(live.topic) >= self.limits.subscribers:
            raise errors.ResourceExhaustedError("Too many streams follow this task")

    async def _existing(self, scope: Scope, id: str) -> None:
        if (scope, id) not in self._lives and await self.store.read(scope, id) is None:
            raise _not_found(id)

    # Limits on turns.

    def _count(self, scope: Scope) -> None:
        """Raises ResourceExhaustedError where there are too many turns already."""
        of_owner = self._turns_of.get(scope, 0)
        if self._closed:
            raise errors.UnavailableError
        if self._turns >= self.limits.turns:
            raise errors.ResourceExhaustedError("The agent is busy; try again later")
        if of_owner >= self.limits.turns_per_owner:
            raise errors.ResourceExhaustedError("You have too many messages under way; try again later")
        self._turns += 1
        self._turns_of[scope] = of_owner + 1

    def _turn_over(self, scope: Scope) -> None:
        self._turns -= 1
        self._turns_of[scope] -= 1
        if not self._turns_of[scope]:
            del self._turns_of[scope]

    # Webhooks.

    def _check_config(self, config: TaskPushNotificationConfig, path: str) -> None:
        if self.push is None:
            raise errors.PushNotificationNotSupportedError
        if violations := self.push.violations(config, path):
            raise errors.InvalidParamsError(violations)

    async def _put_config(self, scope: Scope, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        made = TaskPushNotificationConfig()
        made.CopyFrom(config)
        made.id = made.id or new_id()
        existing = {c.id for c in await self.store.configs(scope, made.task_id)}
        if made.id not in existing and len(existing) >= self.limits.webhooks:
            raise errors.ResourceExhaustedError(f"A task has at most {self.limits.webhooks} webhooks")
        await self.store.put_config(scope, made)
        if self._sender:
            self._sender.replace(made)
        if live := self._lives.get((scope, made.task_id)):
            live.configs[made.id] = made
        return made

    async def _configs(self, scope: Scope, task_id: str) -> Sequence[TaskPushNotificationConfig]:
        await self._existing(scope, task_id)
        return await self.store.configs(scope, task_id)

    def _deliver(self, live: LiveTask, event: Encoded) -> None:
        if self._sender:
            live.deliveries = [self._sender.deliver(config, event) for config in live.configs.values()]

    async def _first_delivery(self, live: LiveTask) -> None:
        waiting = [attempt for attempt in live.deliveries if attempt is not None]
        if self.push_before_reply and waiting:
            await asyncio.wait(waiting, timeout=self.push_before_reply)


def _scope(tenant: str) -> Scope:
    return Scope(tenant, caller.get().name)


def _not_found(id: str) -> errors.TaskNotFoundError:
    return errors.TaskNotFoundError(f"Task {id[:100]} not found", metadata={"taskId": id[:100]})


def _copy(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy


def _query(request: ListTasksRequest, size: int) -> Query:
    since = request.status_timestamp_after.ToNanoseconds() if request.HasField("status_timestamp_after") else 0
    return Query(size, request.context_id, request.status, since, _position(request.page_token))


def _token(position: Position | None) -> str:
    if position is None:
        return ""
    return base64.urlsafe_b64encode(f"{position.timestamp}:{position.id}".encode()).decode().rstrip("=")


def _position(token: str) -> Position | None:
    """Where a page begins. The token holds what the list is ordered by, so it survives changes (X-LIST-5)."""
    if not token:
        return None
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode()
        timestamp, id = text.split(":", 1)
        return Position(int(timestamp), id)
    except (binascii.Error, ValueError):
        wrong = errors.Violation("page_token", "is not a nextPageToken of an earlier page")
        raise errors.InvalidParamsError([wrong]) from None
