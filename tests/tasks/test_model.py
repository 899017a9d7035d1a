"""The engine against a small model of it, under random sends, follow-ups, cancels, readers, disconnects and faults.

`Orderly` lets the engine come to rest after each step, and knows what everyone must have been told by then. `chaos`
lets nothing come to rest, and knows what must hold however things fell out: one order of events for all, no gap, no
double, one end, the store has what subscribers saw, nothing left running.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine import BytesStore, Context, kinds, nothing_left, say, status_of, subscription, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from a2a_grpc.errors import A2AError, ResourceExhaustedError, TaskNotCancelableError, UnsupportedOperationError
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, IllegalTransitionError, Limits, MemoryStore, Turn
from a2a_grpc.tasks.lifecycle import apply

STORES: list[Callable[[], Any]] = [MemoryStore, BytesStore]
ROOM, QUEUED = 6, 2
ENDS = {"complete": "COMPLETED", "fail": "FAILED", "reject": "REJECTED"}
ASKS = {"ask": "INPUT_REQUIRED", "require_auth": "AUTH_REQUIRED"}
ENDED = {*ENDS.values(), "CANCELED"}
TICKS = 60  # turns of the event loop in which the engine comes to rest


# Orderly: one step, and then what everybody knows


class Puppet(AgentServicer):
    """Does in each turn what it is told, one command after the other."""

    limits = Limits(queued_messages=QUEUED, events_waiting=ROOM, cancel_grace=0.005)

    def __init__(self, store: Any) -> None:
        super().__init__(store=store)
        self.commands: dict[str, asyncio.Queue[Any]] = {}
        self.stubborn = False

    async def execute(self, turn: Turn) -> None:
        commands = self.commands[turn.task.id] = asyncio.Queue()
        while True:
            try:
                name, argument = await commands.get()
            except asyncio.CancelledError:
                if self.stubborn:
                    continue
                raise
            if name == "return":
                return
            if name == "raise":
                raise RuntimeError("told to")
            try:
                await self._act(turn, name, argument)
            except IllegalTransitionError:
                pass

    async def _act(self, turn: Turn, name: str, argument: Any) -> None:
        if name == "artifact":
            id_, append, text = argument
            artifact = pb.Artifact(artifact_id=id_, parts=[pb.Part(text=text)])
            await turn.emit(pb.TaskArtifactUpdateEvent(artifact=artifact, append=append))
        else:
            await getattr(turn, name)(argument)


class Message:
    """One that was sent: what its client must be told, once that is known."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.call: asyncio.Task[Any] | None = None  # a unary call
        self.reader: Reader | None = None  # or a stream
        self.told: str = ""  # a state, or the name of an error

    def tell(self, what: str) -> None:
        self.told = self.told or what

    def check(self) -> None:
        if self.call is None or not self.told:
            assert self.call is None or not self.call.done()
            return
        assert self.call.done(), f"{self.text} waits, and is to be told {self.told}"
        error = self.call.exception()
        assert (type(error).__name__ if error else status_of(self.call.result().task)) == self.told
        self.call = None


class Reader:
    """One that follows. A slow one reads nothing but the snapshot until it wakes."""

    def __init__(self, events: Any, slow: bool) -> None:
        self.events, self.awake = events, not slow
        self.got: list[str] = []
        self.error: Exception | None = None
        self.first: pb.Task | None = None
        self.task: asyncio.Task[None] | None = None
        self.expected: list[str] = []
        self.ended = False
        self.unread = 0

    async def begin(self) -> None:
        self.first = (await anext(self.events)).task
        if self.awake:
            self.wake_up()

    def wake_up(self) -> None:
        self.awake = True
        self.task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            async for event in self.events:
                self.got += kinds([event])
        except A2AError as error:
            self.error = error

    def publish(self, kind: str) -> None:
        if self.ended:
            return
        self.unread += not self.awake
        if self.unread > ROOM:
            self.expected, self.ended = ["cut off"], True
        else:
            self.expected.append(kind)

    def end(self, error: str = "") -> None:
        if not self.ended:
            self.expected += [error] if error else []
            self.ended = True

    @property
    def is_here(self) -> bool:
        return not (self.awake and self.ended)

    def check(self) -> None:
        if self.awake:
            names = {ResourceExhaustedError: "cut off", UnsupportedOperationError: "refused"}
            told = self.got + ([names[type(self.error)]] if self.error else [])  # type: ignore[index]
            assert told == self.expected
            assert self.task
            assert self.task.done() == self.ended

    async def leave(self) -> None:
        if self.task:
            self.task.cancel()
            await asyncio.wait([self.task])
        await self.events.aclose()


class Model:
    """What the engine must have made of one task."""

    def __init__(self) -> None:
        self.id = ""
        self.state, self.said = "SUBMITTED", ""
        self.history: list[str] = []
        self.artifacts: dict[str, str] = {}
        self.current: Message | None = None
        self.waiting: deque[Message] = deque()
        self.emitted, self.asked = False, ""
        self.readers: list[Reader] = []

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def begin(self, message: Message) -> None:
        self.hear(message.text)
        self.current, self.emitted, self.asked = message, False, ""

    def hear(self, text: str) -> None:
        self.history += [self.said] if self.said else []
        self.said = ""
        self.history.append(text)

    def status(self, state: str, text: str = "") -> None:
        self.history += [self.said] if self.said else []
        self.state, self.said = state, text
        self.asked = state if state in ASKS.values() else ""
        self._publish(state)
        current = self.current
        if current and (self.asked or self.ended):
            current.tell(state)
        if current and current.reader and state == "INPUT_REQUIRED":
            current.reader.end()
        if self.ended:
            self._refuse()
            for reader in self.readers:
                reader.end()

    def artifact(self, id_: str, append: bool, text: str) -> None:
        self.artifacts[id_] = (self.artifacts.get(id_, "") if append else "") + text
        self._publish(text)

    def act(self, name: str, argument: Any) -> None:
        """A command of the agent whose turn it is."""
        if name in ("return", "raise"):
            self.over(name)
        elif not self.ended:
            self.emitted = True
            if name == "artifact":
                self.artifact(*argument)
            else:
                self.status({**ENDS, **ASKS, "status": "WORKING"}[name], argument)

    def over(self, how: str) -> None:
        """A-31."""
        if not self.ended and (how == "raise" or not self.emitted):
            self.status("FAILED", "?")
        elif not self.ended and not self.asked:
            self.status("COMPLETED")
        self.turn_over()

    def turn_over(self) -> None:
        if self.current:
            self.current.tell(self.state)
            if self.current.reader:
                self.current.reader.end()
        self.current = None
        if self.waiting and not self.ended:
            self.begin(self.waiting.popleft())

    def _publish(self, kind: str) -> None:
        for reader in self.readers:
            reader.publish(kind)

    def _refuse(self) -> None:
        for message in self.waiting:
            message.tell("UnsupportedOperationError")
            if message.reader:
                message.reader.end("refused")
        self.waiting.clear()

    def check(self, task: pb.Task) -> None:
        assert status_of(task) == self.state
        assert [text_of(m) for m in task.history] == self.history or "?" in self.history
        assert (text_of(task.status.message) == self.said) or self.said == "?"
        assert {a.artifact_id: "".join(p.text for p in a.parts) for a in task.artifacts} == self.artifacts


artifacts = st.tuples(st.sampled_from("AB"), st.booleans(), st.text("xyz", min_size=1, max_size=3))
commands = st.one_of(
    st.tuples(st.sampled_from(["status", *ENDS, *ASKS]), st.text("abc", min_size=1, max_size=3)),
    st.tuples(st.just("artifact"), artifacts),
    st.tuples(st.sampled_from(["return", "raise"]), st.none()),
    st.tuples(st.just("status"), st.just("on it")),
)
kinds_of_calls = st.sampled_from(["unary", "immediately", "stream", "slow stream"])


class Orderly(RuleBasedStateMachine):
    tasks: Bundle[Model] = Bundle("tasks")

    @initialize(make_store=st.sampled_from(STORES))
    def start(self, make_store: Callable[[], Any]) -> None:
        self.loop = asyncio.new_event_loop()
        self.agent = Puppet(make_store())
        self.models: list[Model] = []
        self.messages: list[Message] = []
        self.count = 0

    def run(self, work: Awaitable[Any] | None = None) -> Any:
        async def run() -> Any:
            result = await work if work else None
            for _ in range(TICKS):
                await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(run())

    # Steps

    @rule(target=tasks, kind=kinds_of_calls)
    def send(self, kind: str) -> Model:
        model = Model()
        self._send(model, kind)
        self.models.append(model)
        return model

    @rule(model=tasks, kind=kinds_of_calls)
    def follow_up(self, model: Model, kind: str) -> None:
        self._send(model, kind)

    def _send(self, model: Model, kind: str) -> None:
        self.count += 1
        message = Message(f"m{self.count}")
        request = say(message.text, model.id, return_immediately=kind == "immediately")
        refusal = self._refusal(model)
        known = model.state if model.id else "SUBMITTED"
        if not refusal:
            self._take(model, message)
        if kind in ("unary", "immediately"):
            message.call = self.loop.create_task(self.agent.SendMessage(request, Context()))
            message.told = refusal or (known if kind == "immediately" else message.told)
            self.run()
        else:
            reader = self._open(self.agent.SendStreamingMessage(request, Context()), kind == "slow stream", refusal)
            if reader:
                message.reader = reader
                model.readers.append(reader)
                assert reader.first
                assert status_of(reader.first) == known
        if not model.id:
            [model.id] = {id_ for _, id_ in self.agent._lives} - {m.id for m in self.models}
        self.messages.append(message)

    def _refusal(self, model: Model) -> str:
        if model.ended:
            return "UnsupportedOperationError"
        return "ResourceExhaustedError" if model.current and len(model.waiting) >= QUEUED else ""

    def _take(self, model: Model, message: Message) -> None:
        if model.current:
            model.waiting.append(message)
        else:
            model.begin(message)

    def _open(self, events: Any, slow: bool, refusal: str) -> Reader | None:
        reader = Reader(events, slow)
        if refusal:
            with pytest.raises(A2AError) as caught:
                self.run(reader.begin())
            assert type(caught.value).__name__ == refusal
            return None
        self.run(reader.begin())
        return reader

    @rule(model=tasks, command=commands)
    def command(self, model: Model, command: tuple[str, Any]) -> None:
        if model.current:
            self.agent.commands[model.id].put_nowait(command)
            model.act(*command)
            self.run()

    @rule(model=tasks, stubborn=st.booleans())
    def cancel(self, model: Model, stubborn: bool) -> None:
        self.agent.stubborn = stubborn
        call = self.agent.CancelTask(pb.CancelTaskRequest(id=model.id), Context())
        if model.ended:
            with pytest.raises(TaskNotCancelableError):
                self.run(call)
            return
        if not stubborn:
            current, model.current = model.current, None
        model.status("CANCELED")
        if not stubborn:
            model.current = current
            model.turn_over()
        model.check(self.run(call))

    @rule(model=tasks, slow=st.booleans())
    def subscribe(self, model: Model, slow: bool) -> None:
        events = self.agent.SubscribeToTask(subscription(model.id), Context())
        refusal = "UnsupportedOperationError" if model.ended else ""
        if reader := self._open(events, slow, refusal):
            model.readers.append(reader)
            assert reader.first
            model.check(reader.first)

    @rule(model=tasks, data=st.data())
    def wake_up(self, model: Model, data: st.DataObject) -> None:
        if sleeping := [reader for reader in model.readers if not reader.awake]:
            self.loop.call_soon(data.draw(st.sampled_from(sleeping)).wake_up)
            self.run()

    @rule(model=tasks, data=st.data())
    def leave(self, model: Model, data: st.DataObject) -> None:
        if model.readers:
            reader = data.draw(st.sampled_from(model.readers))
            model.readers.remove(reader)
            self.run(reader.leave())

    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        """The client of a unary call goes away."""
        if calling := [message for message in self.messages if message.call and not message.call.done()]:
            message = data.draw(st.sampled_from(calling))
            assert message.call
            message.call.cancel()
            message.call = None
            self.run()

    # What holds

    @invariant()
    def everybody_knows_what_is_right(self) -> None:
        if not hasattr(self, "models"):
            return
        for message in self.messages:
            message.check()
        for model in self.models:
            model.check(self.run(self.agent.GetTask(pb.GetTaskRequest(id=model.id), Context())))
            for reader in model.readers:
                reader.check()
        running = sum(1 + len(model.waiting) for model in self.models if model.current)
        assert self.agent._turns == running
        held = {model.id for model in self.models if model.current or any(r.is_here for r in model.readers)}
        assert {id_ for _, id_ in self.agent._lives} == held

    def teardown(self) -> None:
        if not hasattr(self, "models"):
            return
        self.agent.stubborn = False
        self.run(self.agent.close(0.1))
        for model in self.models:
            for reader in model.readers:
                self.run(reader.leave())
        self.run()
        assert not self.agent._lives
        assert self.agent._turns == 0
        for call in [message.call for message in self.messages if message.call]:
            assert call.done()
            call.exception()
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()


def orderly(examples: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Orderly,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_the_engine_does_what_the_model_does() -> None:
    orderly(150, 30)


@pytest.mark.soak
def test_the_engine_does_what_the_model_does_for_long() -> None:
    orderly(3000, 60)


# Chaos: everything at once, and what holds however it falls out


class Fickle(AgentServicer):
    limits = Limits(queued_messages=3, events_waiting=8, cancel_grace=0.005, turns=20)

    def __init__(self, store: Any, chance: random.Random) -> None:
        super().__init__(store=store)
        self.chance = chance

    async def execute(self, turn: Turn) -> None:
        for index in range(self.chance.randrange(8)):
            await pause(self.chance)
            if self.chance.random() < 0.4:
                await turn.status(f"status {index}")
            else:
                append = self.chance.random() < 0.5
                artifact = pb.Artifact(artifact_id=self.chance.choice("AB"), parts=[pb.Part(text=str(index))])
                await turn.emit(pb.TaskArtifactUpdateEvent(artifact=artifact, append=append))
        await pause(self.chance)
        how = self.chance.choice(["ask", "ask", "ask", "complete", "fail", "return", "raise", "stubborn", "late"])
        if how == "raise":
            raise RuntimeError("told to")
        if how == "stubborn":
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
        if how in ("ask", "complete", "fail"):
            await getattr(turn, how)("so")
        if how == "late":
            await turn.complete("so")
            await turn.status("too late")


async def pause(chance: random.Random) -> None:
    for _ in range(chance.randrange(5)):
        await asyncio.sleep(0)


class Witness:
    """Follows a task from its beginning, reads always, and so knows the order of its events."""

    def __init__(self, agent: AgentServicer) -> None:
        self.agent = agent
        self.versions: list[bytes] = []  # the task after each event, without its history
        self.events: list[bytes] = []

    async def watch(self, id_: str) -> None:
        async for event in self.agent.SubscribeToTask(subscription(id_), Context()):
            if event.HasField("task"):
                self.task = pb.Task.FromString(event.task.SerializeToString())
            else:
                apply(self.task, pb.StreamResponse.FromString(event.SerializeToString()))
                self.events.append(event.SerializeToString())
            self.versions.append(bare(self.task))


def bare(task: pb.Task) -> bytes:
    """A task without what user messages, which are not events that subscribers see, do to it."""
    copy = pb.Task.FromString(task.SerializeToString())
    del copy.history[:]
    copy.status.ClearField("message")
    return copy.SerializeToString(deterministic=True)


async def follow(agent: AgentServicer, id_: str, chance: random.Random, seen: list[Any]) -> None:
    """A reader that comes, dawdles and goes when it likes."""
    await pause(chance)
    patience = chance.choice([1, 3, 1000])
    slow = chance.random() < 0.3
    events = agent.SubscribeToTask(subscription(id_), Context())
    mine: list[Any] = []
    try:
        async for event in events:
            mine.append(event)
            await pause(chance)
            if slow:
                await asyncio.sleep(0.002)
            if len(mine) >= patience:
                break
        else:
            mine.append("end")
    except (UnsupportedOperationError, ResourceExhaustedError):
        mine.append("cut off")
    finally:
        await events.aclose()
        seen.append(mine)


async def write(agent: AgentServicer, id_: str, chance: random.Random, told: list[Any]) -> None:
    await pause(chance)
    call = asyncio.ensure_future(agent.SendMessage(say(f"m{chance.random()}", id_), Context()))
    if chance.random() < 0.2:
        await pause(chance)
        call.cancel()
    try:
        told.append((await call).task)
    except (UnsupportedOperationError, ResourceExhaustedError, asyncio.CancelledError):
        told.append(None)


async def stop(agent: AgentServicer, id_: str, chance: random.Random, told: list[Any]) -> None:
    await asyncio.sleep(chance.random() * 0.02)
    try:
        told.append(await agent.CancelTask(pb.CancelTaskRequest(id=id_), Context()))
    except TaskNotCancelableError:
        told.append(None)


async def chaos(seed: int) -> None:
    chance = random.Random(seed)
    agent = Fickle(chance.choice(STORES)(), chance)
    watched = await asyncio.gather(*(_life(agent, chance) for _ in range(chance.randrange(1, 4))))
    await nothing_left(agent)
    for witness, seen, told in watched:
        stored = await agent.GetTask(pb.GetTaskRequest(id=witness.task.id), Context())
        assert status_of(stored) in ENDED
        assert bare(stored) == witness.versions[-1]
        states = [status_of(pb.Task.FromString(version)) for version in witness.versions]
        assert [state for state in states if state in ENDED] == states[-1:]
        for mine in seen:
            _check_follower(mine, witness)
        for task in told:
            assert task is None or status_of(task) in {*ENDED, *ASKS.values()}
    leftovers = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [one for one in leftovers if "async_generator_athrow" not in repr(one)]


async def _life(agent: Fickle, chance: random.Random) -> tuple[Witness, list[Any], list[Any]]:
    first = say("begin", return_immediately=True)
    id_ = (await agent.SendMessage(first, Context())).task.id
    witness = Witness(agent)
    seen: list[Any] = []
    told: list[Any] = []
    try:
        watching = asyncio.create_task(witness.watch(id_))
        await asyncio.gather(
            *(follow(agent, id_, chance, seen) for _ in range(chance.randrange(6))),
            *(write(agent, id_, chance, told) for _ in range(chance.randrange(6))),
            *(stop(agent, id_, chance, told) for _ in range(chance.randrange(1, 4))),
        )
        await asyncio.wait_for(watching, 5)
    except UnsupportedOperationError:
        witness.task = await agent.GetTask(pb.GetTaskRequest(id=id_), Context())
        witness.versions = [bare(witness.task)]
        seen.clear()
    return witness, seen, told


def _check_follower(mine: list[Any], witness: Witness) -> None:
    """A snapshot, and then the very events that the witness has from there on; to the end, if it stayed."""
    events = [event for event in mine if not isinstance(event, str)]
    if not events:
        return
    got = [event.SerializeToString() for event in events[1:]]
    snapshot = bare(events[0].task)
    starts = [index for index, version in enumerate(witness.versions) if version == snapshot]
    fits = [start for start in starts if witness.events[start : start + len(got)] == got]
    assert fits, "a gap, a double, or another order"
    if mine[-1] == "end":
        assert any(start + len(got) == len(witness.events) for start in fits)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_at_once(seed: int) -> None:
    asyncio.run(chaos(seed))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_whatever_happens_at_once_for_long(part: int) -> None:
    for seed in range(part * 300, (part + 1) * 300):
        asyncio.run(chaos(seed))
