"""What an agent answered, in the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..generated.a2a_pb2 import TASK_STATE_COMPLETED, Artifact, Message, Part, Task, TaskState
from .artifacts import INTERRUPTED, text_of
from .artifacts import data_of as _data_of
from .errors import ClientError


@dataclass(frozen=True)
class Answer:
    """A task at the end of a turn, or the message that was the whole answer: exactly one of both is set."""

    task: Task | None = None
    message: Message | None = None

    @property
    def text(self) -> str:
        """Of the artifacts; where there are none, of the status: a question, for a task that waits."""
        source = self.task or self.message
        return text_of(source) if source else ""

    @property
    def artifacts(self) -> Sequence[Artifact]:
        return self.task.artifacts if self.task else ()

    @property
    def parts(self) -> Sequence[Part]:
        """All that was said."""
        if self.message:
            return self.message.parts
        return [part for artifact in self.artifacts for part in artifact.parts]

    @property
    def data(self) -> list[Any]:
        """The values of the data parts, as plain Python."""
        return _data_of(self.parts)

    @property
    def state(self) -> str:
        """Such as TASK_STATE_COMPLETED, which a message is too."""
        number = self.task.status.state if self.task else TASK_STATE_COMPLETED
        return TaskState.Name(number) if number in TaskState.values() else str(number)

    @property
    def completed(self) -> bool:
        return self.task is None or self.task.status.state == TASK_STATE_COMPLETED

    @property
    def question(self) -> str:
        """What the agent waits for, input or an authorization; send the reply with `task_id`. "" where it does not."""
        waits = self.task is not None and self.task.status.state in INTERRUPTED
        return text_of(self.task.status.message) if self.task and waits else ""

    @property
    def task_id(self) -> str:
        return self.task.id if self.task else ""

    @property
    def context_id(self) -> str:
        source = self.task or self.message
        return source.context_id if source else ""


class TaskFailedError(ClientError):
    """A task ended, and not well: it failed, was canceled or was rejected."""

    def __init__(self, answer: Answer) -> None:
        assert answer.task is not None
        said = text_of(answer.task.status.message)
        super().__init__(f"task {answer.task_id}: {answer.state}" + (f": {said}" if said else ""))
        self.answer = answer
