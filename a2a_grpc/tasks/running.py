"""Running: how one turn goes, from the first write to the last, and what its client is told."""

import asyncio
import contextvars
from secrets import token_hex
from typing import TYPE_CHECKING

from ..errors import UnavailableError, is_told, log
from ..generated import a2a_pb2 as pb
from .broadcast import Subscriber
from .lifecycle import INTERRUPTED, TERMINAL, IllegalTransitionError, has_ended
from .turn import Turn

if TYPE_CHECKING:
    from .live import LiveTask

NO_RESULT = "The agent returned without a result"


class Running:
    """A turn on its way. Its client awaits `reply`, or reads `stream`."""

    execution: asyncio.Task[None]  # once it has started
    timer: asyncio.TimerHandle

    def __init__(self, live: "LiveTask", turn: Turn, stream: Subscriber | None) -> None:
        self.live, self.turn, self.stream = live, turn, stream
        self.context = contextvars.copy_context()
        self.reply: asyncio.Future[pb.SendMessageResponse] = live.loop.create_future()
        self.last = 0.0
        self.begun = False
        self.asked = 0  # the interrupted state that the turn has brought about
        self.canceled = False  # CancelTask says how it ends
        self.why = ""  # it is stopped for another reason
        turn.begin(live)

    # What its client is told

    def greet(self) -> None:
        """What a client is told as soon as its task exists, where it streams or does not want to wait."""
        configuration = self.turn.request.configuration
        if self.stream:
            length = configuration.history_length if configuration.HasField("history_length") else None
            self.live.follow(self.stream, length)
        elif configuration.return_immediately:
            self.answer()

    def answer(self) -> None:
        """Its client is told what the task is now, unless it was answered before."""
        if self.stream is None and not self.reply.done():
            response = pb.SendMessageResponse()
            response.task.CopyFrom(self.live.task)
            self.reply.set_result(response)

    def refuse(self, error: Exception) -> None:
        if self.stream:
            self.stream.end(error)
        elif not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # a client that has gone leaves it unread

    def finish(self) -> None:
        """Nothing more will come to its client."""
        self.answer()
        if self.stream:
            self.stream.end()

    def moved(self, state: int) -> None:
        """The task is in another state: perhaps the one that the client waits for."""
        self.asked = state if state in INTERRUPTED else 0
        if self.asked or state in TERMINAL:
            self.answer()
        if self.stream and state == pb.TASK_STATE_INPUT_REQUIRED:
            self.stream.end()

    # Its course

    def start(self) -> None:
        self.execution = self.live.loop.create_task(self._run(), context=self.context)

    async def _run(self) -> None:
        live = self.live
        is_new = live.is_new
        self.last = live.loop.time()
        self.timer = live.loop.call_later(live.limits.inactivity, self._look)
        try:
            if await self._begin():
                await self._execute(is_new)
        finally:
            self.timer.cancel()
            live.turn_over(self)

    async def _begin(self) -> bool:
        """Stores what the turn begins with. Where that fails, its client is told so, and nothing else has happened."""
        try:
            await self.live.begin(self.turn)
        except asyncio.CancelledError:
            if self.why:
                self.refuse(UnavailableError(self.why))
        except IllegalTransitionError:
            self.refuse(has_ended(self.live.task))
        except Exception as error:
            self.refuse(error)
        else:
            self.begun = True
            self.greet()
        return self.begun

    async def _execute(self, is_new: bool) -> None:
        agent = self.live.agent
        try:
            if is_new:
                await agent._prepare(self.live, self.turn)
            await agent.execute(self.turn)
            await self._conclude()
        except asyncio.CancelledError as error:
            await self._interrupted(error)
        except (Exception, SystemExit, BaseExceptionGroup) as error:
            await self._failed(error)

    async def _conclude(self) -> None:
        """How a turn ends that returns: requirements A-31."""
        if self.canceled or self.live.terminal:
            return
        if not self.turn.emitted:
            await self.live.end(pb.TASK_STATE_FAILED, NO_RESULT)
        elif not self.asked:
            await self.live.end(pb.TASK_STATE_COMPLETED)

    async def _interrupted(self, error: asyncio.CancelledError) -> None:
        """The turn was cancelled: by CancelTask, which says the state itself; by us, or by the agent's own doing."""
        if self.canceled or self.asked == pb.TASK_STATE_INPUT_REQUIRED:
            return
        if self.why:
            await self.live.end_surely(pb.TASK_STATE_FAILED, self.why)
        else:
            await self._failed(error)

    async def _failed(self, error: BaseException) -> None:
        reference = token_hex(6)
        log.error("task %s: its turn failed, reference %s", self.live.id, reference, exc_info=error)
        text = error.message if is_told(error) else f"The agent failed. Reference: {reference}"
        if not self.canceled:
            await self.live.end_surely(pb.TASK_STATE_FAILED, text)

    # Stopping it

    def _look(self) -> None:
        """Runs once per limit of inactivity, not once per event."""
        limit, loop = self.live.limits.inactivity, self.live.loop
        waited = 0.0 if self._is_awaited() else loop.time() - self.last
        if waited >= limit:
            self.why = f"The agent did nothing for {limit:g} seconds"
            log.warning("task %s: the agent did nothing for %g s", self.live.id, limit)
            self.execution.cancel()
            waited = 0.0
        self.timer = loop.call_later(limit - waited, self._look)

    def _is_awaited(self) -> bool:
        """Whether it is the client's turn to act, so that the agent may be silent."""
        return bool(self.asked) and not (self.asked == pb.TASK_STATE_INPUT_REQUIRED and self.live.waiting)

    async def stop(self, within: float, *, canceled: bool = False) -> None:
        """Cancels the execution, between two writes if they take no longer than `within`, and waits as long for it.

        Runs in an asyncio task younger than the execution, so that this has begun; else it would end without a word.
        """
        try:
            async with asyncio.timeout(within), self.live.lock:
                self._cancel(canceled)
        except TimeoutError:
            self._cancel(canceled)
        await asyncio.wait([self.execution], timeout=within)

    def _cancel(self, canceled: bool) -> None:
        self.canceled = canceled
        self.execution.cancel()
