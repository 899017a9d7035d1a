"""SSE framing and parsing, without any I/O."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.bindings.sse import COMMENT, Event, Parser, error_frame, frame

BODIES = [  # body → events
    (frame(b"{}"), [Event(b"{}")]),
    (frame(b"1") + frame(b"2"), [Event(b"1"), Event(b"2")]),
    (error_frame(b"{}"), [Event(b"{}", "error")]),
    (COMMENT + frame(b"1") + COMMENT, [Event(b"1")]),
    (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [Event(b"1"), Event(b"2")]),
    (b"data: 1\r\rdata: 2\r\r", [Event(b"1"), Event(b"2")]),
    (b"data:1\n\n", [Event(b"1")]),
    (b"data:  1\n\n", [Event(b" 1")]),
    (b"data: a\ndata: b\n\n", [Event(b"a\nb")]),
    (b"data\n\n", [Event(b"")]),
    (b"id: 7\nevent: x\nretry: 1\nodd: y\ndata: 1\n\n", [Event(b"1", "x", "7")]),
    (b"event: x\n\ndata: 1\n\n", [Event(b"1")]),
    (b"data: last", [Event(b"last")]),
    (b"data: last\r", [Event(b"last")]),
    (b"\n\n\n", []),
]


def parse(chunks: list[bytes]) -> list[Event]:
    parser = Parser(32 << 20)
    return [event for chunk in chunks for event in parser.feed(chunk)] + list(parser.close())


@pytest.mark.parametrize(("body", "events"), BODIES)
def test_whole_and_byte_by_byte(body: bytes, events: list[Event]) -> None:
    assert parse([body]) == events
    assert parse([body[i : i + 1] for i in range(len(body))]) == events


@given(st.lists(st.text().map(lambda t: t.replace("\n", "").replace("\r", "").encode()), max_size=5), st.data())
def test_any_cut_gives_the_same_events(payloads: list[bytes], data: st.DataObject) -> None:
    body = b"".join(frame(payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert [event.data for event in parse(chunks)] == payloads


def test_an_event_of_a_mebibyte() -> None:
    payload = b"x" * (1 << 20)
    assert parse([frame(payload)]) == [Event(payload)]


def test_a_large_event_in_small_pieces_is_read_once() -> None:
    """Were the unfinished line searched again with each piece, this would take minutes."""
    payload = b"x" * (16 << 20)
    body = frame(payload)
    assert parse([body[at : at + 1024] for at in range(0, len(body), 1024)]) == [Event(payload)]


@pytest.mark.parametrize("body", [b"data: " + b"x" * 100, b"data: xxxxxxxx\n" * 10])
def test_an_event_without_end_is_refused(body: bytes) -> None:
    parser = Parser(largest=64)
    with pytest.raises(ValueError, match="larger than 64 bytes"):
        list(parser.feed(body))
