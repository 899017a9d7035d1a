"""What the author of an agent holds: what the client said, and every way to answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine import BytesStore, Told, called_by, get, kinds, nothing_left, result_of, say, send, status_of, streamed
from google.protobuf.struct_pb2 import Value

from a2a_grpc.caller import Caller
from a2a_grpc.errors import ResourceExhaustedError
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import IllegalTransitionError, Limits, Turn
from a2a_grpc.tasks.content import agent_message, part

Action = Callable[[Turn], Awaitable[Any]]


def turn_of(request: pb.SendMessageRequest, **given: Any) -> Turn:
    return Turn(request, caller=Caller(), **given)


async def acted(action: Action, **given: Any) -> tuple[pb.Task, list[Any]]:
    """The task, and the events after its snapshot, of an agent that does this."""
    agent = Told({"act": action}, **given)
    events = await streamed(agent, say("act"))
    await nothing_left(agent)
    return await get(agent, events[0].task.id), events[1:]


async def raised(action: Action, kind: type[Exception]) -> str:
    """The text of the error that an agent meets, who then goes on."""
    met: list[str] = []

    async def act(turn: Turn) -> None:
        with pytest.raises(kind) as caught:
            await action(turn)
        met.append(str(caught.value))

    await acted(act)
    return met[0]


# What the client said


def test_what_a_message_holds() -> None:
    parts = [
        pb.Part(text="a"), pb.Part(raw=b"1", filename="f"), pb.Part(text=""), pb.Part(url="https://x"),
        pb.Part(data=Value(number_value=1.5)), pb.Part(data=Value(null_value=0)), pb.Part(text="b"),  # type: ignore[arg-type]
    ]  # fmt: skip
    message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=parts, extensions=["urn:x"])
    message.metadata.update({"of": "message"})
    request = pb.SendMessageRequest(message=message, tenant="acme")
    request.metadata.update({"of": {"the": ["request"]}})
    request.configuration.accepted_output_modes.append("text/plain")
    turn = turn_of(request, extensions=["urn:y"], deadline=7.0)
    assert (turn.text, [p.WhichOneof("content") for p in turn.files], turn.data) == (
        "a\n\nb",
        ["raw", "url"],
        [1.5, None],
    )
    assert (turn.metadata, turn.message_metadata) == ({"of": {"the": ["request"]}}, {"of": "message"})
    assert (turn.accepted_output_modes, turn.tenant, turn.deadline) == (("text/plain",), "acme", 7.0)
    assert (turn.extensions, list(turn.message.extensions), turn.caller.name) == (("urn:y",), ["urn:x"], "")


def test_an_empty_message() -> None:
    turn = turn_of(say(""))
    assert (turn.text, turn.files, turn.data, turn.metadata, turn.message_metadata) == ("", [], [], {}, {})
    assert (turn.accepted_output_modes, turn.extensions, turn.referenced) == ((), (), [])


@pytest.mark.parametrize("use", [lambda turn: turn.task, lambda turn: turn.history])
def test_there_is_no_task_before_there_is_one(use: Callable[[Turn], Any]) -> None:
    with pytest.raises(RuntimeError, match="there is no task yet: `answer` runs before one exists"):
        use(turn_of(say("x")))


async def test_the_task_of_a_turn_is_a_copy() -> None:
    async def act(turn: Turn) -> None:
        await turn.status("on it")
        turn.task.artifacts.add(artifact_id="mine")
        assert [m.message_id for m in turn.history] == ["m-act"]
        assert turn.task.status.message.parts[0].text == "on it"

    task, _ = await acted(act)
    assert status_of(task) == "COMPLETED"
    assert not task.artifacts


async def test_who_calls_and_what_it_refers_to() -> None:
    """X-ID-3: unknown and foreign tasks are left out, and are no error."""
    agent = Told()
    async with called_by("bob"):
        foreign = (await send(agent, say("done"))).id
    async with called_by("ann"):
        own = (await send(agent, say("result"))).id
        await send(agent, say("done", reference_task_ids=[foreign, own, "nope", own]))
    turn = agent.turns[-1]
    assert turn.caller == Caller("ann")
    assert [task.id for task in turn.referenced] == [own]
    assert result_of(turn.referenced[0]) == ["result"]


# Ways to answer

ANSWERS: dict[str, tuple[Action, list[str]]] = {
    "status": (lambda turn: turn.status("hm"), ["WORKING", "COMPLETED"]),
    "ask": (lambda turn: turn.ask("what?"), ["INPUT_REQUIRED"]),
    "auth": (lambda turn: turn.require_auth("allow"), ["AUTH_REQUIRED"]),
    "complete": (lambda turn: turn.complete("yes"), ["COMPLETED"]),
    "complete in silence": (lambda turn: turn.complete(), ["COMPLETED"]),
    "fail": (lambda turn: turn.fail("no"), ["FAILED"]),
    "reject": (lambda turn: turn.reject("no"), ["REJECTED"]),
    "artifact": (lambda turn: turn.add_artifact("r", "a", "b"), ["WORKING", "ab", "COMPLETED"]),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers(name: str) -> None:
    """A-31: how a turn ends."""
    action, expected = ANSWERS[name]
    task, events = await acted(action)
    assert kinds(events) == expected
    assert status_of(task) in expected
    for event in events:
        update = event.status_update if event.HasField("status_update") else event.artifact_update
        assert (update.task_id, update.context_id) == (task.id, task.context_id)
        if event.HasField("status_update"):
            assert update.status.timestamp.seconds
            assert update.status.timestamp.nanos % 1_000_000 == 0


async def test_messages_of_the_agent_are_filled_in() -> None:
    """X-ID-2."""
    task, [event] = await acted(lambda turn: turn.complete("yes"))
    message = event.status_update.status.message
    assert (message.role, message.parts[0].text) == (pb.ROLE_AGENT, "yes")
    assert (message.task_id, message.context_id) == (task.id, task.context_id)
    assert len(message.message_id) == 36


async def test_a_message_of_ones_own() -> None:
    own = pb.Message(
        message_id="mine", role=pb.ROLE_USER, task_id="other", parts=[pb.Part(text="a"), pb.Part(raw=b"1")]
    )
    task, _ = await acted(lambda turn: turn.ask(own))
    assert task.status.message.message_id == "mine"
    assert (task.status.message.role, task.status.message.task_id) == (pb.ROLE_AGENT, task.id)
    assert len(task.status.message.parts) == 2
    assert own.role == pb.ROLE_USER


async def test_metadata_of_a_status_and_an_artifact() -> None:
    async def act(turn: Turn) -> None:
        await turn.status(metadata={"urn:x": {"progress": 0.5}})
        await turn.add_artifact("r", "x", artifact_id="A", description="d", metadata={"k": [1, None]})

    task, _ = await acted(act)
    assert task.metadata["urn:x"]["progress"] == 0.5
    [found] = task.artifacts
    assert (found.artifact_id, found.name, found.description) == ("A", "r", "d")
    assert found.metadata["k"][0] == 1


PARTS: dict[str, tuple[Any, pb.Part]] = {
    "text": ("hi", pb.Part(text="hi")),
    "empty text": ("", pb.Part(text="")),
    "bytes": (b"\x00", pb.Part(raw=b"\x00")),
    "part": (pb.Part(url="https://x"), pb.Part(url="https://x")),
    "null": (None, pb.Part(data=Value(null_value=0), media_type="application/json")),  # type: ignore[arg-type]
    "number": (1.5, pb.Part(data=Value(number_value=1.5), media_type="application/json")),
    "truth": (True, pb.Part(data=Value(bool_value=True), media_type="application/json")),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(name: str) -> None:
    content, expected = PARTS[name]
    assert part(content) == expected


def test_a_part_of_data() -> None:
    made = part({"a": [1, {"b": "ü"}]})
    assert made.media_type == "application/json"
    assert made.data.struct_value["a"][1]["b"] == "ü"


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (object(), TypeError, "not JSON serializable"),
        (pb.Part(), ValueError, "a part holds nothing; set one of text, raw, url, data"),
    ],
)
def test_parts_that_there_are_not(content: Any, kind: type[Exception], text: str) -> None:
    for make in (part, agent_message):
        with pytest.raises(kind, match=text):
            make(content)


# Artifacts in chunks


def marks(events: list[Any]) -> list[tuple[str, bool, bool]]:
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    return [("".join(p.text for p in u.artifact.parts), u.append, u.last_chunk) for u in updates]


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_the_first_chunk_begins_and_the_last_one_says_so(count: int) -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r", description="d") as out:
            for index in range(count):
                await out.write(str(index))

    task, events = await acted(act)
    assert marks(events) == [(str(i), i > 0, i == count - 1) for i in range(count)]
    assert result_of(task) == ["".join(map(str, range(count)))]
    assert (task.artifacts[0].name, task.artifacts[0].description) == ("r", "d")
    assert len({event.artifact_update.artifact.artifact_id for event in events[1:-1]}) == 1


async def test_an_artifact_that_nothing_is_written_to_is_none() -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r"):
            pass

    task, events = await acted(act)
    assert kinds(events) == ["FAILED"]
    assert task.status.message.parts[0].text == "The agent returned without a result"


async def test_several_parts_are_one_chunk_and_what_is_no_part_sends_nothing() -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r") as out:
            await out.write("a", {"b": 1})
            with pytest.raises(TypeError):
                await out.write("c", object())
            await out.write("d")

    task, events = await acted(act)
    assert marks(events) == [("a", False, False), ("d", True, True)]
    assert [len(a.parts) for a in task.artifacts] == [3]


async def test_two_artifacts_at_once() -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r") as left, turn.artifact("s") as right:
            for index in range(2):
                await left.write(f"l{index}")
                await right.write(f"r{index}")

    task, _ = await acted(act)
    assert result_of(task) == ["l0l1", "r0r1"]


async def test_several_coroutines_may_write_one_artifact() -> None:
    """Nothing is lost, though the store takes its time."""

    async def act(turn: Turn) -> None:
        async with turn.artifact("r") as out:
            await asyncio.gather(*(out.write(str(index)) for index in range(6)))

    task, events = await acted(act, store=BytesStore())
    assert sorted(result_of(task)[0]) == list("012345")
    assert [(append, last) for _, append, last in marks(events)] == [(i > 0, i == 5) for i in range(6)]


async def test_a_chunk_comes_before_the_status_that_follows_it() -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r") as out:
            await out.write("a")
            await turn.status("half")
            await out.write("b")
            await turn.fail("no more")

    task, events = await acted(act)
    assert kinds(events) == ["WORKING", "a", "WORKING", "b", "FAILED"]
    assert (status_of(task), result_of(task)) == ("FAILED", ["ab"])


async def test_what_was_written_before_an_error_is_kept() -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r") as out:
            await out.write("a")
            await out.write("b")
            raise RuntimeError

    task, events = await acted(act)
    assert marks(events) == [("a", False, False), ("b", True, False)]
    assert (status_of(task), result_of(task)) == ("FAILED", ["ab"])


async def test_an_error_is_not_hidden_by_what_can_no_longer_be_written(caplog: pytest.LogCaptureFixture) -> None:
    async def act(turn: Turn) -> None:
        async with turn.artifact("r") as out:
            await turn.complete()
            await out.write("too late")
            raise KeyError("the cause")

    task, events = await acted(act)
    assert kinds(events) == ["COMPLETED"]
    assert not task.artifacts
    [failure] = [record.exc_info for record in caplog.records if record.exc_info]
    assert failure[0] is KeyError


# Raw events


async def test_raw_events_are_filled_in() -> None:
    async def act(turn: Turn) -> None:
        await turn.emit(pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=pb.TASK_STATE_WORKING)))
        for _ in range(2):
            await turn.emit(pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(parts=[pb.Part(text="x")])))
        ended = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED, message=pb.Message(parts=[pb.Part(text="y")]))
        await turn.emit(pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(status=ended)))

    task, events = await acted(act)
    assert kinds(events) == ["WORKING", "x", "x", "COMPLETED"]
    assert all(e.status_update.status.timestamp.seconds for e in (events[0], events[-1]))
    assert {u.artifact_update.task_id for u in events[1:3]} == {task.id}
    assert len({a.artifact_id for a in task.artifacts}) == 2
    assert (task.status.message.role, len(task.status.message.message_id)) == (pb.ROLE_AGENT, 36)


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "task": (pb.StreamResponse(task=pb.Task(id="x")), TypeError, "the server makes the task, `answer` a message"),
    "message": (pb.StreamResponse(message=pb.Message(message_id="x")), TypeError, "emits status and artifact updates"),
    "nothing": (pb.StreamResponse(), TypeError, "emits status and artifact updates"),
    "no event": ({"status": 1}, TypeError, "emits status and artifact updates"),
    "no parts": (pb.TaskArtifactUpdateEvent(), ValueError, "an artifact update needs at least one part"),
    "no state": (pb.TaskStatusUpdateEvent(), IllegalTransitionError, "there is no state 0"),
    "backwards": (
        pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=pb.TASK_STATE_SUBMITTED)), IllegalTransitionError,
        "a task in TASK_STATE_WORKING cannot become TASK_STATE_SUBMITTED: that would go backwards"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_raw_events_that_are_refused(name: str) -> None:
    event, kind, text = REFUSED[name]

    async def act(turn: Turn) -> None:
        await turn.status()
        await turn.emit(event)

    assert text in await raised(act, kind)


async def test_an_event_that_was_refused_is_no_event() -> None:
    async def act(turn: Turn) -> None:
        with pytest.raises(IllegalTransitionError):
            await turn.emit(pb.TaskStatusUpdateEvent())

    task, events = await acted(act)
    assert kinds(events) == ["FAILED"]
    assert not task.artifacts


async def test_an_artifact_without_content() -> None:
    assert await raised(lambda turn: turn.add_artifact("r"), ValueError) == "an artifact update needs at least one part"


# Moves that are too late

LATE: dict[str, Action] = {
    "status": lambda turn: turn.status("x"),
    "artifact": lambda turn: turn.add_artifact("r", "x"),
    "complete": lambda turn: turn.complete(),
    "fail": lambda turn: turn.fail("x"),
    "ask": lambda turn: turn.ask("x"),
}


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("end", ["complete", "fail"])
async def test_nothing_follows_the_end_of_a_task(end: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def act(turn: Turn) -> None:
        await LATE[end](turn)
        with pytest.raises(IllegalTransitionError, match="the task has ended: nothing can be added to it"):
            await LATE[name](turn)

    task, events = await acted(act)
    assert len(events) == 1
    assert status_of(task) == {"complete": "COMPLETED", "fail": "FAILED"}[end]
    assert [r.getMessage() for r in caplog.records] == [f"task {task.id}: an event of the agent came after its end"]


@pytest.mark.parametrize("name", LATE)
async def test_nothing_follows_the_end_of_a_turn(name: str) -> None:
    """What an agent leaves running in the background has nothing to say any more, even where the task is open."""
    agent = Told()
    task = await send(agent, say("ask"))
    await nothing_left(agent)
    with pytest.raises(IllegalTransitionError, match="this turn is over: nothing can be added to it"):
        await LATE[name](agent.turns[0])
    assert await get(agent, task.id) == task


async def test_several_coroutines_of_an_agent_may_speak_at_once() -> None:
    async def act(turn: Turn) -> None:
        await asyncio.gather(*(turn.add_artifact(f"r{i}", str(i)) for i in range(20)))

    task, _ = await acted(act)
    assert sorted(result_of(task), key=int) == [str(i) for i in range(20)]


async def test_the_limit_of_parts_of_artifacts() -> None:
    """What was replaced does not count; what is too much is not stored, and fails the task with a reason."""

    class Small(Told):
        limits = Limits(artifact_parts=4)

    async def act(turn: Turn) -> None:
        for _ in range(5):
            await turn.add_artifact("r", "a", "b", "c", artifact_id="A")
        await turn.add_artifact("s", "d")
        with pytest.raises(ResourceExhaustedError):
            await turn.add_artifact("t", "e")
        await turn.add_artifact("r", "f", artifact_id="A")
        await turn.add_artifact("u", "g", "h")
        await turn.add_artifact("v", "i")

    agent = Small({"act": act})
    task = await send(agent, say("act"))
    assert result_of(task) == ["f", "d", "gh"]
    assert status_of(task) == "FAILED"
    assert task.status.message.parts[0].text == "The artifacts of a task have at most 4 parts"
