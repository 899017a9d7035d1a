"""How much an agent takes on: every limit, answered with the right error on every binding, and nothing left of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any

import aiohttp
import pytest
from engine import (
    Told,
    called_by,
    cancel,
    get,
    kinds,
    nothing_left,
    say,
    send,
    state,
    status_of,
    stream,
    subscription,
    text_of,
    until,
)
from wires import All, Outcome

from a2a_grpc import Server
from a2a_grpc.errors import InvalidParamsError, ResourceExhaustedError
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import Limits, MemoryStore, PushPolicy, Turn


def told(limits: Limits, **given: Any) -> Told:
    agent = Told(**given)
    agent.limits = limits
    return agent


@asynccontextmanager
async def every(agent: Told) -> AsyncIterator[All]:
    async with Server(agent, http_port=0, grpc_port=0) as server, All(server) as wires:
        yield wires


def exhausted(outcomes: list[Outcome], text: str) -> None:
    """RESOURCE_EXHAUSTED, 429; a time to try again is told."""
    for outcome in outcomes:
        assert outcome.fault
        assert (outcome.fault.reason, outcome.fault.message) == ("RESOURCE_EXHAUSTED", text)
    assert [o.fault.wire for o in outcomes if o.fault] == [8, -32603, 429]
    assert [o.headers.get("retry-after") for o in outcomes] == [None, "1", "1"]


async def hold(agent: Told, **fields: Any) -> pb.Task:
    before = len(agent.turns)
    task = await send(agent, say("hold", return_immediately=True, **fields))
    await until(lambda: len(agent.turns) > before)
    return task


SENDS = ("SendMessage", "SendStreamingMessage")


async def test_turns_of_the_agent() -> None:
    agent = told(Limits(turns=2))
    async with every(agent) as wires:
        held = [await hold(agent) for _ in range(2)]
        for method in SENDS:
            exhausted(await wires.call(method, say("done")), "The agent is busy; try again later")
            exhausted(await wires.call(method, say("done", held[0].id)), "The agent is busy; try again later")
        assert (await wires.call("ListTasks", {}))[0].only.total_size == 2
        await cancel(agent, held[0].id)
        assert [status_of(o.only.task) for o in await wires.call("SendMessage", say("done"))] == ["COMPLETED"] * 3
        agent.go.set()
    await nothing_left(agent)


async def test_turns_of_one_owner() -> None:
    """One who has too many does not stand in the way of others, and a tenant is another owner."""
    agent = told(Limits(turns_per_owner=1))
    async with called_by("ann"):
        await hold(agent)
        with pytest.raises(ResourceExhaustedError, match="You have too many messages under way; try again later"):
            await send(agent, say("done"))
        assert status_of(await send(agent, say("done", tenant="acme"))) == "COMPLETED"
    async with called_by("bob"):
        assert status_of(await send(agent, say("done"))) == "COMPLETED"
    agent.go.set()
    await nothing_left(agent)


async def test_a_turn_counts_until_it_is_over_however_it_ends() -> None:
    agent = told(Limits(turns=1, inactivity=0.05, cancel_grace=0.05))
    for text in ("done", "crash", "nothing", "reject", "ask", "hold"):
        await send(agent, say(text))
        await until(lambda: not agent._turns)
    task = await hold(agent)
    await cancel(agent, task.id)
    await nothing_left(agent)


@pytest.mark.parametrize("most", [0, 2])
async def test_messages_that_wait_for_a_task(most: int) -> None:
    agent = told(Limits(queued_messages=most))
    text = "Too many messages are waiting for this task; send again later"
    async with every(agent) as wires:
        task = await hold(agent)
        waiting = [asyncio.create_task(send(agent, say("done", task.id))) for _ in range(most)]
        await until(lambda: agent._turns == 1 + most)
        for method in SENDS:
            exhausted(await wires.call(method, say("done", task.id)), text)
        assert agent._turns == 1 + most
        assert [text_of(m) for m in (await get(agent, task.id)).history] == ["hold"]
        assert status_of(await send(agent, say("done"))) == "COMPLETED"
        await cancel(agent, task.id)
        await asyncio.gather(*waiting, return_exceptions=True)
        asked = await send(agent, say("ask"))  # none of them waits for a task that is idle
        assert status_of(await send(agent, say("done", asked.id))) == "COMPLETED"
    await nothing_left(agent)


async def test_parts_of_a_message() -> None:
    agent = told(Limits(parts=2))
    request = say("done")
    request.message.parts.add(raw=b"2")
    async with every(agent) as wires:
        assert [status_of(o.only.task) for o in await wires.call("SendMessage", request)] == ["COMPLETED"] * 3
        request.message.parts.add(raw=b"3")
        for method in SENDS:
            for outcome in await wires.call(method, request):
                assert outcome.fault
                assert outcome.fault.reason == "INVALID_PARAMS"
                assert outcome.fault.violations == [("message.parts", "has 3 parts; at most 2")]
    assert len(agent.turns) == 3


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_messages_of_the_history(most: int) -> None:
    agent = told(Limits(history=most))
    task = await send(agent, say("ask"))
    for index in range(3):
        await send(agent, say(f"ask {index}", task.id))
    everything = ["ask", "Which?", "ask 0", "Which?", "ask 1", "Which?", "ask 2"]
    expected = everything[len(everything) - most :]
    found = await get(agent, task.id)
    assert [text_of(m) for m in found.history] == expected
    async with stream(agent, subscription(task.id)) as events:
        assert [text_of(m) for m in (await anext(events)).task.history] == expected
    ended = await send(agent, say("done", task.id, history_length=99))
    assert [text_of(m) for m in ended.history] == [*everything, "Which?", "done"][len(everything) + 2 - most :]
    assert await get(agent, task.id) == ended
    await nothing_left(agent)


async def test_messages_of_the_history_while_a_turn_runs() -> None:
    seen: list[int] = []

    async def talk(turn: Turn) -> None:
        for index in range(10):
            await turn.status(str(index))
            seen.append(len(turn.history))

    agent = told(Limits(history=3), actions={"talk": talk})
    task = await send(agent, say("talk"))
    assert max(seen) == 3
    for length in ({}, {"history_length": 99}):
        found = await agent.GetTask(pb.GetTaskRequest(id=task.id, **length), _CONTEXT)
        assert [text_of(m) for m in found.history] == ["7", "8", "9"]


async def test_parts_of_artifacts() -> None:
    """The agent's own fault, so the task fails and says why; test_turn.py looks closer."""
    agent = told(Limits(artifact_parts=3))
    async with every(agent) as wires:
        for outcome in await wires.call("SendStreamingMessage", say("chunks 5")):
            assert kinds(outcome.messages) == ["[SUBMITTED]", "WORKING", "0", "1", "2", "FAILED"]
            last = outcome.messages[-1].status_update.status.message
            assert text_of(last) == "The artifacts of a task have at most 3 parts"


async def test_parts_of_artifacts_are_counted_over_turns() -> None:
    async def add(turn: Turn) -> None:
        await turn.add_artifact("r", "a", "b")
        await turn.ask("more?")

    agent = told(Limits(artifact_parts=5), actions={"add": add})
    task = await send(agent, say("add"))
    await nothing_left(agent)
    assert status_of(await send(agent, say("add", task.id))) == "INPUT_REQUIRED"
    assert status_of(await send(agent, say("add", task.id))) == "FAILED"


async def test_events_that_wait_for_a_reader() -> None:
    """X-STR-2: it is cut off, told so, and may come again; test_fan_out.py does it on every binding."""
    agent = told(Limits(events_waiting=4))
    task = await send(agent, say("ask"))
    async with stream(agent, subscription(task.id)) as slow, stream(agent, subscription(task.id)) as quick:
        assert kinds([await anext(slow), await anext(quick)]) == ["[INPUT_REQUIRED]"] * 2
        asked = await send(agent, say("chunks 9", task.id, return_immediately=True))
        assert asked.id == task.id
        await nothing_left_but(agent, 2)
        with pytest.raises(ResourceExhaustedError, match="read too slowly; subscribe again, or read the task"):
            await anext(slow)
    assert await state(agent, task.id) == "COMPLETED"
    await nothing_left(agent)


async def nothing_left_but(agent: Told, subscribers: int) -> None:
    await until(lambda: not agent._turns)
    assert sum(len(live.topic) for live in agent._lives.values()) == subscribers


async def test_subscribers_of_a_task() -> None:
    agent = told(Limits(subscribers=2))
    text = "Too many streams follow this task"
    async with every(agent) as wires:
        task = await send(agent, say("ask"))
        async with stream(agent, subscription(task.id)) as one:
            await anext(one)
            async with stream(agent, subscription(task.id)) as other:
                await anext(other)
                exhausted(await wires.call("SubscribeToTask", {"id": task.id}), text)
                exhausted(await wires.call("SendStreamingMessage", say("done", task.id)), text)
                assert await state(agent, task.id) == "INPUT_REQUIRED"
            async with stream(agent, subscription(task.id)) as again:
                await anext(again)
        assert status_of(await send(agent, say("done", task.id))) == "COMPLETED"
    await nothing_left(agent)


async def test_webhooks_of_a_task() -> None:
    """A message that asks for one too many is refused, and its task is as before."""

    class Pushing(Told):
        push = PushPolicy()

    agent = Pushing()
    agent.limits = Limits(webhooks=2)
    async with every(agent) as wires:
        task = await send(agent, say("ask"))
        hook = {"taskId": task.id, "url": "https://example.com"}
        for id_ in ("P", "Q", "P"):
            made = await wires.wires[0].call("CreateTaskPushNotificationConfig", {**hook, "id": id_})
            assert made.only.id == id_
        exhausted(await wires.call("CreateTaskPushNotificationConfig", hook), "A task has at most 2 webhooks")
        inline = pb.TaskPushNotificationConfig(url="https://example.com")
        for method in SENDS:
            request = say("done", task.id, task_push_notification_config=inline)
            exhausted(await wires.call(method, request), "A task has at most 2 webhooks")
        assert await get(agent, task.id) == task
        assert len(agent.turns) == 1


async def test_tasks_that_are_kept() -> None:
    agent = Told(store=MemoryStore(most_ended=3))
    made = [(await send(agent, say("done"))).id for _ in range(5)]
    async with every(agent) as wires:
        listed = (await wires.call("ListTasks", {}))[0].only
        assert {t.id for t in listed.tasks} == set(made[2:])
        for outcome in await wires.call("GetTask", {"id": made[0]}):
            assert outcome.fault
            assert outcome.fault.reason == "TASK_NOT_FOUND"


async def test_a_burst_stops_nobody() -> None:
    """BR-69: 200 sends at once, each with a stream of events and half with a reader that never reads."""
    agent = told(Limits(events_waiting=100))
    async with every(agent) as wires, aiohttp.ClientSession() as http:
        card = wires.wires[2].base + "/.well-known/agent-card.json"  # type: ignore[union-attr]
        sends = [asyncio.create_task(send(agent, say("chunks 500", return_immediately=True))) for _ in range(100)]
        unread = [agent.SendStreamingMessage(say("chunks 500"), _CONTEXT) for _ in range(100)]
        begun = [asyncio.create_task(anext(one)) for one in unread]
        async with asyncio.timeout(10):
            while agent._turns or not all(s.done() for s in sends):
                async with http.get(card) as response:
                    assert response.status == 200
        await asyncio.gather(*sends, *begun)
        for one in unread:
            with pytest.raises(ResourceExhaustedError):
                await anext(one)
        listed = (await wires.call("ListTasks", {"status": "TASK_STATE_COMPLETED"}))[0].only
        assert listed.total_size == 200
    await nothing_left(agent)


class _Context:
    extensions = ()

    def parameter(self, *names: str) -> list[str]:
        return []

    def time_remaining(self) -> None:
        return None


_CONTEXT = _Context()


# The limits themselves


@pytest.mark.parametrize("field", fields(Limits), ids=lambda f: f.name)
def test_limits_that_there_are_not(field: Any) -> None:
    with pytest.raises(ValueError, match=f"{field.name} must be (0 or )?more( than 0)?, not -1"):
        Limits(**{field.name: -1})


@pytest.mark.parametrize("name", ["inactivity", "events_waiting"])
def test_limits_that_may_not_be_nothing(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be more than 0, not 0"):
        Limits(**{name: 0})


def test_an_error_of_a_limit_is_documented() -> None:
    assert {ResourceExhaustedError.reason, InvalidParamsError.reason} == {"RESOURCE_EXHAUSTED", "INVALID_PARAMS"}
