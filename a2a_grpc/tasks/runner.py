"""LiveTask: a task that something is happening to. It is the one writer of its task, and runs its turns in order."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from secrets import token_hex
from typing import Any, NamedTuple

from ..encoded import Encoded
from ..errors import (
    A2AError,
    ResourceExhaustedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    log,
)
from ..generated.a2a_pb2 import (
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_INPUT_REQUIRED,
    CancelTaskRequest,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from .broadcast import Subscriber, Topic
from .lifecycle import INTERRUPTED, TERMINAL, IllegalTransitionError, apply, check, now, parts_after, with_history
from .limits import Limits
from .store import ConflictError, Scope, TaskStore
from .turn import Turn, agent_message

Ask = Callable[[Turn], Awaitable[None]]
NO_RESULT = "The agent returned without a result"
FAIR = 16  # events of an agent that awaits nothing else, until readers and other tasks have their turn


class Engine(NamedTuple):
    """What all live tasks of a servicer work with."""

    store: TaskStore
    limits: Limits
    execute: Callable[[Turn], Awaitable[Any]]
    prepare: Callable[["LiveTask", Turn], Awaitable[None]]  # when the task exists, before the turn is executed
    deliver: Callable[["LiveTask", Encoded], None]
    idle: Callable[[Scope, str], None]  # perhaps nothing happens to this task any more
    turn_over: Callable[[Scope], None]


class Running:
    """A turn on its way. Its client awaits `reply`, or reads `stream`."""

    __slots__ = (
        *("asked", "begun", "canceled", "context", "execution", "greeted"),
        *("last", "reply", "stream", "timer", "turn", "why"),
    )

    def __init__(self, turn: Turn, stream: Subscriber | None, loop: asyncio.AbstractEventLoop) -> None:
        self.turn, self.stream = turn, stream
        self.context = contextvars.copy_context()
        self.reply: asyncio.Future[SendMessageResponse] = loop.create_future()
        self.execution: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.last = 0.0
        self.greeted = self.begun = False
        self.asked = 0  # the interrupted state that the turn has brought about
        self.canceled = False  # CancelTask says how it ends
        self.why = ""  # it is stopped for another reason

    def answer(self, task: Task) -> None:
        """Its client is told what the task is now, unless it was answered before."""
        if self.stream is None and not self.reply.done():
            self.reply.set_result(SendMessageResponse(task=task))

    def refuse(self, error: Exception) -> None:
        if self.stream:
            self.stream.end(error)
        elif not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # a client that has gone leaves it unread

    def finish(self, task: Task) -> None:
        self.answer(task)
        if self.stream:
            self.stream.end()


class LiveTask:
    """Events go: lifecycle, store, subscribers, webhooks. Nobody ever sees what the store does not have.

    `task` and `version` are what the store has, except while a write is under way. `is_new` says that the store does
    not have the task yet.
    """

    def __init__(self, engine: Engine, scope: Scope, task: Task, version: int = 0, *, is_new: bool = False) -> None:
        self.scope, self.task, self.version = scope, task, version
        self.topic = Topic(partial(engine.idle, scope, task.id))  # not a method of this object: that were a cycle
        self.configs: dict[str, TaskPushNotificationConfig] = {}
        self.deliveries: list[asyncio.Future[None] | None] = []
        self._engine, self._limits, self._is_new = engine, engine.limits, is_new
        self._parts = sum(len(artifact.parts) for artifact in task.artifacts)  # at least as many as there are
        self._lock = asyncio.Lock()
        self._waiting: deque[Running] = deque()
        self._current: Running | None = None
        self._canceling: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def terminal(self) -> bool:
        return self.task.status.state in TERMINAL

    @property
    def idle(self) -> bool:
        return self._current is None and not self._waiting and self._canceling is None and not len(self.topic)

    # Turns

    def send(self, turn: Turn, stream: Subscriber | None = None) -> Running:
        """Runs a turn, now or after those before it. Raises ResourceExhaustedError where too many wait."""
        is_busy = self._current is not None or self._canceling is not None
        if is_busy and len(self._waiting) >= self._limits.queued_messages:
            raise ResourceExhaustedError("Too many messages are waiting for this task; send again later")
        running = Running(turn, stream, self._loop)
        turn.begin(self.task, self._emit)
        self._waiting.append(running)
        if is_busy:
            self._greet(running)
        else:
            self._next()
        return running

    def follow(self, stream: Subscriber, history_length: int | None = None) -> None:
        """The stream has a snapshot of the task, and then every event after it."""
        snapshot = StreamResponse(task=self.task)
        with_history(snapshot.task, history_length)
        stream.join(self.topic, snapshot)

    def _greet(self, running: Running) -> None:
        """What a client is told as soon as its task exists, where it streams or does not want to wait."""
        if running.greeted:
            return
        running.greeted = True
        configuration = running.turn.request.configuration
        if running.stream:
            length = configuration.history_length if configuration.HasField("history_length") else None
            self.follow(running.stream, length)
        elif configuration.return_immediately:
            running.answer(self.task)

    def _next(self) -> None:
        if self._current is not None or self._canceling is not None:
            return
        if self._waiting:
            self._current = running = self._waiting.popleft()
            running.execution = self._loop.create_task(self._run(running), context=running.context)
        else:
            self._engine.idle(self.scope, self.task.id)

    def _refuse_waiting(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.popleft().refuse(error)
            self._engine.turn_over(self.scope)

    async def _run(self, running: Running) -> None:
        running.last = self._loop.time()
        running.timer = self._loop.call_later(self._limits.inactivity, self._look, running)
        is_new = self._is_new
        try:
            if await self._begin(running):
                await self._execute(running, is_new)
        finally:
            self._over(running)

    async def _begin(self, running: Running) -> bool:
        """Stores what the turn begins with. Where that fails, its client is told so, and nothing else has happened."""
        try:
            await (self._create() if self._is_new else self._keep(running.turn))
        except asyncio.CancelledError:
            if running.why:
                running.refuse(UnavailableError(running.why))
        except IllegalTransitionError:
            running.refuse(has_ended(self.task))
        except Exception as error:
            running.refuse(error)
        else:
            running.begun = True
            self._greet(running)
        return running.begun

    async def _create(self) -> None:
        async with self._lock:
            await self._engine.store.create(self.scope, self.task)
            self._is_new = False

    async def _keep(self, turn: Turn) -> None:
        """Puts a message of the client into the history."""
        await self._engine.prepare(self, turn)
        await self._write(StreamResponse(message=turn.message))

    async def _execute(self, running: Running, is_new: bool) -> None:
        try:
            if is_new:
                await self._engine.prepare(self, running.turn)
            await self._engine.execute(running.turn)
            await self._conclude(running)
        except asyncio.CancelledError as error:
            await self._interrupted(running, error)
        except (Exception, SystemExit, BaseExceptionGroup) as error:
            await self._failed(running, error)

    async def _conclude(self, running: Running) -> None:
        """How a turn ends that returns: requirements A-31."""
        if running.canceled or self.terminal:
            return
        if not running.turn.emitted:
            await self._end(TASK_STATE_FAILED, NO_RESULT)
        elif not running.asked:
            await self._end(TASK_STATE_COMPLETED)

    async def _interrupted(self, running: Running, error: asyncio.CancelledError) -> None:
        """The turn was cancelled: by CancelTask, which says the state itself; by us, or by the agent's own doing."""
        if running.canceled or running.asked == TASK_STATE_INPUT_REQUIRED:
            return
        if running.why:
            await self._end_surely(TASK_STATE_FAILED, running.why)
        else:
            await self._failed(running, error)

    async def _failed(self, running: Running, error: BaseException) -> None:
        reference = token_hex(6)
        log.error("task %s: its turn failed, reference %s", self.task.id, reference, exc_info=error)
        text = error.message if isinstance(error, A2AError) else f"The agent failed. Reference: {reference}"
        if not running.canceled:
            await self._end_surely(TASK_STATE_FAILED, text)

    def _over(self, running: Running) -> None:
        if running.timer:
            running.timer.cancel()
        running.turn.begin(self.task, self._too_late)
        self._current = None
        if self._canceling is None:
            running.finish(self.task)
        self._engine.turn_over(self.scope)
        self._next()

    def _look(self, running: Running) -> None:
        """Runs once per limit of inactivity, not once per event."""
        limit = self._limits.inactivity
        waited = 0.0 if self._is_awaited(running) else self._loop.time() - running.last
        if waited >= limit and running.execution:
            running.why = f"The agent did nothing for {limit:g} seconds"
            log.warning("task %s: the agent did nothing for %g s", self.task.id, limit)
            running.execution.cancel()
            waited = 0.0
        running.timer = self._loop.call_later(limit - waited, self._look, running)

    def _is_awaited(self, running: Running) -> bool:
        """Whether it is the client's turn to act, so that the agent may be silent."""
        return bool(running.asked) and not (running.asked == TASK_STATE_INPUT_REQUIRED and self._waiting)

    # Events

    async def _emit(self, event: StreamResponse) -> None:
        """An event of the agent."""
        if self.terminal:
            await self._too_late(event)
        if event.HasField("artifact_update"):
            self._count_parts(event.artifact_update)
        await self._write(event)
        if not self.version % FAIR:
            await asyncio.sleep(0)

    async def _too_late(self, event: StreamResponse) -> None:
        log.warning("task %s: an event of the agent came after its end", self.task.id)
        what = "the task has ended" if self.terminal else "this turn is over"
        raise IllegalTransitionError(f"{what}: nothing can be added to it")

    def _count_parts(self, update: TaskArtifactUpdateEvent) -> None:
        """Counts up, and looks closely only where that is too much: what was replaced does not count."""
        most = self._limits.artifact_parts
        self._parts += len(update.artifact.parts)
        if self._parts > most:
            self._parts = parts_after(self.task, update)
        if self._parts > most:
            raise ResourceExhaustedError(f"The artifacts of a task have at most {most} parts")

    async def _write(self, event: StreamResponse) -> None:
        async with self._lock:
            try:
                await self._append(event)
            except ConflictError:
                await self._reload()
                await self._append(event)
            if not event.HasField("message"):
                self._publish(event)
            if self._current:
                self._current.last = self._loop.time()
            if event.HasField("status_update"):
                self._moved(event.status_update.status.state)

    async def _append(self, event: StreamResponse) -> None:
        check(self.task, event)
        await self._engine.store.append(self.scope, self.task, self.version, event)
        self.version += 1
        apply(self.task, event)
        with_history(self.task, self._limits.history)

    async def _reload(self) -> None:
        """Another writer was first, or a write was cut off: goes on from what the store has, and tells everyone."""
        stored = await self._engine.store.read(self.scope, self.task.id)
        if stored is None:
            raise TaskNotFoundError(f"Task {self.task.id} not found")
        self.task.CopyFrom(with_history(stored.task, self._limits.history))
        self.version = stored.version
        self._publish(StreamResponse(task=self.task))
        if self.terminal:
            self._ended()

    def _publish(self, event: StreamResponse) -> None:
        encoded = Encoded(event)
        self.topic.publish(encoded)
        self._engine.deliver(self, encoded)

    def _moved(self, state: int) -> None:
        current = self._current
        if current:
            current.asked = state if state in INTERRUPTED else 0
        if current and (state in TERMINAL or state in INTERRUPTED):
            current.answer(self.task)
        if current and current.stream and state == TASK_STATE_INPUT_REQUIRED:
            current.stream.end()
        if state in TERMINAL:
            self._ended()

    def _ended(self) -> None:
        self._refuse_waiting(has_ended(self.task))
        self.topic.end()

    async def _end(self, state: int, text: str = "") -> None:
        status = TaskStatus(state=state, timestamp=now())  # type: ignore[arg-type]
        if text:
            status.message.CopyFrom(agent_message(text))
            status.message.task_id, status.message.context_id = self.task.id, self.task.context_id
        update = TaskStatusUpdateEvent(task_id=self.task.id, context_id=self.task.context_id, status=status)
        await self._write(StreamResponse(status_update=update))

    async def _end_surely(self, state: int, text: str = "") -> A2AError | None:
        """Ends the task, if it has not ended. Where the store fails, everyone who waits is told the error instead."""
        try:
            if not self.terminal:
                await self._end(state, text)
        except IllegalTransitionError:
            return None  # somebody else was first
        except Exception as error:
            return self._lost(error)
        return None

    def _lost(self, error: Exception) -> A2AError:
        reference = token_hex(6)
        log.error("task %s: its end could not be stored, reference %s", self.task.id, reference, exc_info=error)
        told = A2AError(f"Internal error. Reference: {reference}", metadata={"reference": reference})
        if self._current:
            self._current.refuse(told)
        self.topic.end(told)
        return told

    # Stopping

    async def cancel(self, ask: Ask | None, request: CancelTaskRequest) -> None:
        """Cancels the task. Concurrent calls have one effect, which goes on where its callers leave.

        `ask` is the agent's own way, which may refuse.
        """
        if self._canceling is None:
            self._canceling = self._loop.create_task(self._cancel(ask, request))
        await asyncio.shield(self._canceling)

    async def _cancel(self, ask: Ask | None, request: CancelTaskRequest) -> None:
        current = self._current
        try:
            if current and ask:
                await self._ask(ask, current.turn, request)
            if current:
                await self._stop(current, self._limits.cancel_grace, canceled=True)
            if error := await self._end_surely(TASK_STATE_CANCELED):
                if current:
                    current.refuse(error)
                raise error
        finally:
            self._canceling = None
            if current and current is not self._current:
                self._finish_canceled(current)
            self._next()

    def _finish_canceled(self, running: Running) -> None:
        if not running.begun:
            running.refuse(has_ended(self.task))
        running.finish(self.task)

    async def _ask(self, ask: Ask, turn: Turn, request: CancelTaskRequest) -> None:
        turn.cancel_request = request
        async with asyncio.timeout(self._limits.inactivity):
            await ask(turn)

    async def _stop(self, running: Running, within: float, *, canceled: bool = False) -> None:
        """Cancels an execution, between two writes if they take no longer than `within`, and waits as long for it.

        Runs in an asyncio task younger than the execution, so that this has begun; else it would end without a word.
        """
        assert running.execution is not None
        try:
            async with asyncio.timeout(within), self._lock:
                running.canceled = canceled
                running.execution.cancel()
        except TimeoutError:
            running.canceled = canceled
            running.execution.cancel()
        await asyncio.wait([running.execution], timeout=within)

    async def close(self, why: str, within: float) -> None:
        """Ends what is under way: waiting messages are refused, and a turn that runs is stopped and its task fails."""
        self._refuse_waiting(UnavailableError())
        if self._canceling:
            await asyncio.wait([self._canceling], timeout=within)
        if current := self._current:
            current.why = why
            await self._stop(current, within)
        is_left = current and current is self._current and not self._is_new
        if is_left and current and current.asked != TASK_STATE_INPUT_REQUIRED:
            await self._end_surely(TASK_STATE_FAILED, why)
        self.topic.end(UnavailableError())


def has_ended(task: Task, advice: str = "send the message without taskId for a new task") -> UnsupportedOperationError:
    state = TaskState.Name(task.status.state)
    return UnsupportedOperationError(
        f"Task {task.id} has ended ({state}): {advice}",
        metadata={"taskId": task.id, "state": state},
    )


def not_cancelable(task: Task) -> TaskNotCancelableError:
    state = TaskState.Name(task.status.state)
    return TaskNotCancelableError(
        f"Task {task.id} cannot be canceled: it is in {state}", metadata={"taskId": task.id, "state": state}
    )
