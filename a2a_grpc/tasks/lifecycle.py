"""What happens to a task: task + event → task. Pure. The states and their allowed successors are one table.

An event is a `StreamResponse`: a status update, an artifact update, or, for the history only, a message.
"""

import time
from os import urandom

from ..errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError, log
from ..generated import a2a_pb2 as pb

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
TERMINAL = frozenset({pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED})
INTERRUPTED = frozenset({pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED})
_ENDS = TERMINAL | INTERRUPTED
ALLOWED: dict[int, frozenset[int]] = {
    pb.TASK_STATE_SUBMITTED: _ENDS | {pb.TASK_STATE_WORKING, pb.TASK_STATE_SUBMITTED},
    pb.TASK_STATE_WORKING: _ENDS | {pb.TASK_STATE_WORKING},
    pb.TASK_STATE_INPUT_REQUIRED: _ENDS | {pb.TASK_STATE_WORKING},
    pb.TASK_STATE_AUTH_REQUIRED: _ENDS | {pb.TASK_STATE_WORKING},
    **{state: frozenset() for state in TERMINAL},
}
"""From each state, the states that may follow. Terminal states are final. Spec section 3.1 and 4.1.3."""


class IllegalTransitionError(ValueError):
    """A task cannot go from one state to another."""


def check_transition(old: int, new: int) -> None:
    """Raises IllegalTransitionError for a move that the table does not hold."""
    if new in ALLOWED.get(old, ()):
        return
    if new not in ALLOWED:
        why = f"there is no state {new}; there are {', '.join(map(_name, ALLOWED))}"
    elif old in TERMINAL:
        why = "it has ended"
    else:
        why = "that would go backwards"
    raise IllegalTransitionError(f"a task in {_name(old)} cannot become {_name(new)}: {why}")


def check(task: pb.Task, event: pb.StreamResponse) -> None:
    """Raises IllegalTransitionError where an event cannot happen to a task."""
    if event.HasField("status_update"):
        check_transition(task.status.state, event.status_update.status.state)
    elif task.status.state in TERMINAL:
        raise IllegalTransitionError(f"a task in {_name(task.status.state)} cannot change: it has ended")


def apply(task: pb.Task, event: pb.StreamResponse) -> None:
    """Changes the task as the event says. Raises IllegalTransitionError, before anything is changed."""
    check(task, event)
    change(task, event)


def change(task: pb.Task, event: pb.StreamResponse) -> None:
    """Changes the task by an event that was checked."""
    kind = event.WhichOneof("payload")
    if kind == "status_update":
        _apply_status(task, event.status_update)
    elif kind == "artifact_update":
        _apply_artifact(task, event.artifact_update)
    elif kind == "message":  # of the user: what the agent said last comes before it
        _keep_status_message(task)
        task.history.add().CopyFrom(event.message)


def after(task: pb.Task, event: pb.StreamResponse) -> pb.Task:
    """A copy of the task, as the event makes it."""
    changed = copied(task)
    apply(changed, event)
    return changed


def copied(task: pb.Task) -> pb.Task:
    copy = pb.Task()
    copy.CopyFrom(task)
    return copy


def new_id() -> str:
    """A random UUID (version 4). Made four times as fast as by uuid.uuid4: each task takes three."""
    digits = urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


def now() -> dict[str, int]:
    """The time of a status, as the fields of a Timestamp: milliseconds, as the wire shows them."""
    milliseconds = time.time_ns() // 1_000_000
    return {"seconds": milliseconds // 1000, "nanos": milliseconds % 1000 * 1_000_000}


def parts_after(task: pb.Task, update: pb.TaskArtifactUpdateEvent) -> int:
    """How many parts the artifacts of a task have once an update is applied."""
    kept = (a for a in task.artifacts if update.append or a.artifact_id != update.artifact.artifact_id)
    return sum(len(artifact.parts) for artifact in kept) + len(update.artifact.parts)


def with_history(task: pb.Task, length: int | None) -> pb.Task:
    """The task with its `length` most recent messages; None leaves them all. The task itself may be changed."""
    if length is not None and len(task.history) > length:
        del task.history[: len(task.history) - length]
    return task


def _apply_status(task: pb.Task, update: pb.TaskStatusUpdateEvent) -> None:
    _keep_status_message(task)
    task.status.CopyFrom(update.status)
    if update.HasField("metadata"):
        task.metadata.MergeFrom(update.metadata)


def _apply_artifact(task: pb.Task, update: pb.TaskArtifactUpdateEvent) -> None:
    """Appends to, replaces or adds the artifact of this id; appending to an unknown one creates it (X-STR-6)."""
    artifact = update.artifact
    known = _latest(task, artifact.artifact_id)
    if known is None:
        if update.append:
            log.warning("task %s: a chunk is for artifact %.80r, which is new: created", task.id, artifact.artifact_id)
        task.artifacts.add().CopyFrom(artifact)
    elif not update.append:
        known.CopyFrom(artifact)
    else:
        _extend(known, artifact)


def _latest(task: pb.Task, artifact_id: str) -> pb.Artifact | None:
    artifacts = task.artifacts
    for index in range(len(artifacts) - 1, -1, -1):  # no slice and no iterator: each chunk comes here
        if (artifact := artifacts[index]).artifact_id == artifact_id:
            return artifact
    return None


def _extend(known: pb.Artifact, chunk: pb.Artifact) -> None:
    for part in chunk.parts:
        known.parts.add().CopyFrom(part)
    if chunk.HasField("metadata"):
        known.metadata.MergeFrom(chunk.metadata)
    if chunk.extensions:
        known.extensions.extend(uri for uri in chunk.extensions if uri not in known.extensions)


def _keep_status_message(task: pb.Task) -> None:
    """The status message becomes history when something follows it, so that it never stands in both places."""
    if task.status.HasField("message"):
        task.history.add().CopyFrom(task.status.message)
        task.status.ClearField("message")


def not_found(id: str) -> TaskNotFoundError:
    return TaskNotFoundError(f"Task {id[:100]} not found", metadata={"taskId": id[:100]})


def has_ended(
    task: pb.Task, advice: str = "send the message without taskId for a new task"
) -> UnsupportedOperationError:
    state = _name(task.status.state)
    text = f"Task {task.id} has ended ({state}): {advice}"
    return UnsupportedOperationError(text, metadata={"taskId": task.id, "state": state})


def not_cancelable(task: pb.Task) -> TaskNotCancelableError:
    state = _name(task.status.state)
    text = f"Task {task.id} cannot be canceled: it is in {state}"
    return TaskNotCancelableError(text, metadata={"taskId": task.id, "state": state})


def _name(state: int) -> str:
    return pb.TaskState.Name(pb.TaskState.ValueType(state)) if state in pb.TaskState.values() else str(state)
