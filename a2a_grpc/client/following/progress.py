"""What a stream has told of its task: whose events are taken, and how far the task is."""

from ...errors import log
from ...generated.a2a_pb2 import StreamResponse, Task
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
        elif not self._is_of_this_task(event.task.id if kind == "task" else getattr(event, kind).task_id):
            return False
        elif kind == "task":
            self._take_snapshot(event.task)
        elif kind == "status_update":
            self._take_state(event.status_update.status.state)
        self.begun = True
        return True

    def _is_of_this_task(self, task_id: str) -> bool:
        if task_id and not self.task_id:
            self.task_id = task_id
        if task_id in ("", self.task_id):
            return True
        log.warning("an event of task %.80r came on the stream of task %.80r: ignored", task_id, self.task_id)
        return False

    def _take_snapshot(self, task: Task) -> None:
        snapshot = task.SerializeToString(deterministic=True)
        self.news += snapshot != self._snapshot
        self.state, self._snapshot = task.status.state, snapshot

    def _take_state(self, state: int) -> None:
        self.news += state != self.state
        self.state = state
