"""A proxy that cuts, delays, duplicates and corrupts at random points: whatever is told in the end is true. BR-73."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest

from a2a_grpc import A2AError, Server
from a2a_grpc.client import Client, ClientError, connect
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.servicer import AgentServicer
from a2a_grpc.tasks.turn import Turn
from tests.client.scripted import BINDINGS, raw_server

RUNS = 12
TEXT = "the quick brown fox jumps over the lazy dog " * 2
MOST = 12_000  # bytes of a connection, about half of what a run needs
IDLE = 0.4  # seconds, after which the client takes a stream for dead; enough for a message to be taken

_EVENT = re.compile(rb"[0-9a-f]+\r\ndata: [^\n]*\n\n\r\n")

Pieces = AsyncIterator[bytes]
Fault = Callable[[Pieces, random.Random], Pieces]


class Typist(AgentServicer):
    """Types a text, and counts how often it was asked to."""

    asked = followed = 0

    async def SubscribeToTask(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        self.followed += 1
        async for event in super().SubscribeToTask(request, context):
            yield event

    async def execute(self, turn: Turn) -> None:
        self.asked += 1
        async with turn.artifact("text") as out:
            for letter in TEXT:
                await out.write(letter)
                await asyncio.sleep(0.001)  # so that it is still at work when a stream is cut


# What can happen to the bytes of one connection


async def cut(pieces: Pieces, chance: random.Random) -> Pieces:
    left = chance.randrange(MOST)
    async for data in pieces:
        yield data[:left]
        if (left := left - len(data)) <= 0:
            return


async def delay(pieces: Pieces, chance: random.Random) -> Pieces:
    """Some of it for longer than the client waits."""
    async for data in pieces:
        if chance.random() < 0.02:
            await asyncio.sleep(chance.uniform(0, 2 * IDLE))
        yield data


def corrupt(size: int) -> Fault:
    """Overwrites bytes on most connections, enough of them to be noticed: text that is not UTF-8, or a wrong length.

    On HTTP it spares the name of an SSE field: an event without it does not exist, and nobody can notice. On HTTP/2
    nobody notices a frame that is of no kind or of no stream, unless the length of the next one is wrong as well.
    """

    async def fault(pieces: Pieces, chance: random.Random) -> Pieces:
        at = chance.randrange(MOST) if chance.random() < 0.75 else 1 << 60
        async for data in pieces:
            yield _damaged(data, at, size)
            at -= len(data)

    return fault


def _damaged(data: bytes, at: int, size: int) -> bytes:
    start, end = max(0, at), min(len(data), at + size)
    line = data[:start].rpartition(b"\n")[2]
    if at >= 0 and b"data: ".startswith(line):
        start += len(b"data: ") - len(line)
    return data[:start] + b"\xff" * (end - start) + data[end:] if start < end else data


async def duplicate(pieces: Pieces, chance: random.Random) -> Pieces:
    """Says SSE events twice."""
    async for data in pieces:
        yield _EVENT.sub(lambda found: found[0] * chance.choice((1, 2)), data)


# The proxy


@asynccontextmanager
async def proxy(upstream: str, fault: Fault) -> AsyncIterator[str]:
    """Passes on what the server says through the fault, with other chances for each connection."""
    (host, port), numbers = upstream.rsplit(":", 1), count()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, int(port))
        there = asyncio.create_task(_copy(_read(reader), to_server))
        try:
            await _copy(fault(_read(from_server), random.Random(next(numbers))), writer)
        finally:
            there.cancel()
            to_server.transport.abort()
            writer.transport.abort()

    async with raw_server(serve) as url:
        yield url


async def _read(reader: asyncio.StreamReader) -> Pieces:
    while data := await reader.read(65536):
        yield data


async def _copy(pieces: Pieces, writer: asyncio.StreamWriter) -> None:
    async for data in pieces:
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def behind(agent: Typist, binding: str, fault: Fault) -> AsyncIterator[str]:
    """The URL of the agent, as the proxy passes it on."""
    async with asyncio.timeout(30), Server(agent, http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        upstream = server.grpc_address if binding == "GRPC" else urlsplit(server.http_url).netloc
        async with proxy(upstream, fault) as url:
            yield url


@asynccontextmanager
async def client_of(url: str, binding: str, **options: Any) -> AsyncIterator[Client]:
    card = pb.AgentCard(name="T", capabilities=pb.AgentCapabilities(streaming=True))
    card.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="1.0")
    async with connect(card, backoff=0.01, recoveries=20, attempts=20, **options) as client:
        yield client


# What comes of it

CORRUPT = {binding: corrupt(1024 if binding == "GRPC" else 64) for binding in BINDINGS}
FAULTS: list[Any] = [
    *(pytest.param(b, cut, {}, id=f"cut-{b}") for b in BINDINGS),
    *(pytest.param(b, delay, {"idle_timeout": IDLE}, id=f"delay-{b}") for b in BINDINGS),
    *(
        pytest.param(b, fault, {"idle_timeout": 2 * IDLE, "deadline": 1.0}, id=f"corrupt-{b}")
        for b, fault in CORRUPT.items()
    ),
    *(pytest.param(b, duplicate, {}, id=f"duplicate-{b}") for b in BINDINGS[1:]),
]


@pytest.mark.parametrize(("binding", "fault", "options"), FAULTS)
async def test_the_state_in_the_end_is_the_true_one(
    binding: str, fault: Fault, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_grpc.client.calls.LONGEST_BACKOFF", 0.1)
    agent, corrupted = Typist(), fault in CORRUPT.values()
    async with behind(agent, binding, fault) as url:
        outcomes = Counter(await asyncio.gather(*(outcome(url, binding, options) for _ in range(RUNS))))
    assert outcomes == {"true": RUNS}
    assert agent.followed or not (corrupted or fault is cut)  # or nothing was broken
    assert agent.asked <= RUNS  # never sent again


async def outcome(url: str, binding: str, options: dict[str, Any]) -> str:
    async with client_of(url, binding, **options) as client:
        try:
            answer = await client.ask("go", deadline=20)
        except (A2AError, ClientError) as error:
            return f"{type(error).__name__}: {error}"
    return "true" if answer.text == TEXT and answer.completed else f"false: {answer.text!r}"
