"""Engine: what is behind an AgentServicer: the tasks that something happens to, and how much may happen at once."""

import asyncio

from .. import errors
from .broadcast import Subscriber
from .lifecycle import not_found, with_history
from .live import LiveTask
from .running import Running
from .store import Scope, TaskStore
from .turn import Turn
from .webhooks import Webhooks

SHUT_DOWN = "The server was shut down"
LAST_MOMENT = 0.2  # seconds to store how tasks end, where no time is left


class Engine(Webhooks):
    """A part of AgentServicer, which authors subclass: so its own names begin with an underscore."""

    def __init__(self, store: TaskStore | None) -> None:
        super().__init__(store)
        self._turns, self._turns_of = 0, dict[Scope, int]()
        self._closed = False

    async def execute(self, turn: Turn) -> None:
        """One turn of the agent. How it ends decides the state of its task: requirements in the guide on turns."""
        raise NotImplementedError

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

    # Tasks

    async def _find(self, scope: Scope, id: str) -> LiveTask:
        """The task that something happens to, from the store where nothing did; TaskNotFound outside the scope.

        Who makes something happen to it registers it, before awaiting anything else.
        """
        if (live := self._lives.get((scope, id))) is not None:
            return live
        stored = await self.store.read(scope, id)
        if stored is None:
            raise not_found(id)
        configs = {c.id: c for c in await self.store.configs(scope, id)} if self._sender else {}
        if (live := self._lives.get((scope, id))) is not None:
            return live
        live = LiveTask(self, scope, with_history(stored.task, self.limits.history), stored.version)
        live.configs = configs
        return live

    def _register(self, live: LiveTask) -> None:
        self._lives[live.scope, live.id] = live

    def _release(self, scope: Scope, id: str) -> None:
        """Perhaps nothing happens to this task any more."""
        live = self._lives.get((scope, id))
        if live is not None and live.idle:
            del self._lives[scope, id]

    def _check_subscribers(self, live: LiveTask) -> None:
        if len(live.topic) >= self.limits.subscribers:
            raise errors.ResourceExhaustedError("Too many streams follow this task")

    # Turns

    def _begin(self, live: LiveTask, turn: Turn, stream: Subscriber | None) -> Running:
        """Raises UnavailableError after the end, and ResourceExhaustedError where too many turns are under way."""
        if stream:
            self._check_subscribers(live)
        self._count(live.scope)
        self._register(live)
        try:
            return live.send(turn, stream)
        except errors.A2AError:
            self._turn_over(live.scope)
            raise

    def _count(self, scope: Scope) -> None:
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
