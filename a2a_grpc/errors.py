"""Errors: one table of kinds, and one way from anything that went wrong to a `google.rpc.Status`.

A binding renders a Status; it never looks at an exception. The HTTP status of an error is the canonical one of its gRPC
code, except for the few that the HTTP layer itself raises, which carry `http_status`.
"""

import difflib
import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeGuard, TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

DOMAIN = "a2a-protocol.org"
MOST_VIOLATIONS = 16  # an error must fit the 8 KiB of metadata that gRPC clients accept
LONGEST_QUOTE = 80

M = TypeVar("M", bound=Message)

log = logging.getLogger("a2a_grpc")


class Violation(NamedTuple):
    """What is wrong with one field. `field` is a path of proto names, such as `message.parts[0]`."""

    field: str
    description: str


class A2AError(Exception):
    """An error that a caller may see. Raise a subclass, on any binding, at any moment of a call.

    `metadata` ends in `ErrorInfo.metadata`; `details` are further `google.rpc` messages. Spec sections 3.3.2 and 5.4.
    """

    reason: ClassVar[str] = "INTERNAL_ERROR"
    code: ClassVar[int] = code_pb2.INTERNAL
    jsonrpc_code: ClassVar[int] = -32603
    http_status: ClassVar[int | None] = None
    text: ClassVar[str] = "Internal error"
    received = False
    """Whether another agent has said it to the client here: no answer of one's own, unless it is raised anew."""

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        details: Sequence[Message] = (),
    ) -> None:
        super().__init__(message or self.text)
        self.message = message or self.text
        self.metadata = dict(metadata or {})
        self.details = tuple(details)

    def status(self) -> Status:
        return status(self.code, self.message, self.reason, self.metadata, self.details)


class TaskNotFoundError(A2AError):
    reason, code, jsonrpc_code = "TASK_NOT_FOUND", code_pb2.NOT_FOUND, -32001
    text = "Task not found"


class TaskNotCancelableError(A2AError):
    reason, code, jsonrpc_code = "TASK_NOT_CANCELABLE", code_pb2.FAILED_PRECONDITION, -32002
    text = "Task cannot be canceled"


class PushNotificationNotSupportedError(A2AError):
    reason, code, jsonrpc_code = "PUSH_NOTIFICATION_NOT_SUPPORTED", code_pb2.FAILED_PRECONDITION, -32003
    text = "This agent does not send push notifications"


class UnsupportedOperationError(A2AError):
    reason, code, jsonrpc_code = "UNSUPPORTED_OPERATION", code_pb2.FAILED_PRECONDITION, -32004
    text = "This operation is not supported"


class ContentTypeNotSupportedError(A2AError):
    reason, code, jsonrpc_code = "CONTENT_TYPE_NOT_SUPPORTED", code_pb2.INVALID_ARGUMENT, -32005
    text = "Content type not supported"


class InvalidAgentResponseError(A2AError):
    reason, code, jsonrpc_code = "INVALID_AGENT_RESPONSE", code_pb2.INTERNAL, -32006
    text = "The agent gave an invalid response"


class ExtendedAgentCardNotConfiguredError(A2AError):
    reason, code, jsonrpc_code = "EXTENDED_AGENT_CARD_NOT_CONFIGURED", code_pb2.FAILED_PRECONDITION, -32007
    text = "No extended agent card is configured"


class ExtensionSupportRequiredError(A2AError):
    reason, code, jsonrpc_code = "EXTENSION_SUPPORT_REQUIRED", code_pb2.FAILED_PRECONDITION, -32008
    text = "A required extension was not activated"


class VersionNotSupportedError(A2AError):
    reason, code, jsonrpc_code = "VERSION_NOT_SUPPORTED", code_pb2.FAILED_PRECONDITION, -32009
    text = "Protocol version not supported"


class ParseError(A2AError):
    reason, code, jsonrpc_code = "PARSE_ERROR", code_pb2.INVALID_ARGUMENT, -32700
    text = "The body is not JSON"


class InvalidRequestError(A2AError):
    reason, code, jsonrpc_code = "INVALID_REQUEST", code_pb2.INVALID_ARGUMENT, -32600
    text = "The body is not a JSON-RPC 2.0 request"


class MethodNotFoundError(A2AError):
    reason, code, jsonrpc_code = "METHOD_NOT_FOUND", code_pb2.UNIMPLEMENTED, -32601
    text = "Method not found"


class InvalidParamsError(A2AError):
    """Names every violation at once, as a `google.rpc.BadRequest`; at most 16 are spelled out."""

    reason, code, jsonrpc_code = "INVALID_PARAMS", code_pb2.INVALID_ARGUMENT, -32602
    text = "Invalid parameters"

    def __init__(self, violations: Iterable[Violation], message: str | None = None) -> None:
        self.violations = tuple(violations)
        told = self.violations[:MOST_VIOLATIONS]
        bad = BadRequest(
            field_violations=[BadRequest.FieldViolation(field=v.field, description=v.description) for v in told]
        )
        super().__init__(message or _summary(self.violations), details=[bad])


class UnauthenticatedError(A2AError):
    reason, code, jsonrpc_code = "UNAUTHENTICATED", code_pb2.UNAUTHENTICATED, -31401
    text = "Credentials are missing or not valid"


class PermissionDeniedError(A2AError):
    reason, code, jsonrpc_code = "UNAUTHORIZED", code_pb2.PERMISSION_DENIED, -31403
    text = "Not allowed"


class PathNotFoundError(A2AError):
    reason, code, jsonrpc_code = "METHOD_NOT_FOUND", code_pb2.NOT_FOUND, -32601
    text = "Nothing is served at this path"


class VerbNotAllowedError(A2AError):
    reason, code, jsonrpc_code, http_status = "METHOD_NOT_FOUND", code_pb2.UNIMPLEMENTED, -32601, 405
    text = "This path does not take this HTTP method"


class MediaTypeError(ContentTypeNotSupportedError):
    http_status = 415
    text = "The Content-Type of the request is not supported"


class ResourceExhaustedError(A2AError):
    """A limit is reached for now. `retry_after` (seconds) becomes `google.rpc.RetryInfo` and the header Retry-After."""

    reason, code, jsonrpc_code = "RESOURCE_EXHAUSTED", code_pb2.RESOURCE_EXHAUSTED, -32603
    text = "Too many requests"

    def __init__(self, message: str | None = None, *, retry_after: int = 1) -> None:
        super().__init__(message, details=[RetryInfo(retry_delay=Duration(seconds=retry_after))])


class TooLargeError(ResourceExhaustedError):
    """It will not do to try again."""

    reason, jsonrpc_code, http_status = "MESSAGE_TOO_LARGE", -32600, 413
    text = "The request is too large"

    def __init__(self, message: str | None = None) -> None:
        A2AError.__init__(self, message)


class DeadlineExceededError(A2AError):
    reason, code, jsonrpc_code = "DEADLINE_EXCEEDED", code_pb2.DEADLINE_EXCEEDED, -32603
    text = "The deadline of the call has passed"


class UnavailableError(A2AError):
    reason, code, jsonrpc_code = "UNAVAILABLE", code_pb2.UNAVAILABLE, -32603
    text = "The server is shutting down"


def _rows(kind: type[A2AError]) -> Iterator[type[A2AError]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _rows(sub)


_ROWS: list[type[A2AError]] = [A2AError, *_rows(A2AError)]
_JSONRPC_OF_REASON = {row.reason: row.jsonrpc_code for row in _ROWS}

_JSONRPC_OF_CODE = {
    code_pb2.INVALID_ARGUMENT: -32602,
    code_pb2.OUT_OF_RANGE: -32602,
    code_pb2.UNIMPLEMENTED: -32601,
    code_pb2.UNAUTHENTICATED: -31401,
    code_pb2.PERMISSION_DENIED: -31403,
}

_HTTP_OF_CODE = {
    code_pb2.OK: 200,
    code_pb2.CANCELLED: 499,
    code_pb2.UNKNOWN: 500,
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.DEADLINE_EXCEEDED: 504,
    code_pb2.NOT_FOUND: 404,
    code_pb2.ALREADY_EXISTS: 409,
    code_pb2.PERMISSION_DENIED: 403,
    code_pb2.RESOURCE_EXHAUSTED: 429,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.ABORTED: 409,
    code_pb2.OUT_OF_RANGE: 400,
    code_pb2.UNIMPLEMENTED: 501,
    code_pb2.INTERNAL: 500,
    code_pb2.UNAVAILABLE: 503,
    code_pb2.DATA_LOSS: 500,
    code_pb2.UNAUTHENTICATED: 401,
}


def status(
    code: int,
    message: str,
    reason: str | None = None,
    metadata: Mapping[str, str] | None = None,
    details: Iterable[Message] = (),
) -> Status:
    """A Status that carries ErrorInfo first; the reason is the code's name where none is given."""
    told = {key: _encodable(value) for key, value in (metadata or {}).items()}
    info = ErrorInfo(reason=reason or code_pb2.Code.Name(code), domain=DOMAIN, metadata=told)
    return Status(code=code, message=_encodable(message), details=[_packed(d) for d in (info, *details)])


def to_status(error: BaseException) -> Status:
    """What a caller is told of an exception. The text of an unexpected one stays in the log, under a reference id."""
    if is_told(error):
        return error.status()
    reference = secrets.token_hex(6)
    log.error("unexpected error, reference %s", reference, exc_info=error)
    return A2AError(f"Internal error. Reference: {reference}", metadata={"reference": reference}).status()


def is_told(error: BaseException) -> TypeGuard[A2AError]:
    """Whether an exception is an error that the caller may see."""
    return isinstance(error, A2AError) and not error.received


def with_error_info(given: Status) -> Status:
    """The same status, with ErrorInfo where it carries none (a raw servicer's `context.abort`)."""
    if error_info(given) is not None:
        return given
    return status(given.code, given.message, details=given.details)


def error_info(given: Status) -> ErrorInfo | None:
    return detail(given, ErrorInfo)


def detail(given: Status, kind: type[M]) -> M | None:
    """The first detail of a kind; None where there is none, or where its bytes are not of that kind."""
    for packed in given.details:
        if packed.Is(kind.DESCRIPTOR):
            try:
                return kind.FromString(packed.value)
            except DecodeError:
                return None
    return None


def jsonrpc_code(given: Status) -> int:
    info = error_info(given)
    own = _JSONRPC_OF_REASON.get(info.reason) if info and info.domain == DOMAIN else None
    return own or _JSONRPC_OF_CODE.get(given.code, A2AError.jsonrpc_code)


def http_status(code: int) -> int:
    return _HTTP_OF_CODE.get(code, 500)


def code_name(code: int) -> str:
    return code_pb2.Code.Name(code) if code in _HTTP_OF_CODE else "UNKNOWN"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that was probably meant: same letters first, then the closest spelling."""
    folded = {n.lower().replace("_", ""): n for n in names}
    wanted = name.lower().replace("_", "")[:LONGEST_QUOTE]
    close = difflib.get_close_matches(wanted, folded, 1, 0.6)
    return folded[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """The nearest right name as a question; `otherwise` where none is near."""
    near = nearest(name, names)
    return f"did you mean {near}?" if near else otherwise


def quote(value: object) -> str:
    """A value from outside, for an error text: as JSON would show it, and short."""
    text = str(value)
    return f'"{text}"' if len(text) <= LONGEST_QUOTE else f'"{text[:LONGEST_QUOTE]}…"'


def listed(violations: Iterable[Violation]) -> str:
    """Each on a line of its own."""
    return "".join(f"\n  {v.field}: {v.description}" for v in violations)


def _encodable(text: str) -> str:
    """Header values that are not UTF-8 come with half surrogates, which neither protobuf nor JSON can write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _summary(violations: Sequence[Violation]) -> str:
    if not violations:
        return InvalidParamsError.text
    first = "; ".join(f"{v.field}: {v.description}" if v.field else v.description for v in violations[:3])
    more = f" (and {len(violations) - 3} more)" if len(violations) > 3 else ""
    return first + more


def _packed(message: Message) -> AnyMessage:
    if isinstance(message, AnyMessage):
        return message
    packed = AnyMessage()
    packed.Pack(message)
    return packed
