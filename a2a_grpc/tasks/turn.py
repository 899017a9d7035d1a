"""Turn: what the author of an agent holds while one message is worked on."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from ..caller import Caller
from ..generated.a2a_pb2 import (
    ROLE_AGENT,
    TASK_STATE_AUTH_REQUIRED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_INPUT_REQUIRED,
    TASK_STATE_REJECTED,
    TASK_STATE_WORKING,
    Artifact,
    CancelTaskRequest,
    Message,
    Part,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from .lifecycle import IllegalTransitionError, new_id, now

Content = str | bytes | Part | Mapping[str, Any] | Sequence[Any]
"""What parts are made of: text, a file's bytes, a Part, or JSON data."""

Said = Content | Message
"""What the agent says with a status: a part, or a message of its own."""

Metadata = Mapping[str, Any] | None
Publish = Callable[[StreamResponse], Awaitable[None]]


class Turn:
    """One message of a client, and the means to answer it.

    What goes out is stored, then streamed to everyone who follows the task. An illegal move, such as anything after
    the task has ended, raises IllegalTransitionError at once. Ids, roles and timestamps are filled in.
    """

    def __init__(
        self,
        request: SendMessageRequest,
        *,
        caller: Caller,
        extensions: Sequence[str] = (),
        deadline: float | None = None,
    ) -> None:
        self.request = request
        self.message: Message = request.message
        self.caller = caller
        self.extensions = tuple(extensions)
        """The activated ones; what was asked for stands in `message.extensions` and the headers."""
        self.deadline = deadline
        """On the clock of the event loop; None where the call has none."""
        self.referenced: list[Task] = []
        """The tasks of `message.reference_task_ids` that the caller may see."""
        self.cancel_request: CancelTaskRequest | None = None
        """Set when the task is to be cancelled; its metadata is the client's."""
        self.emitted = False
        self._writers: list[ArtifactWriter] = []
        self._task: Task | None = None
        self._publish: Publish | None = None

    # What the client said.

    @property
    def text(self) -> str:
        """All text parts, joined by line ends."""
        return "\n".join(part.text for part in self.message.parts if part.HasField("text"))

    @property
    def files(self) -> list[Part]:
        """The parts that are files, by content (`raw`) or by reference (`url`)."""
        return [part for part in self.message.parts if part.WhichOneof("content") in ("raw", "url")]

    @property
    def data(self) -> list[Any]:
        """The values of the data parts, as plain Python."""
        return [MessageToDict(part.data) for part in self.message.parts if part.HasField("data")]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the request."""
        return MessageToDict(self.request.metadata)

    @property
    def message_metadata(self) -> dict[str, Any]:
        return MessageToDict(self.message.metadata)

    @property
    def accepted_output_modes(self) -> Sequence[str]:
        """Media types that the client can use; advice."""
        return tuple(self.request.configuration.accepted_output_modes)

    @property
    def tenant(self) -> str:
        return self.request.tenant

    @property
    def task(self) -> Task:
        """A copy of the task as it is now."""
        copy = Task()
        copy.CopyFrom(self._live)
        return copy

    @property
    def history(self) -> Sequence[Message]:
        """The messages of the task so far, this one included, the oldest first."""
        return self.task.history

    # What the agent says.

    async def status(self, text: Said | None = None, *, metadata: Metadata = None) -> None:
        """The agent is working, and says so."""
        await self._move(TASK_STATE_WORKING, text, metadata)

    async def ask(self, question: Said, *, metadata: Metadata = None) -> None:
        """Asks the client for a message; the turn ends here, and the answer begins the next one."""
        await self._move(TASK_STATE_INPUT_REQUIRED, question, metadata)

    async def require_auth(self, explanation: Said, *, metadata: Metadata = None) -> None:
        """Waits for an authorization. The turn may go on when it has come out of band. Spec section 7.6."""
        await self._move(TASK_STATE_AUTH_REQUIRED, explanation, metadata)

    async def complete(self, text: Said | None = None, *, metadata: Metadata = None) -> None:
        await self._move(TASK_STATE_COMPLETED, text, metadata)

    async def fail(self, reason: Said, *, metadata: Metadata = None) -> None:
        """The client reads `reason`."""
        await self._move(TASK_STATE_FAILED, reason, metadata)

    async def reject(self, reason: Said, *, metadata: Metadata = None) -> None:
        await self._move(TASK_STATE_REJECTED, reason, metadata)

    async def add_artifact(
        self, name: str, *content: Content, artifact_id: str = "", description: str = "", metadata: Metadata = None
    ) -> str:
        """A whole artifact; returns its id."""
        artifact = Artifact(
            artifact_id=artifact_id or new_id(),
            name=name,
            description=description,
            parts=[part(c) for c in content],
            metadata=_struct(metadata),
        )
        await self._put_artifact(artifact, append=False, last=True)
        return artifact.artifact_id

    def artifact(
        self, name: str = "", *, artifact_id: str = "", description: str = "", metadata: Metadata = None
    ) -> "ArtifactWriter":
        """An artifact in chunks: `async with turn.artifact("report") as out: await out.write("…")`."""
        first = Artifact(
            artifact_id=artifact_id or new_id(), name=name, description=description, metadata=_struct(metadata)
        )
        return ArtifactWriter(self, first)

    async def emit(self, event: StreamResponse | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        """A raw event. Its ids are filled in; it must not be changed afterwards."""
        wrapped = _wrapped(event)
        if wrapped.HasField("status_update"):
            await self._flush()
        await self._emit(wrapped)

    # Inside.

    def begin(self, task: Task, publish: Publish) -> None:
        """The engine binds the turn to its task, and to what takes its events."""
        self._task, self._publish = task, publish

    @property
    def _live(self) -> Task:
        if self._task is None:
            raise RuntimeError("there is no task yet: `answer` runs before one exists")
        return self._task

    async def _move(self, state: int, content: Said | None, metadata: Metadata) -> None:
        await self._flush()
        await self._emit(_status(state, content, metadata))

    async def _flush(self) -> None:
        """What was written before a status comes before it."""
        for writer in tuple(self._writers):
            await writer.flush()

    async def _put_artifact(self, artifact: Artifact, *, append: bool, last: bool) -> None:
        if self._live.status.state != TASK_STATE_WORKING:
            await self._emit(_status(TASK_STATE_WORKING))
        update = TaskArtifactUpdateEvent(artifact=artifact, append=append, last_chunk=last)
        await self._emit(StreamResponse(artifact_update=update))

    async def _emit(self, event: StreamResponse) -> None:
        task = self._live
        update: Any = event.status_update if event.HasField("status_update") else event.artifact_update
        update.task_id, update.context_id = task.id, task.context_id
        if event.HasField("artifact_update"):
            _complete(update.artifact)
        elif update.status.HasField("message"):
            _address(update.status.message, task)
        assert self._publish is not None
        await self._publish(event)
        self.emitted = True


class ArtifactWriter:
    """Writes the chunks of one artifact.

    The latest chunk is held back until the next, so that the last one says so; or until the next status.
    """

    def __init__(self, turn: Turn, artifact: Artifact) -> None:
        self._turn, self._next, self._append = turn, artifact, False
        self.artifact_id = artifact.artifact_id

    async def __aenter__(self) -> Self:
        self._turn._writers.append(self)
        return self

    async def write(self, *content: Content) -> None:
        parts = [part(c) for c in content]
        await self.flush()
        self._next.parts.extend(parts)

    async def flush(self, *, last: bool = False) -> None:
        """Sends what is held back."""
        if self._next.parts:
            chunk, self._next = self._next, Artifact(artifact_id=self.artifact_id)
            await self._turn._put_artifact(chunk, append=self._append, last=last)
            self._append = True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn._writers.remove(self)
        try:
            await self.flush(last=error is None)
        except IllegalTransitionError:
            if error is None:
                raise


def part(content: Content) -> Part:
    """A part of text, bytes, JSON data, or as it is."""
    if isinstance(content, Part):
        if content.WhichOneof("content") is None:
            raise ValueError("a part holds nothing; set one of text, raw, url, data")
        return content
    if isinstance(content, str):
        return Part(text=content)
    if isinstance(content, bytes):
        return Part(raw=content)
    return Part(data=ParseDict(json.loads(json.dumps(content)), Value()), media_type="application/json")


def agent_message(content: Said) -> Message:
    """A message of the agent; what its author left empty is filled in."""
    if isinstance(content, Message):
        made = Message()
        made.CopyFrom(content)
    else:
        made = Message(parts=[part(content)])
    made.role = ROLE_AGENT
    made.message_id = made.message_id or new_id()
    return made


def _status(state: int, content: Said | None = None, metadata: Metadata = None) -> StreamResponse:
    status = TaskStatus(state=state, timestamp=now())  # type: ignore[arg-type]
    if content is not None:
        status.message.CopyFrom(agent_message(content))
    return StreamResponse(status_update=TaskStatusUpdateEvent(status=status, metadata=_struct(metadata)))


def _complete(artifact: Artifact) -> None:
    if not artifact.parts:
        raise ValueError("an artifact update needs at least one part")
    artifact.artifact_id = artifact.artifact_id or new_id()


def _address(message: Message, task: Task) -> None:
    message.task_id, message.context_id = task.id, task.context_id
    message.role = ROLE_AGENT
    message.message_id = message.message_id or new_id()


def _wrapped(event: StreamResponse | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> StreamResponse:
    if isinstance(event, TaskStatusUpdateEvent):
        event = StreamResponse(status_update=event)
    elif isinstance(event, TaskArtifactUpdateEvent):
        event = StreamResponse(artifact_update=event)
    if not isinstance(event, StreamResponse) or event.WhichOneof("payload") not in ("status_update", "artifact_update"):
        raise TypeError("a turn emits status and artifact updates: the server makes the task, `answer` a message")
    if event.HasField("status_update") and not event.status_update.status.HasField("timestamp"):
        event.status_update.status.timestamp.CopyFrom(now())
    return event


def _struct(metadata: Metadata) -> Struct | None:
    return None if metadata is None else ParseDict(dict(metadata), Struct())
