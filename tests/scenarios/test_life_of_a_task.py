"""The whole life of a task, on every binding and across them: made on one, followed on another, ended on the third."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
import grpc.aio
import pytest
from aiohttp import web
from engine import (
    FaultError,
    Told,
    following,
    kinds,
    nothing_left,
    result_of,
    say,
    status_of,
    subscription,
    text_of,
    until,
)
from google.protobuf.json_format import ParseDict
from wires import BINDINGS, All, Outcome, wire

from a2a_grpc import Server, TaskNotCancelableError
from a2a_grpc.caller import Caller, caller
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, Turn
from a2a_grpc.tasks.push_policy import PushPolicy

ORDERS = list(itertools.permutations(BINDINGS))
ENDS = {"result": "COMPLETED", "fail": "FAILED", "reject": "REJECTED", "crash": "FAILED", "nothing": "FAILED"}


class SetCaller(grpc.aio.ServerInterceptor):
    """Takes the word of a header for who is calling."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        caller.set(Caller(dict(details.invocation_metadata).get("x-caller", "")))
        return await continuation(details)


class Wires(dict[str, Any]):
    """The same server by the name of a binding."""

    async def call(self, binding: str, method: str, request: Any, who: str = "") -> Any:
        outcome = await self[binding].call(method, request, {"X-Caller": who} if who else {})
        return outcome.only if outcome.fault is None and method not in STREAMS else outcome

    async def every(self, method: str, request: Any, who: str = "") -> list[Outcome]:
        return [await w.call(method, request, {"X-Caller": who} if who else {}) for w in self.values()]

    async def send(self, binding: str, request: pb.SendMessageRequest, who: str = "") -> pb.Task:
        return (await self.call(binding, "SendMessage", request, who)).task

    async def get(self, binding: str, id_: str, who: str = "", **fields: Any) -> Any:
        return await self.call(binding, "GetTask", pb.GetTaskRequest(id=id_, **fields), who)


STREAMS = ("SendStreamingMessage", "SubscribeToTask")


@asynccontextmanager
async def serving(agent: AgentServicer, **options: Any) -> AsyncIterator[Wires]:
    async with Server(agent, http_port=0, grpc_port=0, interceptors=[SetCaller()], **options) as server:
        wires = Wires({name: await wire(name, server) for name in BINDINGS})
        try:
            yield wires
        finally:
            for one in wires.values():
                await one.close()


def same_fault(outcomes: list[Outcome], reason: str) -> Any:
    faults = [outcome.fault for outcome in outcomes]
    assert all(faults), faults
    assert len({repr(fault.same) for fault in faults if fault}) == 1, faults
    assert faults[0]
    assert faults[0].reason == reason
    return faults[0]


async def rest_of(events: AsyncIterator[Any]) -> list[str]:
    return kinds([event async for event in events])


# One binding


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("text", ENDS)
async def test_a_blocking_send_returns_the_ended_task(binding: str, text: str) -> None:
    """CORE-SEND-001, CORE-EXECUTION-MODE-001, CORE-MULTI-001a, -003, BR-04."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send(binding, say(text))
        assert status_of(task) == ENDS[text]
        assert task.context_id
        assert len(task.id) == 36
        assert [m.message_id for m in task.history] == [f"m-{text}"]
        assert task.history[0].task_id == task.id
        assert result_of(task) == (["result"] if text == "result" else [])
        assert await wires.get(binding, task.id) == task
    await nothing_left(agent)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("text", ["ask", "auth", "patient"])
async def test_a_blocking_send_returns_when_the_agent_waits(binding: str, text: str) -> None:
    """X-INTASK-3: on AUTH_REQUIRED although the execution goes on."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send(binding, say(text))
        assert status_of(task) == ("INPUT_REQUIRED" if text == "ask" else "AUTH_REQUIRED")
        assert task.status.message.parts[0].text in ("Which?", "Allow me")
        assert bool(agent._turns) == (text == "patient")
        agent.go.set()
        if text == "patient":
            await nothing_left(agent)
            assert status_of(await wires.get(binding, task.id)) == "COMPLETED"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_return_immediately(binding: str) -> None:
    """CORE-EXECUTION-MODE-002: the task exists; its execution goes on."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send(binding, say("hold", return_immediately=True))
        assert status_of(task) == "SUBMITTED"
        await until(lambda: agent.turns)
        agent.go.set()
        await nothing_left(agent)
        found = await wires.get(binding, task.id)
        assert (status_of(found), result_of(found)) == ("COMPLETED", ["held"])
        for text in ("answer", "ask"):  # X-SEND-1: no effect on a message; a task is there at once, whatever follows
            reply = await wires.call(binding, "SendMessage", say(text, return_immediately=True))
            assert reply.WhichOneof("payload") == ("message" if text == "answer" else "task")


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("immediately", [False, True])
async def test_a_stream_begins_with_the_task_and_ends_with_it(binding: str, immediately: bool) -> None:
    """CORE-STREAM-003, X-STR-1, X-STR-4, X-SEND-1."""
    agent = Told()
    async with serving(agent) as wires:
        outcome = await wires.call(binding, "SendStreamingMessage", say("chunks 3", return_immediately=immediately))
        assert kinds(outcome.messages) == ["[SUBMITTED]", "WORKING", "0", "1", "2", "COMPLETED"]
        first, *events = outcome.messages
        assert [m.message_id for m in first.task.history] == ["m-chunks 3"]
        for event in events:
            update = event.status_update if event.HasField("status_update") else event.artifact_update
            assert (update.task_id, update.context_id) == (first.task.id, first.task.context_id)
        assert [e.artifact_update.append for e in events[1:4]] == [False, True, True]
        assert [e.artifact_update.last_chunk for e in events[1:4]] == [False, False, True]
        assert result_of(await wires.get(binding, first.task.id)) == ["012"]
    await nothing_left(agent)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_direct_message(binding: str) -> None:
    """CORE-STREAM-002, X-ID-2, X-OP-5, A-31: one message, no task, nothing stored."""
    agent = Told()
    async with serving(agent) as wires:
        reply = (await wires.call(binding, "SendMessage", say("answer"))).message
        assert (reply.role, text_of(reply), reply.task_id) == (pb.ROLE_AGENT, "direct", "")
        assert reply.message_id
        assert reply.context_id
        kept = (await wires.call(binding, "SendMessage", say("answer", context_id="mine"))).message
        assert kept.context_id == "mine"
        outcome = await wires.call(binding, "SendStreamingMessage", say("answer", return_immediately=True))
        assert kinds(outcome.messages) == ["message"]
        assert (await wires.call(binding, "ListTasks", {})).total_size == 0
    assert not agent.turns


async def test_an_answer_that_raises_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    """A-31, X-ERR-5: with a reference that the log has too."""

    class Broken(Told):
        async def answer(self, turn: Turn) -> str | None:
            raise RuntimeError("a secret")

    agent = Broken()
    async with serving(agent) as wires:
        for method in ("SendMessage", "SendStreamingMessage"):
            outcomes = await wires.every(method, say("done"))
            fault = same_fault(outcomes, "INTERNAL_ERROR")
            assert "secret" not in fault.message
            for outcome in outcomes:
                assert outcome.fault
                assert outcome.fault.metadata["reference"] in caplog.text
        assert (await wires.call("rest", "ListTasks", {})).total_size == 0


# Across the bindings


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_made_on_one_followed_on_another_and_ended_on_the_third(order: tuple[str, str, str]) -> None:
    """BIND-EQUIV-002, STREAM-SUB-001, -002, STREAM-ORDER-002, -003, X-STR-2."""
    made, followed, ended = order
    agent = Told()
    async with serving(agent) as wires:
        async with following(wires[made], "SendStreamingMessage", say("ask")) as first:
            snapshot = (await anext(first)).task
            assert await rest_of(first) == ["INPUT_REQUIRED"]  # the turn is over, and its stream
        async with following(wires[followed], "SubscribeToTask", subscription(snapshot.id)) as events:
            now = (await anext(events)).task
            assert now == await wires.get(ended, snapshot.id)
            assert [m.message_id for m in now.history] == ["m-ask"]
            task = await wires.send(ended, say("auth", snapshot.id))
            assert (status_of(task), task.context_id) == ("AUTH_REQUIRED", snapshot.context_id)
            task = await wires.send(ended, say("chunks 3", snapshot.id))
            assert await rest_of(events) == ["AUTH_REQUIRED", "WORKING", "0", "1", "2", "COMPLETED"]
        assert [text_of(m) for m in task.history] == ["ask", "Which?", "auth", "Allow me", "chunks 3"]
        for binding in BINDINGS:
            assert await wires.get(binding, snapshot.id) == task
        for method in STREAMS[:1]:
            same_fault(await wires.every(method, say("more", snapshot.id)), "UNSUPPORTED_OPERATION")
    await nothing_left(agent)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_a_running_task_is_followed_and_canceled_from_elsewhere(order: tuple[str, str, str]) -> None:
    """X-CAN-3: CANCELED is on every stream, and ends it."""
    made, followed, ended = order
    agent = Told()
    async with serving(agent) as wires:
        async with following(wires[made], "SendStreamingMessage", say("hold")) as first:
            id_ = (await anext(first)).task.id
            assert kinds([await anext(first)]) == ["WORKING"]
            async with following(wires[followed], "SubscribeToTask", subscription(id_)) as second:
                assert kinds([await anext(second)]) == ["[WORKING]"]
                assert status_of(await wires.call(ended, "CancelTask", {"id": id_})) == "CANCELED"
                assert await rest_of(second) == await rest_of(first) == ["CANCELED"]
        assert agent.left["hold"] == 1
    await nothing_left(agent)


async def test_the_same_events_in_the_same_order_on_every_stream() -> None:
    """STREAM-ORDER-001 to -004."""
    agent = Told()
    async with serving(agent) as wires:
        id_ = (await wires.send("grpc", say("ask"))).id
        async with contextful([following(w, "SubscribeToTask", subscription(id_)) for w in wires.values()]) as streams:
            for events in streams:
                assert kinds([await anext(events)]) == ["[INPUT_REQUIRED]"]
            async with following(wires["rest"], "SubscribeToTask", subscription(id_)) as leaves:
                await anext(leaves)
            await wires.send("jsonrpc", say("chunks 20", id_))
            seen = [[event async for event in events] for events in streams]
    assert seen[0] == seen[1] == seen[2]
    assert kinds(seen[0]) == ["WORKING", *map(str, range(20)), "COMPLETED"]
    await nothing_left(agent)


@asynccontextmanager
async def contextful(managers: list[Any]) -> AsyncIterator[list[Any]]:
    entered = [await manager.__aenter__() for manager in managers]
    try:
        yield entered
    finally:
        for manager in reversed(managers):
            await manager.__aexit__(None, None, None)


# Several turns


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_follow_up_with_the_task_id_only_is_in_its_context(binding: str) -> None:
    """CORE-MULTI-005, BR-03: wherever the context is named."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send(binding, say("ask", context_id="mine"))
        assert task.context_id == "mine"
        outcome = await wires.call(binding, "SendStreamingMessage", say("result", task.id))
        assert kinds(outcome.messages) == ["[INPUT_REQUIRED]", "WORKING", "result", "COMPLETED"]
        turn = agent.turns[-1]
        assert (turn.message.context_id, turn.task.context_id, turn.task.id) == ("mine", "mine", task.id)
        assert {m.context_id for m in turn.history} == {"mine"}
        assert outcome.messages[0].task.context_id == "mine"
        assert [text_of(m) for m in outcome.messages[0].task.history] == ["ask", "Which?", "result"]


@pytest.mark.parametrize("text", ["ask", "hold"])
async def test_another_context_than_the_task_has_is_refused_and_nothing_changes(text: str) -> None:
    """CORE-MULTI-006, BR-03."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send("grpc", say(text, context_id="C1", return_immediately=text == "hold"))
        await until(lambda: agent.left["ask"] or "holding" in str(agent.turns and agent.turns[0].task))
        before = await wires.get("grpc", task.id)
        for method in ("SendMessage", "SendStreamingMessage"):
            fault = same_fault(await wires.every(method, say("done", task.id, context_id="C2")), "INVALID_PARAMS")
            assert [field for field, _ in fault.violations] == ["message.contextId"]
        assert await wires.get("grpc", task.id) == before
        agent.go.set()
    await nothing_left(agent)


@pytest.mark.parametrize("text", ENDS)
async def test_a_task_that_has_ended_takes_nothing(text: str) -> None:
    """CORE-SEND-002, CORE-CANCEL-002, STREAM-SUB-003, BR-01: stored as before, each error before the stream begins."""
    agent = Told()
    async with serving(agent) as wires:
        before = await wires.send("grpc", say(text))
        state = f"TASK_STATE_{ENDS[text]}"
        for method, request, reason in (
            ("SendMessage", say("again", before.id), "UNSUPPORTED_OPERATION"),
            ("SendStreamingMessage", say("again", before.id), "UNSUPPORTED_OPERATION"),
            ("SubscribeToTask", {"id": before.id}, "UNSUPPORTED_OPERATION"),
            ("CancelTask", {"id": before.id}, "TASK_NOT_CANCELABLE"),
        ):
            outcomes = await wires.every(method, request)
            fault = same_fault(outcomes, reason)
            assert fault.metadata == {"taskId": before.id, "state": state}
            assert state in fault.message
            assert [o.fault.wire for o in outcomes if o.fault] == [9, -32004 if reason[0] == "U" else -32002, 400]
            assert not any(outcome.messages for outcome in outcomes)
        assert await wires.get("rest", before.id) == before


async def test_a_context_outlives_its_tasks() -> None:
    """X-ID-1."""
    agent = Told()
    async with serving(agent) as wires:
        first = await wires.send("grpc", say("done"))
        second = await wires.send("jsonrpc", say("done", context_id=first.context_id))
        assert (second.context_id, second.id == first.id) == (first.context_id, False)
        listed = await wires.call("rest", "ListTasks", {"contextId": first.context_id})
        assert {t.id for t in listed.tasks} == {first.id, second.id}


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_id_that_comes_again_is_a_new_message(binding: str) -> None:
    """X-OP-2, BR-71: nothing is deduplicated."""
    agent = Told()
    async with serving(agent) as wires:
        sends = await asyncio.gather(*(wires.send(binding, say("result")) for _ in range(5)))
        assert len({task.id for task in sends}) == 5
        task = await wires.send(binding, say("ask"))
        again = await wires.send(binding, say("ask", task.id))
        assert [m.message_id for m in again.history if m.role == pb.ROLE_USER] == ["m-ask", "m-ask"]
    await nothing_left(agent)


# Messages for a task that is running


@pytest.mark.parametrize("binding", BINDINGS)
async def test_messages_for_a_running_task_wait_and_run_in_order(binding: str) -> None:
    """X-OP-4."""
    agent = Told({"hold": _hold_and_ask})
    async with serving(agent) as wires:
        task = await wires.send(binding, say("hold", return_immediately=True))
        await until(lambda: agent.turns)
        waiting = asyncio.create_task(wires.send(binding, say("ask", task.id)))
        await until(lambda: agent._turns == 2)
        now = await wires.send(binding, say("auth", task.id, return_immediately=True))
        assert (status_of(now), [text_of(m) for m in now.history]) == ("WORKING", ["hold"])
        stream = following(wires[binding], "SendStreamingMessage", say("result", task.id))
        async with stream as events:
            assert kinds([await anext(events)]) == ["[WORKING]"]
            assert [turn.text for turn in agent.turns] == ["hold"]
            agent.turns[0].request.metadata.update({"go": True})
            found = await waiting
            assert status_of(found) == "INPUT_REQUIRED"
            assert [text_of(m) for m in found.history] == ["hold", "holding", "What next?", "ask"]
            assert await rest_of(events) == [
                "INPUT_REQUIRED", "INPUT_REQUIRED", "AUTH_REQUIRED", "WORKING", "result", "COMPLETED"
            ]  # fmt: skip
        assert [turn.text for turn in agent.turns] == ["hold", "ask", "auth", "result"]
    await nothing_left(agent)


async def _hold_and_ask(turn: Turn) -> None:
    await turn.status("holding")
    await until(lambda: turn.metadata)
    await turn.ask("What next?")


@pytest.mark.parametrize("how", ["completes", "is canceled"])
async def test_messages_that_wait_for_a_task_that_ends_are_refused(how: str) -> None:
    """X-OP-4: and are not in the history."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send("grpc", say("hold", return_immediately=True))
        await until(lambda: agent.turns)
        sends = [asyncio.create_task(w.call("SendMessage", say("done", task.id))) for w in wires.values()]
        streams = [asyncio.create_task(w.call("SendStreamingMessage", say("done", task.id))) for w in wires.values()]
        await until(lambda: agent._turns == 7)
        if how == "completes":
            agent.go.set()
        else:
            await wires.call("rest", "CancelTask", {"id": task.id})
        outcomes = await asyncio.gather(*sends, *streams)
        fault = same_fault(outcomes, "UNSUPPORTED_OPERATION")
        end = "COMPLETED" if how == "completes" else "CANCELED"
        assert fault.message.startswith(f"Task {task.id} has ended (TASK_STATE_{end}): ")
        ends = ["held", "COMPLETED"] if how == "completes" else ["CANCELED"]
        for outcome in outcomes[3:]:
            assert kinds(outcome.messages) == ["[WORKING]", *ends]
        found = await wires.get("grpc", task.id)
        assert status_of(found) == end
        assert [text_of(m) for m in found.history] == ["hold", "holding"]
    await nothing_left(agent)


trace: ContextVar[str] = ContextVar("trace", default="none")


class SetTrace(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        trace.set(dict(details.invocation_metadata).get("x-trace", "none"))
        return await continuation(details)


async def test_every_turn_runs_in_the_context_of_its_own_message() -> None:
    """X-OP-4: context variables, and what reads them, for a message that waited too."""
    seen: dict[str, list[str]] = {}

    async def note(turn: Turn) -> None:
        seen[turn.text] = [trace.get(), await asyncio.create_task(_trace()), await asyncio.to_thread(trace.get)]
        await turn.ask("more?")

    agent = Told({"note": note, "hold": _hold_and_ask})
    async with Server(agent, http_port=0, grpc_port=0, interceptors=[SetTrace()]) as server, All(server) as every:
        task = (await every.wires[0].call("SendMessage", say("hold", return_immediately=True))).only.task
        await until(lambda: agent.turns)
        calls = [
            asyncio.create_task(one.call("SendMessage", say(f"note {one.name}", task.id), {"X-Trace": one.name}))
            for one in every.wires
        ]
        await until(lambda: agent._turns == 4)
        agent.turns[0].request.metadata.update({"go": True})
        await asyncio.gather(*calls)
        await every.wires[0].call("SendMessage", say("note last", task.id), {"X-Trace": "last"})
    assert seen == {f"note {name}": [name] * 3 for name in (*BINDINGS, "last")}
    assert trace.get() == "none"


async def _trace() -> str:
    return trace.get()


# Cancel


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("text", ["ask", "auth", "patient", "hold"])
async def test_cancel_of_a_task_that_has_not_ended(binding: str, text: str) -> None:
    """CORE-CANCEL-001, X-CAN-1, A-6, BR-67: twice is an error that names the state."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send(binding, say(text, return_immediately=True))
        await until(lambda: agent.left[text] or text in ("patient", "hold"))
        canceled = await wires.call(binding, "CancelTask", {"id": task.id})
        assert status_of(canceled) == "CANCELED"
        assert agent.left[text] <= 1
        agent.go.set()
        assert await wires.get(binding, task.id) == canceled
        outcome = await wires.call(binding, "CancelTask", {"id": task.id})
        assert outcome.fault.reason == "TASK_NOT_CANCELABLE"
        assert outcome.fault.metadata["state"] == "TASK_STATE_CANCELED"
    await nothing_left(agent)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_blocked_sender_is_told_that_its_task_is_canceled(binding: str) -> None:
    agent = Told()
    async with serving(agent) as wires:
        blocked = asyncio.create_task(wires.send(binding, say("hold")))
        await until(lambda: agent.turns)
        await wires.call(binding, "CancelTask", {"id": agent.turns[0].task.id})
        assert status_of(await asyncio.wait_for(blocked, 5)) == "CANCELED"


async def test_an_agent_may_cancel_in_its_own_way_or_refuse() -> None:
    """X-CAN-2, X-CAN-4."""

    class Own(Told):
        async def cancel(self, turn: Turn) -> None:
            assert turn.cancel_request
            if "force" not in turn.cancel_request.metadata:
                raise TaskNotCancelableError("I must finish this", metadata={"taskId": turn.task.id})
            await turn.add_artifact("half", "half")

    agent = Own()
    async with serving(agent) as wires:
        task = await wires.send("grpc", say("hold", return_immediately=True))
        await until(lambda: agent.turns)
        fault = same_fault(await wires.every("CancelTask", {"id": task.id}), "TASK_NOT_CANCELABLE")
        assert fault.message == "I must finish this"
        assert status_of(await wires.get("grpc", task.id)) == "WORKING"
        canceled = await wires.call("rest", "CancelTask", {"id": task.id, "metadata": {"force": True}})
        assert (status_of(canceled), result_of(canceled)) == ("CANCELED", ["half"])
    await nothing_left(agent)


# History


@pytest.mark.parametrize("binding", BINDINGS)
async def test_history_length(binding: str) -> None:
    """Section 5: unset is all, 0 is none, n the latest n, in every operation that returns a task."""
    agent = Told()
    async with serving(agent) as wires:
        task = await wires.send(binding, say("ask"))
        await wires.send(binding, say("ask", task.id))
        all_of = ["ask", "Which?", "ask"]
        for length, expected in ((None, all_of), (0, []), (1, all_of[-1:]), (2, all_of[-2:]), (99, all_of)):
            asked = {} if length is None else {"history_length": length}
            found = await wires.get(binding, task.id, **asked)
            assert [text_of(m) for m in found.history] == expected
            [listed] = (await wires.call(binding, "ListTasks", pb.ListTasksRequest(**asked))).tasks
            assert listed.history == found.history
            assert found.status.message.parts[0].text == "Which?"
        for length in (0, 1):
            sent = await wires.send(binding, say("ask", task.id, history_length=length))
            assert len(sent.history) == length
            outcome = await wires.call(binding, "SendStreamingMessage", say("ask", task.id, history_length=length))
            assert len(outcome.messages[0].task.history) == length


async def test_history_length_zero_shows_no_key() -> None:
    """CORE-HIST-001, -003."""
    agent = Told()
    async with serving(agent) as wires, aiohttp.ClientSession() as http:
        task = await wires.send("rest", say("result"))
        async with http.get(f"{wires['rest'].base}/tasks/{task.id}?historyLength=0") as response:
            assert "history" not in await response.json()
        async with http.get(f"{wires['rest'].base}/tasks/{task.id}") as response:
            assert len((await response.json())["history"]) == 1
        body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "done"}]}}
        body["configuration"] = {"historyLength": 0}
        async with http.post(f"{wires['rest'].base}/message:send", json=body) as response:
            assert "history" not in (await response.json())["task"]


# Lists


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_list_in_pages(binding: str) -> None:
    """CORE-LIST-002 to -005, X-LIST-2."""
    agent = Told()
    async with serving(agent) as wires:
        requests = [say("result", context_id=f"C{index % 2}") for index in range(5)]
        made = [(await wires.send(BINDINGS[index % 3], request)).id for index, request in enumerate(requests)]
        seen, token = [], ""
        while True:
            request = pb.ListTasksRequest(page_size=2, page_token=token)
            page = await wires.call(binding, "ListTasks", request)
            assert (page.page_size, page.total_size) == (2, 5)
            seen += page.tasks
            if not (token := page.next_page_token):
                break
        assert sorted(t.id for t in seen) == sorted(made)
        stamps = [(t.status.timestamp.ToNanoseconds(), t.id) for t in seen]
        assert stamps == sorted(stamps, reverse=True)
        assert not any(t.artifacts for t in seen)
        filtered = await wires.call(
            binding, "ListTasks", {"contextId": "C1", "status": "TASK_STATE_COMPLETED", "includeArtifacts": True}
        )
        assert [result_of(t) for t in filtered.tasks] == [["result"]] * 2
        assert (filtered.total_size, filtered.page_size, filtered.next_page_token) == (2, 50, "")
        since = seen[0].status.timestamp.ToJsonString()
        recent = await wires.call(binding, "ListTasks", {"statusTimestampAfter": since})
        assert seen[0].id in [t.id for t in recent.tasks]


@pytest.mark.parametrize("token", ["x", "!!!", "bm90OmE", "MTIz", "MTIzOg==x", "ä", "MTIz" * 50])
async def test_a_page_token_that_is_none(token: str) -> None:
    """X-LIST-5."""
    async with serving(Told()) as wires:
        fault = same_fault(await wires.every("ListTasks", {"pageToken": token}), "INVALID_PARAMS")
        assert fault.violations == [("pageToken", "is not a nextPageToken of an earlier page")]


# Webhooks, as far as the life of a task goes


class Pushing(Told):
    push = PushPolicy(allow_http=True, allow_private=True)


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[str, list[Any]]]:
    """A webhook, and what it has received."""
    received: list[Any] = []

    async def receive(request: web.BaseRequest) -> web.Response:
        received.append(ParseDict(await request.json(), pb.StreamResponse()))
        return web.Response()

    runner = web.ServerRunner(web.Server(receive))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/", received
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_webhook_of_a_message_misses_nothing(binding: str) -> None:
    """X-SEND-4, X-SEND-1: from the first event on, of a new task and of one that exists; whatever task it names."""
    agent = Pushing()
    async with serving(agent) as wires, receiving() as (url, received):
        hook = pb.TaskPushNotificationConfig(url=url, task_id="ignored")
        request = say("ask", task_push_notification_config=hook, return_immediately=True)
        task = await wires.send(binding, request)
        await until(lambda: len(received) == 1)
        await wires.send(binding, say("chunks 2", task.id))
        await until(lambda: len(received) == 5)
        assert kinds(received) == ["INPUT_REQUIRED", "WORKING", "0", "1", "COMPLETED"]
        second = await wires.send(binding, say("ask"))
        await wires.send(binding, say("done", second.id, task_push_notification_config=hook))
        await until(lambda: len(received) == 6)
        assert kinds(received)[5:] == ["COMPLETED"]
        [config] = (await wires.call(binding, "ListTaskPushNotificationConfigs", {"taskId": second.id})).configs
        assert config.task_id == second.id


async def test_a_webhook_that_is_deleted_is_told_nothing_more() -> None:
    """PUSH-DEL-001."""
    agent = Pushing()
    async with serving(agent) as wires, receiving() as (url, received):
        task = await wires.send(
            "grpc", say("ask", task_push_notification_config=pb.TaskPushNotificationConfig(url=url))
        )
        [config] = (await wires.call("grpc", "ListTaskPushNotificationConfigs", {"taskId": task.id})).configs
        await until(lambda: len(received) == 1)
        for client in wires.values():
            outcome = await client.call("DeleteTaskPushNotificationConfig", {"taskId": task.id, "id": config.id})
            assert outcome.fault is None
        async with following(wires["grpc"], "SubscribeToTask", subscription(task.id)) as events:
            await anext(events)
            await wires.send("rest", say("done", task.id))
            assert await rest_of(events) == ["COMPLETED"]
        assert len(received) == 1


@pytest.mark.parametrize("binding", BINDINGS)
async def test_webhooks_are_kept(binding: str) -> None:
    """Section 8, BR-43: what is created is read, listed in pages, replaced and deleted, the last one twice."""
    agent = Pushing()
    async with serving(agent) as wires:
        for text in ("ask", "done"):  # PUSH-CREATE-002: of a task that has ended too
            id_ = (await wires.send(binding, say(text))).id
            hook = pb.TaskPushNotificationConfig(task_id=id_, url="http://localhost/1", token="t")
            hook.authentication.scheme = "Bearer"
            made = await wires.call(binding, "CreateTaskPushNotificationConfig", hook)
            assert len(made.id) == 36
            hook.id = made.id
            assert made == hook
            hook.url = "http://localhost/2"
            assert await wires.call(binding, "CreateTaskPushNotificationConfig", hook) == hook
            other = pb.TaskPushNotificationConfig(task_id=id_, url="http://localhost/3", id="zzz")
            await wires.call(binding, "CreateTaskPushNotificationConfig", other)
            assert await wires.call(binding, "GetTaskPushNotificationConfig", {"taskId": id_, "id": made.id}) == hook
            listed = await wires.call(binding, "ListTaskPushNotificationConfigs", {"taskId": id_})
            assert (list(listed.configs), listed.next_page_token) == ([hook, other], "")
            first = await wires.call(binding, "ListTaskPushNotificationConfigs", {"taskId": id_, "pageSize": 1})
            rest = {"taskId": id_, "pageSize": 1, "pageToken": first.next_page_token}
            second = await wires.call(binding, "ListTaskPushNotificationConfigs", rest)
            assert [*first.configs, *second.configs, second.next_page_token] == [hook, other, ""]
            for _ in range(2):
                await wires.call(binding, "DeleteTaskPushNotificationConfig", {"taskId": id_, "id": made.id})
            outcome = await wires.call(binding, "GetTaskPushNotificationConfig", {"taskId": id_, "id": made.id})
            assert outcome.fault.reason == "TASK_NOT_FOUND"
            assert made.id in outcome.fault.message
        for method, more in (
            ("CreateTaskPushNotificationConfig", {"url": "http://localhost"}), ("ListTaskPushNotificationConfigs", {}),
            ("GetTaskPushNotificationConfig", {"id": "P"}), ("DeleteTaskPushNotificationConfig", {"id": "P"}),
        ):  # fmt: skip
            outcome = await wires.call(binding, method, {"taskId": "nope", **more})
            assert (outcome.fault.reason, outcome.fault.message) == ("TASK_NOT_FOUND", "Task nope not found")


# Whose tasks


FOREIGN = {
    "another owner": ("bob", ""),
    "nobody": ("", ""),
    "another tenant": ("ann", "acme"),
}


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_foreign_task_is_as_invisible_as_a_missing_one(kind: str) -> None:
    """X-ERR-3, X-TEN-4, AUTH-SCOPE, BR-59: on every operation, in every word."""
    who, tenant = FOREIGN[kind]

    agent = Pushing()
    async with serving(agent) as wires, receiving() as (url, _):
        hook = pb.TaskPushNotificationConfig(url=url)
        task = await wires.send("grpc", say("ask", context_id="C", task_push_notification_config=hook), "ann")
        running = await wires.send("grpc", say("hold", return_immediately=True), "ann")
        await until(lambda: len(agent.turns) == 2)
        [config] = (await wires.call("grpc", "ListTaskPushNotificationConfigs", {"taskId": task.id}, "ann")).configs
        before = [await wires.get("grpc", id_, "ann") for id_ in (task.id, running.id)]
        missing = "0" * 36
        for method, request in (
            ("GetTask", {"id": "?"}), ("CancelTask", {"id": "?"}), ("SubscribeToTask", {"id": "?"}),
            ("SendMessage", {"message": {"taskId": "?"}}), ("SendStreamingMessage", {"message": {"taskId": "?"}}),
            ("SendMessage", {"message": {"taskId": "?", "contextId": "C9"}}),
            ("CreateTaskPushNotificationConfig", {"taskId": "?", "url": "http://localhost"}),
            ("GetTaskPushNotificationConfig", {"taskId": "?", "id": config.id}),
            ("ListTaskPushNotificationConfigs", {"taskId": "?"}),
            ("DeleteTaskPushNotificationConfig", {"taskId": "?", "id": config.id}),
        ):  # fmt: skip
            told = set()
            for id_ in (task.id, running.id, missing):
                fault = same_fault(await wires.every(method, _filled(request, id_, tenant), who), "TASK_NOT_FOUND")
                told.add(repr((fault.message, fault.metadata, fault.violations)).replace(id_, "?"))
            assert len(told) == 1, told
        for filters in ({}, {"contextId": "C"}):
            for listed in await wires.every("ListTasks", {**filters, "tenant": tenant}, who):
                assert (listed.only.total_size, len(listed.only.tasks)) == (0, 0)
        request = say("done", context_id="C", reference_task_ids=[task.id], tenant=tenant)
        same_context = await wires.send("rest", request, who)
        assert len(same_context.history) == 1
        assert agent.turns[-1].referenced == []
        assert [await wires.get("grpc", id_, "ann") for id_ in (task.id, running.id)] == before
        agent.go.set()


def _filled(request: dict[str, Any], id_: str, tenant: str) -> dict[str, Any]:
    filled = {k: id_ if v == "?" else v for k, v in request.items()}
    if "message" in request:
        message = {k: id_ if v == "?" else v for k, v in request["message"].items()}
        filled["message"] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "done"}], **message}
    return {**filled, "tenant": tenant} if tenant else filled


@pytest.mark.parametrize("binding", BINDINGS)
async def test_each_tenant_and_each_owner_has_tasks_of_its_own(binding: str) -> None:
    agent = Told()
    async with serving(agent) as wires:
        made = {}
        for who, tenant in (("ann", ""), ("bob", ""), ("ann", "acme"), ("ann", "other")):
            request = say("ask", tenant=tenant)
            made[who, tenant] = (await wires.send(binding, request, who)).id
        for (who, tenant), id_ in made.items():
            listed = await wires.call(binding, "ListTasks", {"tenant": tenant} if tenant else {}, who)
            assert [t.id for t in listed.tasks] == [id_]
            follow_up = say("result", id_, tenant=tenant)
            assert status_of(await wires.send(binding, follow_up, who)) == "COMPLETED"
        assert agent.turns[-1].tenant == "other"
    await nothing_left(agent)


# The extended card


class Carded(Told):
    async def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        if caller.name == "bob":
            return None
        card = pb.AgentCard()
        card.CopyFrom(self.card)
        card.description = f"For {caller.name or 'everyone'}"
        return card


@pytest.mark.parametrize("anonymous", [False, True])
async def test_the_extended_card_is_for_the_caller(anonymous: bool) -> None:
    """CARD-EXT-001, -002, X-CARD-5, A-29: anonymous callers have none, unless the agent says so."""
    agent = Carded()
    agent.anonymous_extended_card = anonymous
    async with serving(agent) as wires:
        cards = [o.only for o in await wires.every("GetExtendedAgentCard", {}, "ann")]
        assert [card.description for card in cards] == ["For ann"] * 3
        same_fault(await wires.every("GetExtendedAgentCard", {}, "bob"), "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
        nobody = await wires.every("GetExtendedAgentCard", {})
        if anonymous:
            assert [o.only.description for o in nobody] == ["For everyone"] * 3
        else:
            same_fault(nobody, "UNAUTHENTICATED")


async def test_without_one_the_capability_is_not_declared() -> None:
    """CORE-CAP-003, BR-43."""
    async with serving(Told()) as wires:
        same_fault(await wires.every("GetExtendedAgentCard", {}, "ann"), "UNSUPPORTED_OPERATION")


# Media types


@pytest.mark.parametrize("media_type", ["image/png", "application/x-unsupported"])
async def test_a_media_type_that_the_agent_does_not_read(media_type: str) -> None:
    """CORE-SEND-003, A-19."""
    request = say("done")
    request.message.parts.add(raw=b"x", media_type=media_type)
    async with serving(Told()) as wires:
        for method in ("SendMessage", "SendStreamingMessage"):
            fault = same_fault(await wires.every(method, request), "CONTENT_TYPE_NOT_SUPPORTED")
            assert (
                fault.message == f'message.parts[1]: media type "{media_type}" is not supported; accepted: text/plain'
            )
        assert (await wires.call("grpc", "ListTasks", {})).total_size == 0
    lenient = Told()
    lenient.check_input_modes = False
    async with serving(lenient) as wires:
        assert status_of(await wires.send("rest", request)) == "COMPLETED"


@pytest.mark.parametrize("media_type", ["text/plain", "TEXT/Plain; charset=utf-8", "audio/wav", "video/mp4", ""])
async def test_media_types_that_it_reads(media_type: str) -> None:
    class Reading(Told):
        input_modes = ("text/plain", "audio/*")
        skills = (pb.AgentSkill(id="s", name="s", description="s", tags=["s"], input_modes=["video/mp4"]),)

    request = say("done")
    request.message.parts.add(raw=b"x", media_type=media_type)
    async with serving(Reading()) as wires:
        assert status_of(await wires.send("grpc", request)) == "COMPLETED"


# Clients that go away


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "SubscribeToTask"])
async def test_a_client_that_goes_away_ends_nothing(binding: str, method: str) -> None:
    """X-SEND-6, X-STR-2, BR-07: the task goes on, and nothing of the client is left."""
    agent = Told()
    async with serving(agent) as wires:
        if method == "SubscribeToTask":
            await wires.send(binding, say("hold", return_immediately=True))
            await until(lambda: agent.turns)
            await _leave_stream(wires[binding], method, subscription(agent.turns[0].task.id))
        elif method == "SendStreamingMessage":
            await _leave_stream(wires[binding], method, say("hold"))
        else:
            calling = asyncio.create_task(wires[binding].call(method, say("hold")))
            await until(lambda: agent.turns)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        [live] = agent._lives.values()
        await until(lambda: not len(live.topic))
        assert agent.left["hold"] == 0
        agent.go.set()
        await nothing_left(agent)
        task = await wires.get(binding, agent.turns[0].task.id)
        assert (status_of(task), result_of(task)) == ("COMPLETED", ["held"])


async def _leave_stream(client: Any, method: str, request: Any) -> None:
    async with following(client, method, request) as events:
        await anext(events)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_that_waits_for_authorization_stays_open(binding: str) -> None:
    """A-2, AUTH-INTASK-005, -006."""
    agent = Told()
    async with serving(agent) as wires:
        async with following(wires[binding], "SendStreamingMessage", say("patient")) as events:
            id_ = (await anext(events)).task.id
            assert kinds([await anext(events)]) == ["AUTH_REQUIRED"]
            async with following(wires[binding], "SubscribeToTask", subscription(id_)) as other:
                assert kinds([await anext(other)]) == ["[AUTH_REQUIRED]"]
                agent.go.set()
                assert await rest_of(events) == await rest_of(other) == ["WORKING", "allowed", "COMPLETED"]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_stream_ends_with_its_turn_and_a_subscription_with_the_task(binding: str) -> None:
    """A-2: the table in section 3."""
    agent = Told()
    async with serving(agent) as wires:
        for text, state in (("ask", "INPUT_REQUIRED"), ("auth", "AUTH_REQUIRED")):
            outcome = await wires.call(binding, "SendStreamingMessage", say(text))
            assert kinds(outcome.messages) == ["[SUBMITTED]", state]
            id_ = outcome.messages[0].task.id
            async with following(wires[binding], "SubscribeToTask", subscription(id_)) as events:
                await anext(events)
                outcome = await wires.call(binding, "SendStreamingMessage", say(text, id_))
                assert kinds(outcome.messages) == [f"[{state}]", state]
                await wires.call(binding, "CancelTask", {"id": id_})
                assert await rest_of(events) == [state, "CANCELED"]
    await nothing_left(agent)


async def test_following_a_task_that_there_is_not() -> None:
    """STREAM-SUB-004."""
    async with serving(Told()) as wires:
        for client in wires.values():
            with pytest.raises(FaultError) as caught:
                async with following(client, "SubscribeToTask", subscription("nope")) as events:
                    await anext(events)
            assert caught.value.fault.message == "Task nope not found"
