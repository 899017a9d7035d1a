"""Bugs that were reported of other servers, each with the right answer, over real sockets."""

import asyncio
import base64
import io
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from google.protobuf.json_format import ParseDict
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from lab import SECRET, Lab, card, message, reply, send, task
from wires import BINDINGS, METHODS, NONE, REST, All, Outcome, sse_events, wire
from yarl import URL

from a2a_grpc import PermissionDeniedError, Server, UnauthenticatedError
from a2a_grpc.auth import Bearer
from a2a_grpc.generated import a2a_pb2 as pb

CAPABLE = card(capabilities=pb.AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True))
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
JSON = {"Content-Type": "application/json"}
SERVICE = "lf.a2a.v1.A2AService"


class Http:
    """A server of a Lab, and requests to it that nothing has corrected on the way."""

    def __init__(self, lab: Lab, session: aiohttp.ClientSession, url: str) -> None:
        self.lab, self._session, self._url = lab, session, url

    async def __call__(self, verb: str, target: str, body: Any = None, **headers: str) -> "Response":
        body = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        data = None if body is None else io.BytesIO(body)
        url = URL(self._url + target, encoded=True)
        given = {**(JSON if data is not None else {}), **headers}
        async with self._session.request(verb, url, data=data, headers=given) as response:
            return Response(response.status, response.headers, response.content_type, await response.read())

    def seen(self) -> Any:
        """The last request that reached the servicer; None where none did."""
        return self.lab.seen.pop()[0] if self.lab.seen else None


class Response:
    def __init__(self, status: int, headers: Mapping[str, str], kind: str, body: bytes) -> None:
        self.status, self.headers, self.kind, self.body = status, headers, kind, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def rpc_error(self) -> tuple[int, Any]:
        """JSON-RPC: code and id of an error that is well-formed."""
        assert self.status == 200
        assert self.kind == "application/json"
        assert set(self.json) == {"jsonrpc", "id", "error"}
        assert set(self.json["error"]) == {"code", "message", "data"}
        return self.json["error"]["code"], self.json["id"]

    @property
    def rest_error(self) -> tuple[int, str, str]:
        """HTTP+JSON: code, status and reason of an error that is well-formed."""
        error = self.json["error"]
        assert set(self.json) == {"error"}
        assert set(error) == {"code", "status", "message", "details"}
        assert self.kind == "application/json"
        info = error["details"][0]
        assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert info["domain"] == "a2a-protocol.org"
        assert error["code"] == self.status
        return error["code"], error["status"], info["reason"]

    @property
    def fields(self) -> list[str]:
        """The fields that an error names."""
        details = self.json["error"].get("details") or self.json["error"]["data"]
        found = [d for d in details if d["@type"] == "type.googleapis.com/google.rpc.BadRequest"]
        return [violation.get("field", "") for violation in found[0]["fieldViolations"]]


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    lab = Lab()
    async with Server(lab, CAPABLE, http_port=0, grpc_port=None) as server, aiohttp.ClientSession() as session:
        yield Http(lab, session, server.http_url)


def reasons(outcomes: list[Outcome]) -> list[str]:
    return [outcome.fault.reason if outcome.fault else "OK" for outcome in outcomes]


async def on_every_binding(
    method: str, request: Any, headers: Mapping[str, str] = NONE, **options: Any
) -> list[Outcome]:
    async with Server(Lab(), http_port=0, grpc_port=0, **options) as server, All(server) as every:
        return await every.call(method, request, headers)


# BR-15: JSON-RPC envelopes

ABSENT = object()
ENVELOPES: Mapping[str, tuple[Mapping[str, Any], int, Any]] = {  # member → code, id of the answer
    "a: no jsonrpc": ({"jsonrpc": ABSENT}, -32600, 1),
    "b: another jsonrpc": ({"jsonrpc": "1.0"}, -32600, 1),
    "b: a number as jsonrpc": ({"jsonrpc": 2.0}, -32600, 1),
    "c: an object as id": ({"id": {"a": 1}}, -32600, None),
    "c: an array as id": ({"id": [1]}, -32600, None),
    "c: a boolean as id": ({"id": True}, -32600, None),
    "d: a string as params": ({"params": "x"}, -32602, 1),
    "d: a number as params": ({"params": 7}, -32602, 1),
    "d: an array as params": ({"params": []}, -32602, 1),
    "d: a boolean as params": ({"params": False}, -32602, 1),
    "e: a number as method": ({"method": 42}, -32600, 1),
    "e: null as method": ({"method": None}, -32600, 1),
    "e: no method": ({"method": ABSENT}, -32600, 1),
    "g: no such method": ({"method": "NoSuchThing"}, -32601, 1),
    "g: another spelling": ({"method": "sendMessage"}, -32601, 1),
    "g: a name of 0.3": ({"method": "message/send"}, -32601, 1),
    "g: bad params for no method": ({"method": "NoSuchThing", "params": "x"}, -32601, 1),
}


@pytest.mark.parametrize("name", ENVELOPES)
async def test_br_15_members_of_an_envelope(name: str, http: Http) -> None:
    changes, code, id_ = ENVELOPES[name]
    whole = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "T1"}, **changes}
    response = await http("POST", "/", {key: value for key, value in whole.items() if value is not ABSENT})
    assert response.rpc_error == (code, id_)
    assert http.seen() is None


@pytest.mark.parametrize("id_", [1, 0, -7, 1.5, "x", "", "ä", 2**53, None])
async def test_br_15_c_an_id_is_echoed_as_it_is(id_: Any, http: Http) -> None:
    good = await http("POST", "/", {"jsonrpc": "2.0", "id": id_, "method": "GetTask", "params": {"id": "T1"}})
    assert (good.json["id"], type(good.json["id"])) == (id_, type(id_))
    bad = await http("POST", "/", {"jsonrpc": "2.0", "id": id_, "method": "Nope"})
    assert bad.rpc_error == (-32601, id_)


@pytest.mark.parametrize(
    "body", ["hello", 7, None, True, 1.5, [], [{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}], [1]]
)
async def test_br_15_f_a_body_that_is_no_object(body: Any, http: Http) -> None:
    assert (await http("POST", "/", json.dumps(body).encode())).rpc_error == (-32600, None)


UNREADABLE = {
    "half": b'{"jsonrpc":',
    "empty": b"",
    "blank": b" \n",
    "invalid UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"GetTask"}',
    "a duplicate name": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}',
    "1 MB of [": b"[" * 1_000_000,
    "1 MB of objects": b'{"a":' * 200_000,
    "NaN": b'{"jsonrpc":"2.0","id":NaN}',
    "half of a surrogate pair": b'{"jsonrpc":"2.0","id":"\\ud800"}',
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_br_15_h_a_body_that_is_not_json(name: str, http: Http) -> None:
    started = time.monotonic()
    response = await http("POST", "/", UNREADABLE[name])
    assert response.rpc_error == (-32700, None)
    assert time.monotonic() - started < 1
    assert b"Traceback" not in response.body
    assert len(response.body) < 1000


# BR-17, 19, 21, 23: REST transcoding


@pytest.mark.parametrize("prefix", ["", "/acme"])
@pytest.mark.parametrize(("verb", "body"), [("GET", None), ("POST", None), ("POST", b"{}")])
async def test_br_17_subscribe_by_get_and_post(verb: str, body: bytes | None, prefix: str, http: Http) -> None:
    response = await http(verb, f"{prefix}/tasks/T1:subscribe", body)
    assert response.kind == "text/event-stream"
    assert [list(json.loads(data)) for _, data in sse_events(response.body)] == [["task"], ["artifactUpdate"]]
    assert http.seen() == pb.SubscribeToTaskRequest(id="T1", tenant=prefix[1:])


async def test_br_19_ids_with_colons(http: Http) -> None:
    assert (await http("GET", "/tasks/urn:task:42")).json["id"] == "urn:task:42"
    assert http.seen() == pb.GetTaskRequest(id="urn:task:42")
    assert (await http("POST", "/tasks/urn:task:42:cancel")).json["id"] == "urn:task:42"
    assert http.seen() == pb.CancelTaskRequest(id="urn:task:42")
    assert (await http("GET", "/tasks/urn%3Atask%3A42%3Acancel")).json["id"] == "urn:task:42:cancel"


async def test_br_19_only_known_verbs_are_verbs(http: Http) -> None:
    wrong_verb = await http("GET", "/tasks/x:cancel")
    assert (wrong_verb.rest_error[0], wrong_verb.headers["Allow"]) == (405, "POST")
    assert (await http("POST", "/tasks/x:nosuchverb")).rest_error[0] == 404
    assert http.seen() is None


PARAMETERS: Mapping[str, tuple[str, Any]] = {  # query → the request that arrives, or the field that is named
    "no history": ("/tasks/T1?historyLength=0", pb.GetTaskRequest(id="T1", history_length=0)),
    "some history": ("/tasks/T1?historyLength=2", pb.GetTaskRequest(id="T1", history_length=2)),
    "all history": ("/tasks/T1", pb.GetTaskRequest(id="T1")),
    "an unset parameter": ("/tasks/T1?historyLength=", pb.GetTaskRequest(id="T1")),
    "snake case": ("/tasks/T1?history_length=2", pb.GetTaskRequest(id="T1", history_length=2)),
    "given twice": ("/tasks/T1?historyLength=1&historyLength=2", pb.GetTaskRequest(id="T1", history_length=2)),
    "negative": ("/tasks/T1?historyLength=-1", "historyLength"),
    "no number": ("/tasks/T1?historyLength=abc", "historyLength"),
    "all filters": (
        "/tasks?status=TASK_STATE_WORKING&pageSize=1&includeArtifacts=true"
        "&statusTimestampAfter=2026-01-02T03:04:05.678Z",
        ParseDict(
            {"status": "TASK_STATE_WORKING", "pageSize": 1, "includeArtifacts": True,
             "statusTimestampAfter": "2026-01-02T03:04:05.678Z"}, pb.ListTasksRequest()),
    ),
    "an offset": (
        "/tasks?statusTimestampAfter=2026-01-02T05:04:05.678%2B02:00",
        ParseDict({"statusTimestampAfter": "2026-01-02T03:04:05.678Z"}, pb.ListTasksRequest()),
    ),
    "an offset whose plus is a space": (
        "/tasks?statusTimestampAfter=2026-01-02T05:04:05.678+02:00",
        ParseDict({"statusTimestampAfter": "2026-01-02T03:04:05.678Z"}, pb.ListTasksRequest()),
    ),
    "an enum by number": ("/tasks?status=2", pb.ListTasksRequest(status=pb.TASK_STATE_WORKING)),
    "an unknown enum": ("/tasks?status=working", "status"),
    "a loud boolean": ("/tasks?includeArtifacts=TRUE", pb.ListTasksRequest(include_artifacts=True)),
    "no boolean": ("/tasks?includeArtifacts=maybe", "includeArtifacts"),
    "no timestamp": ("/tasks?statusTimestampAfter=yesterday", "statusTimestampAfter"),
    "page size unset": ("/tasks", pb.ListTasksRequest()),
    "page size 1": ("/tasks?pageSize=1", pb.ListTasksRequest(page_size=1)),
    "page size 100": ("/tasks?pageSize=100", pb.ListTasksRequest(page_size=100)),
    "page size 0": ("/tasks?pageSize=0", "pageSize"),
    "page size 101": ("/tasks?pageSize=101", "pageSize"),
    "page size -1": ("/tasks?pageSize=-1", "pageSize"),
    "page size 2^31": ("/tasks?pageSize=2147483648", "pageSize"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
async def test_br_21_query_parameters(name: str, http: Http) -> None:
    target, expected = PARAMETERS[name]
    response = await http("GET", target)
    if isinstance(expected, str):
        assert response.rest_error[:2] == (400, "INVALID_ARGUMENT")
        assert response.fields == [expected]
        assert http.seen() is None
    else:
        assert response.status == 200
        assert http.seen() == expected


@pytest.mark.parametrize("size", [0, 101, -1, 2**31 - 1])
async def test_br_21_page_sizes_on_every_binding(size: int) -> None:
    outcomes = await on_every_binding("ListTasks", pb.ListTasksRequest(page_size=size))
    assert [outcome.fault and outcome.fault.violations[0][0] for outcome in outcomes] == ["pageSize"] * 3


TENANTS: Mapping[tuple[str, str], tuple[str, Any]] = {  # verb and target → method and request; a status and none
    ("GET", "/acme/tasks/T1"): ("GetTask", pb.GetTaskRequest(tenant="acme", id="T1")),
    ("GET", "/tasks/tasks"): ("GetTask", pb.GetTaskRequest(id="tasks")),
    ("POST", "/acme/message:send"): (
        "SendMessage", ParseDict({"tenant": "acme", "message": MESSAGE}, pb.SendMessageRequest())),
    ("GET", "/a%2Fb/tasks/T1"): ("GetTask", pb.GetTaskRequest(tenant="a/b", id="T1")),
    ("GET", "/message:send"): ("405", None),
    ("GET", "/.well-known/tasks"): ("404", None),
    ("GET", "/v1/tasks/T1"): ("404", None),
}  # fmt: skip


@pytest.mark.parametrize(("verb", "target"), TENANTS)
async def test_br_23_tenant_prefixes(verb: str, target: str, http: Http) -> None:
    outcome, request = TENANTS[verb, target]
    response = await http(verb, target, {"message": MESSAGE} if verb == "POST" else None)
    assert response.status == (200 if request is not None else int(outcome))
    assert http.seen() == request


async def test_br_23_a_tenant_is_the_same_on_every_binding() -> None:
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0) as server, All(server) as every:
        for client in every.wires:
            await client.call("GetTask", {"id": "T1", "tenant": "a%2Fb" if client.name == "rest" else "a/b"})
    assert [request for request, _ in lab.seen] == [pb.GetTaskRequest(tenant="a/b", id="T1")] * 3


async def test_br_23_a_server_without_tenants_refuses_them_by_setting() -> None:
    outcomes = await on_every_binding("GetTask", {"id": "T1", "tenant": "acme"}, tenants=())
    assert [outcome.fault and outcome.fault.violations[0][0] for outcome in outcomes] == ["tenant"] * 3
    assert reasons(await on_every_binding("GetTask", {"id": "T1"}, tenants=())) == ["OK"] * 3


# BR-26, 28, 29: errors

SHAPES: Mapping[str, tuple[str, str, Any, tuple[int, str, str]]] = {
    "a task that is not there": ("GET", "/tasks/nope", None, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
    "a bad body": ("POST", "/message:send", {"message": 1}, (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
    "no JSON": ("POST", "/message:send", b"{", (400, "INVALID_ARGUMENT", "PARSE_ERROR")),
    "an unknown path": ("GET", "/nosuch", None, (404, "NOT_FOUND", "METHOD_NOT_FOUND")),
    "a wrong verb": ("DELETE", "/tasks/T1", None, (405, "UNIMPLEMENTED", "METHOD_NOT_FOUND")),
    "a large body": ("POST", "/message:send", bytes(6_000_000), (413, "RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE")),
    "another media type": ("POST", "/message:send", b"<a/>", (415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")),
    "no credentials": (
        "POST", "/message:send", {"message": {**MESSAGE, "parts": [{"text": "raise UnauthenticatedError"}]}},
        (401, "UNAUTHENTICATED", "UNAUTHENTICATED")),
    "a crash": (
        "POST", "/message:send", {"message": {**MESSAGE, "parts": [{"text": "crash"}]}},
        (500, "INTERNAL", "INTERNAL_ERROR")),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
async def test_br_26_the_shape_of_an_error_over_rest(name: str, http: Http) -> None:
    verb, target, body, expected = SHAPES[name]
    kind = {"Content-Type": "application/xml"} if body == b"<a/>" else {}
    response = await http(verb, target, body, **kind)
    assert response.rest_error == expected
    assert (response.headers.get("Allow") == "GET") == (response.status == 405)


async def test_br_26_what_is_no_http_is_answered_in_the_same_shape() -> None:
    async with Server(Lab(), http_port=0, grpc_port=None) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        writer.write(b"this is no HTTP\r\n\r\n")
        head, _, body = (await asyncio.wait_for(reader.read(), 5)).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert b"Content-Type: application/json" in head
    assert json.loads(body)["error"]["status"] == "INVALID_ARGUMENT"


class Leaky(Lab):
    """Whose store has failed, wherever it is asked."""

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        raise RuntimeError("could not connect") from OSError(SECRET)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        raise ConnectionError(SECRET)

    async def SubscribeToTask(self, request: Any, context: Any) -> AsyncIterator[pb.StreamResponse]:
        yield pb.StreamResponse(task=task())
        raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    ("method", "request_"), [("GetTask", {"id": "T"}), ("ListTasks", {}), ("SubscribeToTask", {"id": "T"})]
)
async def test_br_28_the_text_of_an_exception_stays_here(
    method: str, request_: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with Server(Leaky(), CAPABLE, http_port=0, grpc_port=0) as server, All(server) as every:
        outcomes = await every.call(method, request_)
    assert [(o.fault.reason, o.fault.wire) for o in outcomes if o.fault] == [
        ("INTERNAL_ERROR", 13), ("INTERNAL_ERROR", -32603), ("INTERNAL_ERROR", 500)]  # fmt: skip
    assert SECRET not in repr(outcomes)
    for outcome in outcomes:
        assert outcome.fault
        assert outcome.fault.metadata["reference"] in caplog.text
    assert caplog.text.count(SECRET) == 3
    assert caplog.text.count("RuntimeError: could not connect") == (3 if method == "GetTask" else 0)


class BrokenDoor(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        raise LookupError(SECRET)


async def test_br_28_the_text_of_a_broken_interceptor_stays_here() -> None:
    outcomes = await on_every_binding("SendMessage", send("hi"), interceptors=[BrokenDoor()])
    assert reasons(outcomes) == ["INTERNAL_ERROR"] * 3
    assert SECRET not in repr(outcomes)


A2A_ERRORS = [
    "TaskNotFoundError",
    "TaskNotCancelableError",
    "PushNotificationNotSupportedError",
    "UnsupportedOperationError",
    "ContentTypeNotSupportedError",
    "InvalidAgentResponseError",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "VersionNotSupportedError",
    "InvalidParamsError",
]


@pytest.mark.parametrize("name", A2A_ERRORS)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_br_29_errors_over_grpc_have_details(name: str, method: str) -> None:
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        error, status = await grpc_error(server, method, send(f"{':' if 'Stream' in method else ''}raise {name}"))
    assert (status.code, status.message) == (error.code().value[0], error.details())
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    words = name.removesuffix("Error")
    assert info.reason == "".join("_" + c if c.isupper() else c.upper() for c in words).lstrip("_")
    assert info.domain == "a2a-protocol.org"


async def test_br_29_a_validation_error_over_grpc_names_its_fields() -> None:
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        _, status = await grpc_error(server, "SendMessage", pb.SendMessageRequest(message=pb.Message(message_id="m")))
    bad = BadRequest()
    assert [detail.Unpack(bad) for detail in status.details] == [False, True]
    assert [violation.field for violation in bad.field_violations] == ["message.role", "message.parts"]


async def grpc_error(server: Server, method: str, request: Any) -> tuple[grpc.aio.AioRpcError, Status]:
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        rpc = METHODS[method]
        shape = channel.unary_stream if rpc.streaming else channel.unary_unary
        call: Any = shape(rpc.path, rpc.request.SerializeToString, rpc.response.FromString)(request, timeout=5)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await (call.read() if rpc.streaming else call)
    (details,) = [value for key, value in caught.value.trailing_metadata() if key == "grpc-status-details-bin"]
    return caught.value, Status.FromString(details)  # type: ignore[arg-type]


# BR-33: sizes

MB = 1024 * 1024


@pytest.mark.parametrize(("size", "fits"), [(3.9, True), (4.1, False), (20, False)])
async def test_br_33_one_limit_for_what_is_sent(size: float, fits: bool) -> None:
    request = send("hi")
    request.message.parts.add(raw=bytes(int(size * MB)))
    for name in BINDINGS:
        assert await size_verdict(name, request) == ("OK" if fits else REFUSED[name])


REFUSED = {"grpc": "RESOURCE_EXHAUSTED", "jsonrpc": "413 -32600", "rest": "413 RESOURCE_EXHAUSTED"}


async def size_verdict(name: str, request: pb.SendMessageRequest) -> str:
    async with Server(Lab(), http_port=0, grpc_port=0) as server:
        if name == "grpc":
            async with grpc.aio.insecure_channel(server.grpc_address) as channel:
                rpc = METHODS["SendMessage"]
                call: Any = channel.unary_unary(rpc.path, rpc.request.SerializeToString)(request, timeout=10)
                code: grpc.StatusCode = await call.code()
                return code.name
        return await http_verdict(name, server, request)


async def http_verdict(name: str, server: Server, request: pb.SendMessageRequest) -> str:
    params = {"message": {**MESSAGE, "parts": [{"raw": base64.b64encode(request.message.parts[1].raw).decode()}]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params} if name == "jsonrpc" else params
    target = server.http_url + ("/" if name == "jsonrpc" else "/message:send")
    data = io.BytesIO(json.dumps(body).encode())
    async with aiohttp.ClientSession() as session, session.post(target, data=data, headers=JSON) as response:
        error = (await response.json(content_type=None)).get("error")
        return f"{response.status} {error['status' if name == 'rest' else 'code']}" if error else "OK"


class Generous(Lab):
    """Answers with 6 MB."""

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        return self._large()

    async def SubscribeToTask(self, request: Any, context: Any) -> AsyncIterator[pb.StreamResponse]:
        yield pb.StreamResponse(task=self._large())

    def _large(self) -> pb.Task:
        made = task()
        made.artifacts[0].parts.add(raw=bytes(6 * MB))
        return made


@pytest.mark.parametrize("method", ["GetTask", "SubscribeToTask"])
async def test_br_33_what_is_answered_may_be_larger(method: str) -> None:
    async with Server(Generous(), CAPABLE, http_port=0, grpc_port=0) as server:
        for name in BINDINGS:
            client = await wire(name, server)
            if name == "grpc":
                await client.close()
                client.channel = grpc.aio.insecure_channel(  # type: ignore[union-attr]
                    server.grpc_address, options=[("grpc.max_receive_message_length", -1)]
                )
            answer = (await client.call(method, {"id": "T1"})).only
            await client.close()
            found = answer if method == "GetTask" else answer.task
            assert len(found.artifacts[0].parts[2].raw) == 6 * MB


# BR-36: abort, health, reflection


class Swallowing(grpc.aio.ServerInterceptor):
    """Catches whatever there is, as broad interceptors do."""

    async def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        handler = await continuation(details)

        async def call(request: Any, context: Any) -> Any:
            try:
                return await handler.unary_unary(request, context)
            except Exception:
                return pb.SendMessageResponse(message=reply("all is well"))

        return grpc.unary_unary_rpc_method_handler(call, handler.request_deserializer, handler.response_serializer)


@pytest.mark.parametrize("interceptors", [[], [Swallowing()]])
async def test_br_36_an_abort_is_an_answer_and_no_crash(interceptors: Any, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = await on_every_binding("SendMessage", send("abort NOT_FOUND"), interceptors=interceptors)
    assert [(o.fault.reason, o.fault.message) for o in outcomes if o.fault] == [
        ("NOT_FOUND", "aborted with NOT_FOUND")
    ] * 3
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize(("service", "expected"), [("", "SERVING"), (SERVICE, "SERVING"), ("nope", "NOT_FOUND")])
async def test_br_36_health(service: str, expected: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        assert await health(server, service) == expected
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def health(server: Server, service: str) -> str:
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        check: Callable[..., Awaitable[Any]] = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = await check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
        except grpc.aio.AioRpcError as error:
            return error.code().name


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_br_36_reflection(version: str) -> None:
    asked = [reflection_pb2.ServerReflectionRequest(list_services=""),
             reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
             reflection_pb2.ServerReflectionRequest(file_containing_symbol=f"{SERVICE}.SendMessage"),
             reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.such.Thing")]  # fmt: skip
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            call: Any = channel.stream_stream(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                reflection_pb2.ServerReflectionRequest.SerializeToString,
                reflection_pb2.ServerReflectionResponse.FromString,
            )(iter(asked), timeout=5)
            answers = [answer async for answer in call]
    assert SERVICE in [service.name for service in answers[0].list_services_response.service]
    assert all(answer.file_descriptor_response.file_descriptor_proto for answer in answers[1:3])
    assert answers[3].error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


# BR-50: versions

VERSIONS = {"99.0": False, "0.5": False, "2.0": False, "abc": False, "0.3": False, "1.1": False, "1": False,
            "1.0": True, "1.0.1": True, " 1.0 ": True, "": True, None: True}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
async def test_br_50_the_version_is_looked_at(version: str | None) -> None:
    headers = {} if version is None else {"A2A-Version": version}
    outcomes = await on_every_binding("GetTask", {"id": "T1"}, headers)
    if VERSIONS[version]:
        assert reasons(outcomes) == ["OK"] * 3
        return
    assert [(o.fault.reason, o.fault.wire) for o in outcomes if o.fault] == [
        ("VERSION_NOT_SUPPORTED", 9), ("VERSION_NOT_SUPPORTED", -32009), ("VERSION_NOT_SUPPORTED", 400)]  # fmt: skip
    for outcome in outcomes:
        assert outcome.fault
        assert outcome.fault.metadata == {"requestedVersion": version, "supportedVersions": "1.0"}


@pytest.mark.parametrize("headers", [{}, {"A2A-Version": ""}])
async def test_br_50_an_absent_version_is_0_3_under_the_strict_policy(headers: dict[str, str]) -> None:
    outcomes = await on_every_binding("GetTask", {"id": "T1"}, headers, version_policy="strict")
    assert reasons(outcomes) == ["VERSION_NOT_SUPPORTED"] * 3


# BR-55: extensions

REQUIRING = card(
    capabilities=pb.AgentCapabilities(
        streaming=True, extended_agent_card=True, extensions=[pb.AgentExtension(uri="urn:e1", required=True)]
    )
)


@pytest.mark.parametrize(("method", "request_"), [
    ("SendMessage", {"message": MESSAGE}), ("SendStreamingMessage", {"message": MESSAGE}), ("GetTask", {"id": "T1"}),
])  # fmt: skip
async def test_br_55_a_required_extension_is_required(method: str, request_: Any) -> None:
    lab = Lab()
    async with Server(lab, REQUIRING, http_port=0, grpc_port=0) as server, All(server) as every:
        for headers in ({}, {"A2A-Extensions": "urn:e2, urn:e3"}, {"A2A-Extensions": "URN:E1"}):
            outcomes = await every.call(method, request_, headers)
            assert reasons(outcomes) == ["EXTENSION_SUPPORT_REQUIRED"] * 3
            assert [o.fault.wire for o in outcomes if o.fault] == [9, -32008, 400]
        assert lab.seen == []
        for header in ("urn:e1", "urn:e2,urn:e1"):
            good = {"message": {**MESSAGE, "parts": [{"text": "1:"}]}} if method == "SendStreamingMessage" else request_
            assert reasons(await every.call(method, good, {"A2A-Extensions": header})) == ["OK"] * 3
        assert len(lab.seen) == 6


async def test_br_55_the_extended_card_can_be_read_without_the_extension() -> None:
    async with Server(Lab(), REQUIRING, http_port=0, grpc_port=0) as server, All(server) as every:
        assert reasons(await every.call("GetExtendedAgentCard", {})) == ["OK"] * 3


# BR-06, BR-57: as far as a servicer without tasks shows them


@pytest.mark.parametrize("parts", [[], [pb.Part()]])
async def test_br_06_required_fields(parts: list[pb.Part]) -> None:
    faulty = pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=parts))
    for request in (faulty, pb.SendMessageRequest()):
        assert reasons(await on_every_binding("SendMessage", request)) == ["INVALID_PARAMS"] * 3


class Door(grpc.aio.ServerInterceptor):
    """No token, a token without rights, and a good one."""

    async def intercept_service(self, continuation: Any, details: grpc.HandlerCallDetails) -> Any:
        token = dict(details.invocation_metadata).get("authorization")
        if token == "Bearer weak":
            raise PermissionDeniedError
        if token != "Bearer good":
            raise UnauthenticatedError
        return await continuation(details)


SECURED = card(capabilities=CAPABLE.capabilities)
SECURED.security_schemes["bearer"].http_auth_security_scheme.scheme = "Bearer"
GUARDED = {
    "SendMessage": message("hi"), "SendStreamingMessage": message("1:"), "GetTask": None,
    "CreateTaskPushNotificationConfig": None,
}  # fmt: skip


@pytest.mark.parametrize("method", GUARDED)
@pytest.mark.parametrize(("token", "reason", "codes"), [
    ("", "UNAUTHENTICATED", [16, -31401, 401]),
    ("Bearer garbled", "UNAUTHENTICATED", [16, -31401, 401]),
    ("Bearer weak", "UNAUTHORIZED", [7, -31403, 403]),
])  # fmt: skip
async def test_br_57_missing_credentials_are_no_success(method: str, token: str, reason: str, codes: list[int]) -> None:
    """The requests are not valid either: credentials are told first."""
    lab = Lab()
    headers = {"Authorization": token} if token else {}
    request = {"message": {}} if GUARDED[method] else {"id" if method == "GetTask" else "taskId": "T1"}
    async with Server(lab, SECURED, http_port=0, grpc_port=0, interceptors=[Door()]) as server, All(server) as every:
        outcomes = await every.call(method, request, headers)
    assert [(o.fault.reason, o.fault.wire) for o in outcomes if o.fault] == [(reason, code) for code in codes]
    challenges = [{**o.headers, **o.trailing}.get("www-authenticate", "") for o in outcomes]
    assert all(c.startswith("Bearer") for c in challenges) == (reason == "UNAUTHENTICATED")
    assert lab.seen == []


CREDENTIALS = {
    "none": {},
    "empty": {"Authorization": ""},
    "another scheme": {"Authorization": "Basic YTpi"},
    "expired": {"Authorization": "Bearer expired"},
    "garbled": {"Authorization": "Bearer =)(&%$"},
    "scheme only": {"Authorization": "Bearer"},
}
PATHS = {name: (verb, path.replace("{id}", "P1").replace("{taskId}", "T1")) for name, (verb, path) in REST.items()}
FAULTY = {
    "no object": b'"x"',
    "nothing in it": b"{}",
    "wrong types": b'{"message": 7, "id": [], "taskId": {}, "url": false}',
    "no body": b"",
}
CHALLENGE = 'Bearer realm="Lab"'


def expiring(token: str) -> str | None:
    return "ann" if token == "good" else None


@pytest.mark.parametrize("credentials", CREDENTIALS)
async def test_br_57_every_operation_asks_for_credentials_first(credentials: str) -> None:
    """An unknown version and an empty request besides; streams are refused before they begin."""
    lab, headers = Lab(), CREDENTIALS[credentials]
    async with Server(lab, CAPABLE, http_port=0, grpc_port=0, interceptors=[Bearer(expiring)]) as server:
        async with All(server) as every:
            for method in METHODS:
                for more in ({}, {"A2A-Version": "9.9"}):
                    outcomes = await every.call(method, _named(method), {**headers, **more})
                    told = [(o.fault.reason, o.fault.wire, o.messages) for o in outcomes if o.fault]
                    assert told == [("UNAUTHENTICATED", code, []) for code in (16, -31401, 401)], method
                    assert [_challenge(o) for o in outcomes] == [CHALLENGE] * 3, method
                    assert [o.headers["content-type"] for o in outcomes[1:]] == ["application/json"] * 2, method
    assert lab.seen == []


def _named(method: str) -> dict[str, Any]:
    """A request that has what its path needs over HTTP+JSON, and no more."""
    return {name: "T1" for name in ("id", "taskId") if f"{{{name}}}" in REST[method][1]}


def _challenge(outcome: Outcome) -> str:
    return {**outcome.headers, **outcome.trailing}["www-authenticate"]


@pytest.mark.parametrize("credentials", CREDENTIALS)
@pytest.mark.parametrize("fault", FAULTY)
async def test_br_57_a_faulty_body_is_not_looked_at_without_credentials(fault: str, credentials: str) -> None:
    """What is no JSON comes first: requirement A-33."""
    lab, given = Lab(), {**JSON, **CREDENTIALS[credentials]}
    async with Server(lab, CAPABLE, http_port=0, grpc_port=0, interceptors=[Bearer(expiring)]) as server:
        async with aiohttp.ClientSession(server.http_url) as session:
            for method, (verb, path) in PATHS.items():
                async with session.request(verb, path, data=FAULTY[fault], headers=given) as response:
                    assert (response.status, response.headers["WWW-Authenticate"]) == (401, CHALLENGE), method
                    assert (await response.json())["error"]["status"] == "UNAUTHENTICATED"
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            for rpc in METHODS.values():
                metadata = tuple((key.lower(), value) for key, value in CREDENTIALS[credentials].items())
                shape = channel.unary_stream if rpc.streaming else channel.unary_unary
                call: Any = shape(rpc.path)(b"\xff" + FAULTY[fault], metadata=metadata, timeout=5)
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED, rpc.name
                assert ("www-authenticate", CHALLENGE) in [*await call.trailing_metadata()], rpc.name
    assert lab.seen == []


@pytest.mark.parametrize("params", ["x", [], 7, {"message": 7, "id": {}}, {}, None, {"message": {"parts": [{}]}}])
async def test_br_57_faulty_params_are_not_looked_at_without_credentials(params: Any) -> None:
    lab = Lab()
    async with Server(lab, CAPABLE, http_port=0, grpc_port=None, interceptors=[Bearer(expiring)]) as server:
        async with aiohttp.ClientSession() as session:
            for method in METHODS:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                async with session.post(server.http_url, json=body) as response:
                    assert (response.status, response.headers["WWW-Authenticate"]) == (401, CHALLENGE), method
                    told = await response.json()
                    assert (told["id"], told["error"]["code"]) == (1, -31401), method
    assert lab.seen == []


async def test_br_57_the_way_to_the_credentials_is_open() -> None:
    async with Server(Lab(), CAPABLE, http_port=0, grpc_port=0, interceptors=[Bearer(expiring)]) as server:
        async with aiohttp.ClientSession(server.http_url) as session:
            for path in ("/.well-known/agent-card.json", "/healthz", "/readyz"):
                async with session.get(path, headers=CREDENTIALS["expired"]) as response:
                    assert response.status == 200, path
            async with session.get("/.well-known/agent-card.json") as response:
                assert (await response.json())["securityRequirements"] == [{"schemes": {"bearer": {}}}]
        async with All(server) as every:
            good = await every.call("GetTask", {"id": "T1"}, {"Authorization": "Bearer good"})
    assert reasons(good) == ["OK"] * 3
