"""Mistakes of those who write clients, and what they are told."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc import AnyOf, ApiKey, Basic, Bearer, Server
from a2a_grpc.client import ApiKey as Key
from a2a_grpc.client import Bearer as ClientBearer
from a2a_grpc.client import Client, ConnectError, connect, connect_sync, parts
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import Script, scripted, task
from tests.client.test_operations import Echo

CREDENTIALS = "credentials must be one or several|credentials must be Bearer"


@pytest.mark.parametrize(
    ("agent", "options", "text"),
    [
        (None, {}, "connect to a URL, an AgentCard or an AgentInterface, not NoneType"),
        (Path("/tmp"), {}, "connect to a URL, .* not PosixPath"),
        ("localhost", {"credentials": "token"}, CREDENTIALS),
        ("localhost", {"credentials": ClientBearer}, CREDENTIALS),
        ("localhost", {"credentials": Bearer(lambda token: token)}, "those of a2a_grpc are a server's"),
        ("localhost", {"interceptors": ["x"]}, "functions that take a Call and return one"),
        ("localhost", {"cards": {}}, r"cards must be a CardCache\(\)"),
        ("localhost", {"tls": "ca.pem"}, r"tls must be a ClientTLS"),
        ("localhost", {"deadline": float("inf")}, "deadline must be a number of seconds, above 0"),
        ("localhost", {"deadline": True}, "deadline must be a number of seconds"),
    ],
)
def test_what_is_wrong_is_told_at_once(agent: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        connect(agent, **options)


async def test_a_client_that_is_not_connected_yet_says_how() -> None:
    connecting: Any = connect("http://localhost:1")
    with pytest.raises(AttributeError, match=r"there is no ask before .*: write `async with connect"):
        await connecting.ask("x")
    with pytest.raises(TypeError, match="write `async with connect"):
        await connecting
    with pytest.raises(TypeError, match="write `async with connect"), connecting:
        pass


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: c.ask("x", deadline=0), "deadline must be a number of seconds, above 0 and at most .*, not 0"),
        (lambda c: c.ask("x", deadline="30"), "deadline must be a number of seconds"),
        (lambda c: c.send("x", deadline=float("nan")), "deadline must be a number of seconds"),
        (lambda c: anext(c.stream("x", deadline=1e10)), "deadline must be a number of seconds"),
        (lambda c: anext(c.list_tasks(status="completed")), "did you mean TASK_STATE_COMPLETED"),
        (lambda c: anext(c.list_tasks(status_timestamp_after="2026-01-01")), "must be a datetime with a time zone"),
        (lambda c: c.send(None), r"None is no content; for JSON's null give parts.data\(None\)"),
        (lambda c: c.send(pb.Task()), "a Task is not a part of a message"),
    ],
)
async def test_a_call_that_is_wrong_is_told_before_it_is_made(call: Callable[[Client], Any], text: str) -> None:
    script = Script([], {"GetTask": [task(1)]})
    async with scripted("JSONRPC", script) as client:
        with pytest.raises((TypeError, ValueError), match=text):
            await call(client)
    assert script.calls == []


def test_a_path_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("x")
    assert parts.message(path).parts[0] == pb.Part(raw=b"x", filename="note.txt", media_type="text/plain")


async def test_an_interceptor_that_returns_nothing_is_told() -> None:
    async with scripted("JSONRPC", Script(), interceptors=[lambda call: None]) as client:
        with pytest.raises(TypeError, match=r"must return a Call: .* returned None"):
            await client.get_task("T1")


async def test_a_wrong_address_is_told(unused_tcp_port: int) -> None:
    async with Server(Echo(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        for url, text in (
            (f"http://{server.grpc_address}", "is this the port of gRPC"),
            (server.http_url.replace("http://", "https://"), "does not speak TLS; is http:// meant"),
            (f"http://localhost:{unused_tcp_port}", "nothing listens there; is the agent running"),
        ):
            with pytest.raises(ConnectError, match=text):
                await connect(url, attempts=1).__aenter__()


async def test_an_interface_that_credentials_do_not_go_to_is_told(caplog: pytest.LogCaptureFixture) -> None:
    guard = ApiKey({"key": "ann"})
    async with Server(Echo(), http_port=0, grpc_port=0, shutdown_deadline=1, interceptors=[guard]) as server:
        with caplog.at_level(logging.WARNING, "a2a_grpc"):
            async with connect(server.http_url, credentials=Key("key")) as client:
                assert client.interface.protocol_binding == "JSONRPC"
    assert "GRPC at http://127.0.0.1:" in caplog.text
    assert "is not used: credentials go to" in caplog.text


async def test_the_synchronous_client_within_a_loop() -> None:
    async with Server(Echo(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:

        async def within() -> str:
            with connect_sync(server.http_url) as agent:
                return agent.card.name

        assert await asyncio.to_thread(asyncio.run, within()) == server.agents[0].card.name


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: ApiKey(["k"]), "a mapping of keys, or a function of a key"),
        (lambda: ApiKey("k"), "a mapping of keys, or a function of a key .*, not str"),
        (lambda: Bearer("k"), "a mapping of tokens, or a function of a token"),
        (lambda: Basic("ann:pw"), "a mapping of users, or a function of a user and a password"),
        (lambda: AnyOf([ApiKey({"k": "ann"})]), "AnyOf takes authenticators one by one"),
    ],
)
def test_a_guard_of_the_wrong_kind_is_told_at_once(made: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        made()
