"""What the tests of the engine share: an agent that is told what to do, stores that behave badly, open streams."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict, ParseDict
from lab import SECRET
from wires import METHODS, REST, Fault, GrpcWire, JsonRpcWire, RestWire, grpc_fault, json_fault

from a2a_grpc.caller import Caller, caller
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, MemoryStore, Turn
from a2a_grpc.tasks.lifecycle import after
from a2a_grpc.tasks.store import ConflictError, Page, Position, Query, Scope, Stored

State = pb.TaskState
OPEN_STATES = [
    pb.TASK_STATE_SUBMITTED,
    pb.TASK_STATE_WORKING,
    pb.TASK_STATE_INPUT_REQUIRED,
    pb.TASK_STATE_AUTH_REQUIRED,
]


# Messages


def say(text: str, task_id: str = "", **fields: Any) -> pb.SendMessageRequest:
    """A request whose message has an id of its own."""
    said = pb.Message(message_id=f"m-{text}", role=pb.ROLE_USER, parts=[pb.Part(text=text)], task_id=task_id)
    configuration = pb.SendMessageConfiguration(**{k: fields.pop(k) for k in CONFIGURATION & fields.keys()})
    tenant = fields.pop("tenant", "")
    said.MergeFrom(pb.Message(**fields))
    request = pb.SendMessageRequest(message=said, tenant=tenant)
    if configuration.ListFields() or configuration.HasField("history_length"):
        request.configuration.CopyFrom(configuration)
    return request


CONFIGURATION = {"return_immediately", "history_length", "accepted_output_modes", "task_push_notification_config"}


def status_of(task: pb.Task) -> str:
    return State.Name(task.status.state).removeprefix("TASK_STATE_")


def text_of(message: pb.Message) -> str:
    return "".join(part.text for part in message.parts)


def result_of(task: pb.Task) -> list[str]:
    return ["".join(part.text for part in artifact.parts) for artifact in task.artifacts]


def kinds(events: Sequence[Any]) -> list[str]:
    """Each event in a word: a snapshot as the state in brackets, a status as its state, an artifact as its text."""
    return [_kind(event) for event in events]


def _kind(event: Any) -> str:
    kind = event.WhichOneof("payload")
    if kind == "task":
        return f"[{status_of(event.task)}]"
    if kind == "status_update":
        return status_of(event.status_update)  # type: ignore[arg-type]
    if kind == "message":
        return "message"
    return "".join(part.text for part in event.artifact_update.artifact.parts)


# The agent


class Told(AgentServicer):
    """Does what the text of a message names. `hold` waits for `go`, having said so; others end by themselves."""

    name = "Told"

    def __init__(self, actions: dict[str, Callable[[Turn], Awaitable[Any]]] | None = None, **given: Any) -> None:
        super().__init__(**given)
        self.go = asyncio.Event()
        self.actions = {**ACTIONS, "hold": self.hold, "patient": self.patient, **(actions or {})}
        self.turns: list[Turn] = []
        self.left: Counter[str] = Counter()

    async def answer(self, turn: Turn) -> str | None:
        return "direct" if turn.text == "answer" else None

    async def execute(self, turn: Turn) -> None:
        self.turns.append(turn)
        name = turn.text.partition(" ")[0]
        try:
            await self.actions[name](turn)
        finally:
            self.left[name] += 1

    async def hold(self, turn: Turn) -> None:
        await turn.status("holding")
        await self.go.wait()
        await turn.add_artifact("held", "held")

    async def patient(self, turn: Turn) -> None:
        await turn.require_auth("Allow me")
        await self.go.wait()
        await turn.add_artifact("allowed", "allowed")


async def _chunks(turn: Turn) -> None:
    async with turn.artifact("chunks") as out:
        for index in range(int(turn.text.partition(" ")[2])):
            await out.write(str(index))


async def _nothing(turn: Turn) -> None:
    pass


async def _crash(turn: Turn) -> None:
    raise RuntimeError(SECRET)


ACTIONS: dict[str, Callable[[Turn], Awaitable[Any]]] = {
    "done": lambda turn: turn.complete("done"),
    "result": lambda turn: turn.add_artifact("result", turn.text),
    "chunks": _chunks,
    "working": lambda turn: turn.status("working"),
    "ask": lambda turn: turn.ask("Which?"),
    "auth": lambda turn: turn.require_auth("Allow me"),
    "fail": lambda turn: turn.fail("I cannot"),
    "reject": lambda turn: turn.reject("I will not"),
    "nothing": _nothing,
    "crash": _crash,
}


class Context:
    """The little that the engine asks of a call."""

    extensions: tuple[str, ...] = ()

    def parameter(self, *names: str) -> list[str]:
        return []

    def time_remaining(self) -> float | None:
        return None


async def send(agent: AgentServicer, request: pb.SendMessageRequest) -> pb.Task:
    """SendMessage without a server; the request stays as it is."""
    sent = pb.SendMessageRequest.FromString(request.SerializeToString())
    return (await agent.SendMessage(sent, Context())).task


async def get(agent: AgentServicer, id_: str) -> pb.Task:
    return await agent.GetTask(pb.GetTaskRequest(id=id_), Context())


async def state(agent: AgentServicer, id_: str) -> str:
    return status_of(await get(agent, id_))


async def cancel(agent: AgentServicer, id_: str) -> pb.Task:
    return await agent.CancelTask(pb.CancelTaskRequest(id=id_), Context())


@asynccontextmanager
async def stream(agent: AgentServicer, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
    """SendStreamingMessage or SubscribeToTask without a server."""
    sent = type(request).FromString(request.SerializeToString())
    sends = type(request) is pb.SendMessageRequest
    events = (agent.SendStreamingMessage if sends else agent.SubscribeToTask)(sent, Context())
    try:
        yield events
    finally:
        await events.aclose()


async def streamed(agent: AgentServicer, request: Any) -> list[Any]:
    async with stream(agent, request) as events:
        return [event async for event in events]


def subscription(id_: str) -> pb.SubscribeToTaskRequest:
    return pb.SubscribeToTaskRequest(id=id_)


async def until(condition: Callable[[], Any], within: float = 5.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def nothing_left(agent: AgentServicer) -> None:
    """No task is running, nobody follows one, nothing is counted."""
    await until(lambda: not agent._lives)
    assert (agent._turns, agent._turns_of) == (0, {})


@asynccontextmanager
async def called_by(name: str) -> AsyncIterator[None]:
    before = caller.set(Caller(name))
    try:
        yield
    finally:
        caller.reset(before)


# Stores


class BytesStore:
    """Keeps bytes of its own, as a database does, and each call takes some turns of the event loop."""

    def __init__(self) -> None:
        self.tasks: dict[tuple[Scope, str], tuple[bytes, int]] = {}
        self.hooks: dict[tuple[Scope, str], dict[str, pb.TaskPushNotificationConfig]] = {}

    async def create(self, scope: Scope, task: pb.Task) -> None:
        await asyncio.sleep(0)
        self.tasks[scope, task.id] = task.SerializeToString(), 0

    async def append(self, scope: Scope, task: pb.Task, version: int, event: pb.StreamResponse) -> None:
        await asyncio.sleep(0)
        if (scope, task.id) not in self.tasks or self.tasks[scope, task.id][1] != version:
            raise ConflictError(task.id)
        self.tasks[scope, task.id] = after(task, event).SerializeToString(), version + 1
        await asyncio.sleep(0)

    async def read(self, scope: Scope, id: str) -> Stored | None:
        await asyncio.sleep(0)
        found = self.tasks.get((scope, id))
        return found and Stored(pb.Task.FromString(found[0]), found[1])

    async def list(self, scope: Scope, query: Query) -> Page:
        await asyncio.sleep(0)
        tasks = [pb.Task.FromString(wire) for (s, _), (wire, _) in self.tasks.items() if s == scope]
        found = sorted((t for t in tasks if _matches(t, query)), key=_position, reverse=True)
        rest = [t for t in found if query.after is None or _position(t) < query.after]
        page = rest[: query.limit]
        return Page(page, _position(page[-1]) if len(page) < len(rest) else None, len(found))

    async def put_config(self, scope: Scope, config: pb.TaskPushNotificationConfig) -> None:
        self.hooks.setdefault((scope, config.task_id), {})[config.id] = config

    async def configs(self, scope: Scope, task_id: str) -> Sequence[pb.TaskPushNotificationConfig]:
        return list(self.hooks.get((scope, task_id), {}).values())

    async def delete_config(self, scope: Scope, task_id: str, id: str) -> None:
        self.hooks.get((scope, task_id), {}).pop(id, None)


def _position(task: pb.Task) -> Position:
    return Position(task.status.timestamp.ToNanoseconds(), task.id)


def _matches(task: pb.Task, query: Query) -> bool:
    return (
        query.context_id in ("", task.context_id)
        and query.state in (0, task.status.state)
        and task.status.timestamp.ToNanoseconds() >= query.since
    )


class FaultyStore(MemoryStore):
    """Raises on what is in `broken`: a method, or `append` of an event of a kind, once or for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, int] = {}
        self.hang: asyncio.Event | None = None  # appends wait for it

    def _check(self, *names: str) -> None:
        for name in names:
            if self.broken.get(name, 0):
                self.broken[name] -= 1
                raise OSError(SECRET)

    async def create(self, scope: Scope, task: pb.Task) -> None:
        self._check("create")
        await super().create(scope, task)

    async def append(self, scope: Scope, task: pb.Task, version: int, event: pb.StreamResponse) -> None:
        self._check("append", _kind(event))
        if self.hang:
            await self.hang.wait()
        await super().append(scope, task, version, event)

    async def read(self, scope: Scope, id: str) -> Stored | None:
        self._check("read")
        return await super().read(scope, id)

    async def list(self, scope: Scope, query: Query) -> Page:
        self._check("list")
        return await super().list(scope, query)


# Open streams


class FaultError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@asynccontextmanager
async def following(wire: Any, method: str, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
    """The events of a stream over a binding, one by one. Leaving closes it, as a client that goes away does."""
    if isinstance(wire, GrpcWire):
        rpc = METHODS[method]
        shape = wire.channel.unary_stream(rpc.path, type(request).SerializeToString, rpc.response.FromString)
        call: Any = shape(request, timeout=20)
        try:
            yield _grpc_events(call)
        finally:
            call.cancel()
    else:
        async with _sse(wire, method, request) as response:
            yield _sse_events(wire, response)


async def _grpc_events(call: Any) -> AsyncIterator[Any]:
    try:
        while (event := await call.read()) is not grpc.aio.EOF:
            yield event
    except grpc.aio.AioRpcError as error:
        raise FaultError(grpc_fault(error)) from None


@asynccontextmanager
async def _sse(wire: JsonRpcWire | RestWire, method: str, request: Any) -> AsyncIterator[Any]:
    """A connection of its own, which is closed at the end."""
    value = MessageToDict(request)
    if isinstance(wire, JsonRpcWire):
        url, body = wire.base, {"jsonrpc": "2.0", "id": 7, "method": method, "params": value}
    else:
        url, body = wire.base + REST[method][1].replace("{id}", str(value.pop("id", ""))), value
    async with wire.session.post(url, json=body) as response:
        try:
            yield response
        finally:
            response.close()


async def _sse_events(wire: JsonRpcWire | RestWire, response: Any) -> AsyncIterator[Any]:
    if response.content_type != "text/event-stream":
        raise FaultError(_json_fault(await response.json(content_type=None)))
    async for line in response.content:
        if line.startswith(b"data: "):
            value = json.loads(line[6:])
            if "error" in value:
                raise FaultError(_json_fault(value))
            yield ParseDict(value["result"] if isinstance(wire, JsonRpcWire) else value, pb.StreamResponse())


def _json_fault(value: Any) -> Fault:
    error = value["error"]
    details = error.get("details", error.get("data", []))
    return json_fault(error.get("status", ""), error["message"], details, error["code"])
