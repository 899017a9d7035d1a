"""Bugs that were reported of other clients, each with the right behaviour. Others stand with what they are about."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from a2a_grpc import Server
from a2a_grpc.auth import Bearer as BearerGuard
from a2a_grpc.client import Bearer, Client, ConnectError, RemoteError, StreamBrokenError, connect
from a2a_grpc.errors import (
    A2AError,
    InvalidParamsError,
    MethodNotFoundError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.servicer import AgentServicer
from a2a_grpc.tasks.turn import Turn
from tests.client.scripted import (
    BINDINGS,
    SSE_HEAD,
    Leg,
    Script,
    card,
    chunk,
    chunked,
    raw_server,
    read_request,
    reply,
    response,
    scripted,
    snapshot,
    status,
    task,
)
from tests.lab import Lab
from tests.lab import card as lab_card

WORKING, COMPLETED = pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED
MB = 1024 * 1024
SSE = "text/event-stream"

everywhere = pytest.mark.parametrize("binding", BINDINGS)
over_http = pytest.mark.parametrize("binding", BINDINGS[1:])


@pytest.fixture(autouse=True)
async def _in_time() -> Any:
    async with asyncio.timeout(30):
        yield


def serving(agent: Any, *args: Any, **options: Any) -> Server:
    return Server(agent, *args, http_port=0, grpc_port=0, shutdown_deadline=1, **options)


def of(server: Server, binding: str, **options: Any) -> Any:
    return connect(server.agents[0].card, bindings=[binding], backoff=0.005, **options)


async def told(client: Client, content: Any = "go") -> list[pb.StreamResponse]:
    return [event async for event in client.stream(content)]


# BR-11: what fails before the first event, in whatever clothes it comes


@everywhere
async def test_br_11_what_our_server_refuses_before_the_first_event_is_told(binding: str) -> None:
    guard = BearerGuard(lambda token: "ann" if token == "good" else None)
    async with serving(Lab(), interceptors=[guard]) as server:
        async with of(server, binding, credentials=Bearer("good")) as client:
            with pytest.raises(InvalidParamsError, match="parts"):
                await told(client, pb.Message(message_id="m", role=pb.ROLE_USER))
        async with of(server, binding, credentials=Bearer("bad")) as client:
            with pytest.raises(UnauthenticatedError, match="not valid"):
                await told(client)
    silent = lab_card(capabilities=pb.AgentCapabilities(streaming=False))
    async with serving(Lab(), silent) as server, of(server, binding) as client:
        for stream in (client.stream("go"), client.subscribe("T1")):
            with pytest.raises(UnsupportedOperationError, match="streaming"):
                await anext(stream)


@everywhere
async def test_br_11_an_unknown_method_is_told(binding: str) -> None:
    for open_ in (lambda client: client.stream("go"), lambda client: client.subscribe("T1")):
        async with scripted(binding, Script([Leg([], MethodNotFoundError("no such thing"))])) as client:
            with pytest.raises(MethodNotFoundError, match="no such thing"):
                await anext(open_(client))


def _error(binding: str) -> bytes:
    return (b'{"jsonrpc":"2.0","id":1,"error":%s}' if binding == "JSONRPC" else b'{"error":%s}') % FAULT


FAULT = (
    b'{"code":-32004,"status":"FAILED_PRECONDITION","message":"no streams here","data":[%(i)s],"details":[%(i)s]}'
    % {b"i": b'{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNSUPPORTED_OPERATION",'
       b'"domain":"a2a-protocol.org"}'}
)  # fmt: skip
CLOTHES = {
    "a plain answer": lambda body: response(body),
    "an error status": lambda body: response(body, 400),
    "another media type": lambda body: response(body, 400, "text/plain"),
    "ndjson": lambda body: response(body + b"\n", 200, "application/x-ndjson"),
    "a stream": lambda body: response(b"data: " + body + b"\n\n", 200, SSE),
    "a stream without an end": lambda body: SSE_HEAD + chunked(b"event: error\ndata: " + body + b"\n\n"),
    "a stream with an error status": lambda body: response(b"data: " + body + b"\n\n", 400, SSE),
}


@over_http
@pytest.mark.parametrize("clothes", CLOTHES)
async def test_br_11_the_real_cause_is_told_whatever_it_wears(binding: str, clothes: str) -> None:
    answer = CLOTHES[clothes](_error(binding))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

    async with raw_server(serve) as url, connect(card(url, binding)) as client:
        for call in (told(client), client.ask("go")):
            with pytest.raises(A2AError, match="no streams here") as caught:
                await call
            kinds = RemoteError if clothes == "a stream with an error status" else UnsupportedOperationError
            assert isinstance(caught.value, kinds)


# BR-12: streams that are silent for long


class Thinker(AgentServicer):
    """Thinks for longer than a reader waits for a byte."""

    followed = 0

    async def execute(self, turn: Turn) -> None:
        await turn.status("thinking")
        await asyncio.sleep(0.8)
        await turn.complete("done")

    async def SubscribeToTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.followed += 1
        async for event in super().SubscribeToTask(request, context):
            yield event


def idle_cut(url: str, seconds: float) -> Any:
    """A proxy that ends a connection on which nothing comes from the server for a while."""
    upstream = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(upstream.hostname, upstream.port)

        async def there() -> None:
            while data := await reader.read(65536):
                to_server.write(data)

        copying = asyncio.create_task(there())
        try:
            while data := await asyncio.wait_for(from_server.read(65536), seconds):
                writer.write(data)
                await writer.drain()
        except TimeoutError:
            pass
        finally:
            copying.cancel()
            to_server.transport.abort()

    return raw_server(serve)


def _at(url: str, binding: str) -> pb.AgentInterface:
    return pb.AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")


@over_http
async def test_br_12_comments_hold_a_silent_stream_open(binding: str) -> None:
    """Past a proxy and a client that both wait for 0.3 s only, and a deadline of calls that is shorter too."""
    agent = Thinker()
    async with serving(agent, keepalive=0.1) as server:
        async with idle_cut(server.http_url, 0.3) as url:
            async with connect(_at(url, binding), idle_timeout=0.3, deadline=0.3) as client:
                events = await told(client)
                assert {e.WhichOneof("payload") for e in events} <= {"task", "status_update", "artifact_update"}
                assert (await client.ask("go")).text == "done"
    assert agent.followed == 0


@over_http
async def test_br_12_without_comments_the_cut_is_noticed_and_mended(binding: str) -> None:
    agent = Thinker()
    async with serving(agent, keepalive=60) as server:
        async with idle_cut(server.http_url, 0.3) as url:
            async with connect(_at(url, binding), backoff=0.005) as client:
                assert (await client.ask("go")).text == "done"
    assert agent.followed >= 1


async def test_br_12_on_grpc_silence_within_the_limit_is_no_break() -> None:
    agent = Thinker()
    async with serving(agent) as server, of(server, "GRPC", idle_timeout=5, deadline=0.3) as client:
        assert (await client.ask("go")).text == "done"
    assert agent.followed == 0


# BR-17: GET and POST of :subscribe


@pytest.mark.parametrize("refusal", [404, 405])
@pytest.mark.parametrize("served", ["GET", "POST"])
@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_br_17_a_server_that_knows_one_verb_only(served: str, tenant: str, refusal: int) -> None:
    stream = response(b'data: {"task":{"id":"T1","status":{"state":"TASK_STATE_COMPLETED"}}}\n\n', 200, SSE)
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            verb, path, _ = head.decode().split(" ", 2)
            seen.append(f"{verb} {path}")
            writer.write(stream if verb == served else response(b'{"detail":"Not Found"}', refusal))
            await writer.drain()

    async with raw_server(serve) as url:
        interface = _at(url, "HTTP+JSON")
        interface.tenant = tenant
        async with connect(interface) as client:
            assert [event.task.id async for event in client.subscribe("T1")] == ["T1"]
    path = f"{'/acme' if tenant else ''}/tasks/T1:subscribe"
    assert seen == [f"{verb} {path}" for verb in (["POST"] if served == "POST" else ["POST", "GET"])]


# BR-21: 0 is not the same as nothing


@everywhere
async def test_br_21_what_is_unset_is_not_sent_and_0_is(binding: str) -> None:
    lab = Lab()
    async with serving(lab) as server, of(server, binding) as client:
        for length in (None, 0, 2):
            more = {} if length is None else {"history_length": length}
            await client.get_task("T1", **more)
            await client.send("x", **more)
            assert [t.id async for t in client.list_tasks(**more)] == ["T1", "T2"]
            get, send, listed = (request for request, _ in lab.seen[-3:])
            held = [get, send.configuration, listed]
            assert [each.HasField("history_length") for each in held] == [length is not None] * 3
            assert [each.history_length for each in held] == [length or 0] * 3
            assert not listed.HasField("page_size")
            assert not listed.HasField("include_artifacts") or not listed.include_artifacts
            assert not listed.HasField("status_timestamp_after")
        for size in (0, -1, 101):
            with pytest.raises(InvalidParamsError, match=r"page_?[sS]ize"):
                await anext(client.list_tasks(page_size=size))
    assert len(lab.seen) == 9


# BR-33: large messages


@everywhere
@pytest.mark.parametrize(("size", "fits"), [(3.9, True), (4.1, False), (20, False)])
async def test_br_33_what_is_too_large_is_told_and_not_sent_again(binding: str, size: float, fits: bool) -> None:
    lab = Lab()
    sent = bytes(int(size * MB))
    async with serving(lab) as server, of(server, binding, attempts=3) as client:
        if fits:
            assert isinstance(await client.send([pb.Part(text="x"), sent]), pb.Message)
            assert lab.seen[0][0].message.parts[1].raw == sent
        else:
            with pytest.raises((ResourceExhaustedError, ConnectError)) as caught:  # or cut while it was sent
                await client.send([pb.Part(text="x"), sent])
            assert isinstance(caught.value, ResourceExhaustedError) or caught.value.sent
    assert len(lab.seen) == int(fits)


@everywhere
async def test_br_33_a_page_of_large_tasks_is_read(binding: str) -> None:
    class Full(Lab):
        calls_ = 0

        async def ListTasks(self, request: Any, context: Any) -> pb.ListTasksResponse:
            self.calls_ += 1
            tasks = [task(COMPLETED, "x" * 200_000, id=f"T{n}") for n in range(50)]
            return pb.ListTasksResponse(tasks=tasks, page_size=50, total_size=50)

    agent = Full()
    async with serving(agent) as server, of(server, binding) as client:
        read = [t async for t in client.list_tasks(include_artifacts=True)]
        assert sum(len(t.artifacts[0].parts[0].text) for t in read) == 50 * 200_000
    async with serving(agent) as server, of(server, binding, max_response=MB) as client:
        with pytest.raises(ResourceExhaustedError):
            await anext(client.list_tasks(include_artifacts=True))
    assert agent.calls_ == 2  # a limit that is reached is not tried again


# BR-73, BR-75: streams, in full on each binding; the parts stand in test_broken_streams


@everywhere
@pytest.mark.parametrize("end", ["end", "reset", "half", "cut"])
@pytest.mark.parametrize("later", [True, False], ids=["ends later", "never ends"])
async def test_br_73_a_cut_stream_is_never_the_end(binding: str, end: str, later: bool) -> None:
    begun = [snapshot(WORKING), chunk("partial", append=False)]
    after = Leg([snapshot(COMPLETED, "whole")]) if later else Leg([], UnsupportedOperationError())
    states = [task(COMPLETED if later else WORKING, "whole" if later else "partial")]
    script = Script([Leg(begun, end), after], {"GetTask": states})
    async with scripted(binding, script, recoveries=1) as client:
        if later:
            assert (await told(client))[-1] == snapshot(COMPLETED, "whole")
        else:
            with pytest.raises(StreamBrokenError, match="T1") as caught:
                await told(client)
            assert caught.value.task_id == "T1"
    script.legs[:] = [Leg(begun, end), after]
    async with scripted(binding, script, recoveries=1) as client:
        if later:
            answer = await client.ask("go")
            assert (answer.text, answer.completed) == ("whole", True)
        else:
            with pytest.raises(A2AError, match="T1"):
                await client.ask("go", deadline=0.5)
    assert script.calls.count("SendStreamingMessage") == 2


@everywhere
async def test_br_75_whatever_a_stream_says_the_task_is_the_last_one(binding: str) -> None:
    """Begins with a status; a task in the middle; of another task; of a state that is unknown; a task at the end."""
    strange = pb.StreamResponse(status_update=status(WORKING).status_update)
    strange.status_update.status.state = 77  # type: ignore[assignment]
    middle, last = snapshot(WORKING, "Hel"), snapshot(COMPLETED, "Hel", "lo, ", "world!")
    said = [status(WORKING), middle, chunk("lo, "), chunk("evil", id="T2"), strange, chunk("wor"), last]
    script = Script([Leg(said)])
    async with scripted(binding, script) as client:
        events = await told(client)
        assert [e.WhichOneof("payload") for e in events] == [
            "status_update", "task", "artifact_update", "status_update", "artifact_update", "task",
        ]  # fmt: skip
        answer = await client.ask("go")
    assert answer.text == "Hello, world!"
    assert script.calls == ["SendStreamingMessage"] * 2


@everywhere
async def test_br_75_events_of_a_kind_that_is_unknown_are_passed_over(binding: str) -> None:
    unknown: Any = pb.StreamResponse.FromString(b"\xfa\x07\x03new") if binding == "GRPC" else _unknown(binding)
    async with scripted(binding, Script([Leg([snapshot(WORKING), unknown, status(COMPLETED)])])) as client:
        assert await told(client) == [snapshot(WORKING), status(COMPLETED)]
    async with scripted(binding, Script([Leg([unknown, reply("hi")])])) as client:
        assert await told(client) == [reply("hi")]


def _unknown(binding: str) -> bytes:
    value = b'{"somethingNew":{"taskId":"T1","list":[1]},"more":null}'
    return b"data: " + (b'{"jsonrpc":"2.0","id":1,"result":%s}' % value if binding == "JSONRPC" else value) + b"\n\n"


@pytest.mark.parametrize("refusal", [404, 405])
async def test_br_17_a_server_that_knows_neither_verb(refusal: int) -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            seen.append(head.decode().partition(" ")[0])
            writer.write(response(b'{"detail":"Not Found"}', refusal))
            await writer.drain()

    async with raw_server(serve) as url, connect(card(url, "HTTP+JSON"), backoff=0.005) as client:
        with pytest.raises(RemoteError, match=f"HTTP {refusal}"):
            await anext(client.subscribe("T1"))
    assert seen == ["POST", "GET"]
