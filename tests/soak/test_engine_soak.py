"""Ten thousand tasks, 500 at a time, on all bindings, with clients that leave: nothing is lost, and nothing is left.

The server is a process of its own (this file, run as a program), so that what is measured is the server's alone. A line
on its standard input is answered with a line of what it holds.
"""

import asyncio
import ctypes
import gc
import json
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from engine import FaultError, following, kinds, result_of, say, status_of, subscription
from wires import GrpcWire, JsonRpcWire, RestWire

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, MemoryStore, Turn
from a2a_grpc.tasks.lifecycle import TERMINAL
from a2a_grpc.tasks.store import Scope

TASKS, AT_ONCE, KEPT = 10_000, 500, 100
CHUNKS = 5
MOST_GROWTH = 2 * 1024 * 1024


# The server


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__(most_ended=KEPT)
        self.made, self.ended = 0, 0

    async def create(self, scope: Scope, task: pb.Task) -> None:
        self.made += 1
        await super().create(scope, task)

    async def append(self, scope: Scope, task: pb.Task, version: int, event: pb.StreamResponse) -> None:
        self.ended += event.HasField("status_update") and event.status_update.status.state in TERMINAL
        await super().append(scope, task, version, event)


class Busy(AgentServicer):
    """`work` streams chunks, with pauses; `ask` asks first; `wait` waits to be canceled."""

    async def execute(self, turn: Turn) -> None:
        if turn.text == "ask":
            await turn.ask("Really?")
        elif turn.text == "wait":
            await turn.status("waiting")
            await asyncio.Event().wait()
        else:
            async with turn.artifact("work") as out:
                for index in range(CHUNKS):
                    await out.write(str(index))
                    await asyncio.sleep(0.001)


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def held(agent: Busy, store: Counting, warnings: Warnings) -> dict[str, Any]:
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)  # what the allocator keeps for later is not held by the server
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "asyncio tasks": len(asyncio.all_tasks()),
        "files": len(os.listdir("/proc/self/fd")),
        "live tasks": len(agent._lives),
        "subscribers": sum(len(live.topic) for live in agent._lives.values()),
        "turns": agent._turns,
        "kept": sum(map(len, store._scopes.values())),
        "made": store.made,
        "ended": store.ended,
        "rss": pages * os.sysconf("SC_PAGE_SIZE"),
        "warnings": warnings.texts[:5],
    }


async def main() -> None:
    store, warnings = Counting(), Warnings()
    logging.getLogger().addHandler(warnings)
    agent = Busy(store=store)
    async with Server(agent, http_port=0, grpc_port=0) as server:
        print(json.dumps([server.http_url, server.grpc_address]), flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.readline():
            print(json.dumps(held(agent, store, warnings)), flush=True)


# Its clients


class Service:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> Any:
        assert self.process.stdout
        return json.loads(await self.process.stdout.readline())

    async def held(self) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        return await self.line()

    async def warm(self, http: str, grpc: str) -> dict[str, Any]:
        """What it holds at the start; grpc opens a socket of its own at the first call."""
        first = await self.held()
        async with clients(http, grpc) as wires:
            for one in wires:
                await blocking(one, one)
        return await self.at_rest({**first, "files": first["files"] + 1})

    async def at_rest(self, expected: dict[str, Any]) -> dict[str, Any]:
        """What it holds once that is what it held at the start, or after a while."""
        for _ in range(200):
            now = await self.held()
            if all(now[key] <= expected[key] for key in AT_REST):
                break
            await asyncio.sleep(0.05)
        return now


AT_REST = ("asyncio tasks", "files", "live tasks", "subscribers", "turns")


@asynccontextmanager
async def service() -> AsyncIterator[tuple[Service, list[Any]]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    running = Service(process)
    try:
        yield running, await running.line()
        assert process.stdin
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def clients(http: str, grpc: str) -> AsyncIterator[list[Any]]:
    wires: list[Any] = [GrpcWire(grpc), JsonRpcWire(http + "/"), RestWire(http)]
    for one in wires[1:]:
        await one.session.close()
        one.session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=60), connector=aiohttp.TCPConnector(limit=0)
        )
    try:
        yield wires
    finally:
        for one in wires:
            await one.close()
        gc.collect()  # grpc keeps a connection as long as there are objects of its calls


WHOLE = "".join(map(str, range(CHUNKS)))


async def blocking(one: Any, other: Any) -> str:
    task = (await one.call("SendMessage", say("work"))).only.task
    assert (status_of(task), result_of(task)) == ("COMPLETED", [WHOLE])
    return "whole"


async def streaming(one: Any, other: Any) -> str:
    outcome = await one.call("SendStreamingMessage", say("work"))
    assert kinds(outcome.messages) == ["[SUBMITTED]", "WORKING", *WHOLE, "COMPLETED"]
    return "whole"


async def leaving(one: Any, other: Any) -> str:
    """Nobody waits for the end: that it comes is counted by the server."""
    async with following(one, "SendStreamingMessage", say("work")) as events:
        for _ in range(random.randrange(1, 4)):
            await anext(events)
    return "left"


async def leaving_a_call(one: Any, other: Any) -> str:
    call = asyncio.create_task(one.call("SendMessage", say("work")))
    await asyncio.sleep(random.random() * 0.02)
    call.cancel()
    await asyncio.wait([call])
    return "left"


async def subscribing(one: Any, other: Any) -> str:
    task = (await one.call("SendMessage", say("ask"))).only.task
    async with following(other, "SubscribeToTask", subscription(task.id)) as events:
        assert kinds([await anext(events)]) == ["[INPUT_REQUIRED]"]
        done = (await one.call("SendMessage", say("work", task.id))).only.task
        assert (status_of(done), result_of(done)) == ("COMPLETED", [WHOLE])
        assert kinds([event async for event in events]) == ["WORKING", *WHOLE, "COMPLETED"]
    return "whole"


async def canceling(one: Any, other: Any) -> str:
    async with following(one, "SendStreamingMessage", say("wait")) as events:
        id_ = (await anext(events)).task.id
        assert status_of((await other.call("CancelTask", {"id": id_})).only) == "CANCELED"
        assert kinds([event async for event in events])[-1] == "CANCELED"
    return "canceled"


WAYS = [blocking, streaming, leaving, leaving_a_call, subscribing, canceling]


async def run(wires: list[Any]) -> Counter[str]:
    """All tasks, so many at once. What each one asserts is that nothing of it is lost."""
    results: Counter[str] = Counter()
    jobs = iter(range(TASKS))

    async def work() -> None:
        for _ in jobs:
            one, other = random.choice(wires), random.choice(wires)
            results[await random.choice(WAYS)(one, other)] += 1

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return results


@pytest.mark.soak
async def test_ten_thousand_tasks_leave_nothing_behind() -> None:
    async with service() as (server, (http, grpc)):
        before = await server.warm(http, grpc)
        after: list[dict[str, Any]] = []
        for _ in range(2):
            async with clients(http, grpc) as wires:
                results = await run(wires)
            assert results.total() == TASKS
            after.append(await server.at_rest(before))
        for held_ in after:
            assert {key: held_[key] for key in AT_REST} == {key: before[key] for key in AT_REST}
            assert held_["made"] == held_["ended"], "a task was lost"
            assert held_["kept"] == KEPT
            assert held_["warnings"] == []
        assert after[1]["made"] > 1.7 * TASKS  # a call that was left early may never have become one
        assert after[1]["rss"] - after[0]["rss"] <= MOST_GROWTH


async def test_the_way_of_the_soak() -> None:
    """One of each, so that the soak itself is known to work."""
    async with service() as (server, (http, grpc)):
        before = await server.warm(http, grpc)
        async with clients(http, grpc) as wires:
            for way in WAYS:
                for one in wires:
                    assert await way(one, wires[0])
            with pytest.raises(FaultError):
                async with following(wires[0], "SubscribeToTask", subscription("nope")) as events:
                    await anext(events)
        held_ = await server.at_rest(before)
        assert {key: held_[key] for key in AT_REST} == {key: before[key] for key in AT_REST}
        assert held_["made"] == held_["ended"]
        assert held_["warnings"] == []


if __name__ == "__main__":
    asyncio.run(main())
