"""One way to call an agent, over each binding, with nothing of ours in between: grpc.aio, aiohttp and json_format."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import aiohttp
import grpc
import grpc.aio
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from a2a_grpc import Server
from a2a_grpc.methods import Method, methods

METHODS = methods()
REST: Mapping[str, tuple[str, str]] = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}
NONE: Mapping[str, str] = {}
BINDINGS = ("grpc", "jsonrpc", "rest")


@dataclass
class Fault:
    """An error, as far as it must be the same on every binding. `wire` is the binding's own code."""

    status: str
    reason: str
    domain: str
    message: str
    metadata: dict[str, str]
    violations: list[tuple[str, str]]
    wire: int = 0

    @property
    def same(self) -> tuple[Any, ...]:
        reference = re.compile(r"[0-9a-f]{12}")
        metadata = {k: reference.sub("…", v) for k, v in sorted(self.metadata.items())}
        return self.reason, self.domain, reference.sub("…", _camel(self.message)), metadata, self.violations


@dataclass
class Outcome:
    messages: list[Message] = field(default_factory=list)
    fault: Fault | None = None
    headers: dict[str, str] = field(default_factory=dict)
    trailing: dict[str, Any] = field(default_factory=dict)

    @property
    def only(self) -> Any:
        assert self.fault is None, self.fault
        assert len(self.messages) == 1, self.messages
        return self.messages[0]


class Wire(Protocol):
    name: str

    async def call(
        self, method: str, request: Message | dict[str, Any], metadata: Mapping[str, str] = NONE
    ) -> Outcome: ...
    async def close(self) -> None: ...


async def wire(name: str, server: Server, prefix: str = "") -> "GrpcWire | JsonRpcWire | RestWire":
    if name == "grpc":
        return GrpcWire(server.grpc_address)
    base = server.http_url + prefix
    return JsonRpcWire(base or "/") if name == "jsonrpc" else RestWire(base)


class GrpcWire:
    name = "grpc"

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])

    async def call(self, method: str, request: Message | dict[str, Any], metadata: Mapping[str, str] = NONE) -> Outcome:
        rpc = METHODS[method]
        if isinstance(request, dict):
            request = ParseDict(request, rpc.request())
        shape = self.channel.unary_stream if rpc.streaming else self.channel.unary_unary
        call: Any = shape(rpc.path, type(request).SerializeToString, rpc.response.FromString)(
            request, metadata=tuple((k.lower(), v) for k, v in metadata.items()), timeout=10
        )
        outcome = Outcome()
        try:
            if rpc.streaming:
                async for item in call:
                    outcome.messages.append(item)
            else:
                outcome.messages.append(await call)
        except grpc.aio.AioRpcError as error:
            outcome.fault = grpc_fault(error)
        outcome.headers = _dict(await call.initial_metadata())
        outcome.trailing = _dict(await call.trailing_metadata())
        return outcome

    async def close(self) -> None:
        await self.channel.close()


class HttpWire:
    name = ""

    def __init__(self, base: str) -> None:
        self.base = base
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))

    async def call(self, method: str, request: Message | dict[str, Any], metadata: Mapping[str, str] = NONE) -> Outcome:
        value = MessageToDict(request) if isinstance(request, Message) else dict(request)
        async with self._send(METHODS[method], value, dict(metadata)) as response:
            outcome = Outcome(headers={k.lower(): v for k, v in response.headers.items()})
            if response.content_type == "text/event-stream":
                for name, data in sse_events(await response.read()):
                    self._take(outcome, METHODS[method], json.loads(data), name, response.status)
            else:
                self._take(outcome, METHODS[method], await response.json(content_type=None), "", response.status)
        return outcome

    def _send(self, method: Method, value: dict[str, Any], headers: dict[str, str]) -> Any:
        raise NotImplementedError

    def _take(self, outcome: Outcome, method: Method, value: Any, event: str, status: int) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        await self.session.close()


class JsonRpcWire(HttpWire):
    name = "jsonrpc"

    def _send(self, method: Method, value: dict[str, Any], headers: dict[str, str]) -> Any:
        body = {"jsonrpc": "2.0", "id": 7, "method": method.name, "params": value}
        return self.session.post(self.base, json=body, headers=headers)

    def _take(self, outcome: Outcome, method: Method, value: Any, event: str, status: int) -> None:
        assert value["jsonrpc"] == "2.0"
        assert value["id"] == 7
        if "error" in value:
            assert set(value["error"]) <= {"code", "message", "data"}
            assert status in (200, 401, 403)
            outcome.fault = json_fault(
                "", value["error"]["message"], value["error"].get("data", []), value["error"]["code"]
            )
        else:
            outcome.messages.append(ParseDict(value["result"], method.response()))


class RestWire(HttpWire):
    name = "rest"

    def _send(self, method: Method, value: dict[str, Any], headers: dict[str, str]) -> Any:
        verb, path = REST[method.name]
        tenant = value.pop("tenant", "")
        for key in re.findall(r"\{(\w+)\}", path):
            path = path.replace(f"{{{key}}}", str(value.pop(key, "")))
        url = self.base + (f"/{tenant}" if tenant else "") + path
        if verb == "POST":
            return self.session.post(url, json=value, headers=headers)
        query = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in value.items()}
        return self.session.request(verb, url, params=query, headers=headers)

    def _take(self, outcome: Outcome, method: Method, value: Any, event: str, status: int) -> None:
        if "error" in value:
            error = value["error"]
            assert set(error) == {"code", "status", "message", "details"}
            assert status == error["code"] or event == "error"
            outcome.fault = json_fault(error["status"], error["message"], error["details"], error["code"])
        else:
            outcome.messages.append(ParseDict(value, method.response()))


def grpc_fault(error: grpc.aio.AioRpcError) -> Fault:
    details = _dict(error.trailing_metadata()).get("grpc-status-details-bin")
    assert details is not None, f"no details: {error}"
    status = Status.FromString(details)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    return _fault(error.code().name, status.message, [MessageToDict(d) for d in status.details], status.code)


def _dict(metadata: Any) -> dict[str, Any]:
    """dict() alone takes the metadata of grpcio 1.71 for a mapping, which it is not."""
    return {str(key): value for key, value in metadata or ()}


def json_fault(status: str, message: str, details: Sequence[Any], wire: int) -> Fault:
    return _fault(status, message, details, wire)


def _fault(status: str, message: str, details: Sequence[Any], wire: int) -> Fault:
    info = _detail(details, ErrorInfo)
    bad = _detail(details, BadRequest)
    violations = [(_camel(v.field), v.description) for v in bad.field_violations]
    return Fault(status, info.reason, info.domain, message, dict(info.metadata), violations, wire)


def _detail(details: Sequence[Any], kind: type[Any]) -> Any:
    for detail in details:
        if detail["@type"] == f"type.googleapis.com/{kind.DESCRIPTOR.full_name}":
            return ParseDict({k: v for k, v in detail.items() if k != "@type"}, kind())
    return kind()


def _camel(path: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), path)


def sse_events(body: bytes) -> list[tuple[str, str]]:
    """(event name, data) of a whole SSE body, read by the letter of its framing."""
    events = []
    for block in body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            events.append((fields.get("event", ""), fields["data"]))
    return events


class All:
    """The same call on every binding."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __aenter__(self) -> Self:
        self.wires = [await wire(name, self._server) for name in BINDINGS]
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.gather(*(w.close() for w in self.wires))

    async def call(
        self, method: str, request: Message | dict[str, Any], metadata: Mapping[str, str] = NONE
    ) -> list[Outcome]:
        return [await w.call(method, request, metadata) for w in self.wires]
