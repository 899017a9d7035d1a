"""AgentServicer: the operations on messages and tasks, and what an author writes."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import closing
from typing import Any

from .. import errors
from ..caller import Caller, caller
from ..context import CallContext
from ..generated import a2a_pb2 as pb
from ..inherited import inherited, of
from . import about, paging
from .broadcast import Subscriber
from .content import agent_message
from .engine import Engine
from .lifecycle import copied, has_ended, new_id, not_cancelable, not_found, now, with_history
from .limits import Limits
from .live import LiveTask
from .push_policy import PushPolicy
from .running import Running
from .store import Scope, TaskStore, scope_of
from .turn import Turn


class AgentServicer(Engine):
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
    skills: Sequence[pb.AgentSkill] = ()
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    limits: Limits = Limits()
    push: PushPolicy | None = None
    push_before_reply: float = 0.0
    anonymous_extended_card: bool = False
    check_input_modes: bool = True

    def __init__(self, *, store: TaskStore | None = None) -> None:
        super().__init__(store)
        about.check_methods(type(self), AgentServicer)
        self._answers = type(self).answer is not AgentServicer.answer
        if type(self).execute is AgentServicer.execute and not self._answers:
            raise TypeError(f"{type(self).__name__} must have a method `async def execute(self, turn)`")

    # What an author writes, besides `execute`.

    async def answer(self, turn: Turn) -> pb.Message | str | None:
        """Runs before a task exists; a Message or text is the whole reply, None goes on to `execute`."""

    async def cancel(self, turn: Turn) -> None:
        """Runs before the coroutine of a turn is cancelled. Raise TaskNotCancelableError to refuse."""

    async def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        """The card for an authenticated caller."""
        return None

    @property
    def card(self) -> pb.AgentCard:
        """Derived from the class; override it to say something else."""
        if not hasattr(self, "store"):
            raise TypeError(f"{type(self).__name__}.__init__ must call super().__init__()")
        return about.card(self)

    # The operations.

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        turn = self._turn(request, context)
        if (reply := await self._reply(turn)) is not None:
            return pb.SendMessageResponse(message=reply)
        running = await self._start(turn)
        response = await running.reply
        if self.push_before_reply and not request.configuration.return_immediately:
            await self._first_delivery(running.live)
        with_history(response.task, self._history_length(request.configuration))
        return response

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        turn = self._turn(request, context)
        if (reply := await self._reply(turn)) is not None:
            yield pb.StreamResponse(message=reply)
            return
        with closing(Subscriber(self.limits.events_waiting)) as stream:
            await self._start(turn, stream)
            async for event in stream:
                yield event

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        stored = await self.store.read(scope_of(request.tenant), request.id)
        if stored is None:
            raise not_found(request.id)
        return with_history(stored.task, self._history_length(request))

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        query, length = paging.query(request), self._history_length(request)
        page = await self.store.list(scope_of(request.tenant), query)
        response = pb.ListTasksResponse(
            tasks=page.tasks, page_size=query.limit, total_size=page.total, next_page_token=paging.token(page.next)
        )
        for task in response.tasks:
            with_history(task, length)
            if not request.include_artifacts:
                del task.artifacts[:]
        return response

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Any) -> pb.Task:
        live = await self._find(scope_of(request.tenant), request.id)
        if live.terminal:
            raise not_cancelable(live.task)
        overridden = type(self).cancel is not AgentServicer.cancel
        self._register(live)
        await live.cancel(self.cancel if overridden else None, request)
        return copied(live.task)

    async def SubscribeToTask(
        self, request: pb.SubscribeToTaskRequest, context: Any
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        live = await self._find(scope_of(request.tenant), request.id)
        if live.terminal:
            raise has_ended(live.task, "nothing will follow; read it with GetTask")
        self._check_subscribers(live)
        self._register(live)
        with closing(Subscriber(self.limits.events_waiting)) as stream:
            live.follow(stream)
            async for event in stream:
                yield event

    async def GetExtendedAgentCard(self, request: pb.GetExtendedAgentCardRequest, context: Any) -> pb.AgentCard:
        who = caller.get()
        if not who.name and not self.anonymous_extended_card:
            raise errors.UnauthenticatedError("The extended card is for authenticated callers")
        found = await self.extended_card(who)
        if found is None:
            raise errors.ExtendedAgentCardNotConfiguredError
        return found

    # Sending.

    def _turn(self, request: pb.SendMessageRequest, context: CallContext) -> Turn:
        self._check_message(request.message)
        handed_down = of(context)
        outlives = request.configuration.return_immediately  # its client has gone before the turn ends
        inherited.set(handed_down._replace(until=None) if outlives else handed_down)
        return Turn(request, caller=caller.get(), extensions=context.extensions, deadline=handed_down.until)

    def _check_message(self, message: pb.Message) -> None:
        if len(message.parts) > self.limits.parts:
            wrong = errors.Violation("message.parts", f"has {len(message.parts)} parts; at most {self.limits.parts}")
            raise errors.InvalidParamsError([wrong])

    async def _reply(self, turn: Turn) -> pb.Message | None:
        """The bare message of an agent that overrides `answer`; a message for a task that exists is never one."""
        if not self._answers or turn.message.task_id:
            return None
        async with asyncio.timeout(self.limits.inactivity):
            said = await self.answer(turn)
        if said is None:
            return None
        reply = agent_message(said)
        reply.context_id = reply.context_id or turn.message.context_id or new_id()
        return reply

    async def _start(self, turn: Turn, stream: Subscriber | None = None) -> Running:
        """Sends a message to its task, or to a new one. What has been looked up here is used before it can change."""
        message, configuration = turn.message, turn.request.configuration
        scope = scope_of(turn.tenant)
        if configuration.HasField("task_push_notification_config"):
            config = configuration.task_push_notification_config
            self._check_config(config, "configuration.task_push_notification_config.")
        if message.reference_task_ids:
            turn.referenced = await self._referenced(scope, message.reference_task_ids)
        live = await self._continued(message, scope) if message.task_id else self._new(message, scope)
        return self._begin(live, turn, stream)

    def _new(self, message: pb.Message, scope: Scope) -> LiveTask:
        message.context_id = message.context_id or new_id()
        message.task_id = new_id()
        status: Any = {"state": pb.TASK_STATE_SUBMITTED, "timestamp": now()}
        task = pb.Task(id=message.task_id, context_id=message.context_id, status=status)
        task.history.add().CopyFrom(message)
        return LiveTask(self, scope, task, is_new=True)

    async def _continued(self, message: pb.Message, scope: Scope) -> LiveTask:
        live = await self._find(scope, message.task_id)
        if message.context_id not in ("", live.context_id):
            wrong = errors.Violation("message.context_id", f"task {message.task_id} belongs to another context")
            raise errors.InvalidParamsError([wrong])
        if live.terminal:
            raise has_ended(live.task)
        message.context_id = live.context_id
        return live

    async def _referenced(self, scope: Scope, ids: Sequence[str]) -> list[pb.Task]:
        found = [await self.store.read(scope, id) for id in list(dict.fromkeys(ids))[:100]]
        return [stored.task for stored in found if stored]

    def _history_length(self, holder: Any) -> int:
        """How much history is shown: what was asked for, within the limit."""
        most = self.limits.history
        return min(holder.history_length, most) if holder.HasField("history_length") else most
