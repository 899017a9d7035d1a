"""curl, with the calls that a reader types first."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from a2a_grpc import Server
from tests.interop.agent import events, task
from tests.interop.peer import program, run, succeeded
from tests.interop.values import message

Curl = Callable[..., Awaitable[str]]

STREAMED = [MessageToDict(event) for event in events("t1", "hello")]


@pytest.fixture
def curl(server: Server) -> Curl:
    found = program("curl")

    async def call(path: str, *options: str, data: Any = None) -> str:
        sent = () if data is None else ("-H", "Content-Type: application/json", "-d", json.dumps(data))
        return succeeded(await run(found, "-sS", "-m", "10", *options, *sent, server.http_url + path))

    return call


def envelope(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def frames(text: str) -> list[Any]:
    """The data of an event stream, in which every event is one line of data."""
    return [json.loads(block.removeprefix("data: ")) for block in text.split("\n\n") if block.startswith("data: ")]


async def test_card(curl: Curl, server: Server) -> None:
    card = json.loads(await curl("/.well-known/agent-card.json"))
    urls = {i["protocolBinding"]: i["url"] for i in card["supportedInterfaces"]}
    assert urls == {"GRPC": server.grpc_address, "JSONRPC": server.http_url + "/", "HTTP+JSON": server.http_url}


async def test_jsonrpc(curl: Curl) -> None:
    answer = json.loads(await curl("/", data=envelope("SendMessage", message("hello"))))
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    assert answer["result"]["message"]["parts"] == [{"text": "HELLO"}]


async def test_jsonrpc_stream(curl: Curl) -> None:
    answers = frames(await curl("/", "-N", data=envelope("SendStreamingMessage", message("hello"))))
    assert answers == [{"jsonrpc": "2.0", "id": 7, "result": event} for event in STREAMED]


async def test_jsonrpc_error(curl: Curl) -> None:
    answer = json.loads(await curl("/", "-f", data=envelope("GetTask", {"id": "t9"})))
    error = answer["error"]
    assert (error["code"], error["message"], error["data"][0]["reason"]) == (-32001, "No task t9", "TASK_NOT_FOUND")


async def test_rest(curl: Curl) -> None:
    sent = json.loads(await curl("/message:send", data=message("hello")))
    assert sent["message"]["parts"] == [{"text": "HELLO"}]
    got = json.loads(await curl("/tasks/t1?historyLength=1"))
    assert got == MessageToDict(task("t1"))


async def test_rest_stream(curl: Curl) -> None:
    assert frames(await curl("/message:stream", "-N", data=message("hello"))) == STREAMED


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_rest_subscription(curl: Curl, verb: str) -> None:
    answers = frames(await curl("/tasks/t2:subscribe", "-N", "-X", verb))
    assert answers == [MessageToDict(event) for event in events("t2", "subscribed")]


async def test_rest_error(curl: Curl) -> None:
    body, _, code = (await curl("/tasks/t9", "-w", "\n%{http_code}")).rpartition("\n")
    error = json.loads(body)["error"]
    assert (code, error["status"], error["details"][0]["reason"]) == ("404", "NOT_FOUND", "TASK_NOT_FOUND")


async def test_event_stream_headers(curl: Curl) -> None:
    head = (await curl("/message:stream", "-N", "-D", "-", "-o", "/dev/null", data=message("hello"))).lower()
    assert head.startswith("http/1.1 200")
    assert "content-type: text/event-stream" in head


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health(curl: Curl, path: str) -> None:
    assert (await curl(path, "-f")).strip() in ("ok", "ready")
