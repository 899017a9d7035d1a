"""LiveTask: a task that something is happening to. It is the one writer of its task, and takes its turns in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING

from ..encoded import Encoded
from ..errors import A2AError, ResourceExhaustedError, UnavailableError, log
from ..generated import a2a_pb2 as pb
from . import lifecycle
from .broadcast import Subscriber, Topic
from .content import status_event
from .lifecycle import TERMINAL, IllegalTransitionError, has_ended, with_history
from .running import Running
from .store import ConflictError, Scope
from .turn import Turn

if TYPE_CHECKING:
    from .engine import Engine

Ask = Callable[[Turn], Awaitable[None]]
FAIR = 16  # events of an agent that awaits nothing else, until readers and other tasks have their turn


class LiveTask:
    """Events go: lifecycle, store, subscribers, webhooks. Nobody ever sees what the store does not have.

    `task`, `state` and `version` are what the store has, except while a write is under way. `is_new` says that the
    store does not have the task yet.
    """

    def __init__(self, agent: "Engine", scope: Scope, task: pb.Task, version: int = 0, *, is_new: bool = False) -> None:
        self.agent, self.limits, self.scope, self.task, self.version = agent, agent.limits, scope, task, version
        self.id, self.context_id, self.state = task.id, task.context_id, task.status.state
        self.ids = {"task_id": self.id, "context_id": self.context_id}
        self.is_new = is_new
        self.topic = Topic(partial(agent._release, scope, task.id))  # not a method of this object: that were a cycle
        self.configs: dict[str, pb.TaskPushNotificationConfig] = {}
        self.deliveries: list[asyncio.Future[None]] = []  # of the latest event
        self.lock = asyncio.Lock()
        self.loop = asyncio.get_running_loop()
        self.waiting: deque[Running] = deque()
        self._current: Running | None = None
        self._canceling: asyncio.Task[None] | None = None
        self._parts = sum(len(artifact.parts) for artifact in task.artifacts)  # at least as many as there are

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def idle(self) -> bool:
        return not (self.busy or self.waiting or len(self.topic))

    @property
    def busy(self) -> bool:
        return self._current is not None or self._canceling is not None

    # Turns

    def send(self, turn: Turn, stream: Subscriber | None = None) -> Running:
        """Runs a turn, now or after those before it. Raises ResourceExhaustedError where too many wait."""
        busy = self.busy
        if busy and len(self.waiting) >= self.limits.queued_messages:
            raise ResourceExhaustedError("Too many messages are waiting for this task; send again later")
        running = Running(self, turn, stream)
        self.waiting.append(running)
        if busy:
            running.greet()
        else:
            self._next()
        return running

    def follow(self, stream: Subscriber, history_length: int | None = None) -> None:
        """The stream has a snapshot of the task, and then every event after it."""
        snapshot = pb.StreamResponse(task=self.task)
        with_history(snapshot.task, history_length)
        stream.join(self.topic, snapshot)

    def turn_over(self, running: Running) -> None:
        self._current = None
        if self._canceling is None:
            running.finish()
        self.agent._turn_over(self.scope)
        self._next()

    def _next(self) -> None:
        if self.busy:
            return
        if self.waiting:
            self._current = self.waiting.popleft()
            self._current.start()
        else:
            self.agent._release(self.scope, self.id)

    def _refuse_waiting(self, error: Exception) -> None:
        while self.waiting:
            self.waiting.popleft().refuse(error)
            self.agent._turn_over(self.scope)

    # Events

    async def begin(self, turn: Turn) -> None:
        """Stores a new task, or puts a message of the client into the history."""
        if self.is_new:
            async with self.lock:
                await self.agent.store.create(self.scope, self.task)
                self.is_new = False
        else:
            await self.agent._prepare(self, turn)
            await self._write(pb.StreamResponse(message=turn.message))

    async def emit(self, turn: Turn, event: pb.StreamResponse) -> None:
        """An event of the agent."""
        is_over = self._current is None or self._current.turn is not turn
        if self.terminal or is_over:
            log.warning("task %s: an event of the agent came after its end", self.id)
            what = "the task has ended" if self.terminal else "this turn is over"
            raise IllegalTransitionError(f"{what}: nothing can be added to it")
        await self._write(event)
        if not self.version % FAIR:
            await asyncio.sleep(0)

    def _count_parts(self, update: pb.TaskArtifactUpdateEvent) -> None:
        """Counts up, and looks closely only where that is too much: what was replaced does not count."""
        most = self.limits.artifact_parts
        self._parts += len(update.artifact.parts)
        if self._parts > most:
            self._parts = lifecycle.parts_after(self.task, update)
        if self._parts > most:
            raise ResourceExhaustedError(f"The artifacts of a task have at most {most} parts")

    async def _write(self, event: pb.StreamResponse) -> None:
        kind = event.WhichOneof("payload")
        if kind == "artifact_update":
            self._count_parts(event.artifact_update)
        async with self.lock:
            try:
                await self._append(event)
            except ConflictError:
                await self._reload()
                await self._append(event)
            if self._current:
                self._current.last = self.loop.time()
            if kind != "message":
                self._publish(event)
            if kind == "status_update":
                self._moved()

    async def _append(self, event: pb.StreamResponse) -> None:
        lifecycle.check(self.task, event)
        await self.agent.store.append(self.scope, self.task, self.version, event)
        self.version += 1
        lifecycle.change(self.task, event)
        if not event.HasField("artifact_update"):
            self.state = self.task.status.state
            with_history(self.task, self.limits.history)

    async def _reload(self) -> None:
        """Another writer was first, or a write was cut off: goes on from what the store has, and tells everyone."""
        stored = await self.agent.store.read(self.scope, self.id)
        if stored is None:
            raise lifecycle.not_found(self.id)
        self.task.CopyFrom(with_history(stored.task, self.limits.history))
        self.state, self.version = self.task.status.state, stored.version
        self._publish(pb.StreamResponse(task=self.task))
        if self.terminal:
            self._ended()

    def _publish(self, event: pb.StreamResponse) -> None:
        if len(self.topic) or self.configs:
            encoded = Encoded(event)
            self.topic.publish(encoded)
            self.agent._deliver(self, encoded)

    def _moved(self) -> None:
        if self._current:
            self._current.moved(self.state)
        if self.terminal:
            self._ended()

    def _ended(self) -> None:
        if self.waiting:
            self._refuse_waiting(has_ended(self.task))
        self.topic.end()

    async def end(self, state: int, text: str = "") -> None:
        await self._write(status_event(self.ids, state, text or None))

    async def end_surely(self, state: int, text: str = "") -> A2AError | None:
        """Ends the task, if it has not ended. Where the store fails, everyone who waits is told the error instead."""
        try:
            if not self.terminal:
                await self.end(state, text)
        except IllegalTransitionError:
            return None  # somebody else was first
        except Exception as error:
            return self._lost(error)
        return None

    def _lost(self, error: Exception) -> A2AError:
        reference = token_hex(6)
        log.error("task %s: its end could not be stored, reference %s", self.id, reference, exc_info=error)
        told = A2AError(f"Internal error. Reference: {reference}", metadata={"reference": reference})
        if self._current:
            self._current.refuse(told)
        self.topic.end(told)
        return told

    # Stopping

    async def cancel(self, ask: Ask | None, request: pb.CancelTaskRequest) -> None:
        """Cancels the task. Concurrent calls have one effect, which goes on where its callers leave.

        `ask` is the agent's own way, which may refuse.
        """
        if self._canceling is None:
            self._canceling = self.loop.create_task(self._cancel(ask, request))
        await asyncio.shield(self._canceling)

    async def _cancel(self, ask: Ask | None, request: pb.CancelTaskRequest) -> None:
        current = self._current
        try:
            if current and ask:
                current.turn.cancel_request = request
                async with asyncio.timeout(self.limits.inactivity):
                    await ask(current.turn)
            if current:
                await current.stop(self.limits.cancel_grace, canceled=True)
            if error := await self.end_surely(pb.TASK_STATE_CANCELED):
                if current:
                    current.refuse(error)
                raise error
        finally:
            self._canceling = None
            if current and current is not self._current:
                if not current.begun:
                    current.refuse(has_ended(self.task))
                current.finish()
            self._next()

    async def close(self, why: str, within: float) -> None:
        """Ends what is under way: waiting messages are refused, and a turn that runs is stopped and its task fails."""
        self._refuse_waiting(UnavailableError())
        if self._canceling:
            await asyncio.wait([self._canceling], timeout=within)
        if current := self._current:
            current.why = why
            await current.stop(within)
        is_left = current and current is self._current and not self.is_new
        if is_left and current and current.asked != pb.TASK_STATE_INPUT_REQUIRED:
            await self.end_surely(pb.TASK_STATE_FAILED, why)
        self.topic.end(UnavailableError())
