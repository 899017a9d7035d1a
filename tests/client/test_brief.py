"""Agents that call agents: what a turn hands down to the calls that it makes, and fan-out with a limit."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from a2a_grpc import AgentServicer, Server, Turn
from a2a_grpc.auth import Bearer
from a2a_grpc.caller import Caller
from a2a_grpc.client import Assembly, Call, TaskFailedError, connect, fan_out
from a2a_grpc.errors import A2AError, DeadlineExceededError
from a2a_grpc.examples.brief import AT_ONCE, Brief
from a2a_grpc.examples.glossary import Glossary
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer
from a2a_grpc.inherited import Inherited, inherited, sooner, trace
from tests.client.scripted import BINDINGS, Script, scripted

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "vendor=1,other=2"
MESSAGE = pb.Message(message_id="M1", role=pb.ROLE_USER, parts=[pb.Part(text="go")])


def serve(agent: Any) -> Server:
    return Server(agent, http_port=0, grpc_port=0, shutdown_deadline=1)


class Slow(Glossary):
    """A child that notes what it was sent, and waits until it is cancelled if asked for "wait"."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.stopped = asyncio.Semaphore(0), asyncio.Semaphore(0)
        self.deadlines: list[float | None] = []
        self.traces: list[dict[str, str]] = []

    async def execute(self, turn: Turn) -> None:
        self.deadlines.append(turn.deadline)
        self.traces.append(trace())
        if turn.text != "wait":
            return await super().execute(turn)
        self.started.release()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.release()


class Polled(Slow):
    @property
    def card(self) -> pb.AgentCard:
        made = super().card
        made.capabilities.streaming = False
        return made


class Relay(AgentServicer):
    """Passes a message on to the agent at a URL; notes its own deadlines, and what it calls."""

    anonymous_extended_card = True

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self.url, self.options = url, options
        self.deadlines: list[float | None] = []
        self.looked = asyncio.Semaphore(0)
        self.left_over: float | None = None

    async def execute(self, turn: Turn) -> None:
        self.deadlines.append(turn.deadline)
        async with connect(self.url, interceptors=[self.note], **self.options) as agent:
            await turn.add_artifact("answer", (await agent.ask(turn.text)).text)

    async def extended_card(self, caller: Caller) -> pb.AgentCard:
        self.left_over = sooner(None)
        return self.card

    def note(self, call: Call) -> Call:
        if call.method.name == "GetTask":
            self.looked.release()
        return call


class Caught(AgentServicer):
    """Sends a message on, or follows it, until it is cancelled."""

    def __init__(self, url: str, how: str) -> None:
        super().__init__()
        self.url, self.how = url, how

    async def execute(self, turn: Turn) -> None:
        async with connect(self.url) as agent:
            if self.how == "send":
                await agent.send(turn.text)
            async with aclosing(agent.stream(turn.text)) as events:
                async for _ in events:
                    pass


class Raw(A2AServiceServicer):
    """No engine: it asks another agent by itself."""

    def __init__(self, url: str) -> None:
        self.url, self.card = url, Glossary().card
        self.card.capabilities.Clear()

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        async with connect(self.url) as agent:
            return pb.SendMessageResponse(task=(await agent.ask(request.message)).task)


def traced(call: Call) -> Call:
    return Call(call.method, call.message, {**call.metadata, "traceparent": PARENT, "tracestate": STATE}, call.card)


@pytest.fixture
async def slow() -> AsyncIterator[tuple[Slow, str]]:
    agent = Slow()
    async with asyncio.timeout(20), serve(agent) as server:
        yield agent, server.http_url


# The example


async def test_a_brief_is_made_of_the_definitions(slow: tuple[Slow, str]) -> None:
    async with serve(Brief(slow[1])) as server, connect(server.http_url) as brief:
        answer = await brief.ask("record, sealed class")
        assert [a.name for a in answer.artifacts] == ["brief"]
        first, second = answer.text.splitlines()
        assert first.startswith("- record: A record is a class for plain data: its fields are final")
        assert second.startswith("- sealed class: A sealed class names the classes")
        assert (await brief.ask(" , ")).question == "Which terms should I explain? Put commas between them."


async def test_a_brief_fails_where_the_glossary_does(slow: tuple[Slow, str]) -> None:
    async with serve(Brief(slow[1])) as server, connect(server.http_url) as brief:
        with pytest.raises(TaskFailedError, match="The glossary did not help: I do not know the term 'monad'"):
            await brief.ask("record, monad")


async def test_a_brief_says_that_the_glossary_is_unreachable() -> None:
    async with serve(Glossary()) as gone:
        url = gone.http_url
    async with serve(Brief(url)) as server, connect(server.http_url) as brief:
        with pytest.raises(TaskFailedError, match=f"The glossary cannot be reached: .*{url.rpartition(':')[2]}"):
            await brief.ask("record")


# Cancellation


async def test_cancelling_a_brief_cancels_what_it_waits_for(
    slow: tuple[Slow, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    glossary, url = slow
    told = asyncio.Semaphore(0)
    add = Assembly.add
    monkeypatch.setattr(Assembly, "add", lambda *given: (add(*given), told.release()))
    async with serve(Brief(url)) as server, connect(server.http_url) as brief, connect(url) as child:
        task = await brief.send(", ".join(["wait"] * (AT_ONCE + 1)), return_immediately=True)
        assert isinstance(task, pb.Task)
        await acquire(told, AT_ONCE)
        await acquire(glossary.started, AT_ONCE)
        assert (await brief.cancel(task.id)).status.state == pb.TASK_STATE_CANCELED
        await acquire(glossary.stopped, AT_ONCE)
        children = [t.status.state async for t in child.list_tasks()]
        assert children == [pb.TASK_STATE_CANCELED] * AT_ONCE  # the last term was never asked for


async def test_cancellation_reaches_a_task_that_is_polled() -> None:
    child = Polled()
    async with asyncio.timeout(20), serve(child) as below:
        relay = Relay(below.http_url)
        async with serve(relay) as server, connect(server.http_url) as agent:
            task = await agent.send("wait", return_immediately=True)
            assert isinstance(task, pb.Task)
            await acquire(relay.looked, 1)
            await agent.cancel(task.id)
            await acquire(child.stopped, 1)


@pytest.mark.parametrize("how", ["send", "stream"])
async def test_cancellation_reaches_what_is_sent_or_followed(how: str, slow: tuple[Slow, str]) -> None:
    child, url = slow
    async with serve(Caught(url, how)) as server, connect(server.http_url) as agent:
        task = await agent.send("wait", return_immediately=True)
        assert isinstance(task, pb.Task)
        await acquire(child.started, 1)
        await agent.cancel(task.id)
        await acquire(child.stopped, 1)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_what_another_agent_says_is_not_said_to_ones_own_caller(binding: str) -> None:
    guard = Bearer(lambda token: None)
    async with Server(Glossary(), http_port=0, grpc_port=0, interceptors=[guard]) as guarded:
        async with serve(Raw(guarded.http_url)) as server, connect(server.agents[0].card, bindings=[binding]) as agent:
            with pytest.raises(A2AError, match=r"^Internal error. Reference: \w+$"):
                await agent.send("record")
        async with serve(Relay(guarded.http_url)) as server, connect(server.http_url, bindings=[binding]) as agent:
            with pytest.raises(TaskFailedError, match=r"The agent failed. Reference: \w+$"):
                await agent.ask("record")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_polling_in_a_turn_that_is_cancelled_cancels_what_it_waits_for(binding: str) -> None:
    async with asyncio.timeout(20):
        script = Script([], {"GetTask": [child_of(pb.TASK_STATE_INPUT_REQUIRED)], "CancelTask": [pb.Task(id="T1")]})
        held = asyncio.Event()

        async def hold(call: Call) -> Call:
            if call.method.name == "SendMessage":
                held.set()
                await asyncio.Event().wait()
            return call

        async with scripted(binding, script, streaming=False, interceptors=[hold]) as client:
            inherited.set(Inherited(None, ()))
            asking = asyncio.create_task(client.ask(MESSAGE, task_id="T1"))
            await held.wait()
            asking.cancel()
            await asyncio.wait([asking])
    assert asking.cancelled()
    assert script.calls == ["GetTask", "CancelTask"]


def child_of(state: int) -> pb.Task:
    return pb.Task(id="T1", status=pb.TaskStatus(state=state), history=[MESSAGE])


async def test_outside_of_agents_a_task_goes_on_when_its_client_leaves(slow: tuple[Slow, str]) -> None:
    glossary, url = slow
    async with connect(url) as agent:
        asking = asyncio.create_task(agent.ask("wait"))
        await acquire(glossary.started, 1)
        asking.cancel()
        await asyncio.wait([asking])
        assert [t.status.state async for t in agent.list_tasks(status="TASK_STATE_CANCELED")] == []
        assert glossary.stopped.locked()


async def acquire(semaphore: asyncio.Semaphore, times: int) -> None:
    for _ in range(times):
        await semaphore.acquire()


# Deadline and trace context


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_turn_hands_down_deadline_and_trace(slow: tuple[Slow, str], binding: str) -> None:
    child, url = slow
    relay = Relay(url, bindings=[binding])
    async with serve(relay) as server, connect(server.http_url, bindings=[binding], interceptors=[traced]) as agent:
        assert (await agent.ask("record", deadline=30)).completed
        assert child.traces == [{"traceparent": PARENT, "tracestate": STATE}]
        (given,), (handed,) = relay.deadlines, child.deadlines
        assert given is not None
        assert handed is not None
        assert abs(handed - given) < 1  # gRPC rounds timeouts; without the inherited one it were ten minutes


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_servicer_without_turns_hands_down_deadline_and_trace(slow: tuple[Slow, str], binding: str) -> None:
    child, url = slow
    options: dict[str, Any] = {"bindings": [binding], "interceptors": [traced]}
    async with serve(Raw(url)) as server, connect(server.agents[0].card, **options) as agent:
        now = asyncio.get_running_loop().time()
        assert await agent.send("record", deadline=30)
    assert child.traces == [{"traceparent": PARENT, "tracestate": STATE}]
    (handed,) = child.deadlines
    assert handed is not None
    assert 28 < handed - now < 31


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_turn_that_outlives_its_call_hands_down_no_deadline(slow: tuple[Slow, str], binding: str) -> None:
    child, url = slow
    relay = Relay(url)
    async with serve(relay) as server, connect(server.http_url, bindings=[binding]) as agent:
        task = await agent.send("wait", deadline=5, return_immediately=True)
        await acquire(child.started, 1)
        (given,), (handed,) = relay.deadlines, child.deadlines
        assert given is not None
        assert handed is not None
        assert handed - given > 500
        assert isinstance(task, pb.Task)
        await agent.extended_card()
        assert relay.left_over is not None
        assert relay.left_over - given > 50  # that of another call, on the same connection


@pytest.mark.parametrize(
    "call",
    [
        lambda agent: agent.ask("record"),
        lambda agent: agent.send("record", deadline=9),
        lambda agent: agent.get_task("t"),
        lambda agent: anext(agent.stream("record")),
        lambda agent: anext(agent.subscribe("t")),
    ],
)
async def test_nothing_is_sent_after_the_deadline(slow: tuple[Slow, str], inherit: Any, call: Any) -> None:
    sent = list[Call]()
    async with connect(slow[1], interceptors=[lambda call: sent.append(call) or call]) as agent:
        await agent.ask("record")
        assert len(sent) == 1
        inherit(asyncio.get_running_loop().time())
        with pytest.raises(DeadlineExceededError):
            await call(agent)
        assert len(sent) == 1


async def test_an_inherited_deadline_does_not_lengthen_a_call(slow: tuple[Slow, str], inherit: Any) -> None:
    start = asyncio.get_running_loop().time()
    inherit(start + 1000)
    async with connect(slow[1], deadline=40) as agent:
        await agent.send("record")
        (handed,) = slow[0].deadlines
        assert handed is not None
        assert handed - start < 50


@pytest.fixture
def inherit() -> Iterator[Any]:
    before = inherited.get()
    yield lambda deadline=None, values=(): inherited.set(Inherited(deadline, values))
    inherited.set(before)


@pytest.mark.parametrize(("given", "own", "expected"), [(None, None, None), (None, 2, 2), (1, None, 1), (1, 2, 1)])
def test_the_sooner_deadline_holds(inherit: Any, given: float, own: float, expected: float) -> None:
    inherit(given)
    assert sooner(own) == expected


LONGER = PARENT.replace("00-", "01-", 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([PARENT], {"traceparent": PARENT}),
        ([PARENT, "a=1"], {"traceparent": PARENT, "tracestate": "a=1"}),
        (["a=1", PARENT, "b=2"], {"traceparent": PARENT, "tracestate": "a=1,b=2"}),
        ([f"{LONGER}-what-comes"], {"traceparent": f"{LONGER}-what-comes"}),
        ([PARENT, "a=" + "x" * 600], {"traceparent": PARENT}),
        ([PARENT, "a=\u00e9"], {"traceparent": PARENT}),
        ([], {}),
        (["a=1"], {}),
        ([PARENT, PARENT], {}),
        ([f"{PARENT}-more"], {}),
        ([f"{LONGER}more"], {}),
        ([f"{PARENT}\n"], {}),
        ([PARENT.upper()], {}),
        ([PARENT.replace("00-", "ff-", 1)], {}),
        (["00-" + "0" * 32 + "-b7ad6b7169203331-01"], {}),
        (["00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01"], {}),
    ],
)
def test_trace_context(inherit: Any, values: Sequence[str], expected: dict[str, str]) -> None:
    inherit(None, values)
    assert trace() == expected


# Fan-out


async def test_fan_out_keeps_the_order_and_the_limit() -> None:
    running, most = 0, 0

    async def call(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20 - number):
            await asyncio.sleep(0)
        running -= 1
        return number

    assert await fan_out((call(n) for n in range(20)), limit=3) == list(range(20))
    assert most == 3
    assert await fan_out([]) == []
    with pytest.raises(ValueError, match="limit must be 1 or more, not 0"):
        await fan_out([], limit=0)


async def test_the_first_failure_cancels_the_others() -> None:
    cancelled = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    async def fail() -> None:
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        await fan_out([wait("a"), wait("b"), fail(), wait("never begun")], limit=3)
    assert sorted(cancelled) == ["a", "b"]


async def test_a_call_that_is_cancelled_from_outside_is_no_result() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fan_out([asyncio.sleep(0), future, asyncio.sleep(0)])
