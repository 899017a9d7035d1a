"""What servers say, read with tolerance: JSON, parts, artifacts, cards. A-15, BR-75, X-CARD-4."""

from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.client import Assembly, CardReadError, data_of, parts, text_of
from a2a_grpc.client.cards.cache import CachedCard, CardCache, cached, card_of, freshness
from a2a_grpc.client.transports.tolerant import read
from a2a_grpc.errors import InvalidAgentResponseError
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import chunk, reply, snapshot, status


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pb.Task, {"id": "T", "later": {"x": [1]}}, pb.Task(id="T")),
        (pb.Task, {"id": "T", "status": {"state": "TASK_STATE_DREAMING"}}, pb.Task(id="T", status=pb.TaskStatus())),
        (pb.Task, {"status": {"state": 99}}, pb.Task(status=pb.TaskStatus())),
        (pb.Message, {"role": "ROLE_TOOL", "parts": [{"text": "x"}]}, pb.Message(parts=[pb.Part(text="x")])),
        (
            pb.Task,
            {"history": [{"role": "?", "message_id": "m"}], "status": {"state": "TASK_STATE_WORKING"}},
            pb.Task(history=[pb.Message(message_id="m")], status=pb.TaskStatus(state=pb.TASK_STATE_WORKING)),
        ),
        (pb.StreamResponse, {"somethingNew": {"a": 1}}, pb.StreamResponse()),
        (
            pb.AgentCard,
            {"securitySchemes": {"k": {"apiKeySecurityScheme": {"name": "n"}}}, "x": "y"},
            pb.AgentCard(
                security_schemes={"k": pb.SecurityScheme(api_key_security_scheme=pb.APIKeySecurityScheme(name="n"))}
            ),
        ),
    ],
)
def test_what_is_not_known_is_passed_over(kind: Any, value: Any, expected: Any) -> None:
    assert read(kind, value) == expected


@pytest.mark.parametrize("value", [5, [], {"id": 5}, {"status": "x"}, {"artifacts": {}}, {"history": [{"role": []}]}])
def test_what_is_no_task_at_all_is_an_error(value: Any) -> None:
    with pytest.raises(InvalidAgentResponseError, match="no Task"):
        read(pb.Task, value)


# Artifacts


def assembled(*events: pb.StreamResponse) -> Assembly:
    made = Assembly()
    for event in events:
        made.add(event)
    return made


WORKING, COMPLETED = pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([chunk("Hel", append=False), chunk("lo, "), chunk("wor"), chunk("ld!")], "Hello, world!"),
        ([chunk("old", append=False), chunk("new", append=False)], "new"),
        ([chunk("a"), chunk("b")], "ab"),
        ([snapshot(WORKING, "a"), chunk("b"), snapshot(COMPLETED, "a", "b")], "ab"),
        ([snapshot(WORKING, "a"), snapshot(WORKING)], ""),
        ([chunk(" a "), chunk("\n"), chunk("")], " a \n"),
        ([snapshot(WORKING), status(COMPLETED, text="said")], "said"),
    ],
)
def test_chunks(events: list[pb.StreamResponse], text: str) -> None:
    made = assembled(*events)
    assert made.task
    assert text_of(made.task) == text
    assert made.task.id == "T1"


def test_a_snapshot_is_copied_and_a_message_kept() -> None:
    first = snapshot(WORKING, "a")
    made = assembled(first, chunk("b"))
    assert text_of(first.task) == "a"
    assert made.message is None
    assert assembled(reply("hi")).message == reply("hi").message


def test_text_and_data() -> None:
    task = pb.Task(
        artifacts=[
            pb.Artifact(parts=[pb.Part(text="a"), pb.Part(raw=b"x"), pb.Part(text="b")]),
            pb.Artifact(parts=[parts.data({"n": [1, None]})]),
            pb.Artifact(parts=[pb.Part(text="c")]),
        ]
    )
    assert text_of(task) == "ab\nc"
    assert data_of(task.artifacts[1].parts) == [{"n": [1, None]}]
    assert text_of([pb.Part(text="x"), pb.Part(url="u")]) == "x"


# Parts


def test_parts(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    assert parts.file(tmp_path / "a.png") == pb.Part(raw=b"\x89PNG", media_type="image/png", filename="a.png")
    assert parts.file(b"x") == pb.Part(raw=b"x", media_type="application/octet-stream")
    assert parts.file(b"x", filename="a.txt", media_type="a/b") == pb.Part(raw=b"x", media_type="a/b", filename="a.txt")
    assert parts.file_url("https://x.example/a.pdf") == pb.Part(
        url="https://x.example/a.pdf", media_type="application/pdf"
    )
    assert parts.data(None).WhichOneof("content") == "data"
    with pytest.raises(ValueError, match="JSON"):
        parts.data(float("nan"))


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ("text", ["text"]),
        (b"bytes", ["raw"]),
        ({"a": 1}, ["data"]),
        ([1, 2], ["data"]),
        ([pb.Part(text="a"), b"x", "b"], ["text", "raw", "text"]),
        (pb.Part(url="u"), ["url"]),
    ],
)
def test_messages(content: Any, kinds: list[str]) -> None:
    made = parts.message(content, task_id="T", metadata={"a": 1})
    assert [p.WhichOneof("content") for p in made.parts] == kinds
    assert (made.role, made.task_id, made.metadata["a"]) == (pb.ROLE_USER, "T", 1)
    assert made.message_id != parts.message(content).message_id


# Cards


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 60.0),
        ({"Cache-Control": "public, max-age=10"}, 10.0),
        ({"Cache-Control": 'Max-Age="10"', "Age": "4"}, 6.0),
        ({"Cache-Control": "max-age=10", "Age": "40"}, 0.0),
        ({"Cache-Control": "max-age=x"}, 60.0),
        ({"Cache-Control": "no-cache, max-age=10"}, 0.0),
        ({"Cache-Control": "private, no-store"}, None),
        ({"Date": "Mon, 01 Jan 2024 00:00:00 GMT", "Expires": "Mon, 01 Jan 2024 00:01:40 GMT"}, 100.0),
        ({"Date": "Mon, 01 Jan 2024 00:00:00 GMT", "Expires": "0"}, 0.0),
        ({"Cache-Control": "max-age=7", "Expires": "0"}, 7.0),
    ],
)
def test_freshness(headers: dict[str, str], seconds: float | None) -> None:
    assert freshness(headers, 60.0) == seconds


def test_cached_cards() -> None:
    card = pb.AgentCard(name="A")
    made = cached(card, {"ETag": '"e"', "Last-Modified": "L", "Cache-Control": "max-age=5"}, 100.0, 60.0)
    assert made == CachedCard(card, 105.0, 5.0, '"e"', "L")
    assert made.conditions == {"If-None-Match": '"e"', "If-Modified-Since": "L"}
    assert made.renewed({}, 200.0) == CachedCard(card, 205.0, 5.0, '"e"', "L")
    assert cached(card, {"Cache-Control": "no-store"}, 0.0, 60.0) is None


def test_the_cache_is_bounded() -> None:
    cache = CardCache()
    for index in range(1500):
        cache.keep(f"u{index}", CachedCard(pb.AgentCard(), 0.0, 0.0))
    assert len(cache.cards) == 1000
    assert "u1499" in cache.cards


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", "no agent card"),
        (b"[]", "no agent card"),
        (b'{"name": 5}', "no agent card"),
        (b"{}", "supportedInterfaces are empty or missing"),
        (b'{"url":"https://x","preferredTransport":"JSONRPC"}', "a card of A2A 0.3 .url, preferredTransport."),
        (
            b'{"agentId":"x","displayName":"N","skils":[]}',
            r"no fields of a card: agentId, .*skils \(skills\?\)",
        ),
    ],
)
def test_what_is_no_card_says_why(body: bytes, says: str) -> None:
    with pytest.raises(CardReadError, match=says):
        card_of(body)
