"""Common mistakes, and what the one who makes them is told, on every binding where they can be made."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from lab import SECRET, Lab, card, send
from wires import All, Outcome

from a2a_grpc import CardError, PortError, Server
from a2a_grpc.generated import a2a_pb2 as pb

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
PARSER_WORDS = re.compile(r"Expecting|JSONDecodeError|char \d|Extra data|orjson|codec|position \d")


@pytest.fixture
async def every() -> AsyncIterator[All]:
    async with Server(Lab(), http_port=0, grpc_port=0) as server, All(server) as wires:
        yield wires


@pytest.fixture
async def http() -> AsyncIterator["Http"]:
    async with Server(Lab(), http_port=0, grpc_port=None) as server, aiohttp.ClientSession(server.http_url) as session:
        yield Http(session)


class Http:
    """Requests that no good client makes; the texts of their errors."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def rpc(self, body: Any) -> str:
        kind = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self._session.post("/", **kind, headers={"Content-Type": "application/json"}) as response:
            return str((await response.json())["error"]["message"])

    async def rest(self, verb: str, path: str, body: bytes = b"{}") -> str:
        headers = {"Content-Type": "application/json"}
        async with self._session.request(verb, path, data=body or None, headers=headers) as response:
            return str((await response.json())["error"]["message"])


def texts(outcomes: list[Outcome]) -> set[str]:
    return {outcome.fault.message if outcome.fault else "" for outcome in outcomes}


async def test_no_version_header_under_the_strict_policy() -> None:
    async with Server(Lab(), http_port=0, grpc_port=0, version_policy="strict") as server, All(server) as every:
        (text,) = texts(await every.call("SendMessage", send("hi")))
    assert text.startswith("No A2A-Version was sent, which is read as 0.3")
    assert "Send the header `A2A-Version: 1.0`" in text


OLD_NAMES = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/resubscribe": "SubscribeToTask",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}


@pytest.mark.parametrize("name", OLD_NAMES)
async def test_a_method_name_of_0_3(name: str, http: Http) -> None:
    text = await http.rpc({"jsonrpc": "2.0", "id": 1, "method": name})
    assert f"{name} is the 0.3 name of {OLD_NAMES[name]}" in text


async def test_a_role_of_0_3(every: All) -> None:
    (text,) = texts([await w.call("SendMessage", {"message": {**MESSAGE, "role": "user"}}) for w in every.wires[1:]])
    assert text == 'message.role: unknown value "user"; did you mean ROLE_USER?'


async def test_a_role_that_is_not_given_is_told_with_its_values(every: All) -> None:
    (text,) = texts(
        await every.call(
            "SendMessage", pb.SendMessageRequest(message=pb.Message(message_id="m", parts=[pb.Part(text="x")]))
        )
    )
    assert text == "message.role: is required; one of ROLE_USER, ROLE_AGENT"


async def test_kind_is_an_unknown_field_and_does_no_harm(every: All) -> None:
    message = {**MESSAGE, "kind": "message", "parts": [{"kind": "text", "text": "hi"}]}
    for wire in every.wires[1:]:
        assert (await wire.call("SendMessage", {"message": message})).only.message.parts[0].text == "hi"


@pytest.mark.parametrize(("name", "meant"), [
    ("sendmessage", "SendMessage"), ("sendMessage", "SendMessage"), ("send_message", "SendMessage"),
    ("GetTasks", "GetTask"), ("TaskList", None), ("SubscribeTask", "SubscribeToTask"),
])  # fmt: skip
async def test_a_method_name_that_is_nearly_right(name: str, meant: str | None) -> None:
    async with Server(Lab(), http_port=0, grpc_port=0) as server:
        async with aiohttp.ClientSession(server.http_url) as session:
            by_jsonrpc = await Http(session).rpc({"jsonrpc": "2.0", "id": 1, "method": name})
        by_grpc = await grpc_text(server.grpc_address, f"/lf.a2a.v1.A2AService/{name}")
    assert by_jsonrpc == by_grpc
    assert by_grpc.startswith(f"Unknown method {name}.")
    assert meant is None or f"Did you mean {meant}?" in by_grpc


async def grpc_text(address: str, path: str) -> str:
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(path)(b"", timeout=5)
    return caught.value.details() or ""


async def test_the_grpc_service_of_0_3() -> None:
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        text = await grpc_text(server.grpc_address, "/a2a.v1.A2AService/SendMessage")
    assert text.startswith("Unknown method /a2a.v1.A2AService/SendMessage.")
    assert "lf.a2a.v1.A2AService" in text


BROKEN = {  # body → where it is broken, and what is shown of it
    b'{"jsonrpc": "2.0",\n "id": 1,, "method": "x"}': ("line 2, column 10", '"id": 1,, "method"'),
    b'{"jsonrpc":': ("line 1, column 12", '{"jsonrpc":'),
    b"": ("line 1, column 1", "empty"),
    b"hello": ("line 1, column 1", "hello"),
    b'{"a": \xff}': ("byte 7", '{"a":'),
    b'\xef\xbb\xbf{"a": 1}': ("line 1, column 1", "byte order mark"),
    b'{"a": 1, "a": 2}': ("line 1, column 10", "occurs twice"),
    b'{"a": NaN}': ("line 1, column 7", "NaN"),
    b'{"a": "\\ud800"}': ("line 1, column 7", "surrogate"),
    b'{"a": 1} x': ("line 1, column 10", "x"),
    b"{'a': 1}": ("line 1, column 2", "'a'"),
    b'{"a": 1,}': ("line 1, column", '{"a": 1,}'),
    b"[" * 101 + b"]" * 101: ("line 1, column 101", "100 levels"),
}


@pytest.mark.parametrize("body", BROKEN, ids=repr)
async def test_broken_json(body: bytes, http: Http) -> None:
    where, shown = BROKEN[body]
    by_jsonrpc = await http.rpc(body)
    assert where in by_jsonrpc
    assert shown in by_jsonrpc
    assert not PARSER_WORDS.search(by_jsonrpc)
    if body:
        assert await http.rest("POST", "/message:send", body) == by_jsonrpc


async def test_two_contents_in_one_part(every: All) -> None:
    message = {**MESSAGE, "parts": [{"text": "a"}, {"text": "b", "url": "https://example.com"}]}
    outcomes = [await w.call("SendMessage", {"message": message}) for w in every.wires[1:]]
    assert texts(outcomes) == {"message.parts[1]: text and url are both set; set exactly one"}


async def test_no_content_in_a_part(every: All) -> None:
    request = send("hi")
    request.message.parts.add(filename="f")
    (text,) = texts(await every.call("SendMessage", request))
    assert text.startswith("message.parts[1]: ")
    assert all(name in text for name in ("text", "raw", "url", "data"))


PATHS = {
    ("GET", "/v1/tasks/x"): "GET /tasks/x",
    ("POST", "/v1/message:send"): "POST /message:send",
    ("POST", "/message:Send"): "POST /message:send",
    ("POST", "/message/send"): "POST /message:send",
    ("GET", "/task/x"): "GET /tasks/{id}",
    ("GET", "/tasks/"): "GET /tasks",
    ("POST", "/tasks/x:stop"): ":cancel",
    ("PUT", "/tasks/x"): "GET",
    ("GET", "/message:send"): "POST",
}


@pytest.mark.parametrize(("verb", "path"), PATHS)
async def test_a_wrong_rest_path(verb: str, path: str, http: Http) -> None:
    assert PATHS[verb, path] in await http.rest(verb, path, b"")


async def test_an_agent_that_raises(every: All, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = await every.call("SendMessage", send("crash"))
    assert len({repr(outcome.fault.same) for outcome in outcomes if outcome.fault}) == 1
    for outcome in outcomes:
        assert outcome.fault
        found = re.fullmatch(r"Internal error\. Reference: ([0-9a-f]{12})", outcome.fault.message)
        assert found
        assert [SECRET in str(r.exc_info) for r in caplog.records if found[1] in r.getMessage()] == [True]
        assert SECRET not in repr(outcome)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("binding", ["HTTP", "gRPC"])
async def test_two_servers_on_one_port(host: str, binding: str) -> None:
    async with Server(Lab(), http_port=0, grpc_port=0, host=host) as first:
        taken = first.http_port if binding == "HTTP" else first.grpc_port
        ports = {"http_port": 0, "grpc_port": 0, f"{binding.lower()}_port": taken}
        with pytest.raises(PortError) as caught:
            await asyncio.wait_for(Server(Lab(), host=host, **ports).start(), 5)
    text = str(caught.value)
    assert re.search(rf"(127\.0\.0\.1|\[::1\]):{taken} \({binding}\)", text)
    assert "choose another port" in text


MISSING = {
    "name": 'name: is required: the name people know the agent by, such as "Glossary"',
    "description": "description: is required",
    "version": 'version: is required: the version of the agent itself, such as "1.0.0"',
    "skills": "skills: must not be empty; give at least one: AgentSkill(",
    "default_input_modes": "default_input_modes: must not be empty; give at least one: the media types",
    "default_output_modes": "default_output_modes: must not be empty",
}


@pytest.mark.parametrize("field", MISSING)
async def test_a_card_that_misses_a_required_field(field: str) -> None:
    incomplete = card()
    incomplete.ClearField(field)  # type: ignore[arg-type]
    with pytest.raises(CardError) as caught:
        await Server(Lab(), incomplete, http_port=0, grpc_port=0).start()
    assert MISSING[field] in str(caught.value)


async def test_a_card_that_misses_several_fields_names_them_all() -> None:
    incomplete = card()
    incomplete.ClearField("name")
    incomplete.skills[0].ClearField("tags")
    with pytest.raises(CardError) as caught:
        await Server(Lab(), incomplete, http_port=0, grpc_port=0).start()
    assert "name: is required" in str(caught.value)
    assert "skills[0].tags: must not be empty" in str(caught.value)
