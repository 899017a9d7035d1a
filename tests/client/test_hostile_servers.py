"""Servers that answer with anything at all: what comes of it is an error of the client's, within its limits."""

import asyncio
import gzip
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a_grpc.client import CardReadError, Client, ClientError, ConnectError, connect
from a2a_grpc.errors import (
    A2AError,
    DeadlineExceededError,
    InvalidAgentResponseError,
    ResourceExhaustedError,
    TaskNotFoundError,
)
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import BINDINGS, SSE_HEAD, card, chunked, raw_server, read_request, response

LIMITS: dict[str, Any] = {
    "deadline": 0.5,
    "answer_deadline": 0.7,
    "idle_timeout": 0.3,
    "max_response": 500_000,
    "attempts": 1,
    "recoveries": 1,
    "backoff": 0.005,
}
LONGEST = 5.0  # seconds, for a call that is over after less than one

OPERATIONS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "get": lambda client: client.get_task("T1"),
    "send": lambda client: client.send("x"),
    "ask": lambda client: client.ask("x"),
    "stream": lambda client: _all(client.stream("x")),
    "subscribe": lambda client: _all(client.subscribe("T1")),
    "list": lambda client: _all(client.list_tasks()),
}


async def _all(events: Any) -> list[Any]:
    return [event async for event in events]


async def outcome(client: Client, operation: str) -> Any:
    """What a call returns or raises, where that is an error of the client's; anything else is raised."""
    async with asyncio.timeout(LONGEST):
        try:
            return await OPERATIONS[operation](client)
        except (A2AError, ClientError) as error:
            return error


# HTTP

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def says(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


def says_on(head: bytes, piece: bytes, pause: float = 0) -> Answer:
    """And does not stop."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return answer


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def both(json: bytes, status: int = 200) -> Answer:
    return says(response(json, status))


def sse(body: bytes) -> Answer:
    return says(SSE_HEAD + chunked(body) + b"0\r\n\r\n")


JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"
BOMB = gzip.compress(b" " * 20_000_000)
GARBAGE: dict[str, Answer] = {
    "nothing": says(b""),
    "HTML": says(response(b"<html>", media_type="text/html")),
    "another protocol": says(b"SSH-2.0-OpenSSH_9\r\n"),
    "HTTP/2": says(b"\0\0\x12\4\0\0\0\0\0"),
    "no length": says(head(JSON, "Content-Length: x") + b"{}"),
    "two lengths": says(head(JSON, "Content-Length: 2", "Content-Length: 3") + b"{}"),
    "a body cut off": says(head(JSON, "Content-Length: 50") + b"{}"),
    "chunks that are none": says(head(JSON, CHUNKED) + b"zz\r\n{}"),
    "a large header": says(head("X: " + "y" * 100_000)),
    "a header that is none": says(head("what is this")),
    "an encoding that is a lie": says(response(b"{}", Content_Encoding="gzip")),
    "an encoding that is not known": says(response(b"{}", Content_Encoding="br")),
    "redirects to itself": says(response(b"", 302, Location="/")),
    "redirects to nowhere": says(head("Location: \xff://\x7f", "Content-Length: 0", status="307 x")),
    "not modified": says(head("Content-Length: 0", status="304 x")),
    "not UTF-8": both(b'{"result":"\xff","id":"\xff"}'),
    "half of a surrogate": both(b'{"result":{"id":"\\ud800"},"id":"\\ud800"}'),
    "deep": both(b'{"result":' + b"[" * 100_000),
    "a number": both(b"5"),
    "a list": both(b"[]"),
    "no number": both(b'{"result":NaN,"id":NaN}'),
    "two results": both(b'{"result":{},"result":{},"id":"T1","id":"T1"}'),
    "two JSON texts": both(b"{}{}"),
    "an error that says nothing": both(b'{"error":{}}'),
    "an error of other types": both(b'{"error":{"code":"x","status":[1],"message":{"a":1},"data":5,"details":{}}}'),
    "an error with a vast code": both(b'{"error":{"code":99999999999999999999999,"message":5}}'),
    "an error and a result": both(b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":-32603,"message":"m"}}'),
    "an error status with garbage": says(response(b"\xff\xfe", 500, media_type="a/b;;=")),
    "events that are not JSON": sse(b"data: what\n\n"),
    "events that are not UTF-8": sse(b'data: {"a":"\xff"}\n\n'),
    "events of nothing": sse(b"data: null\n\ndata:\n\n: x\n\nid: 1\n\n"),
    "events that are deep": sse(b"data: " + b"[" * 100_000 + b"\n\n"),
    "two JSON texts in an event": sse(b"data: {}\ndata: {}\n\n"),
    "no events": sse(b""),
    "fields of garbage": sse(b"\xff\xfe: x\n\n\x00\n\ndata\n\n"),
}


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_is_an_error(binding: str, garbage: str) -> None:
    async with answering(GARBAGE[garbage]) as url, connect(card(url, binding), **LIMITS) as client:
        for operation in OPERATIONS:
            assert isinstance(await outcome(client, operation), Exception), operation


def answering(answer: Answer) -> Any:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await answer(writer)
        await writer.drain()

    return raw_server(serve)


BLANKS = chunked(b" " * 65536)
SQUEEZED = "Content-Encoding: gzip"
STREAM = "Content-Type: text/event-stream"
WITHOUT_END: dict[str, Answer] = {
    "a body": says_on(head(JSON, CHUNKED), BLANKS),
    "the body of an error": says_on(head(JSON, CHUNKED, status="500 x"), BLANKS),
    "a compressed body": says(head(JSON, SQUEEZED, CHUNKED) + chunked(BOMB)),
    "a compressed stream": says(head(STREAM, SQUEEZED, CHUNKED) + chunked(BOMB)),
    "a line": says_on(SSE_HEAD + chunked(b"data: "), BLANKS),
    "an event": says_on(SSE_HEAD, chunked(b"data: x\n" * 5000)),
}


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize("what", WITHOUT_END)
async def test_what_has_no_end_is_not_read_to_it(binding: str, what: str) -> None:
    async with answering(WITHOUT_END[what]) as url, connect(card(url, binding), **LIMITS) as client:
        for operation in ("get", "ask", "stream"):
            assert isinstance(await outcome(client, operation), ResourceExhaustedError), operation


SLOW = {
    "a head": says_on(head()[:-2], b"X", 0.05),
    "lines of a head": says_on(head()[:-2], b"X: y\r\n", 0.05),
    "a body": says_on(head(JSON, CHUNKED), chunked(b" "), 0.05),
    "the body of an error": says_on(head(JSON, CHUNKED, status="500 x"), chunked(b" "), 0.05),
    "answers that promise one": says_on(b"", b"HTTP/1.1 102 Processing\r\n\r\n", 0.05),
    "comments": says_on(SSE_HEAD, chunked(b": x\n\n"), 0.05),
    "blank lines": says_on(SSE_HEAD, chunked(b"\n"), 0.05),
}


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize("what", SLOW)
async def test_what_comes_slowly_ends_with_the_deadline(binding: str, what: str) -> None:
    async with answering(SLOW[what]) as url, connect(card(url, binding), **LIMITS) as client:
        assert isinstance(await outcome(client, "get"), DeadlineExceededError)
        assert isinstance(await outcome(client, "ask"), DeadlineExceededError | ConnectError)


async def test_nothing_at_all_ends_with_the_deadline() -> None:
    async with answering(says_on(b"", b"", 0.05)) as url:
        for binding in BINDINGS[1:]:
            async with connect(card(url, binding), **LIMITS) as client:
                assert isinstance(await outcome(client, "get"), DeadlineExceededError)
                assert isinstance(await outcome(client, "stream"), ConnectError)


# Cards


@pytest.mark.parametrize("garbage", [g for g in GARBAGE if "event" not in g])
async def test_a_card_of_garbage_is_an_error(garbage: str) -> None:
    async with answering(GARBAGE[garbage]) as url:
        with pytest.raises((CardReadError, ConnectError)):
            async with asyncio.timeout(LONGEST), connect(url, **LIMITS):
                pass


@pytest.mark.parametrize("what", ["a head", "lines of a head", "a body", "the body of an error"])
async def test_a_card_that_comes_slowly_is_not_waited_for(what: str) -> None:
    async with answering(SLOW[what]) as url:
        with pytest.raises(ConnectError):
            async with asyncio.timeout(LONGEST), connect(url, **LIMITS):
                pass


# gRPC, frame by frame: RFC 9113

Frames = Callable[[int], bytes]  # for a stream


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def pairs(*given: tuple[bytes, bytes]) -> bytes:
    """Header fields, as HPACK writes them without its tables; no longer than 126 bytes each."""
    return b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in given)


def opened(*more: tuple[bytes, bytes], end: bool = False) -> Frames:
    block = pairs((b":status", b"200"), (b"content-type", b"application/grpc"), *more)
    return lambda stream: frame(1, 4 | end, stream, block)


def message(data: bytes, *, squeezed: bool = False, size: int | None = None) -> Frames:
    prefix = struct.pack(">?I", squeezed, len(data) if size is None else size)
    return lambda stream: frame(0, 0, stream, prefix + data)


def trailers(code: bytes, *more: tuple[bytes, bytes]) -> Frames:
    return lambda stream: frame(1, 5, stream, pairs((b"grpc-status", code), (b"grpc-message", b"m"), *more))


def reset(code: int) -> Frames:
    return lambda stream: frame(3, 0, stream, struct.pack(">I", code))


def going_away(stream: int) -> bytes:
    return frame(7, 0, 0, struct.pack(">II", 0, 0) + b"bye")


FOUND = pb.Task(id="T1").SerializeToString()
REFUSALS: dict[str, list[Frames]] = {
    "trailers only, and no message": [opened((b"grpc-status", b"0"), end=True)],
    "trailers only, with an error": [opened((b"grpc-status", b"2"), end=True)],
    "a code that is no number": [opened((b"grpc-status", b"abc"), end=True)],
    "a code that is unknown": [opened((b"grpc-status", b"999"), end=True)],
    "canceled by the server": [opened((b"grpc-status", b"1"), end=True)],
    "no status": [opened(end=True)],
    "no message": [opened(), trailers(b"0")],
    "a message of garbage": [opened(), message(b"\xff\xff\xff"), trailers(b"0")],
    "half of a message": [opened(), message(FOUND, size=50), trailers(b"0")],
    "a message that is said to be vast": [opened(), message(b"x", size=2**32 - 1)],
    "a message that is not compressed": [opened((b"grpc-encoding", b"gzip")), message(b"x", squeezed=True)],
    "a compression that is unknown": [opened((b"grpc-encoding", b"rar")), message(b"x", squeezed=True)],
    "a reset": [opened(), reset(0)],
    "a reset that cancels": [opened(), reset(8)],
    "a reset that refuses": [reset(7)],
    "goes away": [opened(), going_away],
    "frames out of order": [lambda stream: frame(9, 4, stream, b"x")],
    "a frame that is too large": [lambda stream: b"\xff\xff\xff\0\0" + struct.pack(">I", stream) + b"x" * 1000],
    "header fields of garbage": [lambda stream: frame(1, 4, stream, b"\xff" * 9)],
    "HTML": [
        lambda stream: frame(1, 4, stream, pairs((b":status", b"200"), (b"content-type", b"text/html"))),
        lambda stream: frame(0, 1, stream, b"<html>"),
    ],
    "HTTP 503": [lambda stream: frame(1, 5, stream, pairs((b":status", b"503")))],
    "HTTP 302": [lambda stream: frame(1, 5, stream, pairs((b":status", b"302"), (b"location", b"/")))],
}


def grpc_server(frames: list[Frames]) -> Any:
    """Answers each call with these frames, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(24)
        writer.write(frame(4, 0, 0))
        while True:
            size, kind, flags, stream = struct.unpack(">IBBI", b"\0" + await reader.readexactly(9))
            await reader.readexactly(size)
            if kind == 4 and not flags & 1:
                writer.write(frame(4, 1, 0))
            if kind == 0 and flags & 1:
                for each in frames:
                    writer.write(each(stream))
                await writer.drain()
                return

    return raw_server(serve)


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_whatever_is_wrong_with_grpc_is_an_error(refusal: str) -> None:
    for operation in OPERATIONS:
        async with grpc_server(REFUSALS[refusal]) as url, connect(card(url, "GRPC"), **LIMITS) as client:
            found = await outcome(client, operation)
            assert isinstance(found, Exception), operation


@pytest.mark.parametrize("binding", BINDINGS[1:])
async def test_a_stream_that_never_pauses_can_be_left(binding: str) -> None:
    answer = says_on(SSE_HEAD, chunked(b": x\n\n" * 1000))
    async with answering(answer) as url, connect(card(url, binding)) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await anext(client.stream("x"))


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize("deep", [b"[" * 90 + b"]" * 90, b'{"a":' * 60 + b"1" + b"}" * 60])
async def test_details_that_are_deep_leave_the_error_that_they_are_of(binding: str, deep: bytes) -> None:
    info = b'{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}'
    member = b"data" if binding == "JSONRPC" else b"details"
    error = b'{"code":-32001,"message":"m","%s":[%s,{"@type":"x","a":%s}]}' % (member, info, deep)
    answer = says(response(b'{"error":%s}' % error, 404 if binding == "HTTP+JSON" else 200))
    async with answering(answer) as url, connect(card(url, binding), attempts=1) as client:
        with pytest.raises(TaskNotFoundError, match="m"):
            await client.get_task("T1")


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize("what", sorted({*SLOW} - {"comments", "blank lines"}))
async def test_what_comes_slowly_and_is_no_stream_ends_without_a_deadline(binding: str, what: str) -> None:
    async with answering(SLOW[what]) as url, connect(card(url, binding), **LIMITS) as client:
        assert isinstance(await outcome(client, "stream"), ClientError | A2AError)


async def test_details_of_garbage_leave_the_error_that_they_are_of() -> None:
    details = (b"grpc-status-details-bin", b"////")
    async with grpc_server([opened(), trailers(b"5", details)]) as url:
        async with connect(card(url, "GRPC"), **LIMITS) as client:
            assert isinstance(await outcome(client, "get"), TaskNotFoundError)


async def test_messages_that_do_not_decode_are_the_agents_mistake() -> None:
    async with grpc_server(REFUSALS["a message of garbage"]) as url:
        async with connect(card(url, "GRPC"), **LIMITS) as client:
            assert isinstance(await outcome(client, "get"), InvalidAgentResponseError)
