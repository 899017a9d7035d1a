"""One task, many who follow it, on every binding: each event encoded once, in order, without a gap or a double."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import pytest
from engine import (
    BytesStore,
    FaultError,
    Told,
    following,
    get,
    kinds,
    nothing_left,
    result_of,
    say,
    send,
    stream,
    subscription,
    until,
)
from google.protobuf.message import Message
from wires import All

from a2a_grpc import Server, encoded
from a2a_grpc.encoded import Encoded
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, Limits, Turn
from a2a_grpc.tasks.lifecycle import apply

SUBSCRIBERS, EVENTS = 100, 50


@asynccontextmanager
async def every(agent: AgentServicer) -> AsyncIterator[All]:
    async with Server(agent, http_port=0, grpc_port=0) as server, All(server) as wires:
        yield wires


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """How often an event was encoded in a form; snapshots, which each subscriber has of its own, are left out."""
    count: Counter[tuple[str, str]] = Counter()
    wire, to_json = Encoded.wire.fget, encoded.to_json
    assert wire

    def counted_wire(self: Encoded) -> bytes:
        if self._wire is None:
            count["wire", self.message.WhichOneof("payload")] += 1  # type: ignore[attr-defined]
        return wire(self)

    def counted_json(message: Message) -> bytes:
        if isinstance(message, pb.StreamResponse):
            count["json", message.WhichOneof("payload") or ""] += 1
        return to_json(message)

    monkeypatch.setattr(Encoded, "wire", property(counted_wire))
    monkeypatch.setattr(encoded, "to_json", counted_json)
    return count


async def test_each_event_is_encoded_once_per_form_however_many_follow(encodings: Counter[tuple[str, str]]) -> None:
    """100 subscribers per binding, 50 events: 50 encodings per form, and byte for byte the same events for all."""
    agent = Told()
    async with every(agent) as wires, AsyncExitStack() as stack:
        task = await send(agent, say("ask"))
        follow = [following(one, "SubscribeToTask", subscription(task.id)) for one in wires.wires * SUBSCRIBERS]
        streams = [await stack.enter_async_context(one) for one in follow]
        snapshots = await asyncio.gather(*(anext(events) for events in streams))
        assert len({one.SerializeToString() for one in snapshots}) == 1
        encodings.clear()
        await send(agent, say(f"chunks {EVENTS - 2}", task.id, return_immediately=True))
        seen = await asyncio.gather(*(_rest(events) for events in streams))
    assert kinds(seen[0]) == ["WORKING", *map(str, range(EVENTS - 2)), "COMPLETED"]
    assert all(events == seen[0] for events in seen[1:])
    assert len(seen) == 3 * SUBSCRIBERS
    assert encodings == {
        ("wire", "status_update"): 2, ("wire", "artifact_update"): EVENTS - 2,
        ("json", "status_update"): 2, ("json", "artifact_update"): EVENTS - 2,
    }  # fmt: skip
    await nothing_left(agent)


async def _rest(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


async def count_up(turn: Turn) -> None:
    """Chunks and statuses, with the loop turning in between as it likes."""
    for index in range(EVENTS):
        if index % 5 == 4:
            await turn.status(f"after {index}")
        else:
            await turn.add_artifact("n", str(index), artifact_id=f"A{index % 3}")
        for _ in range(random.Random(index).randrange(4)):
            await asyncio.sleep(0)


@pytest.mark.parametrize("store", [None, BytesStore], ids=["memory", "bytes"])
async def test_whoever_joins_at_any_moment_misses_nothing_and_sees_nothing_twice(store: Any) -> None:
    """STREAM-SUB-001: the snapshot with the events after it is the task, for everyone."""
    agent = Told({"count": count_up}, store=store and store())
    task = await send(agent, say("ask"))
    joined: list[asyncio.Task[list[Any]]] = []

    async def join(after: int) -> list[Any]:
        for _ in range(after):
            await asyncio.sleep(0)
        async with stream(agent, subscription(task.id)) as events:
            return await _rest(events)

    joined = [asyncio.create_task(join(after)) for after in range(0, 150, 3)]
    ended = await send(agent, say("count", task.id))
    everything: list[Any] = []
    for one in await asyncio.gather(*joined, return_exceptions=True):
        if isinstance(one, BaseException):
            assert "has ended" in str(one)  # it came too late
            continue
        first, *events = one
        everything = everything or events
        assert [e.SerializeToString() for e in events] == [
            e.SerializeToString() for e in everything[len(everything) - len(events) :]
        ]
        rebuilt = first.task
        for event in events:
            apply(rebuilt, event)
        assert _without_history(rebuilt) == _without_history(ended)
    assert len(everything) > EVENTS
    assert len({len(j.result()) for j in joined if not j.exception()}) > 5, "they joined at different moments"
    await nothing_left(agent)


def _without_history(task: pb.Task) -> pb.Task:
    """Who joined before the message that began the turn has not seen that."""
    bare = pb.Task.FromString(task.SerializeToString())
    del bare.history[:]
    return bare


async def test_joining_at_random_moments_on_every_binding() -> None:
    async def act(turn: Turn) -> None:
        for index in range(100):
            await turn.add_artifact("n", str(index), artifact_id=str(index))
            await asyncio.sleep(0.002)

    agent = Told({"act": act})
    chance = random.Random(7)
    async with every(agent) as wires:
        task = await send(agent, say("ask"))

        async def join(one: Any) -> tuple[list[str], list[str]]:
            await asyncio.sleep(chance.random() * 0.15)
            async with following(one, "SubscribeToTask", subscription(task.id)) as events:
                first = await anext(events)
                return result_of(first.task), [k for k in kinds(await _rest(events)) if k.isdigit()]

        joined = [asyncio.create_task(join(one)) for one in wires.wires for _ in range(15)]
        await send(agent, say("act", task.id))
        for one in await asyncio.gather(*joined, return_exceptions=True):
            if isinstance(one, BaseException):
                assert isinstance(one, FaultError)
                assert one.fault.reason == "UNSUPPORTED_OPERATION"
            else:
                assert one[0] + one[1] == [str(index) for index in range(100)]
    await nothing_left(agent)


async def test_one_that_leaves_is_missed_by_nobody() -> None:
    """STREAM-ORDER-004, and X-STR-2 with readers that leave in the middle."""
    agent = Told()
    async with every(agent) as wires:
        task = await send(agent, say("ask"))
        async with following(wires.wires[0], "SubscribeToTask", subscription(task.id)) as stays:
            await anext(stays)

            joined: list[int] = []

            async def leave(one: Any, after: int) -> None:
                async with following(one, "SubscribeToTask", subscription(task.id)) as events:
                    async with aclosing(events):  # type: ignore[type-var]
                        await anext(events)
                        joined.append(after)
                        for _ in range(after - 1):
                            await anext(events)

            leaving = [asyncio.create_task(leave(one, after)) for one in wires.wires for after in range(1, 11)]
            await until(lambda: len(joined) == len(leaving))
            await send(agent, say("chunks 100", task.id, return_immediately=True))
            await asyncio.gather(*leaving)
            assert kinds(await _rest(stays)) == ["WORKING", *map(str, range(100)), "COMPLETED"]
    await nothing_left(agent)


async def test_a_laggard_on_the_wire_is_cut_off_with_a_clear_error() -> None:
    """What it has not taken when there is no more room is dropped; it is told, and the task is whole."""

    async def flood(turn: Turn) -> None:
        async with turn.artifact("flood") as out:
            for _ in range(300):
                await out.write("x" * 48 * 1024)  # a line that every aiohttp reads
                await asyncio.sleep(0)

    agent = Told({"flood": flood})
    agent.limits = Limits(events_waiting=20)
    async with every(agent) as wires:
        for one in wires.wires:
            task = await send(agent, say("ask"))
            async with following(one, "SubscribeToTask", subscription(task.id)) as slow:
                await anext(slow)
                await send(agent, say("flood", task.id))
                with pytest.raises(FaultError) as caught:
                    await _rest(slow)
            assert caught.value.fault.reason == "RESOURCE_EXHAUSTED"
            assert caught.value.fault.message.startswith("This stream was read too slowly; subscribe again")
            assert len((await get(agent, task.id)).artifacts[0].parts) == 300
    await nothing_left(agent)


async def test_a_burst_without_a_pause_is_read_whole_by_readers_that_read() -> None:
    """An agent that awaits nothing but the engine leaves its readers time to read."""
    agent = Told()
    agent.limits = Limits(events_waiting=200)
    async with stream(agent, say("chunks 2000")) as events:
        seen = kinds(await _rest(events))
    assert seen == ["[SUBMITTED]", "WORKING", *map(str, range(2000)), "COMPLETED"]
    await nothing_left(agent)
