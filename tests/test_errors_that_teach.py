"""Common mistakes, and what the one who makes them is told, on every binding where they can be made."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import BadRequest
from hypothesis import given
from hypothesis import strategies as st
from lab import SECRET, Lab, card, send
from wires import All, Outcome

from a2a_grpc import AgentServicer, CardError, Mount, PortError, Server, Turn, run, serve
from a2a_grpc.bindings.json_status import in_json
from a2a_grpc.errors import InvalidParamsError, Violation
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.options import BindingName

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


WRONG_DOORS = {
    (
        "GET",
        "/",
    ): "GET is not allowed here; use POST. This is an A2A agent: its card is GET /.well-known/agent-card.json; "
    "JSON-RPC is POST /; HTTP+JSON is POST /message:send",
    ("GET", "/.well-known/agent.json"): "Nothing is served at this path. An agent card of 0.3 would be here; "
    "the card of this agent is GET /.well-known/agent-card.json",
    ("GET", "/zzzz"): "Nothing is served at this path. This is an A2A agent: "
    "its card is GET /.well-known/agent-card.json; JSON-RPC is POST /; HTTP+JSON is POST /message:send",
    ("GET", "/agent-card.json"): "Nothing is served at this path. The agent card is GET /.well-known/agent-card.json",
}


@pytest.mark.parametrize(("verb", "path"), WRONG_DOORS)
async def test_a_wrong_door(verb: str, path: str, http: Http) -> None:
    assert await http.rest(verb, path, b"") == WRONG_DOORS[verb, path]


@pytest.mark.parametrize(("only", "doors"), [
    ("JSONRPC", "JSON-RPC is POST /mine/"),
    ("HTTP+JSON", "HTTP+JSON is POST /mine/message:send"),
])  # fmt: skip
async def test_the_doors_that_are_named_are_open(only: BindingName, doors: str) -> None:
    async with Server(Mount(Lab(), prefix="/mine"), http_port=0, bindings=[only]) as server:
        async with aiohttp.ClientSession(server.http_url) as session:
            text = await Http(session).rest("GET", "/mine/", b"")
    assert text.endswith(f"its card is GET /mine/.well-known/agent-card.json; {doors}")


ENVELOPE = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}


async def test_a_body_of_the_other_binding(http: Http) -> None:
    assert await http.rpc({"message": MESSAGE}) == (
        'The member "jsonrpc" must be "2.0"; JSON-RPC is served here, and the body is a request of HTTP+JSON, '
        "which is POST /message:send"
    )
    assert await http.rest("POST", "/message:send", json.dumps(ENVELOPE).encode()) == (
        "message: is required; HTTP+JSON is served here, and the body is a request of JSON-RPC, which is POST /"
    )
    assert "is served here" not in await http.rpc({"message": MESSAGE, "method": "SendMessage"})
    assert "is served here" not in await http.rest("POST", "/message:send", b'{"method": "SendMessage"}')


async def test_a_body_of_a_binding_that_is_not_served() -> None:
    async with Server(Lab(), http_port=0, bindings=["JSONRPC"]) as server:
        async with aiohttp.ClientSession(server.http_url) as session:
            assert (await Http(session).rpc({"message": MESSAGE})).endswith("which is not served by this agent")


def without(*fields: str, **instead: Any) -> dict[str, Any]:
    return {"message": {k: v for k, v in MESSAGE.items() if k not in fields} | instead}


MISSPELT: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [  # method, request, violations
    ("SendMessage", {"mesage": MESSAGE}, [("message", 'is required; did you mean message? the request has "mesage"')]),
    ("SendMessage", without("messageId", mesageId="m"),
     [("message.messageId", 'is required; did you mean messageId? the request has "mesageId"')]),
    ("SendMessage", without("messageId", message_ID="m"),
     [("message.messageId", 'is required; did you mean messageId? the request has "message_ID"')]),
    ("SendMessage", without("role", Role="ROLE_USER"), [
        ("message.role",
         'is required; one of ROLE_USER, ROLE_AGENT; did you mean role? the request has "Role"')]),
    ("SendMessage", without("parts", part=[]),
     [("message.parts", 'must not be empty; give at least one; did you mean parts? the request has "part"')]),
    ("SendMessage", without("parts", parts=[{"text": "a"}, {"txt": "b", "kind": "text"}]), [
        ("message.parts[1]",
         'holds nothing; set one of text, raw, url, data; did you mean text? the request has "txt"')]),
    ("SendMessage", without("parts", "role", Parts=[], Role="ROLE_USER"), [
        ("message.role",
         'is required; one of ROLE_USER, ROLE_AGENT; did you mean role? the request has "Role"'),
        ("message.parts",
         'must not be empty; give at least one; did you mean parts? the request has "Parts"')]),
    # nothing like it, too long to be it, given but empty, and given right beside something like it
    ("SendMessage", without("messageId", colour="red"), [("message.messageId", "is required")]),
    ("SendMessage", without("messageId", **{"messageId" * 10: "m"}), [("message.messageId", "is required")]),
    ("SendMessage", without("messageId", messageId="", mesageId="m"), [("message.messageId", "is required")]),
    ("SendMessage", without("parts", parts=[]), [("message.parts", "must not be empty; give at least one")]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "request_", "violations"), MISSPELT)
async def test_a_misspelt_field(
    method: str, request_: dict[str, Any], violations: list[tuple[str, str]], every: All
) -> None:
    for wire in every.wires[1:]:
        fault = (await wire.call(method, request_)).fault
        assert fault
        assert fault.violations == violations
        assert fault.message == "; ".join(f"{field}: {text}" for field, text in violations)


async def test_a_misspelt_field_that_is_not_required_is_ignored(every: All) -> None:
    for wire in every.wires[1:]:
        assert (await wire.call("SendMessage", without(contxtId="c"))).only


async def test_fields_are_named_as_they_are_written(every: All) -> None:
    """X-ERR-2: JSON names in JSON, names of the .proto file in gRPC."""
    request = pb.SendMessageRequest(message=pb.Message(role=pb.ROLE_USER, parts=[pb.Part(text="x")]))
    told = [o.fault.message for o in await every.call("SendMessage", request) if o.fault]
    assert told == ["message.message_id: is required", *["message.messageId: is required"] * 2]


@pytest.mark.parametrize(("field", "expected"), [
    ("message.message_id", "message.messageId"), ("my_map[\"a_b\"].c_d", "myMap[\"a_b\"].cD"), ("x", "x"), ("", ""),
])  # fmt: skip
def test_the_key_of_a_map_is_no_name_of_a_field(field: str, expected: str) -> None:
    told = in_json(InvalidParamsError([Violation(field, "is wrong")]).status())
    [detail] = [BadRequest.FromString(packed.value) for packed in told.details if packed.Is(BadRequest.DESCRIPTOR)]
    assert detail.field_violations[0].field == expected


PLACES = st.sampled_from(
    ["message", "message.parts[0]", "message.parts[9].text", "a.b", "message.metadata.x", "..", ""]
)
MEMBERS = st.sampled_from(["message", "parts", "mesage", "txt", "metadata", ""]) | st.text(max_size=3)
ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4),
)


@given(PLACES | st.text(max_size=5), ANY_JSON)
def test_no_json_is_too_strange_to_be_told_about(field: str, value: Any) -> None:
    status = InvalidParamsError([Violation(field, "is wrong")]).status()
    assert "is wrong" in in_json(status, pb.SendMessageRequest.DESCRIPTOR, value).message


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


# Newcomers


async def test_a_class_in_place_of_an_instance() -> None:
    with pytest.raises(TypeError, match=re.escape("Lab is a class: pass an instance, Lab()")):
        await serve(Lab, card())


async def test_run_where_an_event_loop_runs() -> None:
    with pytest.raises(RuntimeError, match=re.escape("one is running here: use `await serve(...)`")):
        run(Lab())


def test_an_execute_that_is_not_a_coroutine() -> None:
    class Hasty(AgentServicer):
        def execute(self, turn: Turn) -> None: ...  # type: ignore[override]

    with pytest.raises(TypeError, match=re.escape("Hasty.execute must be a coroutine: write `async def execute(...)`")):
        Hasty()


RUN = "import sys; sys.path.insert(0, 'tests'); from lab import Lab; from a2a_grpc import run; run(Lab(), {}={})"


@pytest.mark.parametrize("option", ["http_port", "grpc_port"])
def test_run_on_a_port_that_is_taken_is_one_line_and_exit_code_1(option: str) -> None:
    other = {"http_port": "grpc_port=0, http_port", "grpc_port": "http_port=0, grpc_port"}[option]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", RUN.format(other, port)], capture_output=True, text=True, timeout=30
        )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"a2a-grpc: cannot listen on 127.0.0.1:{port} (")
    assert line.endswith("has this port. Stop it, or choose another port (0 takes a free one)")


def test_the_conformance_kit_that_is_not_given() -> None:
    script = [str(Path(__file__).parent / "tck.sh"), "driver", "", ".venv-tck"]
    done = subprocess.run(["bash", *script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "KIT=FOLDER" in line
    assert "https://github.com/a2aproject/a2a-tck" in line
