"""An agent that does what a script says, badly if need be, on every binding: raw sockets, and grpc.aio."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.json_format import MessageToJson

from a2a_grpc.bindings.json_status import details
from a2a_grpc.bindings.protojson import dumps, loads, to_dict
from a2a_grpc.client import Client, connect
from a2a_grpc.context import STATUS_DETAILS
from a2a_grpc.errors import A2AError, code_name, http_status, jsonrpc_code
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, add_A2AServiceServicer_to_server
from a2a_grpc.methods import methods

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")
STREAMS = ("SendStreamingMessage", "SubscribeToTask")
_UNARY = {"message:send": "SendMessage", "tasks/T1": "GetTask", "tasks/T1:cancel": "CancelTask", "tasks": "ListTasks"}
_STREAM = {"message:stream": "SendStreamingMessage", "tasks/T1:subscribe": "SubscribeToTask"}


@dataclass
class Leg:
    """What one stream says, and how it ends: "end", "cut", "reset", "half" (of an event), "hang", or an error."""

    events: Iterable[Any]
    end: str | A2AError = "end"


@dataclass
class Script:
    """`legs` are used up by streams, `answers` by the unary RPC of their name; the last of each stays."""

    legs: list[Leg] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    named_errors: bool = True  # SSE errors carry `event: error`
    pulse: float | None = None  # seconds between comments on a stream that hangs
    calls: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)  # of the HTTP requests

    def leg(self, name: str) -> Leg:
        self.calls.append(name)
        return self.legs.pop(0) if len(self.legs) > 1 else self.legs[0]

    def answer(self, name: str) -> Any:
        self.calls.append(name)
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def task(state: int, *chunks: str, id: str = "T1") -> pb.Task:
    made = pb.Task(id=id, context_id="C1", status=pb.TaskStatus(state=state))
    if chunks:
        made.artifacts.add(artifact_id="A1", parts=[pb.Part(text=c) for c in chunks])
    return made


def snapshot(state: int, *chunks: str, id: str = "T1") -> pb.StreamResponse:
    return pb.StreamResponse(task=task(state, *chunks, id=id))


def status(state: int, id: str = "T1", text: str = "") -> pb.StreamResponse:
    made = pb.TaskStatus(state=state)
    if text:
        made.message.CopyFrom(pb.Message(message_id="s", role=pb.ROLE_AGENT, parts=[pb.Part(text=text)]))
    return pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id=id, context_id="C1", status=made))


def chunk(text: str, *, append: bool = True, id: str = "T1") -> pb.StreamResponse:
    artifact = pb.Artifact(artifact_id="A1", parts=[pb.Part(text=text)])
    event = pb.TaskArtifactUpdateEvent(task_id=id, context_id="C1", artifact=artifact, append=append)
    return pb.StreamResponse(artifact_update=event)


def reply(text: str) -> pb.StreamResponse:
    return pb.StreamResponse(message=pb.Message(message_id="r", role=pb.ROLE_AGENT, parts=[pb.Part(text=text)]))


@asynccontextmanager
async def scripted(binding: str, script: Script, *, streaming: bool = True, **options: Any) -> AsyncIterator[Client]:
    """A client of an agent that follows the script."""
    async with (_grpc if binding == "GRPC" else _http)(script) as url:
        async with connect(card(url, binding, streaming=streaming), **{"backoff": 0.005, **options}) as client:
            yield client


def card(url: str, binding: str, *, streaming: bool = True) -> pb.AgentCard:
    made = pb.AgentCard(name="Scripted", capabilities=pb.AgentCapabilities(streaming=streaming))
    made.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="1.0", tenant="acme")
    return made


# gRPC


@asynccontextmanager
async def _grpc(script: Script) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
    add_A2AServiceServicer_to_server(_servicer(script), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def _servicer(script: Script) -> A2AServiceServicer:
    members = {m.name: _stream(script, m.name) if m.streaming else _unary(script, m.name) for m in methods().values()}
    return type("Scripted", (A2AServiceServicer,), members)()


def _unary(script: Script, name: str) -> Any:
    async def call(self: Any, request: Any, context: Any) -> Any:
        try:
            return script.answer(name)
        except A2AError as error:
            await _abort(context, error)

    return call


def _stream(script: Script, name: str) -> Any:
    async def call(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        leg = script.leg(name)
        for event in leg.events:
            yield event
        if isinstance(leg.end, A2AError):
            await _abort(context, leg.end)
        elif leg.end == "hang":
            await asyncio.Event().wait()
        elif leg.end != "end":
            code = grpc.StatusCode.INTERNAL if leg.end == "half" else grpc.StatusCode.UNAVAILABLE
            await context.abort(code, "the connection broke")

    return call


async def _abort(context: Any, error: A2AError) -> None:
    details = error.status()
    code = next(c for c in grpc.StatusCode if c.value[0] == details.code)
    await context.abort(code, details.message, ((STATUS_DETAILS, details.SerializeToString()),))


# HTTP


@asynccontextmanager
async def _http(script: Script) -> AsyncIterator[str]:
    async with raw_server(lambda reader, writer: _serve(script, reader, writer)) as url:
        yield url


@asynccontextmanager
async def raw_server(serve: Any) -> AsyncIterator[str]:
    """A server of bytes. What still runs at the end is cancelled."""
    running: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.current_task())  # type: ignore[arg-type]
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serve(reader, writer)
        with contextlib.suppress(ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: *(\d+)", head)
    return head, await reader.readexactly(int(found[1])) if found else b""


def response(body: bytes, status: int = 200, media_type: str = "application/json", **headers: str) -> bytes:
    more = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
    head = f"HTTP/1.1 {status} x\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


def chunked(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _serve(script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head, body = await read_request(reader)
        script.heads.append(head)
        path = head.split(b" ")[1].decode()
        form = _JsonRpc(loads(body)) if path == "/" else _Rest(path)
        if form.name in STREAMS:
            return await _serve_stream(script, form, writer)
        try:
            writer.write(response(form.result(script.answer(form.name))))
        except A2AError as error:
            writer.write(response(form.error(error), form.status(error)))
        await writer.drain()


async def _serve_stream(script: Script, form: Any, writer: asyncio.StreamWriter) -> None:
    leg = script.leg(form.name)
    if not leg.events and isinstance(leg.end, A2AError):
        writer.write(response(form.error(leg.end), form.status(leg.end)))
        return
    writer.write(SSE_HEAD)
    for event in leg.events:
        writer.write(chunked(event if isinstance(event, bytes) else b"data: " + form.result(event) + b"\n\n"))
        await writer.drain()
    await _end(script, leg.end, form, writer)


async def _end(script: Script, end: str | A2AError, form: Any, writer: asyncio.StreamWriter) -> None:
    if isinstance(end, A2AError):
        name = b"event: error\n" if script.named_errors else b""
        writer.write(chunked(name + b"data: " + form.error(end) + b"\n\n"))
    if end == "half":
        writer.write(chunked(b'data: {"jsonrpc":"2.0","id":1,"resu'))
    while end == "hang":
        await asyncio.sleep(script.pulse or 3600)
        writer.write(chunked(b": still here\n\n"))
        await writer.drain()
    if end == "reset":
        await asyncio.sleep(0.03)  # a reset takes with it what has not been read
        writer.transport.abort()
    elif end != "cut":
        writer.write(b"0\r\n\r\n")
        await writer.drain()


class _JsonRpc:
    def __init__(self, call: Any) -> None:
        self.name, self._id = call["method"], call["id"]
        assert call["params"]["tenant"] == "acme"

    def result(self, message: Any) -> bytes:
        return dumps({"jsonrpc": "2.0", "id": self._id, "result": to_dict(message)})

    def error(self, error: A2AError) -> bytes:
        told = error.status()
        value = {"code": jsonrpc_code(told), "message": told.message, "data": details(told)}
        return dumps({"jsonrpc": "2.0", "id": self._id, "error": value})

    def status(self, error: A2AError) -> int:
        return 200


class _Rest:
    def __init__(self, path: str) -> None:
        assert path.startswith("/acme/")
        rest = path.removeprefix("/acme/").partition("?")[0]
        self.name = (_UNARY | _STREAM)[rest]

    def result(self, message: Any) -> bytes:
        return MessageToJson(message).replace("\n", "").encode()

    def error(self, error: A2AError) -> bytes:
        told = error.status()
        value = {"code": self.status(error), "status": code_name(told.code), "message": told.message}
        return dumps({"error": {**value, "details": details(told)}})

    def status(self, error: A2AError) -> int:
        return http_status(error.code)
