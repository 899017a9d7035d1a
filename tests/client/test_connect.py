"""From an address to a client: the card, its cache, options; and the same client in other clothes."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from a2a_grpc import Server
from a2a_grpc.bindings.json_status import details
from a2a_grpc.bindings.protojson import dumps, to_json
from a2a_grpc.client import (
    CardCache,
    CardReadError,
    ConnectError,
    TaskFailedError,
    as_tool,
    connect,
    connect_sync,
)
from a2a_grpc.client.testing import agent_under_test
from a2a_grpc.errors import ResourceExhaustedError, TaskNotFoundError
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import BINDINGS, card, raw_server, read_request, response
from tests.client.test_operations import Echo
from tests.interop.agent import Catalogue, events


@asynccontextmanager
async def serving(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answers requests in turn, the last answer again and again; keeps the heads."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            heads.append(head)
            writer.write(answers[min(len(heads), len(answers)) - 1])
            await writer.drain()

    async with raw_server(serve) as url:
        yield url, heads


CARD = to_json(card("http://127.0.0.1:1", "JSONRPC"))


async def names(url: str, **options: Any) -> str:
    async with connect(url, backoff=0.005, **options) as client:
        return client.card.name


async def test_a_fresh_card_is_not_fetched_again() -> None:
    cache = CardCache()
    async with serving(response(CARD, Cache_Control="max-age=60")) as (url, heads):
        for _ in range(3):
            assert await names(url, cards=cache) == "Scripted"
        assert len(heads) == 1
        await names(url)
        assert len(heads) == 2


async def test_a_stale_card_is_asked_for_again() -> None:
    cache = CardCache()
    stale = response(CARD, Cache_Control="no-cache", ETag='"v1"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")
    unchanged = b'HTTP/1.1 304 x\r\nETag: "v1"\r\nCache-Control: max-age=60\r\n\r\n'
    async with serving(stale, unchanged) as (url, heads):
        for _ in range(3):
            assert await names(url, cards=cache) == "Scripted"
    assert len(heads) == 2
    assert b'If-None-Match: "v1"' in heads[1]
    assert b"If-Modified-Since: Mon" in heads[1]


async def test_a_validator_that_cannot_be_sent_is_left_out() -> None:
    cache = CardCache()
    async with serving(response(CARD, Cache_Control="no-cache", ETag='"a\x01b"')) as (url, heads):
        for _ in range(2):
            assert await names(url, cards=cache) == "Scripted"
    assert b"If-None-Match" not in heads[1]


async def test_a_card_without_an_end_is_refused() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    async with raw_server(endless) as url:
        with pytest.raises(CardReadError, match="larger than 4194304 bytes"):
            await connect(url).__aenter__()


async def test_a_card_that_must_not_be_kept_is_not() -> None:
    cache = CardCache()
    async with serving(response(CARD, Cache_Control="no-store")) as (url, heads):
        await names(url, cards=cache)
        await names(url, cards=cache)
    assert len(heads) == 2


async def test_our_own_cards_are_cached_by_their_headers() -> None:
    cache = CardCache()
    async with Server(Catalogue(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        assert await names(server.http_url, cards=cache) == "Catalogue"
        kept = next(iter(cache.cards.values()))
        assert kept.etag
        cache.keep(next(iter(cache.cards)), replace(kept, fresh_until=0.0))
        assert await names(server.http_url, cards=cache) == "Catalogue"
        assert next(iter(cache.cards.values())).card is kept.card  # 304: the same one


async def test_a_card_is_looked_for_where_it_may_be() -> None:
    async with serving(response(b"?", 404), response(CARD)) as (url, heads):
        assert await names(url + "/agents/a/") == "Scripted"
    assert [h.split(b" ")[1] for h in heads] == [
        b"/agents/a/.well-known/agent-card.json",
        b"/agents/a/.well-known/agent.json",
    ]
    async with serving(response(CARD)) as (url, heads):
        assert await names(url + "/my/card.json") == "Scripted"
        assert await names(url.removeprefix("http://")) == "Scripted"
    assert [h.split(b" ")[1] for h in heads] == [b"/my/card.json", b"/.well-known/agent-card.json"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (response(b"", 404), "has no agent card"),
        (response(b"<html>"), "no agent card"),
        (response(b"denied", 403), "HTTP 403: denied"),
        (response(b'{"url": "https://x"}'), "a card of A2A 0.3"),
    ],
)
async def test_no_card_says_why(answer: bytes, says: str) -> None:
    async with serving(answer) as (url, _):
        with pytest.raises(CardReadError, match=says):
            await names(url)


async def test_a_server_that_is_starting_is_waited_for() -> None:
    async with serving(response(b"", 503), response(b"", 503), response(CARD)) as (url, heads):
        assert await names(url) == "Scripted"
    assert len(heads) == 3


async def test_no_server_is_a_connect_error() -> None:
    with pytest.raises(ConnectError, match=r"cannot connect to http://127\.0\.0\.1:1"):
        await names("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": 5}, "unknown option timeout; "),
        ({"deadlin": 5}, "did you mean deadline?"),
        ({"bindings": "GRPC"}, "bindings must be a list"),
        ({"bindings": ["REST"]}, "bindings must be some of GRPC, JSONRPC"),
        ({"deadline": 0}, "deadline must be a number of seconds, above 0"),
        ({"attempts": 0}, "attempts must be a number, 1 or more"),
    ],
)
async def test_options_that_are_wrong_say_why(options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says.replace("?", r"\?")):
        await names("http://127.0.0.1:1", **options)


# HTTP answers that others give


async def test_answers_are_read_with_tolerance() -> None:
    async with serving(response(b'{"jsonrpc":"2.0","id":9,"result":null,"x":1}')) as (url, _):
        async with connect(card(url, "JSONRPC")) as client:
            await client.delete_push_config("T", "P")
    for body in (b"{}", b"", b"null"):
        async with serving(response(body)) as (url, _):
            async with connect(card(url, "HTTP+JSON")) as client:
                await client.delete_push_config("T", "P")


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize(
    "frame",
    [
        b"data: %s\r\n\r\n",
        b"data:%s\n\n",
        b": hello\n\nid: 1\nevent: message\ndata: %s\n\n",
        b"\xef\xbb\xbf: x\ndata: %s\r\r",
        b"retry: 5\nother\ndata: %s\n\n",
    ],
)
async def test_framings_of_sse(binding: str, frame: bytes) -> None:
    values = [
        {"task": {"id": "T", "status": {"state": "TASK_STATE_WORKING"}, "new": 1}},
        {"surprise": {"taskId": "T"}},
        {"artifactUpdate": {"taskId": "T", "artifact": {"artifactId": "A", "parts": [{"text": "x" * 2**20}]}}},
        {"statusUpdate": {"taskId": "T", "status": {"state": "TASK_STATE_MUSING"}}},
        {"statusUpdate": {"taskId": "T", "status": {"state": "TASK_STATE_COMPLETED"}}},
    ]
    wrapped = [{"jsonrpc": "2.0", "id": 1, "result": v} if binding == "JSONRPC" else v for v in values]
    body = b"".join(frame % dumps(v) for v in wrapped).rstrip(b"\r\n")  # no blank line at the end
    async with serving(response(body, media_type="text/event-stream; charset=utf-8")) as (url, _):
        async with connect(card(url, binding)) as client:
            told = [event async for event in client.stream("x")]
    assert [e.WhichOneof("payload") for e in told] == ["task", "artifact_update", "status_update", "status_update"]
    assert len(told[1].artifact_update.artifact.parts[0].text) == 2**20
    assert told[2].status_update.status.state == pb.TASK_STATE_UNSPECIFIED


@pytest.mark.parametrize("status", [404, 405])
async def test_subscribing_falls_back_to_get_once(status: int) -> None:
    done = b'data: {"task":{"id":"T","status":{"state":"TASK_STATE_COMPLETED"}}}\n\n'
    stream = response(done, media_type="text/event-stream")
    async with serving(response(b'{"detail":"Not Found"}', status), stream) as (url, heads):
        async with connect(card(url, "HTTP+JSON")) as client:
            assert [e.task.id async for e in client.subscribe("T")] == ["T"]
    assert [h.split(b" ")[0] for h in heads] == [b"POST", b"GET"]


async def test_a_task_that_is_not_found_is_not_asked_for_twice() -> None:
    told = TaskNotFoundError().status()
    error = {"code": 404, "status": "NOT_FOUND", "message": "m", "details": details(told)}
    async with serving(response(dumps({"error": error}), 404)) as (url, heads):
        async with connect(card(url, "HTTP+JSON")) as client:
            with pytest.raises(TaskNotFoundError):
                await anext(client.subscribe("T"))
    assert len(heads) == 1


async def test_an_answer_beyond_the_limit_is_refused() -> None:
    async with serving(response(b" " * 5000)) as (url, heads):
        async with connect(card(url, "JSONRPC"), max_response=1000) as client:
            with pytest.raises(ResourceExhaustedError, match="larger than 1000 bytes"):
                await client.get_task("T")
    assert len(heads) == 1


# The same client in other clothes


async def test_agents_are_tested_on_every_binding() -> None:
    async with agent_under_test(Echo()) as clients:
        for client, binding in zip(clients, BINDINGS, strict=True):
            assert client.interface.protocol_binding == binding
            assert (await client.ask("hello")).text == "hello"
        assert clients.rest is clients[2]


async def test_an_agent_as_a_tool() -> None:
    async with agent_under_test(Echo()) as clients:
        function, schema = as_tool(clients.jsonrpc, "echo")
        assert await function("hello") == "hello"
        assert await function(message="ask") == "which?"  # type: ignore[call-arg]
    assert (schema["name"], function.__name__) == ("echo", "echo")
    assert schema["description"].startswith("Echo: Says it again.")
    assert schema["parameters"]["required"] == ["message"]
    with pytest.raises(ValueError, match="cannot be called"):
        as_tool(clients.rest, "no spaces")


async def test_the_synchronous_client() -> None:
    async with Server(Catalogue(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        for binding in BINDINGS:
            await asyncio.to_thread(everything, server.http_url, binding)
    assert "a2a-grpc-client" not in {t.name for t in threading.enumerate()}


def everything(url: str, binding: str) -> None:
    with connect_sync(url, bindings=[binding]) as agent:
        assert agent.card.name == "Catalogue"
        assert agent.interface.protocol_binding == binding
        assert agent.send("hi").parts[0].text == "HI"  # type: ignore[union-attr]
        assert agent.ask("x").text == "xx"
        assert list(agent.stream("x")) == events("t1", "x")
        assert next(iter(agent.stream("x"))) == events("t1", "x")[0]
        assert list(agent.subscribe("t2"))[-1].WhichOneof("payload") == "status_update"
        assert agent.get_task("t1").id == "t1"
        assert agent.cancel("t2").status.state == pb.TASK_STATE_CANCELED
        assert agent.create_push_config("t1", "https://x.example").id == "w1"
        assert agent.get_push_config("t1", "w1").id == "w1"
        assert [c.id for c in agent.list_push_configs("t1")] == ["w1", "w2"]
        agent.delete_push_config("t1", "w1")
        assert next(iter(agent.list_tasks())).id == "t1"
        assert agent.extended_card().name == "Catalogue, extended"
        with pytest.raises(TaskNotFoundError):
            agent.get_task("t9")


def test_a_failure_in_the_synchronous_client_leaves_no_thread() -> None:
    with pytest.raises(ConnectError):
        with connect_sync("http://127.0.0.1:1", attempts=1):
            pass
    assert "a2a-grpc-client" not in {t.name for t in threading.enumerate()}


def test_importing_needs_nothing_that_is_optional() -> None:
    code = (
        "import sys\n"
        "for name in ('typer', 'rich', 'orjson', 'a2a', 'uvicorn', 'httpx'): sys.modules[name] = None\n"
        "import a2a_grpc.client\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_a_task_that_fails_raises_from_a_tool() -> None:
    class Fails(Echo):
        """Fails."""

        async def execute(self, turn: Any) -> None:
            await turn.fail("no paper")

    async with agent_under_test(Fails()) as clients:
        for client in clients:
            with pytest.raises(TaskFailedError, match="no paper"):
                await as_tool(client, "t").function("x")
