"""What a server's error becomes: the same classes that a server raises, on every transport. Requirements X-ERR-6."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from google.rpc import code_pb2, error_details_pb2
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from ... import errors
from ...bindings.protojson import from_json
from ...errors import DOMAIN, A2AError, InvalidParamsError, Violation, code_name
from ..errors import Fault, RemoteError

LONGEST_BODY = 500  # characters of a body that is no error of A2A's


def error(fault: Fault) -> A2AError:
    """By the reason of ErrorInfo first, then by code; RemoteError for what is neither."""
    kind = _kind(fault)
    if kind is None:
        return RemoteError(fault)
    made = kind.__new__(kind)
    A2AError.__init__(
        made, fault.message, metadata=dict(fault.info.metadata) if fault.info else {}, details=fault.details
    )
    made.received = True
    if isinstance(made, InvalidParamsError):
        made.violations = tuple(_violations(fault.details))
    return made


# Reading, from each transport


def of_status(status: Status) -> Fault:
    info, details = _told(_unpacked(status))
    return Fault(status.code, status.message or code_name(status.code), info, details)


def of_jsonrpc(value: Mapping[str, Any], http_status: int | None = None) -> Fault:
    """The member `error` of a JSON-RPC response."""
    number = value.get("code")
    jsonrpc_code = number if type(number) is int else None
    info, details = _told(_details(value.get("data")))
    kind = _OF_REASON.get(info.reason) if info else _OF_JSONRPC.get(jsonrpc_code or 0)
    code = kind.code if kind else _code(info.reason if info else "", code_pb2.UNKNOWN)
    return Fault(code, _message(value), info, details, jsonrpc_code, http_status)


def of_rest(value: Mapping[str, Any], http_status: int) -> Fault:
    """The member `error` of an HTTP+JSON response."""
    info, details = _told(_details(value.get("details")))
    code = _code(value.get("status"), _OF_HTTP.get(http_status, code_pb2.UNKNOWN))
    return Fault(code, _message(value), info, details, None, http_status)


def of_http(http_status: int, body: bytes, headers: Mapping[str, str]) -> Fault:
    """A response that is no error of A2A's: from a proxy, a redirect, another server."""
    text = " ".join(body[: 4 * LONGEST_BODY].decode("utf-8", "replace").split())[:LONGEST_BODY]
    message = f"HTTP {http_status}" + (f": {text}" if text else "")
    if 300 <= http_status < 400:
        where = without_query(headers.get("Location", "?"))
        message = f"HTTP {http_status}: redirects to {where}, and redirects are not followed"
    code = _OF_HTTP.get(http_status, code_pb2.UNKNOWN)
    return Fault(code, message, None, tuple(_retry_after(headers)), None, http_status)


def without_query(text: str) -> str:
    """A text whose URLs have lost their queries, which may hold an API key."""
    return re.sub(r"\?[^\s'\"]*", "?…", text) if "://" in text else text


# Tables


def _kinds() -> Iterator[type[A2AError]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, A2AError):
            yield kind


_OF_REASON: dict[str, type[A2AError]] = {}
_OF_JSONRPC: dict[int, type[A2AError]] = {}
for _each in _kinds():
    _OF_REASON.setdefault(_each.reason, _each)
    _OF_JSONRPC.setdefault(_each.jsonrpc_code, _each)

_OF_CODE: dict[int, type[A2AError]] = {
    code_pb2.INVALID_ARGUMENT: InvalidParamsError,
    code_pb2.NOT_FOUND: errors.TaskNotFoundError,
    code_pb2.UNAUTHENTICATED: errors.UnauthenticatedError,
    code_pb2.PERMISSION_DENIED: errors.PermissionDeniedError,
    code_pb2.RESOURCE_EXHAUSTED: errors.ResourceExhaustedError,
    code_pb2.UNIMPLEMENTED: errors.MethodNotFoundError,
    code_pb2.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    code_pb2.UNAVAILABLE: errors.UnavailableError,
}
_OF_HTTP: dict[int, int] = {
    401: code_pb2.UNAUTHENTICATED,
    403: code_pb2.PERMISSION_DENIED,
    413: code_pb2.RESOURCE_EXHAUSTED,
    429: code_pb2.RESOURCE_EXHAUSTED,
    502: code_pb2.UNAVAILABLE,
    503: code_pb2.UNAVAILABLE,
    504: code_pb2.UNAVAILABLE,
}
_DETAILS: dict[str, type[Message]] = {
    d.full_name: GetMessageClass(d) for d in error_details_pb2.DESCRIPTOR.message_types_by_name.values()
}


def _kind(fault: Fault) -> type[A2AError] | None:
    info = fault.info
    if info and info.domain == DOMAIN and info.reason in _OF_REASON:
        return _OF_REASON[info.reason]
    if info:
        return _OF_CODE.get(fault.code) if info.reason == code_name(fault.code) else None
    if fault.jsonrpc_code in _OF_JSONRPC:
        return _OF_JSONRPC[fault.jsonrpc_code]
    return _OF_CODE.get(fault.code)


# Details


def _code(name: Any, otherwise: int) -> int:
    return code_pb2.Code.Value(name) if name in code_pb2.Code.keys() else otherwise  # noqa: SIM118


def _message(value: Mapping[str, Any]) -> str:
    return str(value.get("message") or "the server gave no message")


def _told(details: Iterable[Message]) -> tuple[ErrorInfo | None, tuple[Message, ...]]:
    """ErrorInfo, and the rest."""
    all_of_them = list(details)
    info = next((d for d in all_of_them if isinstance(d, ErrorInfo)), None)
    return info, tuple(d for d in all_of_them if d is not info)


def _unpacked(status: Status) -> Iterator[Message]:
    for packed in status.details:
        kind = _DETAILS.get(packed.type_url.rpartition("/")[2])
        try:
            yield kind.FromString(packed.value) if kind else packed
        except DecodeError:
            yield packed


def _details(data: Any) -> Iterator[Message]:
    for value in data if isinstance(data, list) else [data]:
        if isinstance(value, dict):
            yield _detail({k: v for k, v in value.items() if k != "@type"}, str(value.get("@type", "")))


def _detail(value: dict[str, Any], type_url: str) -> Any:
    """A known detail as its message; anything else as a Struct."""
    name = type_url.rpartition("/")[2]
    if name == ErrorInfo.DESCRIPTOR.full_name:
        return _error_info(value)
    kind: type[Message] = _DETAILS.get(name, Struct)
    try:
        return from_json(kind, value)
    except InvalidParamsError:
        return Struct()


def _error_info(value: Mapping[str, Any]) -> ErrorInfo:
    metadata = value.get("metadata")
    pairs = metadata.items() if isinstance(metadata, dict) else ()
    told = {str(k): v if isinstance(v, str) else str(v) for k, v in pairs}
    return ErrorInfo(reason=str(value.get("reason", "")), domain=str(value.get("domain", "")), metadata=told)


def _violations(details: Sequence[Message]) -> Iterator[Violation]:
    for detail in details:
        if isinstance(detail, BadRequest):
            yield from (Violation(v.field, v.description) for v in detail.field_violations)


def _retry_after(headers: Mapping[str, str]) -> Iterator[Message]:
    seconds = headers.get("Retry-After", "")
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 7:
        made = RetryInfo()
        made.retry_delay.seconds = int(seconds)
        yield made
