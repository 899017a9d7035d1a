"""Every way a call can fail, told the same on every binding. Spec section 5.4, requirements 12 and A-32."""

import logging
from typing import Any

import grpc
import pytest
from lab import SECRET, Lab, artifact, card, send
from wires import All, Outcome

from a2a_grpc import Server, errors
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer

TABLE = [  # class, reason, gRPC code, HTTP status, JSON-RPC code: the specification's table
    ("TaskNotFoundError", "TASK_NOT_FOUND", "NOT_FOUND", 404, -32001),
    ("TaskNotCancelableError", "TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", 400, -32002),
    ("PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400, -32003),
    ("UnsupportedOperationError", "UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", 400, -32004),
    ("ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", 400, -32005),
    ("InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", "INTERNAL", 500, -32006),
    ("ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", 400, -32007),
    ("ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", 400, -32008),
    ("VersionNotSupportedError", "VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400, -32009),
    ("InvalidParamsError", "INVALID_PARAMS", "INVALID_ARGUMENT", 400, -32602),
    ("UnauthenticatedError", "UNAUTHENTICATED", "UNAUTHENTICATED", 401, -31401),
    ("PermissionDeniedError", "UNAUTHORIZED", "PERMISSION_DENIED", 403, -31403),
    ("ResourceExhaustedError", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", 429, -32603),
    ("UnavailableError", "UNAVAILABLE", "UNAVAILABLE", 503, -32603),
    ("DeadlineExceededError", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", 504, -32603),
    ("A2AError", "INTERNAL_ERROR", "INTERNAL", 500, -32603),
]
CODES = {  # a plain status: JSON-RPC code of A-32, and the canonical HTTP status
    "CANCELLED": (-32603, 499),
    "UNKNOWN": (-32603, 500),
    "INVALID_ARGUMENT": (-32602, 400),
    "DEADLINE_EXCEEDED": (-32603, 504),
    "NOT_FOUND": (-32603, 404),
    "ALREADY_EXISTS": (-32603, 409),
    "PERMISSION_DENIED": (-31403, 403),
    "RESOURCE_EXHAUSTED": (-32603, 429),
    "FAILED_PRECONDITION": (-32603, 400),
    "ABORTED": (-32603, 409),
    "OUT_OF_RANGE": (-32602, 400),
    "UNIMPLEMENTED": (-32601, 501),
    "INTERNAL": (-32603, 500),
    "UNAVAILABLE": (-32603, 503),
    "DATA_LOSS": (-32603, 500),
    "UNAUTHENTICATED": (-31401, 401),
}


async def faults(request: Any, method: str = "SendMessage", **options: Any) -> list[Outcome]:
    async with Server(Lab(), http_port=0, grpc_port=0, **options) as server, All(server) as every:
        return await every.call(method, request)


def check_same(
    outcomes: list[Outcome], reason: str, code: str, http: int, jsonrpc: int, domain: str = errors.DOMAIN
) -> None:
    found = [outcome.fault for outcome in outcomes]
    assert all(found), outcomes
    assert len({repr(fault.same) for fault in found if fault}) == 1, found
    by_grpc, by_jsonrpc, by_rest = (fault for fault in found if fault)
    assert (by_grpc.status, by_rest.status) == (code, code)
    assert (by_grpc.reason, by_grpc.domain) == (reason, domain)
    assert (by_jsonrpc.wire, by_rest.wire) == (jsonrpc, http)


@pytest.mark.parametrize(("name", "reason", "code", "http", "jsonrpc"), TABLE)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_row_of_the_table(name: str, reason: str, code: str, http: int, jsonrpc: int, method: str) -> None:
    prefix = ":" if method == "SendStreamingMessage" else ""
    outcomes = await faults(send(f"{prefix}raise {name}"), method)
    check_same(outcomes, reason, code, http, jsonrpc)
    assert all(outcome.messages == [] for outcome in outcomes)


def test_the_table_is_complete() -> None:
    told = {name for name, *_ in TABLE}
    http_only = {
        "PathNotFoundError",
        "VerbNotAllowedError",
        "TooLargeError",
        "MediaTypeError",
        "SlowBodyError",
        "BodyError",
    }
    envelope = {"ParseError", "InvalidRequestError", "MethodNotFoundError", "JsonSyntaxError"}
    client = "a2a_grpc.client"  # its own errors are never told by a server
    rows = [row for row in errors._rows(errors.A2AError) if not row.__module__.startswith(client)]
    assert {row.__name__ for row in rows} | {"A2AError"} <= told | http_only | envelope


@pytest.mark.parametrize("name", CODES)
async def test_abort_and_set_code_of_a_raw_servicer(name: str) -> None:
    jsonrpc, http = CODES[name]
    for way in ("abort", "set_code", "swallowed_abort"):
        outcomes = await faults(send(f"{way} {name}"))
        check_same(outcomes, name, name, http, jsonrpc)
        assert outcomes[0].fault
        assert name in outcomes[0].fault.message


async def test_abort_with_status_keeps_its_details() -> None:
    outcomes = await faults(send("abort_with_status QUOTA"))
    check_same(outcomes, "QUOTA", "FAILED_PRECONDITION", 400, -32603, domain="example.com")
    assert outcomes[0].fault
    assert outcomes[0].fault.metadata == {"k": "v"}


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_unexpected_exception_keeps_its_text(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """BR-28, X-ERR-5: the caller gets a reference, the log the whole story."""
    prefix = ":" if method == "SendStreamingMessage" else ""
    outcomes = await faults(send(f"{prefix}crash"), method)
    check_same(outcomes, "INTERNAL_ERROR", "INTERNAL", 500, -32603)
    assert not any("postgres" in repr(outcome) for outcome in outcomes)
    for outcome in outcomes:
        assert outcome.fault
        reference = outcome.fault.metadata["reference"]
        (record,) = [r for r in caplog.records if reference in r.getMessage()]
        assert record.exc_info
        assert SECRET in str(record.exc_info[1])
    assert {r.name for r in caplog.records if r.levelno >= logging.ERROR} == {"a2a_grpc"}


async def test_an_error_after_the_first_item_is_the_last_event() -> None:
    """X-ERR-7, BR-11."""
    outcomes = await faults(send("2:raise UnsupportedOperationError"), "SendStreamingMessage")
    check_same(outcomes, "UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", 400, -32004)
    assert all(outcome.messages == [artifact(0), artifact(1)] for outcome in outcomes)


@pytest.mark.parametrize("text", ["wrong_type", ":wrong_type"])
async def test_a_response_of_another_type_is_the_agents_mistake(text: str) -> None:
    method = "SendStreamingMessage" if text.startswith(":") else "SendMessage"
    check_same(await faults(send(text), method), "INVALID_AGENT_RESPONSE", "INTERNAL", 500, -32006)


async def test_a_method_that_the_servicer_does_not_implement() -> None:
    class Bare(A2AServiceServicer):
        card = card()

        async def ListTasks(self, request: Any, context: Any) -> Any: ...

    async with Server(Bare(), http_port=0, grpc_port=0) as server, All(server) as every:
        for method, request in (("SendMessage", send("hi")), ("GetTask", pb.GetTaskRequest(id="T1"))):
            check_same(await every.call(method, request), "UNIMPLEMENTED", "UNIMPLEMENTED", 501, -32601)


async def test_retry_info_becomes_retry_after() -> None:
    _, by_jsonrpc, by_rest = await faults(send("raise ResourceExhaustedError"))
    assert (by_jsonrpc.headers["retry-after"], by_rest.headers["retry-after"]) == ("1", "1")


async def test_missing_credentials_are_challenged() -> None:
    """X-ERR-4, BR-57."""
    secured = card()
    secured.security_schemes["bearer"].http_auth_security_scheme.scheme = "Bearer"
    async with Server(Lab(), secured, http_port=0, grpc_port=0) as server, All(server) as every:
        by_grpc, *by_http = await every.call("SendMessage", send("raise UnauthenticatedError"))
    assert by_grpc.trailing["www-authenticate"].startswith("Bearer")
    assert [outcome.headers["www-authenticate"] for outcome in by_http] == [by_grpc.trailing["www-authenticate"]] * 2


async def test_a_long_error_still_reaches_a_grpc_client() -> None:
    """The metadata of an answer is limited; the message is cut, never the call."""

    class Wordy(Lab):
        async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> Any:
            raise errors.TaskNotFoundError("ü" * 20_000, metadata={"taskId": "x" * 20_000})

    async with Server(Wordy(), http_port=0, grpc_port=0) as server, All(server) as every:
        outcome = await every.wires[0].call("GetTask", {"id": "T1"})
    assert outcome.fault
    assert (outcome.fault.status, outcome.fault.message[:3]) == ("NOT_FOUND", "üüü")


async def test_a_thousand_bad_parts_are_told_in_an_answer_that_fits() -> None:
    request = send("hi")
    request.message.parts.extend(pb.Part() for _ in range(1000))
    check_same(await faults(request), "INVALID_PARAMS", "INVALID_ARGUMENT", 400, -32602)


async def test_unknown_grpc_methods_and_services_teach() -> None:
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            for path, hint in (
                ("/lf.a2a.v1.A2AService/sendMessage", "SendMessage"),
                ("/a2a.v1.A2AService/GetTask", "lf.a2a.v1.A2AService"),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary(path)(b"", timeout=5)
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
                assert hint in (caught.value.details() or "")
