"""What happens to a task: task + event → task. Pure. The states and their allowed successors are one table.

An event is a `StreamResponse`: a status update, an artifact update, or, for the history only, a message.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from ..generated.a2a_pb2 import (
    TASK_STATE_AUTH_REQUIRED,
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_INPUT_REQUIRED,
    TASK_STATE_REJECTED,
    TASK_STATE_SUBMITTED,
    TASK_STATE_WORKING,
    Artifact,
    Message,
    StreamResponse,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
)

TERMINAL = frozenset({TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, TASK_STATE_REJECTED})
INTERRUPTED = frozenset({TASK_STATE_INPUT_REQUIRED, TASK_STATE_AUTH_REQUIRED})
_ENDS = TERMINAL | INTERRUPTED
ALLOWED: dict[int, frozenset[int]] = {
    TASK_STATE_SUBMITTED: _ENDS | {TASK_STATE_WORKING, TASK_STATE_SUBMITTED},
    TASK_STATE_WORKING: _ENDS | {TASK_STATE_WORKING},
    TASK_STATE_INPUT_REQUIRED: _ENDS | {TASK_STATE_WORKING},
    TASK_STATE_AUTH_REQUIRED: _ENDS | {TASK_STATE_WORKING},
    **{state: frozenset() for state in TERMINAL},
}
"""From each state, the states that may follow. Terminal states are final. Spec section 3.1 and 4.1.3."""


class IllegalTransitionError(ValueError):
    """A task cannot go from one state to another."""


def check_transition(old: int, new: int) -> None:
    if new in ALLOWED[old]:
        return
    names = TaskState.Name(TaskState.ValueType(old)), TaskState.Name(TaskState.ValueType(new))
    why = "it has ended" if old in TERMINAL else "that would go backwards"
    raise IllegalTransitionError(f"a task in {names[0]} cannot become {names[1]}: {why}")


def apply(task: Task, event: StreamResponse, *, most_history: int) -> None:
    """Changes the task as the event says. Raises IllegalTransitionError, before anything is changed."""
    kind = event.WhichOneof("payload")
    if kind == "status_update":
        _apply_status(task, event.status_update, most_history)
    elif kind == "artifact_update":
        _check_open(task)
        update = event.artifact_update
        _apply_artifact(task, update.artifact, append=update.append)
    elif kind == "message":
        _check_open(task)
        _apply_message(task, event.message, most_history)


def now() -> Timestamp:
    """The time of a status: milliseconds, as the wire shows them."""
    moment = datetime.now(UTC)
    return Timestamp(seconds=int(moment.timestamp()), nanos=moment.microsecond // 1000 * 1_000_000)


def with_history(task: Task, length: int | None) -> Task:
    """The task with its `length` most recent messages; None leaves them all. The task itself may be changed."""
    if length is not None and len(task.history) > length:
        del task.history[: len(task.history) - length]
    return task


def _apply_status(task: Task, update: TaskStatusUpdateEvent, most_history: int) -> None:
    check_transition(task.status.state, update.status.state)
    _keep_status_message(task, most_history)
    task.status.CopyFrom(update.status)
    if update.HasField("metadata"):
        task.metadata.MergeFrom(update.metadata)


def _apply_artifact(task: Task, artifact: Artifact, *, append: bool) -> None:
    """Appends to, replaces or adds the artifact of this id; appending to an unknown one creates it (X-STR-6)."""
    known = next((a for a in reversed(task.artifacts) if a.artifact_id == artifact.artifact_id), None)
    if known is None:
        task.artifacts.add().CopyFrom(artifact)
    elif not append:
        known.CopyFrom(artifact)
    else:
        _extend(known, artifact)


def _extend(known: Artifact, chunk: Artifact) -> None:
    known.parts.extend(chunk.parts)
    if chunk.HasField("metadata"):
        known.metadata.MergeFrom(chunk.metadata)
    known.extensions.extend(uri for uri in chunk.extensions if uri not in known.extensions)


def _apply_message(task: Task, message: Message, most_history: int) -> None:
    """A message of the user: what the agent said last comes before it."""
    _keep_status_message(task, most_history)
    task.history.add().CopyFrom(message)
    _trim(task.history, most_history)


def _keep_status_message(task: Task, most_history: int) -> None:
    """The status message becomes history when something follows it, so that it never stands in both places."""
    if task.status.HasField("message"):
        task.history.add().CopyFrom(task.status.message)
        task.status.ClearField("message")
        _trim(task.history, most_history)


def _trim(history: "Sequence[Message]", most: int) -> None:
    if len(history) > most:
        del history[: len(history) - most]  # type: ignore[attr-defined]


def _check_open(task: Task) -> None:
    if task.status.state in TERMINAL:
        raise IllegalTransitionError(f"a task in {TaskState.Name(task.status.state)} cannot change: it has ended")
