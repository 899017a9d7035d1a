"""LiveTask: a task that something is happening to. It is the one writer of its task, and runs its turns in order."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any

from ..encoded import Encoded
from ..errors import A2AError, ResourceExhaustedError, TaskNotCancelableError, UnsupportedOperationError, log
from ..generated.a2a_pb2 import (
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_INPUT_REQUIRED,
    CancelTaskRequest,
    Message,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from .broadcast import Subscriber, Topic
from .lifecycle import INTERRUPTED, TERMINAL, IllegalTransitionError, apply, now
from .limits import Limits
from .store import Scope, TaskStore
from .turn import Turn, agent_message

Execute = Callable[[Turn], Awaitable[Any]]
Deliver = Callable[["LiveTask", Encoded], None]
NO_RESULT = "The agent returned without a result"


class Running:
    """A turn on its way: `settled` is done when its client may be answered, `ended` when its execution is over."""

    __slots__ = ("context", "execution", "kept", "last", "settled", "streams", "timer", "turn", "why")

    def __init__(self, turn: Turn, loop: asyncio.AbstractEventLoop, *, kept: bool) -> None:
        self.turn, self.kept = turn, kept
        self.context = contextvars.copy_context()
        self.settled: asyncio.Future[None] = loop.create_future()
        self.streams: list[Subscriber] = []
        self.execution: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.last = 0.0
        self.why = "The agent was stopped before it was done"

    def settle(self, error: A2AError | None = None) -> None:
        if self.settled.done():
            return
        if error is None:
            self.settled.set_result(None)
        else:
            self.settled.set_exception(error)
            self.settled.exception()  # a client that has gone leaves it unread

    def end_streams(self, error: A2AError | None = None) -> None:
        for stream in self.streams:
            stream.end(error)
        self.streams.clear()


class LiveTask:
    """Events go: lifecycle, store, subscribers, webhooks. A subscriber never sees what the store does not have."""

    def __init__(
        self,
        scope: Scope,
        task: Task,
        version: int,
        *,
        store: TaskStore,
        execute: Execute,
        deliver: Deliver,
        limits: Limits,
        released: Callable[["LiveTask"], None],
        turn_over: Callable[[Scope], None],
    ) -> None:
        self.scope, self.task, self.version = scope, task, version
        self.topic = Topic(limits.events_waiting)
        self.configs: dict[str, TaskPushNotificationConfig] = {}
        self.deliveries: list[asyncio.Future[None] | None] = []
        self._store, self._execute, self._deliver, self._limits = store, execute, deliver, limits
        self._released, self._turn_over = released, turn_over
        self._lock = asyncio.Lock()
        self._waiting: deque[Running] = deque()
        self._current: Running | None = None
        self._canceling: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    # Turns

    @property
    def terminal(self) -> bool:
        return self.task.status.state in TERMINAL

    @property
    def idle(self) -> bool:
        return self._current is None and not self._waiting and self._canceling is None and not len(self.topic)

    @property
    def busy(self) -> bool:
        return self._current is not None

    def send(self, turn: Turn, *, kept: bool) -> Running:
        """Runs a turn, now or after those before it. `kept` says that its message is in the history already.

        Raises ResourceExhaustedError where too many wait.
        """
        if len(self._waiting) >= self._limits.queued_messages:
            raise ResourceExhaustedError("Too many messages are waiting for this task; send again later")
        running = Running(turn, self._loop, kept=kept)
        turn.begin(self.task, self._emit)
        self._waiting.append(running)
        self._next()
        return running

    def _next(self) -> None:
        if self._current is not None:
            return
        if self.terminal:
            self._refuse_waiting()
        if self._waiting:
            self._current = running = self._waiting.popleft()
            running.execution = self._loop.create_task(self._run(running), context=running.context)
        else:
            self._released(self)

    def _refuse_waiting(self) -> None:
        while self._waiting:
            running = self._waiting.popleft()
            error = UnsupportedOperationError(
                f"Task {self.task.id} has ended while the message was waiting", metadata={"taskId": self.task.id}
            )
            running.settle(error)
            running.end_streams(error)
            self._turn_over(self.scope)

    async def _run(self, running: Running) -> None:
        running.last = self._loop.time()
        running.timer = self._loop.call_later(self._limits.inactivity, self._look, running)
        try:
            if not running.kept:
                await self.keep(running.turn.message)
            await self._execute(running.turn)
            await self._conclude(running.turn)
        except asyncio.CancelledError:
            await self._interrupted(running)
        except Exception as error:
            await self._failed(running.turn, error)
        finally:
            self._over(running)

    async def keep(self, message: Message) -> None:
        """Puts a message of the client into the history."""
        await self._write(StreamResponse(message=message))

    async def _conclude(self, turn: Turn) -> None:
        """How a turn ends that returns: requirements A-31."""
        if self._canceling is not None or self.terminal:
            return
        if not turn.emitted:
            await self._end(TASK_STATE_FAILED, NO_RESULT)
        elif self.task.status.state not in INTERRUPTED:
            await self._end(TASK_STATE_COMPLETED)

    async def _failed(self, turn: Turn, error: Exception) -> None:
        reference = token_hex(6)
        log.error("task %s: the agent raised, reference %s", self.task.id, reference, exc_info=error)
        if not self.terminal:
            text = error.message if isinstance(error, A2AError) else f"The agent failed. Reference: {reference}"
            await self._end_surely(TASK_STATE_FAILED, text)

    async def _interrupted(self, running: Running) -> None:
        """The turn was cancelled: by CancelTask, which says the state itself; for inactivity; or at shutdown."""
        if self._canceling is None and not self.terminal:
            await self._end_surely(TASK_STATE_FAILED, running.why)

    def _over(self, running: Running) -> None:
        if running.timer:
            running.timer.cancel()
        running.settle()
        running.end_streams()
        self._current = None
        self._turn_over(self.scope)
        self._next()

    def _look(self, running: Running) -> None:
        """Runs once per limit of inactivity, not once per event."""
        waited = self._loop.time() - running.last
        if self.task.status.state in INTERRUPTED:
            waited = 0.0
        if waited < self._limits.inactivity:
            running.timer = self._loop.call_later(self._limits.inactivity - waited, self._look, running)
        elif running.execution:
            running.why = f"The agent did nothing for {self._limits.inactivity:g} seconds"
            log.warning("task %s: the agent did nothing for %s s", self.task.id, self._limits.inactivity)
            running.execution.cancel()

    # Events

    async def _emit(self, event: StreamResponse) -> None:
        """An event of the agent."""
        if self.terminal:
            log.warning("task %s: an event of the agent came after its end", self.task.id)
            raise IllegalTransitionError("the task has ended: nothing can be added to it")
        await self._write(event)

    async def _write(self, event: StreamResponse) -> None:
        async with self._lock:
            apply(self.task, event, most_history=self._limits.history)
            await self._store.append(self.scope, self.task, self.version, event)
            self.version += 1
            if event.HasField("message"):
                return
            encoded = Encoded(event)
            self.topic.publish(encoded)
            self._deliver(self, encoded)
        self._after(event)

    def _after(self, event: StreamResponse) -> None:
        current = self._current
        if current:
            current.last = self._loop.time()
        if not event.HasField("status_update"):
            return
        state = event.status_update.status.state
        if current and (state in TERMINAL or state in INTERRUPTED):
            current.settle()
        if current and state == TASK_STATE_INPUT_REQUIRED:
            current.end_streams()
        if state in TERMINAL:
            self.topic.end()

    async def _end(self, state: int, text: str = "") -> None:
        status = TaskStatus(state=state, timestamp=now())  # type: ignore[arg-type]
        if text:
            status.message.CopyFrom(agent_message(text))
            status.message.task_id, status.message.context_id = self.task.id, self.task.context_id
        update = TaskStatusUpdateEvent(task_id=self.task.id, context_id=self.task.context_id, status=status)
        await self._write(StreamResponse(status_update=update))

    async def _end_surely(self, state: int, text: str) -> None:
        """Where nobody is left to be told of a failing store but the log."""
        try:
            await self._end(state, text)
        except Exception:
            log.exception("task %s: its end could not be stored", self.task.id)

    # Canceling

    async def cancel(self, ask: Callable[[Turn], Awaitable[None]] | None, request: CancelTaskRequest) -> None:
        """Cancels the task. Concurrent calls have one effect. `ask` is the agent's own way, which may refuse."""
        if self._canceling is not None:
            await asyncio.shield(self._canceling)
            return
        self._canceling = self._loop.create_future()
        try:
            await self._stop_current(ask, request)
            if not self.terminal:
                await self._end(TASK_STATE_CANCELED)
        finally:
            self._canceling.set_result(None)
            self._canceling = None
            if self.terminal:
                self._refuse_waiting()
            self._next()

    async def _stop_current(self, ask: Callable[[Turn], Awaitable[None]] | None, request: CancelTaskRequest) -> None:
        current = self._current
        if current is None or current.execution is None:
            return
        if ask:
            current.turn.cancel_request = request
            await ask(current.turn)
        current.execution.cancel()
        await asyncio.wait([current.execution], timeout=self._limits.cancel_grace)


def not_cancelable(task: Task) -> TaskNotCancelableError:
    state = TaskState.Name(task.status.state)
    return TaskNotCancelableError(
        f"Task {task.id} cannot be canceled: it is in {state}", metadata={"taskId": task.id, "state": state}
    )
