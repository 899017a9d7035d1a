"""What keeps tasks. The protocol is written for a database; memory is the first to implement it.

Everything is keyed by its scope (tenant, owner): what is not in the scope does not exist. A task has a version, the
number of its latest event; an append says which version it builds on, and a conflict is an error, never an overwrite.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from operator import attrgetter
from typing import NamedTuple, Protocol

from ..caller import caller
from ..generated import a2a_pb2 as pb
from .lifecycle import TERMINAL


class Scope(NamedTuple):
    tenant: str
    owner: str


def scope_of(tenant: str) -> Scope:
    """Of the caller."""
    return Scope(tenant, caller.get().name)


class Stored(NamedTuple):
    """A task, which its reader may change, and its version."""

    task: pb.Task
    version: int


class Position(NamedTuple):
    """Where a task stands in a list: newest status first, then by id. Timestamps are in nanoseconds."""

    timestamp: int
    id: str


@dataclass(frozen=True, slots=True)
class Query:
    """Filters combine with AND; `after` is the position of the last task of the page before."""

    limit: int
    context_id: str = ""
    state: int = 0
    since: int = 0
    after: Position | None = None


class Page(NamedTuple):
    tasks: Sequence[pb.Task]
    next: Position | None
    total: int


class ConflictError(Exception):
    """Somebody else has changed the task since it was read."""


class TaskStore(Protocol):
    """All methods may be called at once; a task is written by one writer of a process at a time."""

    async def create(self, scope: Scope, task: pb.Task) -> None:
        """Stores a new task, as version 0."""

    async def append(self, scope: Scope, task: pb.Task, version: int, event: pb.StreamResponse) -> None:
        """Stores `event`, which happens to `task` as it is at `version`, as version + 1. Raises ConflictError.

        A store keeps what it wants: the event, which is small, or `lifecycle.after(task, event)`. Where it raises, the
        stored task is as before.
        """

    async def read(self, scope: Scope, id: str) -> Stored | None: ...

    async def list(self, scope: Scope, query: Query) -> Page: ...

    async def put_config(self, scope: Scope, config: pb.TaskPushNotificationConfig) -> None:
        """Stores or replaces a webhook of a task that exists."""

    async def configs(self, scope: Scope, task_id: str) -> Sequence[pb.TaskPushNotificationConfig]: ...

    async def delete_config(self, scope: Scope, task_id: str, id: str) -> None: ...


_NOWHERE = Position(0, "")


@dataclass(slots=True)
class _Record:
    """`live` while the task can change, then `wire`, which is smaller."""

    version: int
    live: pb.Task | None
    wire: bytes = b""
    state: int = 0
    context_id: str = ""
    position: Position = _NOWHERE
    configs: dict[str, pb.TaskPushNotificationConfig] = field(default_factory=dict)

    def pack(self) -> None:
        """Nothing happens to the task any more."""
        if self.live is not None:
            self.look()
            self.wire, self.live = self.live.SerializeToString(), None

    def look(self) -> None:
        """Notes what lists go by, as the task is now: they are rarer than events."""
        if (task := self.live) is not None:
            stamp = task.status.timestamp
            self.state, self.context_id = task.status.state, task.context_id
            self.position = Position(stamp.seconds * 1_000_000_000 + stamp.nanos, task.id)

    def task(self) -> pb.Task:
        return pb.Task.FromString(self.wire if self.live is None else self.live.SerializeToString())

    def matches(self, query: Query) -> bool:
        self.look()
        return (
            (not query.context_id or self.context_id == query.context_id)
            and (not query.state or self.state == query.state)
            and self.position.timestamp >= query.since
        )


class MemoryStore:
    """Tasks of this process. Ended ones expire, the oldest first: by number, and by age in seconds."""

    def __init__(
        self, *, most_ended: int = 10_000, longest: float = 24 * 3600, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._scopes: dict[Scope, dict[str, _Record]] = {}
        self._ended: deque[tuple[float, Scope, str]] = deque()
        self._last: _Record | None = None  # the task that ended last: its caller is about to apply its last event
        self._most_ended, self._longest, self._clock = most_ended, longest, clock

    async def create(self, scope: Scope, task: pb.Task) -> None:
        """The task must not be changed by anybody but through `append`."""
        record = self._scopes.setdefault(scope, {})[task.id] = _Record(0, task)
        if task.status.state in TERMINAL:
            self._finish(scope, task.id, record)

    async def append(self, scope: Scope, task: pb.Task, version: int, event: pb.StreamResponse) -> None:
        """Keeps no event: `task` itself is what is stored, once the caller has applied the event to it."""
        record = self._find(scope, task.id)
        if record is None or record.version != version:
            raise ConflictError(task.id)
        record.version, record.live = version + 1, task
        if event.HasField("status_update") and event.status_update.status.state in TERMINAL:
            self._finish(scope, task.id, record)

    async def read(self, scope: Scope, id: str) -> Stored | None:
        self._expire()
        record = self._find(scope, id)
        return Stored(record.task(), record.version) if record else None

    async def list(self, scope: Scope, query: Query) -> Page:
        self._expire()
        found = [r for r in self._scopes.get(scope, {}).values() if r.matches(query)]
        start = query.after
        rest = found if start is None else [r for r in found if r.position < start]
        page = nlargest(query.limit, rest, key=attrgetter("position"))
        following = page[-1].position if len(rest) > len(page) > 0 else None
        return Page([record.task() for record in page], following, len(found))

    async def put_config(self, scope: Scope, config: pb.TaskPushNotificationConfig) -> None:
        self._scopes[scope][config.task_id].configs[config.id] = config

    async def configs(self, scope: Scope, task_id: str) -> Sequence[pb.TaskPushNotificationConfig]:
        record = self._find(scope, task_id)
        return list(record.configs.values()) if record else []

    async def delete_config(self, scope: Scope, task_id: str, id: str) -> None:
        if record := self._find(scope, task_id):
            record.configs.pop(id, None)

    def _find(self, scope: Scope, id: str) -> _Record | None:
        return self._scopes.get(scope, {}).get(id)

    def _finish(self, scope: Scope, id: str, record: _Record) -> None:
        if self._last is not None:
            self._last.pack()
        self._last = record
        self._ended.append((self._clock(), scope, id))
        self._expire()

    def _expire(self) -> None:
        oldest = self._clock() - self._longest
        while self._ended and (len(self._ended) > self._most_ended or self._ended[0][0] < oldest):
            _, scope, id = self._ended.popleft()
            tasks = self._scopes.get(scope, {})
            tasks.pop(id, None)
            if not tasks:
                self._scopes.pop(scope, None)
