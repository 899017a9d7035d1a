"""The official JavaScript SDK: its client calls our server, our client its server, every operation on every binding."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from a2a_grpc import Server
from a2a_grpc.client import Client, connect
from a2a_grpc.generated import a2a_pb2 as a2a
from a2a_grpc.methods import methods

pytest.importorskip("a2a", reason="the official SDK is not installed, whose tests are reused here")
from tests.client.test_sdk_server import (  # noqa: F401  what is true of one server is true of the other
    test_asking,
    test_errors,
    test_following_and_canceling,
    test_reading_and_listing,
    test_sending,
    test_streaming,
    test_the_extended_card,
    test_webhooks,
)
from tests.interop.agent import FAULTS, events, reply, task, webhook
from tests.interop.peer import program, run, succeeded
from tests.interop.test_sdk_client import BINDINGS, HOOK, LISTED, LISTING, TWO_HOOKS, asking, canceled, without_history

pytestmark = pytest.mark.interop
SOURCES = Path(__file__).with_name("js")
INSTALL = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--fetch-retries=1")
INSTALL_TIMEOUT = 120.0  # seconds
UNREACHABLE = ("EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT")
"""What npm says where its registry cannot be reached: that is no fault of what is tested."""

everywhere = pytest.mark.parametrize("binding", BINDINGS)


@pytest.fixture(scope="module")
def peers(request: pytest.FixtureRequest) -> Path:
    """The scripts, beside what they import, which is installed where it is not yet, or not as they ask."""
    program("node")
    npm, cache = program("npm"), request.config.cache
    assert cache is not None
    folder = cache.mkdir("js-peers")
    wanted, installed = (SOURCES / "package.json").read_bytes(), folder / "installed.json"
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    if not installed.exists() or installed.read_bytes() != wanted:
        install(npm, folder)
        installed.write_bytes(wanted)
    return folder


def install(npm: str, folder: Path) -> None:
    """Skips where the registry cannot be reached, and fails where it can and the peers cannot be installed."""
    try:
        done = subprocess.run([npm, *INSTALL], cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm could not install the peers in {INSTALL_TIMEOUT:g} s")
    code = next((code for code in UNREACHABLE if code in done.stderr), "")
    if done.returncode and code:
        pytest.skip(f"npm could not install the peers: its registry cannot be reached ({code})")
    assert done.returncode == 0, f"npm could not install the peers: {done.stderr}"


# Its client, our server


class Outcome(NamedTuple):
    results: list[Any]
    error: dict[str, Any] | None


async def outcomes(peers: Path, server: Server, binding: str, *calls: tuple[str, Message]) -> list[Outcome]:
    """What the client made of the calls, one after the other."""
    told = json.dumps([(name, MessageToDict(request)) for name, request in calls])
    output = succeeded(await run(program("node"), str(peers / "client.mjs"), server.http_url, binding, told))
    return [Outcome(**json.loads(line)) for line in output.strip().split("\n")]


def sent(answer: Message) -> a2a.SendMessageResponse:
    return a2a.SendMessageResponse(**{"task" if isinstance(answer, a2a.Task) else "message": answer})


CALLS: dict[str, tuple[Message, list[Message]]] = {
    "SendMessage": (asking("hello ☃"), [sent(reply(asking("hello ☃").message))]),
    "SendMessage, task": (asking("task"), [sent(task("t1"))]),
    "SendStreamingMessage": (asking("hello ☃"), list(events("t1", "hello ☃"))),
    "SendStreamingMessage, message": (
        asking("message"),
        [a2a.StreamResponse(message=reply(asking("message").message))],
    ),
    "GetTask": (a2a.GetTaskRequest(id="t1"), [task("t1")]),
    "GetTask, historyLength 0": (a2a.GetTaskRequest(id="t1", history_length=0), [without_history()]),
    "ListTasks": (LISTING, [LISTED]),
    "CancelTask": (
        a2a.CancelTaskRequest(id="t2", metadata={"why": "tired", "n": 0.5}),
        [canceled(why="tired", n=0.5)],
    ),
    "SubscribeToTask": (a2a.SubscribeToTaskRequest(id="t2"), list(events("t2", "subscribed"))),
    "CreateTaskPushNotificationConfig": (HOOK, [webhook()]),
    "GetTaskPushNotificationConfig": (
        a2a.GetTaskPushNotificationConfigRequest(task_id="t2", id="w9"),
        [webhook("w9", "t2")],
    ),
    "ListTaskPushNotificationConfigs": (
        a2a.ListTaskPushNotificationConfigsRequest(task_id="t1", page_size=2, page_token="2"),
        [TWO_HOOKS],
    ),
    "DeleteTaskPushNotificationConfig": (
        a2a.DeleteTaskPushNotificationConfigRequest(task_id="t1", id="w1"),
        [Empty()],
    ),
}
# What this client does not send on HTTP+JSON, so that the answer is another.
UNSENT: dict[str, list[Message]] = {
    "CancelTask": [canceled()],
    "ListTaskPushNotificationConfigs": [a2a.ListTaskPushNotificationConfigsResponse(configs=TWO_HOOKS.configs)],
}


def test_every_operation_is_called() -> None:
    assert {name.partition(",")[0] for name in (*CALLS, "GetExtendedAgentCard")} == set(methods())


@everywhere
@pytest.mark.parametrize("operation", CALLS)
async def test_call(peers: Path, server: Server, binding: str, operation: str) -> None:
    request, expected = CALLS[operation]
    if binding == "HTTP+JSON":
        expected = UNSENT.get(operation, expected)
    (outcome,) = await outcomes(peers, server, binding, (operation.partition(",")[0], request))
    assert outcome.error is None
    assert [
        ParseDict(got or {}, type(message)()) for got, message in zip(outcome.results, expected, strict=True)
    ] == expected


@everywhere
async def test_extended_card(peers: Path, server: Server, binding: str) -> None:
    (outcome,) = await outcomes(peers, server, binding, ("GetExtendedAgentCard", a2a.GetExtendedAgentCardRequest()))
    assert outcome.error is None
    assert outcome.results[0]["name"] == "Catalogue, extended"


@everywhere
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_each_kind_of_error(peers: Path, server: Server, binding: str, operation: str) -> None:
    calls = [(operation, asking(reason)) for reason in FAULTS]
    for (reason, kind), (results, error) in zip(
        FAULTS.items(), await outcomes(peers, server, binding, *calls), strict=True
    ):
        assert results == []
        assert error is not None
        assert (error["reason"], error["message"]) == (reason, kind.text)


@everywhere
async def test_error_in_the_middle_of_a_stream(peers: Path, server: Server, binding: str) -> None:
    text = "break UNSUPPORTED_OPERATION"
    (outcome,) = await outcomes(peers, server, binding, ("SendStreamingMessage", asking(text)))
    assert [ParseDict(got, a2a.StreamResponse()) for got in outcome.results] == events("t1", text)[:2]
    assert outcome.error is not None
    assert outcome.error["reason"] == "UNSUPPORTED_OPERATION"


# Our client, its server


@pytest.fixture
def agent_url(peers: Path) -> Iterator[str]:
    """Where the agent's card is. The agent ends when its input does."""
    argv = [program("node"), str(peers / "server.mjs")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(10)


@pytest.fixture(params=BINDINGS)
async def agent(request: pytest.FixtureRequest, agent_url: str) -> AsyncIterator[Client]:
    async with asyncio.timeout(20), connect(agent_url, bindings=[request.param], backoff=0.01) as client:
        assert client.interface.protocol_binding == request.param
        yield client
