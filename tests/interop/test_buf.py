"""buf curl, over reflection v1, v1alpha, and whichever it chooses itself."""

import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.rpc.error_details_pb2 import ErrorInfo

from a2a_grpc import Server
from a2a_grpc.methods import methods
from tests.interop.agent import SERVICE, events, task
from tests.interop.peer import Output, program, run, succeeded
from tests.interop.values import message, values

Buf = Callable[..., Awaitable[Output]]

REFLECTIONS = {
    "v1": ("--reflect-protocol", "grpc-v1"),
    "v1alpha": ("--reflect-protocol", "grpc-v1alpha"),
    "its choice": (),
}
SERVICES = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    SERVICE,
]


@pytest.fixture
def buf(server: Server, tmp_path: Path) -> Buf:
    found = program("buf")

    async def call(path: str, *options: str) -> Output:
        url = f"http://{server.grpc_address}{path}"
        known = ("curl", "--http2-prior-knowledge", "--protocol", "grpc", "--connect-timeout", "5")
        return await run(found, *known, *options, url, HOME=str(tmp_path), BUF_CACHE_DIR=str(tmp_path))

    return call


def call(name: str, request: Any) -> tuple[str, ...]:
    return f"/{SERVICE}/{name}", "--data", json.dumps(request)


@pytest.mark.parametrize("reflection", REFLECTIONS.values(), ids=REFLECTIONS)
async def test_lists_services(buf: Buf, reflection: tuple[str, ...]) -> None:
    assert succeeded(await buf("", "--list-services", *reflection)).split() == SERVICES


@pytest.mark.parametrize("reflection", REFLECTIONS.values(), ids=REFLECTIONS)
async def test_lists_methods(buf: Buf, reflection: tuple[str, ...]) -> None:
    """It resolves every listed service, reflection itself too."""
    listed = succeeded(await buf("", "--list-methods", *reflection)).split()
    assert {name for name in listed if name.startswith(SERVICE)} == {f"{SERVICE}/{name}" for name in methods()}
    assert {name.partition("/")[0] for name in listed} == set(SERVICES)


@pytest.mark.parametrize("reflection", REFLECTIONS.values(), ids=REFLECTIONS)
async def test_unary_call(buf: Buf, reflection: tuple[str, ...]) -> None:
    got = json.loads(succeeded(await buf(*call("GetTask", {"id": "t1"}), *reflection)))
    assert got == MessageToDict(task("t1"))


async def test_message(buf: Buf) -> None:
    sent = json.loads(succeeded(await buf(*call("SendMessage", message("hello")))))
    assert sent["message"]["parts"] == [{"text": "HELLO"}]


@pytest.mark.parametrize("reflection", REFLECTIONS.values(), ids=REFLECTIONS)
async def test_streaming_call(buf: Buf, reflection: tuple[str, ...]) -> None:
    streamed = values(succeeded(await buf(*call("SendStreamingMessage", message("hello")), *reflection)))
    assert streamed == [MessageToDict(event) for event in events("t1", "hello")]


async def test_error_is_shown(buf: Buf) -> None:
    output = await buf(*call("GetTask", {"id": "t9"}))
    assert output.code == 5 << 3  # NOT_FOUND
    error = json.loads(output.err)
    assert (error["code"], error["message"]) == ("not_found", "No task t9")
    detail = error["details"][0]
    assert detail["type"] == "google.rpc.ErrorInfo"
    info = ErrorInfo.FromString(base64.b64decode(detail["value"] + "=="))
    assert (info.reason, dict(info.metadata)) == ("TASK_NOT_FOUND", {"taskId": "t9"})


async def test_error_in_the_middle_of_a_stream(buf: Buf) -> None:
    output = await buf(*call("SendStreamingMessage", message("break UNSUPPORTED_OPERATION")))
    assert len(values(output.out)) == 2
    assert json.loads(output.err)["code"] == "failed_precondition"


async def test_health(buf: Buf) -> None:
    assert json.loads(succeeded(await buf("/grpc.health.v1.Health/Check"))) == {"status": "SERVING"}
