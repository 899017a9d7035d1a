"""What happens to a task, event by event."""

import re
import time

import pytest
from engine import OPEN_STATES, State
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.lifecycle import (
    ALLOWED,
    TERMINAL,
    IllegalTransitionError,
    after,
    apply,
    check,
    check_transition,
    now,
    parts_after,
    with_history,
)

STATES = [s for s in State.values() if s]
SUBMITTED, WORKING = pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING


def message(text: str, role: int = pb.ROLE_USER) -> pb.Message:
    return pb.Message(message_id=text, role=role, parts=[pb.Part(text=text)])  # type: ignore[arg-type]


def status(state: int, text: str = "", **metadata: str) -> pb.StreamResponse:
    made = pb.TaskStatus(state=state, timestamp=now())  # type: ignore[arg-type]
    if text:
        made.message.CopyFrom(message(text, pb.ROLE_AGENT))
    event = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id="T", context_id="C", status=made))
    if metadata:
        event.status_update.metadata.update(metadata)
    return event


def artifact(id_: str, *texts: str, append: bool = False, **fields: object) -> pb.StreamResponse:
    made = pb.Artifact(artifact_id=id_, parts=[pb.Part(text=text) for text in texts], **fields)  # type: ignore[arg-type]
    return pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(task_id="T", artifact=made, append=append))


def said(text: str) -> pb.StreamResponse:
    return pb.StreamResponse(message=message(text))


def task(state: int = WORKING, *events: pb.StreamResponse) -> pb.Task:
    made = pb.Task(id="T", context_id="C", status=pb.TaskStatus(state=state, timestamp=now()))  # type: ignore[arg-type]
    for event in events:
        apply(made, event)
    return made


def history(of: pb.Task) -> list[str]:
    return [m.message_id for m in of.history]


def artifacts(of: pb.Task) -> dict[str, str]:
    return {a.artifact_id: "".join(p.text for p in a.parts) for a in of.artifacts}


# States


def test_every_state_has_a_row() -> None:
    assert sorted(ALLOWED) == sorted(STATES)


@pytest.mark.parametrize("new", STATES, ids=State.Name)
@pytest.mark.parametrize("old", STATES, ids=State.Name)
def test_every_pair_of_states(old: int, new: int) -> None:
    """Terminal is final; SUBMITTED is only a beginning; between the others there is every way."""
    legal = old not in TERMINAL and (new != SUBMITTED or old == SUBMITTED)
    before = task(old)
    changed = pb.Task.FromString(before.SerializeToString())
    if legal:
        apply(changed, status(new))
        assert changed.status.state == new
        return
    names = f"{State.Name(old)} cannot become {State.Name(new)}: "  # type: ignore[arg-type]
    why = "it has ended" if old in TERMINAL else "that would go backwards"
    for function in (apply, check):
        with pytest.raises(IllegalTransitionError, match=re.escape(names + why)):
            function(changed, status(new))
    assert changed == before


@pytest.mark.parametrize("new", [0, 99])
def test_states_that_there_are_not(new: int) -> None:
    with pytest.raises(IllegalTransitionError, match=f"there is no state {new}; there are TASK_STATE_SUBMITTED, "):
        check_transition(WORKING, new)


@pytest.mark.parametrize("event", [artifact("A", "x"), said("more")], ids=["artifact", "message"])
@pytest.mark.parametrize("state", STATES, ids=State.Name)
def test_only_a_task_that_is_open_takes_artifacts_and_messages(state: int, event: pb.StreamResponse) -> None:
    changed = task(state)
    if state in OPEN_STATES:
        apply(changed, event)
        assert len(changed.artifacts) + len(changed.history) == 1
    else:
        with pytest.raises(IllegalTransitionError, match="cannot change: it has ended"):
            apply(changed, event)
        assert not changed.artifacts
        assert not changed.history


def test_a_status_replaces_the_one_before_whole() -> None:
    changed = task(WORKING, status(WORKING, "first"), status(WORKING))
    assert not changed.status.HasField("message")
    assert changed.status.HasField("timestamp")


def test_metadata_of_a_status_is_added_to_that_of_the_task() -> None:
    changed = task(WORKING, status(WORKING, a="1", b="2"), status(WORKING), status(WORKING, b="3"))
    assert dict(changed.metadata) == {"a": "1", "b": "3"}


def test_after_leaves_the_task_as_it_is() -> None:
    before = task(WORKING, said("hi"))
    kept = before.SerializeToString()
    assert after(before, artifact("A", "x")).artifacts
    assert before.SerializeToString() == kept


def test_now_is_in_milliseconds() -> None:
    assert all(now()["nanos"] % 1_000_000 == 0 for _ in range(100))
    assert abs(now()["seconds"] - time.time()) < 2


# Artifacts

CHUNKS = {
    "new": ([artifact("A", "1")], {"A": "1"}),
    "two": ([artifact("A", "1"), artifact("B", "2")], {"A": "1", "B": "2"}),
    "appended": ([artifact("A", "1"), artifact("A", "2", "3", append=True)], {"A": "123"}),
    "appended to the first of two": (
        [artifact("A", "1"), artifact("B", "2"), artifact("A", "3", append=True)], {"A": "13", "B": "2"}),
    "replaced": ([artifact("A", "1"), artifact("B", "2"), artifact("A", "3")], {"A": "3", "B": "2"}),
    "appended to what was replaced": (
        [artifact("A", "1"), artifact("A", "2"), artifact("A", "3", append=True)], {"A": "23"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHUNKS)
def test_artifacts(name: str) -> None:
    events, expected = CHUNKS[name]
    assert artifacts(task(WORKING, *events)) == expected
    assert list(artifacts(task(WORKING, *events))) == list(expected)


def test_a_chunk_for_an_artifact_that_there_is_not_creates_it(caplog: pytest.LogCaptureFixture) -> None:
    """X-STR-6."""
    assert artifacts(task(WORKING, artifact("A", "1", append=True), artifact("A", "2", append=True))) == {"A": "12"}
    assert [r.getMessage() for r in caplog.records] == ["task T: a chunk is for artifact 'A', which is new: created"]


def test_what_an_appended_chunk_adds_besides_parts() -> None:
    first = artifact("A", "1", name="report", extensions=["urn:x"])
    first.artifact_update.artifact.metadata.update({"a": 1, "b": 1})
    second = artifact("A", "2", append=True, name="ignored", extensions=["urn:x", "urn:y"])
    second.artifact_update.artifact.metadata.update({"b": 2})
    [found] = task(WORKING, first, second).artifacts
    assert (found.name, list(found.extensions), dict(found.metadata)) == (
        "report",
        ["urn:x", "urn:y"],
        {"a": 1, "b": 2},
    )


ids = st.sampled_from("AB")
texts = st.lists(st.text(max_size=3), min_size=1)
chunks = st.builds(lambda id_, parts, append: artifact(id_, *parts, append=append), ids, texts, st.booleans())


@given(st.lists(chunks, max_size=12))
def test_artifacts_are_what_a_dictionary_would_be(events: list[pb.StreamResponse]) -> None:
    expected: dict[str, list[str]] = {}
    changed = task()
    for event in events:
        update = event.artifact_update
        kept = expected.get(update.artifact.artifact_id, []) if update.append else []
        expected[update.artifact.artifact_id] = kept + [p.text for p in update.artifact.parts]
        counted = parts_after(changed, update)
        apply(changed, event)
        assert counted == sum(map(len, expected.values())) == sum(len(a.parts) for a in changed.artifacts)
    assert {a.artifact_id: [p.text for p in a.parts] for a in changed.artifacts} == expected


# History


def test_history_holds_user_messages_and_replaced_status_messages_in_order() -> None:
    """X-HIST-3."""
    changed = task(
        SUBMITTED, said("hi"), status(WORKING, "on it"), status(pb.TASK_STATE_INPUT_REQUIRED, "which?"),
        said("that"), status(WORKING), status(pb.TASK_STATE_COMPLETED, "done"),
    )  # fmt: skip
    assert history(changed) == ["hi", "on it", "which?", "that"]
    assert changed.status.message.message_id == "done"


events = st.one_of(
    st.builds(said, st.text("abc", min_size=1, max_size=3)),
    st.builds(status, st.sampled_from(OPEN_STATES[1:]), st.text("xyz", max_size=3)),
    st.builds(artifact, ids, st.text(max_size=2)),
)


@given(st.lists(events, max_size=20))
def test_no_message_is_lost_doubled_or_out_of_order(happened: list[pb.StreamResponse]) -> None:
    expected = []
    for event in happened:
        if event.HasField("message"):
            expected.append(event.message.message_id)
        elif event.HasField("status_update") and event.status_update.status.HasField("message"):
            expected.append(event.status_update.status.message.message_id)
    changed = task(WORKING, *happened)
    current = [changed.status.message.message_id] if changed.status.HasField("message") else []
    assert history(changed) + current == expected


@given(st.lists(events, max_size=20), st.integers(0, 8))
def test_trimming_after_every_event_is_trimming_at_the_end(happened: list[pb.StreamResponse], most: int) -> None:
    """So a store need not trim, and its readers see the same."""
    often = task()
    for event in happened:
        apply(often, event)
        with_history(often, most)
    assert history(often) == history(with_history(task(WORKING, *happened), most))


TRIMS = {None: "abcde", 0: "", 1: "e", 2: "de", 5: "abcde", 6: "abcde", 2**31 - 1: "abcde"}


@pytest.mark.parametrize("length", TRIMS)
def test_a_history_length_keeps_the_latest_messages(length: int | None) -> None:
    """CORE-HIST-001, -002, -005."""
    made = task(WORKING, *(said(letter) for letter in "abcde"))
    assert "".join(history(with_history(made, length))) == TRIMS[length]
