"""A proxy that cuts connections at random bytes: whatever is told in the end is true. BR-73."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from a2a_grpc import Server
from a2a_grpc.client import ConnectError, StreamBrokenError, connect
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.servicer import AgentServicer
from a2a_grpc.tasks.turn import Turn
from tests.client.scripted import BINDINGS, raw_server

RUNS = 12
TEXT = "the quick brown fox jumps over the lazy dog " * 3


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


@asynccontextmanager
async def cutting(host: str, port: int, chance: random.Random, most: int) -> AsyncIterator[str]:
    """Passes on at most a random number of bytes to the client on each connection, then cuts it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, port)
        upstream = asyncio.create_task(_copy(reader, to_server, None))
        try:
            await _copy(from_server, writer, chance.randrange(most))
        finally:
            upstream.cancel()
            to_server.transport.abort()
            writer.transport.abort()

    async with raw_server(serve) as url:
        yield url


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
    while data := await reader.read(65536):
        writer.write(data[:most] if most is not None else data)
        await writer.drain()
        if most is not None and (most := most - len(data)) <= 0:
            return


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_state_in_the_end_is_the_true_one(binding: str) -> None:
    agent, chance, outcomes = Typist(), random.Random(7), Counter[str]()
    async with asyncio.timeout(30), Server(agent, http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        upstream = server.grpc_address if binding == "GRPC" else urlsplit(server.http_url).netloc
        host, port = upstream.rsplit(":", 1)
        async with cutting(host, int(port), chance, most=16_000) as url:
            for _ in range(RUNS):
                outcomes[await outcome(url, binding)] += 1
    assert outcomes["true"] >= RUNS // 2, outcomes
    assert agent.followed  # or nothing was cut
    assert {*outcomes} <= {"true", "unknown"}
    assert agent.asked <= RUNS  # never sent again


async def outcome(url: str, binding: str) -> str:
    card = pb.AgentCard(name="T", capabilities=pb.AgentCapabilities(streaming=True))
    card.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="1.0")
    async with connect(card, backoff=0.01, recoveries=20, attempts=20) as client:
        try:
            answer = await client.ask("go", deadline=10)
        except (ConnectError, StreamBrokenError) as error:
            return f"lost {error.task_id}" if getattr(error, "task_id", "") else "unknown"  # cut before it was known
    return "true" if answer.text == TEXT and answer.completed else f"false: {answer.text!r}"
