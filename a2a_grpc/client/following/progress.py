"""What a stream has told of its task: whose events are taken, and how far the task is."""

from typing import Any

from ...errors import log
from ...generated.a2a_pb2 import StreamResponse
from ..artifacts import INTERRUPTED, TERMINAL


class Progress:
    """Of one task, through all the streams that it takes to follow it.

    `news` counts changes of the state, and of the task as it is told whole: a stream that begins again and again with
    the same is none, whatever else it says.
    """

    def __init__(self, task_id: str = "") -> None:
        self.task_id = task_id
        self.state = 0
        self.answered = False
        self.begun = False
        self.news = 0
        self._snapshot = b""

    @property
    def over(self) -> bool:
        """Nothing follows."""
        return self.answered or self.state in TERMINAL

    @property
    def interrupted(self) -> bool:
        return self.state in INTERRUPTED

    def take(self, event: StreamResponse) -> bool:
        """Whether an event is one to pass on: not of a kind that is unknown here, and not of another task."""
        kind = event.WhichOneof("payload")
        if kind is None:
            return False
        if kind == "message":
            self.answered = True
        elif not self._take(kind, getattr(event, kind)):
            return False
        self.begun = True
        return True

    def _take(self, kind: str, told: Any) -> bool:
        if not self._is_of_this_task(told.id if kind == "task" else told.task_id):
            return False
        if kind == "artifact_update":
            return True
        if self._is_taken_back(told.status.state):
            return False
        self._note(told.status.state, told.SerializeToString(deterministic=True) if kind == "task" else b"")
        return True

    def _is_of_this_task(self, task_id: str) -> bool:
        if task_id and not self.task_id:
            self.task_id = task_id
        if task_id in ("", self.task_id):
            return True
        log.warning("an event of task %.80r came on the stream of task %.80r: ignored", task_id, self.task_id)
        return False

    def _is_taken_back(self, state: int) -> bool:
        """The end of a task stands, whatever is said after it."""
        taken_back = self.state in TERMINAL and state not in TERMINAL
        if taken_back:
            log.warning("task %.80r has ended, and its stream says otherwise: ignored", self.task_id)
        return taken_back

    def _note(self, state: int, snapshot: bytes) -> None:
        self.news += snapshot != self._snapshot if snapshot else state != self.state
        self.state, self._snapshot = state, snapshot or self._snapshot
