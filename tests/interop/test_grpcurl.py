"""grpcurl, which learns everything by reflection (v1alpha) and sends no metadata of the protocol."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import MessageToDict
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionResponse

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2
from a2a_grpc.methods import methods
from tests.interop.agent import SERVICE, events, task
from tests.interop.peer import Output, program, run, succeeded
from tests.interop.values import message, values

Grpcurl = Callable[..., Awaitable[Output]]

HEALTH = "grpc.health.v1.Health"
SERVICES = [HEALTH, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection", SERVICE]
IMPORTED = {
    "google.protobuf.Struct": "message Struct {",
    "google.protobuf.Value": "message Value {",
    "google.protobuf.Timestamp": "message Timestamp {",
    "google.protobuf.Empty": "message Empty {",
    "google.api.HttpRule": "message HttpRule {",
    "google.api.http": "extend .google.protobuf.MethodOptions {",
    "google.api.FieldBehavior": "enum FieldBehavior {",
    "google.api.method_signature": "extend .google.protobuf.MethodOptions {",
    "google.rpc.ErrorInfo": "message ErrorInfo {",
    "google.rpc.BadRequest": "message BadRequest {",
}


@pytest.fixture
def grpcurl(server: Server) -> Grpcurl:
    """Calls grpcurl: `options` come before the address, `words` after it."""
    found = program("grpcurl")

    async def call(*words: str, options: tuple[str, ...] = ()) -> Output:
        return await run(found, "-plaintext", "-max-time", "10", *options, server.grpc_address, *words)

    return call


def data(request: Any) -> tuple[str, str]:
    return "-d", json.dumps(request)


# Reflection


async def test_lists_services(grpcurl: Grpcurl) -> None:
    assert succeeded(await grpcurl("list")).split() == SERVICES


async def test_lists_methods(grpcurl: Grpcurl) -> None:
    listed = succeeded(await grpcurl("list", SERVICE)).split()
    assert listed == sorted(f"{SERVICE}.{name}" for name in methods())


@pytest.mark.parametrize("service", SERVICES)
async def test_describes_services(grpcurl: Grpcurl, service: str) -> None:
    described = succeeded(await grpcurl("describe", service))
    assert described.startswith(f"{service} is a service:")


async def test_describes_every_method(grpcurl: Grpcurl) -> None:
    outputs = await asyncio.gather(*(grpcurl("describe", f"{SERVICE}.{name}") for name in methods()))
    for method, output in zip(methods().values(), outputs, strict=True):
        described, name = succeeded(output), method.name
        stream = "stream " if method.streaming else ""
        request, response = method.request.DESCRIPTOR.full_name, method.response.DESCRIPTOR.full_name
        assert f"rpc {name} ( .{request} ) returns ( {stream}.{response} )" in described
        assert "option (.google.api.http) = {" in described


async def test_describes_messages(grpcurl: Grpcurl) -> None:
    for name in ("Message", "SecurityScheme", "StreamResponse"):
        described = succeeded(await grpcurl("describe", f"lf.a2a.v1.{name}"))
        assert described.startswith(f"lf.a2a.v1.{name} is a message:")
    described = succeeded(await grpcurl("describe", "lf.a2a.v1.Message"))
    assert "string message_id = 1 [(.google.api.field_behavior) = REQUIRED];" in described


@pytest.mark.parametrize(
    ("symbol", "kind"),
    [
        ("lf.a2a.v1.Role", "an enum"),
        ("lf.a2a.v1.Message.parts", "a field"),
        ("lf.a2a.v1.Part.content", "a one-of"),
        ("lf.a2a.v1.AgentCard.SecuritySchemesEntry", "the entry type for a map field"),
    ],
)
async def test_describes_what_is_not_a_message(grpcurl: Grpcurl, symbol: str, kind: str) -> None:
    assert succeeded(await grpcurl("describe", symbol)).startswith(f"{symbol} is {kind}:")


async def test_describes_imports(grpcurl: Grpcurl) -> None:
    outputs = await asyncio.gather(*(grpcurl("describe", symbol) for symbol in IMPORTED))
    for text, output in zip(IMPORTED.values(), outputs, strict=True):
        assert text in succeeded(output)


@pytest.mark.parametrize("symbol", ["nope", "lf.a2a.v1.Nope", f"{SERVICE}.Nope", "lf.a2a.v1.Message.nope"])
async def test_unknown_symbols_are_not_found(grpcurl: Grpcurl, symbol: str) -> None:
    output = await grpcurl("describe", symbol)
    assert output.code != 0
    assert "not found" in output.err.lower()


async def test_writes_the_descriptors(grpcurl: Grpcurl, tmp_path: Path) -> None:
    path = tmp_path / "a2a.protoset"
    succeeded(await grpcurl("describe", SERVICE, options=("-protoset-out", str(path))))
    files = {file.name: file for file in FileDescriptorSet.FromString(path.read_bytes()).file}
    a2a = files["a2a.proto"]
    assert set(a2a.dependency) <= set(files)
    assert [s.name for s in a2a.service] == ["A2AService"]
    assert len(a2a.message_type) == len(a2a_pb2.DESCRIPTOR.message_types_by_name)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_a_request_that_does_not_parse(server: Server, version: str) -> None:
    """grpcurl sends none; it gets an answer, not the text of an exception."""
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        call: Any = channel.stream_stream(path, response_deserializer=ServerReflectionResponse.FromString)
        (answer,) = [a async for a in call(iter([b"\xff"]), timeout=10)]
    assert answer.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


# Calls


async def test_unary_call(grpcurl: Grpcurl) -> None:
    sent = json.loads(succeeded(await grpcurl(f"{SERVICE}/SendMessage", options=data(message("hello")))))
    assert sent["message"]["parts"] == [{"text": "HELLO"}]


async def test_answer_with_every_kind_of_part(grpcurl: Grpcurl) -> None:
    got = json.loads(succeeded(await grpcurl(f"{SERVICE}/GetTask", options=data({"id": "t1"}))))
    assert got == MessageToDict(task("t1"))


async def test_streaming_call(grpcurl: Grpcurl) -> None:
    streamed = values(succeeded(await grpcurl(f"{SERVICE}/SendStreamingMessage", options=data(message("hello")))))
    assert streamed == [MessageToDict(event) for event in events("t1", "hello")]


async def test_error_shows_its_details(grpcurl: Grpcurl) -> None:
    output = await grpcurl(f"{SERVICE}/GetTask", options=data({"id": "t9"}))
    assert output.code == 64 + 5  # NOT_FOUND
    assert "Code: NotFound" in output.err
    assert "Message: No task t9" in output.err
    assert '"reason":"TASK_NOT_FOUND"' in output.err
    assert '"domain":"a2a-protocol.org"' in output.err


async def test_violations_are_shown(grpcurl: Grpcurl) -> None:
    output = await grpcurl(f"{SERVICE}/SendMessage", options=data({"message": {"messageId": "m1"}}))
    assert "Code: InvalidArgument" in output.err
    assert '"reason":"INVALID_PARAMS"' in output.err
    assert '"field":"message.parts"' in output.err


async def test_error_in_the_middle_of_a_stream(grpcurl: Grpcurl) -> None:
    output = await grpcurl(f"{SERVICE}/SendStreamingMessage", options=data(message("break UNSUPPORTED_OPERATION")))
    assert len(values(output.out)) == 2
    assert '"reason":"UNSUPPORTED_OPERATION"' in output.err


async def test_unknown_version(grpcurl: Grpcurl) -> None:
    output = await grpcurl(f"{SERVICE}/GetTask", options=("-H", "A2A-Version: 9.9", *data({"id": "t1"})))
    assert '"reason":"VERSION_NOT_SUPPORTED"' in output.err


# Health


@pytest.mark.parametrize("service", ["", SERVICE])
async def test_health(grpcurl: Grpcurl, service: str) -> None:
    asked = data({"service": service})
    assert json.loads(succeeded(await grpcurl(f"{HEALTH}/Check", options=asked))) == {"status": "SERVING"}


async def test_health_of_an_unknown_service(grpcurl: Grpcurl) -> None:
    output = await grpcurl(f"{HEALTH}/Check", options=data({"service": "nope"}))
    assert output.code == 64 + 5
    assert "Code: NotFound" in output.err
