"""The one shape that every contestant serves: a small finished task, and a stream of it in 53 events."""

from collections.abc import Iterator

from a2a_grpc.generated import a2a_pb2 as pb

CHUNKS = 50
EVENTS = CHUNKS + 3  # the task, working, its chunks, completed
ID = "6b1d8f52-3a0e-4c57-9d2b-f4c1e8a70935"
QUESTION = "What does a gateway do?"
IN_PIECES = "Say it in small pieces."
ANSWER = "It stands between two networks, and passes on what each of them may see of the other."
TIME = "2026-03-01T12:00:00.123456Z"


def question(text: str) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=pb.Message(message_id=ID, role=pb.ROLE_USER, parts=[pb.Part(text=text)]))


def card() -> pb.AgentCard:
    return pb.AgentCard(
        name="Bench",
        description="Answers one question, many times.",
        version="1.0.0",
        capabilities=pb.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[pb.AgentSkill(id="answer", name="Answer", description="Answers.", tags=["bench"])],
    )


def task(message: pb.Message) -> pb.Task:
    made = pb.Task(
        id=ID,
        context_id=ID,
        status=pb.TaskStatus(state=pb.TASK_STATE_COMPLETED),
        artifacts=[pb.Artifact(artifact_id=ID, name="answer", parts=[pb.Part(text=ANSWER)])],
        history=[message],
    )
    made.status.timestamp.CopyFrom(_TIMESTAMP)
    return made


def events(message: pb.Message) -> Iterator[pb.StreamResponse]:
    yield pb.StreamResponse(
        task=pb.Task(id=ID, context_id=ID, status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED), history=[message])
    )
    yield _status(pb.TASK_STATE_WORKING)
    for index in range(CHUNKS):
        yield _chunk(index)
    yield _status(pb.TASK_STATE_COMPLETED)


def _status(state: pb.TaskState) -> pb.StreamResponse:
    event = pb.TaskStatusUpdateEvent(task_id=ID, context_id=ID, status=pb.TaskStatus(state=state))
    event.status.timestamp.CopyFrom(_TIMESTAMP)
    return pb.StreamResponse(status_update=event)


def _chunk(index: int) -> pb.StreamResponse:
    part = pb.Part(text=f"piece {index:03d} of what was asked")
    return pb.StreamResponse(
        artifact_update=pb.TaskArtifactUpdateEvent(
            task_id=ID,
            context_id=ID,
            artifact=pb.Artifact(artifact_id=ID, name="answer", parts=[part]),
            append=index > 0,
            last_chunk=index == CHUNKS - 1,
        )
    )


_TIMESTAMP = pb.TaskStatus().timestamp
_TIMESTAMP.FromJsonString(TIME)
