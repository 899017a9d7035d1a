"""What a task has come to: chunks put together by append and lastChunk, and its text. Requirements X-STR-5, BR-75."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import MessageToDict

from ..generated.a2a_pb2 import (
    TASK_STATE_AUTH_REQUIRED,
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_INPUT_REQUIRED,
    TASK_STATE_REJECTED,
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)

TERMINAL = frozenset({TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, TASK_STATE_REJECTED})
INTERRUPTED = frozenset({TASK_STATE_INPUT_REQUIRED, TASK_STATE_AUTH_REQUIRED})


class Assembly:
    """A task as a stream has told it so far, or the one message that it was answered with.

    A Task replaces what was known; a chunk for an unknown artifact creates it. Chunks have no numbers: `doubtful` tells
    that one came twice, from an agent that says the same again, or from a proxy that does. `size` is in bytes, about.
    """

    def __init__(self) -> None:
        self.task: Task | None = None
        self.message: Message | None = None
        self.size = 0
        self.doubtful = False
        self._chunks: set[int] = set()

    def add(self, event: StreamResponse) -> None:
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.task = Task()
            self.task.CopyFrom(event.task)
            self.size, self.doubtful = event.ByteSize(), False
        elif kind == "message":
            self.message = event.message
        elif kind == "status_update":
            replace_status(self._known(event.status_update), event.status_update)
        elif kind == "artifact_update":
            assemble(self._known(event.artifact_update), event.artifact_update)
            self._note(event)

    def _note(self, chunk: StreamResponse) -> None:
        told = chunk.SerializeToString(deterministic=True)
        self.size += len(told)
        self.doubtful = self.doubtful or hash(told) in self._chunks
        self._chunks.add(hash(told))

    def _known(self, update: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> Task:
        if self.task is None:
            self.task = Task(id=update.task_id, context_id=update.context_id)
        return self.task


def replace_status(task: Task, update: TaskStatusUpdateEvent) -> None:
    """What the status said becomes history. Requirements X-HIST-3."""
    if task.status.HasField("message"):
        task.history.add().CopyFrom(task.status.message)
    task.status.CopyFrom(update.status)


def assemble(task: Task, update: TaskArtifactUpdateEvent) -> None:
    """Puts one chunk into its task."""
    chunk = update.artifact
    known = next((a for a in reversed(task.artifacts) if a.artifact_id == chunk.artifact_id), None)
    if known is None:
        task.artifacts.add().CopyFrom(chunk)
    elif update.append:
        known.parts.extend(chunk.parts)
        known.metadata.MergeFrom(chunk.metadata)
    else:
        known.CopyFrom(chunk)


def text_of(source: Task | Artifact | Message | Iterable[Part]) -> str:
    """The text: of parts and artifacts to the letter, with nothing between; artifacts of a task on lines of their own.

    A task without artifacts says what its status says, such as a question or the reason of a failure.
    """
    if isinstance(source, Task):
        texts = [text_of(artifact) for artifact in source.artifacts]
        return "\n".join(filter(None, texts)) or text_of(source.status.message)
    parts = source.parts if isinstance(source, Artifact | Message) else source
    return "".join(part.text for part in parts if part.HasField("text"))


def data_of(parts: Iterable[Part]) -> list[Any]:
    """The values of the data parts, as plain Python."""
    return [MessageToDict(part.data) for part in parts if part.HasField("data")]
