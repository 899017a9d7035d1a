"""Errors as values: from an exception to a Status, and from a Status to the codes of each binding."""

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from a2a_grpc import errors

OURS = [kind for kind in errors._rows(errors.A2AError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", OURS)
def test_every_kind_has_a_reason_a_text_and_codes(kind: type[errors.A2AError]) -> None:
    given = kind([]) if kind is errors.InvalidParamsError else kind()
    status = given.status()
    info = errors.error_info(status)
    assert info
    assert (info.reason, info.domain) == (kind.reason, "a2a-protocol.org")
    assert status.message == kind.text
    assert status.code in code_pb2.Code.values()
    assert status.code != 0
    assert errors.jsonrpc_code(status) == kind.jsonrpc_code


def test_reasons_that_share_a_name_share_their_code() -> None:
    codes: dict[str, set[int]] = {}
    for kind in OURS:
        codes.setdefault(kind.reason, set()).add(kind.jsonrpc_code)
    assert all(len(found) == 1 for found in codes.values()), codes


def test_every_grpc_code_has_an_http_status() -> None:
    assert {errors.http_status(code) for code in code_pb2.Code.values()} >= {
        200,
        400,
        401,
        403,
        404,
        409,
        429,
        499,
        500,
    }
    assert errors.http_status(99) == 500
    assert errors.code_name(99) == "UNKNOWN"


def test_violations_are_all_kept_and_some_told() -> None:
    given = errors.InvalidParamsError(errors.Violation(f"f[{i}]", "is odd") for i in range(50))
    bad = errors.detail(given.status(), BadRequest)
    assert bad
    assert len(given.violations) == 50
    assert len(bad.field_violations) == errors.MOST_VIOLATIONS
    assert given.message == "f[0]: is odd; f[1]: is odd; f[2]: is odd (and 47 more)"


def test_error_info_is_added_where_there_is_none_and_kept_where_there_is() -> None:
    plain = errors.with_error_info(Status(code=code_pb2.NOT_FOUND, message="x"))
    assert errors.error_info(plain) == ErrorInfo(reason="NOT_FOUND", domain=errors.DOMAIN)
    own = Status(code=code_pb2.NOT_FOUND)
    own.details.add().Pack(ErrorInfo(reason="MINE", domain="example.com"))
    assert errors.with_error_info(own) is own
    assert errors.jsonrpc_code(own) == -32603


def test_details_that_lie_about_their_type_are_not_read() -> None:
    lying = AnyMessage(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")
    assert errors.detail(Status(details=[lying]), ErrorInfo) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sendmessage", "SendMessage"),
        ("SendMesage", "SendMessage"),
        ("send_message", "SendMessage"),
        ("zzz", None),
        ("", None),
    ],
)
def test_nearest(name: str, expected: str | None) -> None:
    assert errors.nearest(name, ["GetTask", "SendMessage", "ListTasks"]) == expected


def test_quotes_are_short() -> None:
    assert errors.quote("x" * 1000) == f'"{"x" * 80}…"'
    assert errors.quote(7) == '"7"'
