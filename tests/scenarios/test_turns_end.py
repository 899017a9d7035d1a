"""However an agent behaves, its turn ends: the task is in a definite state, and nobody is left hanging (A-31)."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from engine import (
    BytesStore,
    Context,
    FaultError,
    FaultyStore,
    Told,
    cancel,
    following,
    get,
    kinds,
    nothing_left,
    result_of,
    say,
    send,
    state,
    status_of,
    stream,
    streamed,
    subscription,
    text_of,
    until,
)
from lab import SECRET
from wires import BINDINGS, All, Outcome, wire

from a2a_grpc import Server
from a2a_grpc.errors import A2AError, ResourceExhaustedError, UnavailableError, UnsupportedOperationError
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, Limits, Turn
from a2a_grpc.tasks.store import Scope

Action = Callable[[Turn], Awaitable[Any]]
REFERENCE = re.compile(r"The agent failed\. Reference: ([0-9a-f]{12})")


class Quick(Told):
    limits = Limits(inactivity=0.1, cancel_grace=0.1)


@asynccontextmanager
async def every(agent: AgentServicer) -> AsyncIterator[All]:
    async with Server(agent, http_port=0, grpc_port=0) as server, All(server) as wires:
        yield wires


# What agents do wrong


async def crash(turn: Turn) -> None:
    raise RuntimeError(SECRET)


async def crash_working(turn: Turn) -> None:
    await turn.status("on it")
    raise RuntimeError(SECRET)


async def crash_in_a_chunk(turn: Turn) -> None:
    async with turn.artifact("r") as out:
        await out.write("a")
        await out.write("b")
        raise RuntimeError(SECRET)


async def crash_between(turn: Turn) -> None:
    await turn.add_artifact("r", "a")
    await turn.status("half")
    raise ExceptionGroup(SECRET, [ValueError(SECRET)])


async def crash_after_asking(turn: Turn) -> None:
    await turn.ask("What?")
    raise RuntimeError(SECRET)


async def leave(turn: Turn) -> None:
    raise SystemExit(SECRET)


async def cancel_oneself(turn: Turn) -> None:
    raise asyncio.CancelledError(SECRET)


async def await_what_was_cancelled(turn: Turn) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def time_out(turn: Turn) -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


async def nothing(turn: Turn) -> None:
    pass


async def never_finish(turn: Turn) -> None:
    await turn.status("on it")


async def chunk_and_leave(turn: Turn) -> None:
    await turn.add_artifact("r", "a")


CRASHES = {
    "before an event": (crash, ["FAILED"]),
    "while working": (crash_working, ["WORKING", "FAILED"]),
    "in a chunk": (crash_in_a_chunk, ["WORKING", "a", "b", "FAILED"]),
    "between events": (crash_between, ["WORKING", "a", "WORKING", "FAILED"]),
    "by leaving": (leave, ["FAILED"]),
    "by a cancellation of its own": (cancel_oneself, ["FAILED"]),
    "by a cancelled future": (await_what_was_cancelled, ["FAILED"]),
    "by a timeout": (time_out, ["FAILED"]),
}


@pytest.mark.parametrize("name", CRASHES)
async def test_an_agent_that_raises(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """BR-04, BR-28, X-ERR-5: FAILED with a reference that the log has with the whole story; the text stays here."""
    action, events = CRASHES[name]
    agent = Told({"act": action})
    async with every(agent) as wires:
        sent = [outcome.only.task for outcome in await wires.call("SendMessage", say("act"))]
        streams = [outcome.messages for outcome in await wires.call("SendStreamingMessage", say("act"))]
    for seen in streams:
        assert kinds(seen) == ["[SUBMITTED]", *events]
    for task in sent + [await get(agent, seen[0].task.id) for seen in streams]:
        assert status_of(task) == "FAILED"
        found = REFERENCE.fullmatch(text_of(task.status.message))
        assert found
        [record] = [r for r in caplog.records if found[1] in r.getMessage()]
        assert record.exc_info
        assert task.id in record.getMessage()
        assert SECRET not in str(task)
    assert len(caplog.records) == 6
    await nothing_left(agent)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_agent_that_raises_after_asking(method: str) -> None:
    """Its client has had the question; the task fails all the same."""
    agent = Told({"act": crash_after_asking})
    if method == "SendMessage":
        task = await send(agent, say("act"))
        assert status_of(task) == "INPUT_REQUIRED"
    else:
        events = await streamed(agent, say("act"))
        assert kinds(events) == ["[SUBMITTED]", "INPUT_REQUIRED"]
        task = events[0].task
    await nothing_left(agent)
    assert await state(agent, task.id) == "FAILED"


async def test_an_error_for_the_client_says_its_text() -> None:
    async def act(turn: Turn) -> None:
        raise ResourceExhaustedError("Your quota of 5 is used up")

    task = await send(Told({"act": act}), say("act"))
    assert (status_of(task), text_of(task.status.message)) == ("FAILED", "Your quota of 5 is used up")


RETURNS = {
    "nothing": (nothing, "FAILED", "The agent returned without a result"),
    "only a status": (never_finish, "COMPLETED", ""),
    "only an artifact": (chunk_and_leave, "COMPLETED", ""),
}


@pytest.mark.parametrize("name", RETURNS)
async def test_an_agent_that_forgets_to_finish(name: str) -> None:
    action, end, text = RETURNS[name]
    agent = Told({"act": action})
    async with every(agent) as wires:
        for outcome in await wires.call("SendMessage", say("act")):
            assert (status_of(outcome.only.task), text_of(outcome.only.task.status.message)) == (end, text)
        for outcome in await wires.call("SendStreamingMessage", say("act")):
            assert kinds(outcome.messages)[-1] == end
            assert await state(agent, outcome.messages[0].task.id) == end


async def test_a_later_turn_is_judged_for_itself() -> None:
    """What an earlier turn has said or asked does not count."""

    async def raw_artifact(turn: Turn) -> None:
        artifact = pb.Artifact(artifact_id="A", parts=[pb.Part(text="x")])
        await turn.emit(pb.TaskArtifactUpdateEvent(artifact=artifact))

    for text, end in (("nothing", "FAILED"), ("working", "COMPLETED"), ("raw", "COMPLETED"), ("ask", "INPUT_REQUIRED")):
        for first in ("ask", "auth"):
            agent = Told({"raw": raw_artifact})
            task = await send(agent, say(first))
            assert status_of(await send(agent, say(text, task.id))) == end, (first, text)


# Silence


async def hang(turn: Turn) -> None:
    await asyncio.Event().wait()


async def hang_later(turn: Turn) -> None:
    await turn.status("on it")
    await asyncio.Event().wait()


async def hang_stubbornly(turn: Turn) -> None:
    while turn.task.status.state != pb.TASK_STATE_FAILED:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await turn.status("never mind")
            if len(turn.history) > 3:
                raise


@pytest.mark.parametrize("action", [hang, hang_later, hang_stubbornly])
async def test_an_agent_that_is_silent_for_too_long(action: Action, caplog: pytest.LogCaptureFixture) -> None:
    agent = Quick({"act": action})
    async with every(agent) as wires:
        calls = [w.call(m, say("act")) for w in wires.wires for m in ("SendMessage", "SendStreamingMessage")]
        outcomes: list[Outcome] = await asyncio.gather(*calls)
    for outcome in outcomes:
        last = outcome.messages[-1]
        status = last.task.status if type(last) is pb.SendMessageResponse else last.status_update.status
        assert status.state == pb.TASK_STATE_FAILED
        assert text_of(status.message) == "The agent did nothing for 0.1 seconds"
    assert {r.levelno for r in caplog.records} == {logging.WARNING}
    await nothing_left(agent)


async def test_an_agent_that_says_something_now_and_then_is_not_silent() -> None:
    async def act(turn: Turn) -> None:
        for index in range(6):
            await asyncio.sleep(0.05)
            await turn.add_artifact("r", str(index))

    assert status_of(await send(Quick({"act": act}), say("act"))) == "COMPLETED"


@pytest.mark.parametrize("ask", ["ask", "require_auth"])
async def test_who_waits_for_its_client_may_be_silent(ask: str) -> None:
    async def act(turn: Turn) -> None:
        await getattr(turn, ask)("Well?")
        await asyncio.sleep(0.35)
        await turn.complete("found out")

    agent = Quick({"act": act})
    task = await send(agent, say("act"))
    assert status_of(task) in ("INPUT_REQUIRED", "AUTH_REQUIRED")
    await nothing_left(agent)
    assert await state(agent, task.id) == "COMPLETED"


async def test_a_second_turn_that_hangs_is_not_waiting_for_its_client() -> None:
    agent = Quick({"hang": hang})
    task = await send(agent, say("ask"))
    assert status_of(await send(agent, say("hang", task.id))) == "FAILED"


async def test_who_asks_and_does_not_end_its_turn_gives_way_to_the_answer() -> None:
    async def act(turn: Turn) -> None:
        await turn.ask("What?")
        await asyncio.Event().wait()

    agent = Quick({"act": act})
    task = await send(agent, say("act"))
    answered = await asyncio.wait_for(send(agent, say("result", task.id)), 5)
    assert (status_of(answered), result_of(answered)) == ("COMPLETED", ["result"])
    await nothing_left(agent)


async def test_an_answer_that_hangs() -> None:
    class Hanging(Quick):
        async def answer(self, turn: Turn) -> str | None:
            await asyncio.Event().wait()
            return None

    async with every(Hanging()) as wires:
        for outcome in await wires.call("SendMessage", say("x")):
            assert outcome.fault
            assert outcome.fault.reason == "INTERNAL_ERROR"


# The end and what comes after it


@pytest.mark.parametrize("end", ["complete", "fail"])
async def test_events_after_the_end_are_dropped_and_logged(end: str, caplog: pytest.LogCaptureFixture) -> None:
    async def act(turn: Turn) -> None:
        await getattr(turn, end)("so it is")
        await turn.add_artifact("late", "late")

    agent = Told({"act": act})
    async with every(agent) as wires:
        for outcome in await wires.call("SendStreamingMessage", say("act")):
            assert kinds(outcome.messages) == ["[SUBMITTED]", {"complete": "COMPLETED", "fail": "FAILED"}[end]]
            task = await get(agent, outcome.messages[0].task.id)
            assert (text_of(task.status.message), result_of(task)) == ("so it is", [])
    assert sum("came after its end" in r.getMessage() for r in caplog.records) == 3


async def test_who_has_ended_its_task_and_goes_on_holds_up_nobody() -> None:
    """Messages that wait are refused at the end of the task, not of the turn."""

    async def act(turn: Turn) -> None:
        await turn.status()
        await go.wait()
        await turn.complete("done")
        await asyncio.Event().wait()

    go = asyncio.Event()
    agent = Told({"act": act})
    task = await send(agent, say("act", return_immediately=True))
    waiting = asyncio.create_task(send(agent, say("more", task.id)))
    await until(lambda: agent._turns == 2)
    go.set()
    with pytest.raises(UnsupportedOperationError):
        await asyncio.wait_for(waiting, 5)
    with pytest.raises(UnsupportedOperationError):
        await send(agent, say("more", task.id))
    await agent.close(1)
    await nothing_left(agent)
    assert await state(agent, task.id) == "COMPLETED"


# Cancel


async def test_a_task_that_is_canceled_before_its_first_event() -> None:
    """Not even its execution has begun, or it has and said nothing."""
    for rounds in range(4):
        agent = Told({"hang": hang})
        task = await send(agent, say("hang", return_immediately=True))
        for _ in range(rounds):
            await asyncio.sleep(0)
        assert status_of(await cancel(agent, task.id)) == "CANCELED"
        await nothing_left(agent)
        assert await state(agent, task.id) == "CANCELED"


@pytest.mark.parametrize("rounds", range(6))
async def test_a_message_that_is_canceled_before_its_turn_has_begun(rounds: int) -> None:
    """Either it is in the history and its task is canceled, or it is refused and not in the history."""
    agent = Told({"hang": hang}, store=BytesStore())
    task = await send(agent, say("ask"))
    sending = asyncio.create_task(send(agent, say("hang", task.id)))
    await until(lambda: agent._turns)
    for _ in range(rounds):
        await asyncio.sleep(0)
    assert status_of(await cancel(agent, task.id)) == "CANCELED"
    found = await get(agent, task.id)
    texts = [text_of(m) for m in found.history]
    [told] = await asyncio.gather(sending, return_exceptions=True)
    if isinstance(told, UnsupportedOperationError):
        assert "has ended (TASK_STATE_CANCELED)" in str(told)
        assert texts == ["ask", "Which?"]
    else:
        assert told == found
        assert texts == ["ask", "Which?", "hang"]
    await nothing_left(agent)


async def test_a_message_whose_beginning_hangs_is_refused_when_its_task_is_canceled() -> None:
    store = FaultyStore()
    agent = Told(store=store)
    agent.limits = Limits(cancel_grace=0.05)
    task = await send(agent, say("ask"))
    store.hang = asyncio.Event()
    sending = asyncio.create_task(send(agent, say("done", task.id)))
    await until(lambda: agent._turns)
    canceling = asyncio.create_task(cancel(agent, task.id))
    await until(lambda: not agent._turns)  # after the grace for a write that is under way
    assert not sending.done()
    store.hang.set()
    assert [text_of(m) for m in (await canceling).history] == ["ask", "Which?"]
    with pytest.raises(UnsupportedOperationError, match=r"has ended \(TASK_STATE_CANCELED\)"):
        await sending
    await nothing_left(agent)


@pytest.mark.parametrize("how", ["shut down", "silence"])
async def test_a_message_whose_beginning_hangs_is_refused_at_last(how: str) -> None:
    store = FaultyStore()
    agent = Told(store=store) if how == "shut down" else Quick(store=store)
    task = await send(agent, say("ask"))
    store.hang = asyncio.Event()
    sending = asyncio.create_task(send(agent, say("done", task.id)))
    await until(lambda: agent._turns)
    if how == "shut down":
        await agent.close(0.2)
    with pytest.raises(UnavailableError, match="shut down" if how == "shut down" else "did nothing for 0.1 seconds"):
        await asyncio.wait_for(sending, 5)
    store.hang.set()
    assert await get(agent, task.id) == task
    await nothing_left(agent)


async def swallow(turn: Turn) -> None:
    await turn.status("on it")
    while turn.task.status.state != pb.TASK_STATE_CANCELED:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)


async def swallow_and_return(turn: Turn) -> None:
    await turn.status("on it")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await turn.add_artifact("half", "half")


async def swallow_and_raise(turn: Turn) -> None:
    await turn.status("on it")
    try:
        await asyncio.sleep(60)
    finally:
        raise RuntimeError(SECRET)


async def swallow_and_complete(turn: Turn) -> None:
    await turn.status("on it")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await turn.complete("nearly done, so I finished")


async def in_a_thread(turn: Turn) -> None:
    await turn.status("on it")
    await asyncio.to_thread(time.sleep, 0.3)
    await turn.complete()


STUBBORN = {
    "swallows it": (swallow, "CANCELED"), "swallows it and returns": (swallow_and_return, "CANCELED"),
    "raises instead": (swallow_and_raise, "CANCELED"), "works in a thread": (in_a_thread, "CANCELED"),
    "completes instead": (swallow_and_complete, "COMPLETED"),
}  # fmt: skip


@pytest.mark.parametrize("name", STUBBORN)
async def test_agents_that_do_not_like_to_be_canceled(name: str) -> None:
    """BR-67, X-CAN-2: an answer in bounded time, the true state, and nothing after it."""
    action, end = STUBBORN[name]
    agent = Quick({"act": action})
    async with every(agent) as wires:
        for one in wires.wires:
            async with following(one, "SendStreamingMessage", say("act")) as events:
                id_ = (await anext(events)).task.id
                await anext(events)
                started = time.monotonic()
                canceled = (await one.call("CancelTask", {"id": id_})).only
                assert time.monotonic() - started < 1
                assert status_of(canceled) == end
                assert kinds([event async for event in events])[-1] == end
            await nothing_left(agent)
            assert await get(agent, id_) == canceled


async def test_cancels_at_once_have_one_effect() -> None:
    """X-CAN-1: one CANCELED event, and the same answer for all."""
    agent = Told(store=BytesStore())
    task = await send(agent, say("hold", return_immediately=True))
    async with stream(agent, subscription(task.id)) as events:
        await anext(events)
        canceled = await asyncio.gather(*(cancel(agent, task.id) for _ in range(10)))
        assert kinds([event async for event in events])[-1:] == ["CANCELED"]
    assert {status_of(one) for one in canceled} == {"CANCELED"}
    assert len({one.SerializeToString() for one in canceled}) == 1
    assert agent.left["hold"] == 1
    await nothing_left(agent)


async def test_a_caller_that_leaves_does_not_stop_the_cancel() -> None:
    agent = Quick({"act": swallow})
    task = await send(agent, say("act", return_immediately=True))
    await until(lambda: agent.turns)
    canceling = asyncio.create_task(cancel(agent, task.id))
    for _ in range(5):
        await asyncio.sleep(0)
    canceling.cancel()
    await asyncio.wait([canceling])
    await nothing_left(agent)
    assert await state(agent, task.id) == "CANCELED"


@pytest.mark.parametrize("store", [None, BytesStore])
@pytest.mark.parametrize("rounds", range(0, 30, 3))
async def test_a_cancel_that_races_the_end(rounds: int, store: Any) -> None:
    """One end, the same for everybody: the store, the stream, the canceler, the sender."""
    agent = Told(store=store and store())
    async with stream(agent, say("chunks 3")) as events:
        first = await anext(events)
        for _ in range(rounds):
            await asyncio.sleep(0)
        try:
            told = status_of(await cancel(agent, first.task.id))
        except A2AError as error:
            told = error.metadata["state"].removeprefix("TASK_STATE_")
        seen = kinds([event async for event in events])
    await nothing_left(agent)
    assert [kind for kind in seen if kind in ("COMPLETED", "CANCELED")] == [told] == seen[-1:]
    assert await state(agent, first.task.id) == told


@pytest.mark.parametrize("store", [None, BytesStore])
@pytest.mark.parametrize("rounds", range(0, 30, 3))
async def test_a_message_that_races_the_end(rounds: int, store: Any) -> None:
    """One of two ends the task; the other is refused and forgotten."""
    agent = Told(store=store and store())
    task = await send(agent, say("ask"))
    first = asyncio.create_task(send(agent, say("chunks 2", task.id)))
    for _ in range(rounds):
        await asyncio.sleep(0)
    second = asyncio.create_task(send(agent, say("done", task.id)))
    told = dict(zip(("chunks 2", "done"), await asyncio.gather(first, second, return_exceptions=True), strict=True))
    [ended] = [text for text, one in told.items() if isinstance(one, pb.Task)]
    [refused] = [one for one in told.values() if not isinstance(one, pb.Task)]
    assert isinstance(refused, UnsupportedOperationError)
    assert ended == "chunks 2" or not rounds
    assert [text_of(m) for m in (await get(agent, task.id)).history] == ["ask", "Which?", ended]
    await nothing_left(agent)


@pytest.mark.parametrize("store", [None, BytesStore])
async def test_messages_at_once_are_turns_one_after_the_other(store: Any) -> None:
    running = most = 0

    async def act(turn: Turn) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await turn.status(turn.message.message_id)
        await asyncio.sleep(0)
        running -= 1
        await turn.ask("next?")

    agent = Told({"act": act}, store=store and store())
    task = await send(agent, say("act"))
    await asyncio.gather(*(send(agent, say(f"act {i}", task.id)) for i in range(10)))
    assert most == 1
    history = [text_of(m) for m in (await get(agent, task.id)).history]
    sent = [text for text in history if text.startswith("act")]
    assert len(history) == 3 * 11 - 1
    assert sorted(sent) == sorted(["act", *(f"act {i}" for i in range(10))])
    assert [f"m-{text}" for text in sent] == [text for text in history if text.startswith("m-")]
    await nothing_left(agent)


async def test_a_refused_cancel_leaves_the_turn_to_end_by_itself() -> None:
    """Also where it ends while the agent is still thinking about the cancel."""

    class Thinking(Told):
        async def cancel(self, turn: Turn) -> None:
            thinking.set()
            await decide.wait()
            raise A2AError("no")

    thinking, decide = asyncio.Event(), asyncio.Event()
    agent = Thinking()
    sending = asyncio.create_task(send(agent, say("hold")))
    await until(lambda: agent.turns)
    canceling = [asyncio.create_task(cancel(agent, agent.turns[0].task.id)) for _ in range(2)]
    await thinking.wait()
    agent.go.set()
    assert status_of(await sending) == "COMPLETED"
    decide.set()
    for one in canceling:
        with pytest.raises(A2AError, match="no"):
            await one
    await nothing_left(agent)


async def test_an_agent_that_never_says_whether_it_can_be_canceled() -> None:
    class Undecided(Quick):
        async def cancel(self, turn: Turn) -> None:
            await asyncio.Event().wait()

    agent = Undecided()
    task = await send(agent, say("patient", return_immediately=True))
    await until(lambda: agent.turns)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(cancel(agent, task.id), 5)
    agent.go.set()
    await nothing_left(agent)
    assert await state(agent, task.id) == "COMPLETED"


# Stores that fail


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_store_that_cannot_create(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """BR-28: an internal error, its cause in the log, nothing left behind, the agent never asked."""
    store = FaultyStore()
    agent = Told(store=store)
    store.broken["create"] = 3
    async with every(agent) as wires:
        outcomes = await wires.call(method, say("done"))
        _internal(outcomes, caplog)
        assert [o.only.task.status.state for o in await wires.call("SendMessage", say("done"))] == [3, 3, 3]
    assert len(agent.turns) == 3
    await nothing_left(agent)


def _internal(outcomes: list[Outcome], caplog: pytest.LogCaptureFixture) -> None:
    for outcome in outcomes:
        assert outcome.fault
        assert (outcome.fault.reason, outcome.messages) == ("INTERNAL_ERROR", [])
        assert re.fullmatch("Internal error. Reference: [0-9a-f]{12}", outcome.fault.message)
        assert outcome.fault.metadata["reference"] in caplog.text
        assert SECRET not in str(outcome.fault)
    assert SECRET in caplog.text


@pytest.mark.parametrize("event", ["WORKING", "0", "1", "COMPLETED"])
async def test_a_store_that_fails_once_fails_the_turn(event: str) -> None:
    """What could not be stored was never seen, and the task ends FAILED."""
    store = FaultyStore()
    agent = Told(store=store)
    store.broken[event] = 1
    events = await streamed(agent, say("chunks 3"))
    seen = kinds(events)
    assert seen[-1] == "FAILED"
    assert event not in seen
    task = await get(agent, events[0].task.id)
    assert status_of(task) == "FAILED"
    assert "".join(result_of(task)) == "".join(kind for kind in seen if kind.isdigit())
    await nothing_left(agent)


@pytest.mark.parametrize("text", ["chunks 3", "done", "nothing", "crash"])
async def test_a_store_that_fails_for_good_leaves_nobody_hanging(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """The end cannot be stored, so nobody is told one: an internal error, one reference for all who follow."""
    store = FaultyStore()
    agent = Told({"ask": _ask_and_wait}, store=store)
    async with every(agent) as wires:
        store.broken["append"] = 10**6
        outcomes = await wires.call("SendMessage", say(text))
        _internal(outcomes, caplog)
        for outcome in await wires.call("SendStreamingMessage", say(text)):
            assert kinds(outcome.messages) == ["[SUBMITTED]"]
            assert outcome.fault
            assert outcome.fault.reason == "INTERNAL_ERROR"
            assert outcome.fault.metadata["reference"] in caplog.text
            assert await state(agent, outcome.messages[0].task.id) == "SUBMITTED"
        store.broken.clear()
        listed = (await wires.call("ListTasks", {}))[0].only
        for task in listed.tasks:  # they can be ended once the store works again
            assert status_of(await cancel(agent, task.id)) == "CANCELED"
    await nothing_left(agent)


async def _ask_and_wait(turn: Turn) -> None:
    await turn.ask("What?")


async def test_subscribers_of_a_task_that_is_lost_are_told() -> None:
    store = FaultyStore()
    agent = Told(store=store)
    async with every(agent) as wires:
        task = await send(agent, say("hold", return_immediately=True))
        faults = []
        async with following(wires.wires[0], "SubscribeToTask", subscription(task.id)) as one:
            async with following(wires.wires[1], "SubscribeToTask", subscription(task.id)) as other:
                for events in (one, other):
                    await anext(events)
                store.broken["append"] = 10**6
                agent.go.set()
                for events in (one, other):
                    with pytest.raises(FaultError) as caught:
                        await _read_on(events)
                    faults.append(caught.value.fault.message)
        assert faults[0] == faults[1]
    await nothing_left(agent)


async def _read_on(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass


@pytest.mark.parametrize("method", ["GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "SendMessage"])
async def test_a_store_that_cannot_read(method: str, caplog: pytest.LogCaptureFixture) -> None:
    store = FaultyStore()
    agent = Told(store=store)
    async with every(agent) as wires:
        task = await send(agent, say("ask"))
        await nothing_left(agent)
        store.broken.update(read=3, list=3)
        request: Any = {"ListTasks": {}, "SendMessage": say("done", task.id)}.get(method, {"id": task.id})
        _internal(await wires.call(method, request), caplog)
        store.broken.clear()
        assert await state(agent, task.id) == "INPUT_REQUIRED"


async def test_a_follow_up_that_cannot_be_stored_changes_nothing() -> None:
    store = FaultyStore()
    agent = Told(store=store)
    task = await send(agent, say("ask"))
    store.broken["append"] = 1
    with pytest.raises(OSError, match="postgres"):
        await send(agent, say("done", task.id))
    assert await get(agent, task.id) == task
    assert len(agent.turns) == 1
    assert status_of(await send(agent, say("done", task.id))) == "COMPLETED"
    await nothing_left(agent)


async def test_a_cancel_that_cannot_be_stored_is_an_error_and_may_be_tried_again() -> None:
    store = FaultyStore()
    agent = Told(store=store)
    sending = asyncio.create_task(send(agent, say("hold")))
    await until(lambda: agent.turns)
    id_ = agent.turns[0].task.id
    store.broken["CANCELED"] = 1
    with pytest.raises(A2AError, match=r"Internal error\. Reference: "):
        await cancel(agent, id_)
    with pytest.raises(A2AError, match=r"Internal error\. Reference: "):
        await sending
    assert await state(agent, id_) == "WORKING"
    assert status_of(await cancel(agent, id_)) == "CANCELED"
    await nothing_left(agent)


@pytest.mark.parametrize("leaves", ["SendMessage", "SendStreamingMessage"])
async def test_an_end_that_is_being_stored_when_its_client_leaves_is_stored(leaves: str) -> None:
    """BR-07 (ii)."""
    store = FaultyStore()
    agent = Told(store=store)
    request = say("hold")
    calling: asyncio.Task[Any] = asyncio.create_task(
        send(agent, request) if leaves == "SendMessage" else streamed(agent, request)  # type: ignore[arg-type]
    )
    await until(lambda: agent.turns and len(agent.turns[0].task.status.message.parts))
    store.hang = asyncio.Event()
    agent.go.set()
    for _ in range(5):
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    store.hang.set()
    await nothing_left(agent)
    task = await get(agent, agent.turns[0].task.id)
    assert (status_of(task), result_of(task)) == ("COMPLETED", ["held"])


async def test_a_cancel_waits_for_a_write_that_is_under_way_and_not_for_ever() -> None:
    store = FaultyStore()
    agent = Quick(store=store)
    task = await send(agent, say("hold", return_immediately=True))
    await until(lambda: agent.turns and len(agent.turns[0].task.status.message.parts))
    store.hang = asyncio.Event()
    agent.go.set()
    canceling = asyncio.create_task(cancel(agent, task.id))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not canceling.done()
    assert not agent.left["hold"]
    store.hang.set()
    assert status_of(await asyncio.wait_for(canceling, 5)) in ("CANCELED", "COMPLETED")
    await nothing_left(agent)

    agent.go.clear()
    store.hang = None
    task = await send(agent, say("hold", return_immediately=True))
    await until(lambda: len(agent.turns) == 2 and len(agent.turns[1].task.status.message.parts))
    store.hang = asyncio.Event()
    agent.go.set()
    canceling = asyncio.create_task(cancel(agent, task.id))
    await until(lambda: agent.left["hold"] == 2)  # after the grace
    store.hang.set()
    assert status_of(await asyncio.wait_for(canceling, 5)) == "CANCELED"
    await nothing_left(agent)


# Two writers of one store


async def test_of_two_servers_with_one_store_none_loses_what_the_other_wrote() -> None:
    """BR-61: the second reads again, goes on from there, and tells who follows."""
    store = BytesStore()
    one, other = Told(store=store), Told(store=store)
    task = await send(one, say("ask"))
    async with stream(one, subscription(task.id)) as events:
        await anext(events)
        assert status_of(await send(other, say("ask", task.id))) == "INPUT_REQUIRED"
        ended = await send(one, say("result", task.id))
        assert [text_of(m) for m in ended.history] == ["ask", "Which?", "ask", "Which?", "result"]
        assert kinds([event async for event in events]) == ["[INPUT_REQUIRED]", "WORKING", "result", "COMPLETED"]
    for agent in (one, other):
        assert await get(agent, task.id) == ended
        await nothing_left(agent)


async def test_a_task_that_another_server_has_ended() -> None:
    store = BytesStore()
    one, other = Told(store=store), Told(store=store)
    task = await send(one, say("ask"))
    async with stream(one, subscription(task.id)) as events:
        await anext(events)
        await send(other, say("done", task.id))
        with pytest.raises(UnsupportedOperationError):
            await send(one, say("done", task.id))
        assert kinds([event async for event in events]) == ["[COMPLETED]"]
    await nothing_left(one)


async def test_a_write_that_the_agent_cuts_off_and_that_was_stored() -> None:
    """Its outcome is not known; the next event finds out, and no follower misses anything."""

    class Late(BytesStore):
        async def append(self, scope: Scope, task: pb.Task, version: int, event: pb.StreamResponse) -> None:
            await super().append(scope, task, version, event)
            if event.HasField("artifact_update"):
                await asyncio.sleep(0.2)

    async def act(turn: Turn) -> None:
        try:
            async with asyncio.timeout(0.05):
                await turn.add_artifact("r", "a")
        except TimeoutError:
            await turn.complete("in time")

    agent = Told({"act": act}, store=Late())
    events = await streamed(agent, say("act"))
    assert kinds(events) == ["[SUBMITTED]", "WORKING", "[WORKING]", "COMPLETED"]
    assert result_of(events[2].task) == result_of(await get(agent, events[0].task.id)) == ["a"]
    await nothing_left(agent)


# The server ends


async def test_close_ends_what_is_under_way() -> None:
    """BR-14: a defined, stored state for every turn, and an answer for everyone who waits."""
    agent = Told({"hang": hang, "asked": _ask_and_hang})
    blocked = asyncio.create_task(send(agent, say("hold")))
    streaming = asyncio.create_task(streamed(agent, say("hang")))
    asked = await send(agent, say("asked"))
    idle = await send(agent, say("ask"))
    patient = await send(agent, say("patient"))
    await until(lambda: len(agent.turns) == 5)
    waiting = asyncio.create_task(send(agent, say("done", agent.turns[0].task.id)))
    async with stream(agent, subscription(idle.id)) as events:
        await anext(events)
        await until(lambda: agent._turns == 5)
        started = time.monotonic()
        await agent.close(2)
        assert time.monotonic() - started < 1
        with pytest.raises(UnavailableError):
            await anext(events)
    assert (status_of(await blocked), text_of((await blocked).status.message)) == ("FAILED", "The server was shut down")
    assert kinds(await streaming) == ["[SUBMITTED]", "FAILED"]
    with pytest.raises(UnavailableError):
        await waiting
    assert await state(agent, asked.id) == await state(agent, idle.id) == "INPUT_REQUIRED"
    assert await state(agent, patient.id) == "FAILED"
    for request in (say("done"), say("done", idle.id)):
        with pytest.raises(UnavailableError):
            await send(agent, request)
    assert await state(agent, idle.id) == "INPUT_REQUIRED"
    await nothing_left(agent)


async def _ask_and_hang(turn: Turn) -> None:
    await turn.ask("What?")
    await asyncio.Event().wait()


@pytest.mark.parametrize("deadline", [0, 0.4])
async def test_close_is_bounded_whatever_hangs(deadline: float) -> None:
    """The task of an agent that does not end fails all the same; a store that hangs is given up."""
    agent = Quick({"act": swallow})
    task = await send(agent, say("act", return_immediately=True))
    await until(lambda: agent.turns)
    started = time.monotonic()
    await agent.close(deadline)
    assert time.monotonic() - started < deadline + 0.5
    assert await state(agent, task.id) == "FAILED"

    store = FaultyStore()
    other = Quick(store=store)
    await send(other, say("hold", return_immediately=True))
    await until(lambda: other.turns and len(other.turns[0].task.status.message.parts))
    store.hang = asyncio.Event()
    other.go.set()
    started = time.monotonic()
    await other.close(deadline)
    assert time.monotonic() - started < deadline + 0.5
    store.hang.set()
    for one in asyncio.all_tasks() - {asyncio.current_task()}:
        one.cancel()


@pytest.mark.parametrize("rounds", range(4))
async def test_close_at_any_moment_of_a_beginning(rounds: int) -> None:
    """No task is left without an end, and no sender without an answer."""
    agent = Told({"hang": hang}, store=BytesStore())
    sending = [asyncio.create_task(agent.SendMessage(say("hang"), Context())) for _ in range(3)]
    for _ in range(rounds):
        await asyncio.sleep(0)
    await agent.close(1)
    for one in sending:
        try:
            assert status_of((await asyncio.wait_for(one, 5)).task) == "FAILED"
        except UnavailableError:
            pass
    listed = await agent.ListTasks(pb.ListTasksRequest(), Context())
    assert {status_of(task) for task in listed.tasks} <= {"FAILED"}
    await nothing_left(agent)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_server_that_stops_closes_its_agent(binding: str) -> None:
    agent = Told()
    async with Server(agent, http_port=0, grpc_port=0) as server:
        client = await wire(binding, server)
        await client.call("SendMessage", say("hold", return_immediately=True))
        await until(lambda: agent.turns)
        await client.close()
        await server.stop(2)
    task = agent.turns[0].task
    assert (status_of(task), text_of(task.status.message)) == ("FAILED", "The server was shut down")
