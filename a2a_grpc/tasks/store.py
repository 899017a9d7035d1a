"""What keeps tasks. The protocol is written for a database; memory is the first to implement it.

Everything is keyed by its scope (tenant, owner): what is not in the scope does not exist. A task has a version, the
number of its latest event; an append says which version it builds on, and a conflict is an error, never an overwrite.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import NamedTuple, Protocol

from ..generated.a2a_pb2 import (
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    TaskStatus,
)
from .lifecycle import TERMINAL


class Scope(NamedTuple):
    tenant: str
    owner: str


class Stored(NamedTuple):
    """A task, which its reader may change, and its version."""

    task: Task
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
    tasks: Sequence[Task]
    next: Position | None
    total: int


class ConflictError(Exception):
    """Somebody else has changed the task since it was read."""


class TaskStore(Protocol):
    """All methods may be called at once; a task is written by one writer of a process at a time."""

    async def create(self, scope: Scope, task: Task) -> None:
        """Stores a new task, as version 0."""

    async def append(self, scope: Scope, task: Task, version: int, event: StreamResponse) -> None:
        """Stores `event`, which happens to `task` as it is at `version`, as version + 1. Raises ConflictError.

        A store keeps what it wants: the event, which is small, or `lifecycle.after(task, event)`. Where it raises, the
        stored task is as before.
        """

    async def read(self, scope: Scope, id: str) -> Stored | None: ...

    async def list(self, scope: Scope, query: Query) -> Page: ...

    async def put_config(self, scope: Scope, config: TaskPushNotificationConfig) -> None:
        """Stores or replaces a webhook of a task that exists."""

    async def configs(self, scope: Scope, task_id: str) -> Sequence[TaskPushNotificationConfig]: ...

    async def delete_config(self, scope: Scope, task_id: str, id: str) -> None: ...


@dataclass(slots=True)
class _Record:
    """`live` while the task can change, then `wire`, which is smaller."""

    version: int
    state: int
    context_id: str
    position: Position
    live: Task | None = None
    wire: bytes = b""
    configs: dict[str, TaskPushNotificationConfig] = field(default_factory=dict)

    def pack(self) -> None:
        """Nothing happens to the task any more."""
        if self.live is not None:
            self.wire, self.live = self.live.SerializeToString(), None

    def task(self) -> Task:
        return Task.FromString(self.wire if self.live is None else self.live.SerializeToString())


class MemoryStore:
    """Tasks of this process. Ended ones expire, the oldest first: by number, and by age in seconds."""

    def __init__(
        self, *, most_ended: int = 10_000, longest: float = 24 * 3600, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._scopes: dict[Scope, dict[str, _Record]] = {}
        self._ended: deque[tuple[float, Scope, str]] = deque()
        self._last: _Record | None = None  # the task that ended last: its caller is about to apply its last event
        self._most_ended, self._longest, self._clock = most_ended, longest, clock

    async def create(self, scope: Scope, task: Task) -> None:
        """The task must not be changed by anybody but through `append`."""
        record = _Record(0, task.status.state, task.context_id, _position(task.id, task.status), live=task)
        self._scopes.setdefault(scope, {})[task.id] = record
        if record.state in TERMINAL:
            self._finish(scope, task, record)

    async def append(self, scope: Scope, task: Task, version: int, event: StreamResponse) -> None:
        """Keeps no event: `task` itself is what is stored, once the caller has applied the event to it."""
        record = self._scopes.get(scope, {}).get(task.id)
        if record is None or record.version != version:
            raise ConflictError(task.id)
        record.version, record.live = version + 1, task
        if event.HasField("status_update"):
            status = event.status_update.status
            record.state, record.position = status.state, _position(task.id, status)
            if status.state in TERMINAL:
                self._finish(scope, task, record)

    async def read(self, scope: Scope, id: str) -> Stored | None:
        self._expire()
        record = self._scopes.get(scope, {}).get(id)
        return Stored(record.task(), record.version) if record else None

    async def list(self, scope: Scope, query: Query) -> Page:
        self._expire()
        found = [r for r in self._scopes.get(scope, {}).values() if _matches(r, query)]
        start = query.after
        rest = found if start is None else [r for r in found if r.position < start]
        page = nlargest(query.limit, rest, key=_by_position)
        following = page[-1].position if len(rest) > len(page) > 0 else None
        return Page([record.task() for record in page], following, len(found))

    async def put_config(self, scope: Scope, config: TaskPushNotificationConfig) -> None:
        self._scopes[scope][config.task_id].configs[config.id] = config

    async def configs(self, scope: Scope, task_id: str) -> Sequence[TaskPushNotificationConfig]:
        record = self._scopes.get(scope, {}).get(task_id)
        return list(record.configs.values()) if record else []

    async def delete_config(self, scope: Scope, task_id: str, id: str) -> None:
        record = self._scopes.get(scope, {}).get(task_id)
        if record:
            record.configs.pop(id, None)

    def _finish(self, scope: Scope, task: Task, record: _Record) -> None:
        if self._last is not None:
            self._last.pack()
        self._last = record
        self._ended.append((self._clock(), scope, task.id))
        self._expire()

    def _expire(self) -> None:
        oldest = self._clock() - self._longest
        while self._ended and (len(self._ended) > self._most_ended or self._ended[0][0] < oldest):
            _, scope, id = self._ended.popleft()
            tasks = self._scopes.get(scope, {})
            tasks.pop(id, None)
            if not tasks:
                self._scopes.pop(scope, None)


def _position(id: str, status: TaskStatus) -> Position:
    timestamp = status.timestamp
    return Position(timestamp.seconds * 1_000_000_000 + timestamp.nanos, id)


def _by_position(record: _Record) -> Position:
    return record.position


def _matches(record: _Record, query: Query) -> bool:
    return (
        (not query.context_id or record.context_id == query.context_id)
        and (not query.state or record.state == query.state)
        and record.position.timestamp >= query.since
    )
