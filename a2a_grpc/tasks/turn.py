"""Turn: what the author of an agent holds while one message is worked on."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from google.protobuf.json_format import MessageToDict

from ..caller import Caller
from ..generated import a2a_pb2 as pb
from .content import NO_PARTS, Metadata, Said, artifact_event, loose_part, raw_event, status_event, struct
from .content import Content as Content
from .lifecycle import IllegalTransitionError, copied, new_id

if TYPE_CHECKING:
    from .live import LiveTask


class Turn:
    """One message of a client, and the means to answer it.

    What goes out is stored, then streamed to everyone who follows the task. An illegal move, such as anything after
    the task has ended, raises IllegalTransitionError at once. Ids, roles and timestamps are filled in.
    """

    def __init__(
        self,
        request: pb.SendMessageRequest,
        *,
        caller: Caller,
        extensions: Sequence[str] = (),
        deadline: float | None = None,
    ) -> None:
        self.request = request
        self.message: pb.Message = request.message
        self.caller = caller
        self.extensions = tuple(extensions)
        """The activated ones; what was asked for stands in `message.extensions` and the headers."""
        self.deadline = deadline
        """On the clock of the event loop; None where the call has none."""
        self.referenced: list[pb.Task] = []
        """The tasks of `message.reference_task_ids` that the caller may see."""
        self.cancel_request: pb.CancelTaskRequest | None = None
        """Set when the task is to be cancelled; its metadata is the client's."""
        self.emitted = False
        self._writers: list[ArtifactWriter] = []
        self._bound: LiveTask | None = None

    # What the client said.

    @property
    def text(self) -> str:
        """All text parts, joined by line ends."""
        return "\n".join([part.text for part in self.message.parts if part.HasField("text")])

    @property
    def files(self) -> list[pb.Part]:
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
    def task(self) -> pb.Task:
        """A copy of the task as it is now."""
        return copied(self._live.task)

    @property
    def history(self) -> Sequence[pb.Message]:
        """The messages of the task so far, this one included, the oldest first."""
        return self.task.history

    # What the agent says.

    async def status(self, text: Said | None = None, *, metadata: Metadata = None) -> None:
        """The agent is working, and says so."""
        await self._move(pb.TASK_STATE_WORKING, text, metadata)

    async def ask(self, question: Said, *, metadata: Metadata = None) -> None:
        """Asks the client for a message; the turn ends here, and the answer begins the next one."""
        await self._move(pb.TASK_STATE_INPUT_REQUIRED, question, metadata)

    async def require_auth(self, explanation: Said, *, metadata: Metadata = None) -> None:
        """Waits for an authorization. The turn may go on when it has come out of band. Spec section 7.6."""
        await self._move(pb.TASK_STATE_AUTH_REQUIRED, explanation, metadata)

    async def complete(self, text: Said | None = None, *, metadata: Metadata = None) -> None:
        await self._move(pb.TASK_STATE_COMPLETED, text, metadata)

    async def fail(self, reason: Said, *, metadata: Metadata = None) -> None:
        """The client reads `reason`."""
        await self._move(pb.TASK_STATE_FAILED, reason, metadata)

    async def reject(self, reason: Said, *, metadata: Metadata = None) -> None:
        await self._move(pb.TASK_STATE_REJECTED, reason, metadata)

    async def add_artifact(
        self, name: str, *content: Content, artifact_id: str = "", description: str = "", metadata: Metadata = None
    ) -> str:
        """A whole artifact; returns its id."""
        if not content:
            raise ValueError(NO_PARTS)
        out = self.artifact(name, artifact_id=artifact_id, description=description, metadata=metadata)
        await out.write(*content)
        await out.flush(last=True)
        return out.artifact_id

    def artifact(
        self, name: str = "", *, artifact_id: str = "", description: str = "", metadata: Metadata = None
    ) -> "ArtifactWriter":
        """An artifact in chunks: `async with turn.artifact("report") as out: await out.write("…")`."""
        first = {"name": name, "description": description, "metadata": struct(metadata)}
        return ArtifactWriter(self, artifact_id or new_id(), first)

    async def emit(self, event: pb.StreamResponse | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent) -> None:
        """A raw event. Its ids are filled in; it must not be changed afterwards."""
        made = raw_event(self._live.ids, event)
        if made.HasField("status_update"):
            await self._flush()
        await self._emit(made)

    # Inside.

    def begin(self, live: "LiveTask") -> None:
        """The engine binds the turn to its task."""
        self._bound = live

    @property
    def _live(self) -> "LiveTask":
        if self._bound is None:
            raise RuntimeError("there is no task yet: `answer` runs before one exists")
        return self._bound

    async def _move(self, state: int, content: Said | None, metadata: Metadata) -> None:
        await self._flush()
        await self._emit(status_event(self._live.ids, state, content, metadata))

    async def _flush(self) -> None:
        """What was written before a status comes before it."""
        for writer in tuple(self._writers):
            await writer.flush()

    async def _emit(self, event: pb.StreamResponse) -> None:
        await self._live.emit(self, event)
        self.emitted = True


class ArtifactWriter:
    """Writes the chunks of one artifact.

    The latest chunk is held back until the next, so that the last one says so; or until the next status.
    """

    def __init__(self, turn: Turn, artifact_id: str, first: Mapping[str, Any]) -> None:
        self.artifact_id = artifact_id
        self._turn, self._fields = turn, first  # of the chunk that comes next
        self._held: pb.StreamResponse | None = None
        self._append = False

    async def __aenter__(self) -> Self:
        self._turn._writers.append(self)
        return self

    async def write(self, *content: Content) -> None:
        parts = [loose_part(c) for c in content]
        while self._held:
            await self.flush()
        if parts:
            artifact = {"artifact_id": self.artifact_id, "parts": parts, **self._fields}
            self._held = artifact_event(self._turn._live.ids, artifact)

    async def flush(self, *, last: bool = False) -> None:
        """Sends what is held back."""
        if event := self._held:
            event.artifact_update.append, event.artifact_update.last_chunk = self._append, last
            self._held, self._fields, self._append = None, {}, True  # at once: others may write while this is sent
            if self._turn._live.state != pb.TASK_STATE_WORKING:
                await self._turn._emit(status_event(self._turn._live.ids, pb.TASK_STATE_WORKING))
            await self._turn._emit(event)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn._writers.remove(self)
        try:
            await self.flush(last=error is None)
        except IllegalTransitionError:
            if error is None:
                raise
