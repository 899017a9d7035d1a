"""Errors, as each transport tells them, become the same exceptions. X-ERR-6."""

from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.struct_pb2 import Struct
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from a2a_grpc import errors
from a2a_grpc.bindings.json_status import details as json_details
from a2a_grpc.client.errors import RemoteError, retry_delay
from a2a_grpc.client.transports.failures import error, of_http, of_jsonrpc, of_rest, of_status
from a2a_grpc.errors import A2AError, InvalidParamsError, Violation, code_name, http_status, jsonrpc_code

KINDS = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, A2AError)]
FIRST_OF_REASON = {k.reason: k for k in reversed(KINDS)}


def each_way(status: Status) -> list[A2AError]:
    """The same error from gRPC, JSON-RPC and HTTP+JSON."""
    details = json_details(status)
    rpc = {"code": jsonrpc_code(status), "message": status.message, "data": details}
    rest = {"code": 1, "status": code_name(status.code), "message": status.message, "details": details}
    return [error(of_status(status)), error(of_jsonrpc(rpc)), error(of_rest(rest, http_status(status.code)))]


@pytest.mark.parametrize("kind", KINDS)
def test_each_class_comes_back(kind: type[A2AError]) -> None:
    raised = kind([Violation("a", "b")]) if kind is InvalidParamsError else kind()
    for read in each_way(raised.status()):
        assert type(read) is FIRST_OF_REASON[kind.reason]
        assert (read.message, read.reason) == (raised.message, kind.reason)


def test_metadata_violations_and_delays_come_back() -> None:
    for read in each_way(errors.TaskNotFoundError("gone", metadata={"taskId": "T"}).status()):
        assert (str(read), read.metadata, read.details) == ("gone", {"taskId": "T"}, ())
    for read in each_way(InvalidParamsError([Violation("a.b", "c"), Violation("d", "e")]).status()):
        assert isinstance(read, InvalidParamsError)
        assert read.violations == (("a.b", "c"), ("d", "e"))
        assert isinstance(read.details[0], BadRequest)
    for read in each_way(errors.ResourceExhaustedError(retry_after=7).status()):
        assert retry_delay(read) == 7.0
    assert retry_delay(ValueError()) == 0.0


def test_a_detail_that_cannot_be_read_is_passed_over() -> None:
    deep: Any = 1
    for _ in range(90):
        deep = [deep]
    for name in ("x", "type.googleapis.com/google.rpc.RetryInfo"):
        details = [{"@type": name, "a": deep, "retryDelay": "soon"}]
        body = {"code": -32001, "status": "NOT_FOUND", "message": "m", "details": details}
        for fault in (of_rest(body, 404), of_jsonrpc({**body, "data": details})):
            assert isinstance(error(fault), errors.TaskNotFoundError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (3, InvalidParamsError),
        (4, errors.DeadlineExceededError),
        (5, errors.TaskNotFoundError),
        (7, errors.PermissionDeniedError),
        (8, errors.ResourceExhaustedError),
        (9, RemoteError),
        (12, errors.MethodNotFoundError),
        (13, RemoteError),
        (14, errors.UnavailableError),
        (16, errors.UnauthenticatedError),
    ],
)
def test_a_raw_abort_is_known_by_its_code(code: int, kind: type[A2AError]) -> None:
    bare = Status(code=code, message="by hand")
    with_reason = errors.with_error_info(bare)
    assert type(error(of_status(bare))) is kind
    for read in each_way(with_reason):
        assert (type(read), read.message, read.code) == (kind, "by hand", code)


def test_an_unknown_reason_or_domain_is_kept() -> None:
    for reason, domain in (("OUT_OF_PAPER", "a2a-protocol.org"), ("TASK_NOT_FOUND", "example.com")):
        status = Status(code=5, message="m")
        status.details.add().Pack(ErrorInfo(reason=reason, domain=domain, metadata={"k": "v"}))
        for read in each_way(status):
            assert isinstance(read, RemoteError)
            assert (read.reason, read.domain, read.metadata) == (reason, domain, {"k": "v"})
            assert str(read) == f"m ({reason})"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"code": -32001, "message": "m"}, errors.TaskNotFoundError),
        ({"code": -32602, "message": "m", "data": "text"}, InvalidParamsError),
        ({"code": -32602, "message": "m", "data": {"@type": "x", "a": 1}}, InvalidParamsError),
        ({"code": -32603}, A2AError),
        ({"code": -31401}, errors.UnauthenticatedError),
        ({"code": -1, "message": "m"}, RemoteError),
        ({"code": "x", "message": 5}, RemoteError),
        ({}, RemoteError),
    ],
)
def test_jsonrpc_errors_of_others(value: Any, kind: type[A2AError]) -> None:
    assert type(error(of_jsonrpc(value))) is kind


def test_details_that_are_odd_do_no_harm() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": errors.DOMAIN}
    data = [
        5,
        None,
        {"no": "type"},
        {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": "?"},
        {**info, "metadata": {"n": 1}},
    ]
    read = error(of_jsonrpc({"code": -32603, "message": "m", "data": data}))
    assert type(read) is errors.TaskNotFoundError
    assert read.metadata == {"n": "1"}
    assert [type(d) for d in read.details] == [Struct, Struct]
    broken = AnyMessage(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")
    assert isinstance(error(of_status(Status(code=13, details=[broken]))), RemoteError)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, RemoteError),
        (400, RemoteError),
        (401, errors.UnauthenticatedError),
        (403, errors.PermissionDeniedError),
        (404, RemoteError),
        (413, errors.ResourceExhaustedError),
        (429, errors.ResourceExhaustedError),
        (500, RemoteError),
        (502, errors.UnavailableError),
        (503, errors.UnavailableError),
    ],
)
def test_responses_that_are_not_of_a2a(status: int, kind: type[A2AError]) -> None:
    read = error(of_http(status, b"<h1>No  way</h1>\n" + b"x" * 5000, {"Retry-After": "3", "Location": "https://b"}))
    assert type(read) is kind
    assert f"HTTP {status}" in read.message
    assert len(read.message) < 600
    assert [d for d in read.details if isinstance(d, RetryInfo)]
    if status == 302:
        assert "redirects to https://b" in read.message
