"""What the two HTTP bindings share: the call as aiohttp knows it, bodies within limits, headers, error details."""

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from aiohttp import ClientPayloadError, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

from ..context import QUERY, CallContext, Metadatum
from ..errors import A2AError, InvalidParamsError, TooLargeError, Violation, detail
from ..service_parameters import VERSION
from .protojson import to_dict

JSON = "application/json"
A2A_JSON = "application/a2a+json"
SSE = "text/event-stream"
# Where a request keeps headers that its response must have (CORS); a typed key where aiohttp knows them.
EXTRA_HEADERS: Any = web.RequestKey("headers", dict) if hasattr(web, "RequestKey") else "a2a_grpc.headers"
LARGE_RESPONSE = 64 * 1024  # bytes; a smaller one fits the socket's buffers and never waits for its reader

_HOP_BY_HOP = {"connection", "content-length", "content-type", "host", "keep-alive", "proxy-authenticate"}
_HOP_BY_HOP |= {"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_SNAKE = re.compile(r"_([a-z0-9])")


@dataclass(frozen=True)
class HttpLimits:
    """Sizes in bytes, times in seconds."""

    max_message: int  # as protobuf: one limit for all bindings
    max_body: int
    read_timeout: float
    write_timeout: float
    keepalive: float


class SlowBodyError(A2AError):
    reason, code, jsonrpc_code, http_status = "DEADLINE_EXCEEDED", 4, -32603, 408
    text = "The body of the request did not arrive in time"


class BodyError(A2AError):
    reason, code, jsonrpc_code, http_status = "INVALID_REQUEST", 3, -32600, 400
    text = "The body of the request could not be read: its length, chunks or Content-Encoding are not valid"


class HttpContext(CallContext):
    """The call of an HTTP request. Its headers are the metadata, names in lower case."""

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self._request = request
        self._metadata: tuple[Metadatum, ...] | None = None
        self._deadline = _deadline(request)

    def parameter(self, *names: str) -> list[str]:
        headers = self._request.headers
        values = [value for name in names if name in headers for value in headers.getall(name)]
        if not values and VERSION in names and self._request.query_string:
            return [value for key, value in self._request.query.items() if key.lower() == VERSION]
        return values

    def invocation_metadata(self) -> Any:
        if self._metadata is None:
            lower = [Metadatum(key.lower(), value) for key, value in self._request.headers.items()]
            self._metadata = tuple(m for m in lower if m.key not in _HOP_BY_HOP and not m.key.endswith("-bin"))
            if VERSION not in self._request.headers:
                self._metadata += tuple(Metadatum(VERSION, value) for value in self.parameter(VERSION))
            if self._request.query_string:
                self._metadata += (Metadatum(QUERY, self._request.rel_url.raw_query_string),)
        return self._metadata

    def peer(self) -> str:
        peer = self._request.transport and self._request.transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return "unix:"
        return f"ipv6:[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"ipv4:{peer[0]}:{peer[1]}"

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        transport = self._request.transport
        connection = transport and transport.get_extra_info("ssl_object")
        return _auth_context(connection) if connection else {"transport_security_type": [b"insecure"]}

    def time_remaining(self) -> float | None:  # type: ignore[override]
        return None if self._deadline is None else max(0.0, self._deadline - asyncio.get_running_loop().time())


async def read_body(request: web.BaseRequest, limits: HttpLimits) -> bytes:
    """The whole body. Raises TooLargeError before it is buffered, SlowBodyError where it stalls."""
    if (request.content_length or 0) > limits.max_body:
        raise _too_large(limits)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    if request.content.is_eof():
        return _within(request.content.read_nowait(), limits)
    try:
        async with asyncio.timeout(limits.read_timeout):
            return await _read_on(request, limits)
    except TimeoutError:
        raise SlowBodyError from None
    except (ClientPayloadError, HttpProcessingError, web.RequestPayloadError):
        raise BodyError from None


async def _read_on(request: web.BaseRequest, limits: HttpLimits) -> bytes:
    body = bytearray()
    while chunk := await request.content.readany():
        body += chunk
        if len(body) > limits.max_body:
            raise _too_large(limits)
    return bytes(body)


def _within(body: bytes, limits: HttpLimits) -> bytes:
    if len(body) > limits.max_body:
        raise _too_large(limits)
    return body


def check_size(message: Any, limits: HttpLimits) -> None:
    """Refuses what gRPC would not take either: numbers in JSON are smaller than as protobuf, bytes larger."""
    if isinstance(message, Message) and message.ByteSize() > limits.max_message:
        raise TooLargeError(f"The request is larger than {limits.max_message} bytes as a protobuf message")


def _too_large(limits: HttpLimits) -> TooLargeError:
    return TooLargeError(f"The body of the request is larger than {limits.max_body} bytes")


async def send(request: web.BaseRequest, response: web.Response, limits: HttpLimits) -> web.Response:
    """Sends a large response, whose reader may be slow; one that takes too long is cut off."""
    try:
        async with asyncio.timeout(limits.write_timeout):
            await prepare(request, response)
            await response.write_eof()
    except TimeoutError:
        if request.transport:
            request.transport.abort()
    return response


async def prepare(request: web.BaseRequest, response: web.StreamResponse) -> None:
    response.headers.update(request.get(EXTRA_HEADERS, {}))
    await response.prepare(request)


def media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Whether a request's Content-Type is one that may hold JSON; an absent one may."""
    kind = media_type(content_type)
    return not kind or kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def metadata_headers(metadata: Iterable[Metadatum]) -> dict[str, str]:
    """Metadata as response headers; binary and connection-level names are left out."""
    headers: dict[str, str] = {}
    for key, value in metadata:
        if (
            isinstance(value, str)
            and key not in _HOP_BY_HOP
            and not key.startswith("grpc-")
            and not key.endswith("-bin")
        ):
            name, clean = _header_name(key), _CONTROL.sub(" ", value)
            headers[name] = f"{headers[name]}, {clean}" if name in headers else clean
    return headers


def error_headers(status: Status, challenge: str) -> dict[str, str]:
    """What an error says in headers: a challenge for credentials, a time to try again."""
    headers = {"WWW-Authenticate": challenge} if status.code == 16 and challenge else {}
    if (retry := detail(status, RetryInfo)) is not None:
        headers["Retry-After"] = str(retry.retry_delay.seconds + bool(retry.retry_delay.nanos))
    return headers


def details_json(status: Status) -> list[Any]:
    """The details of a status in ProtoJSON; field paths in their JSON spelling."""
    if (bad := detail(status, BadRequest)) is not None:
        status = Status.FromString(status.SerializeToString())
        for violation in bad.field_violations:
            violation.field = _SNAKE.sub(lambda m: m[1].upper(), violation.field)
        for packed in status.details:
            if packed.Is(BadRequest.DESCRIPTOR):
                packed.Pack(bad)
    return [to_dict(packed) for packed in status.details]


def _header_name(key: str) -> str:
    return "-".join("A2A" if word == "a2a" else word.capitalize() for word in key.split("-"))


def _deadline(request: web.BaseRequest) -> float | None:
    given = request.headers.get("Grpc-Timeout")
    if given is None:
        return None
    found = _TIMEOUT.fullmatch(given.strip())
    if not found:
        raise InvalidParamsError(
            [Violation("grpc-timeout", "must be digits and a unit (H, M, S, m, u or n), such as 30S")]
        )
    return asyncio.get_running_loop().time() + int(found[1]) * _SECONDS[found[2]]


def _auth_context(connection: Any) -> dict[str, list[bytes]]:
    """The keys that gRPC gives for a TLS peer."""
    context = {"transport_security_type": [b"ssl"]}
    certificate = connection.getpeercert()
    if not certificate:
        return context
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    alternatives = [_alternative(kind, value) for kind, value in certificate.get("subjectAltName", ())]
    context["x509_common_name"] = [name.encode() for name in names[:1]] or [b""]
    context["x509_pem_cert"] = [ssl.DER_cert_to_PEM_cert(connection.getpeercert(True)).encode()]
    return {**context, **({"x509_subject_alternative_name": alternatives} if alternatives else {})}


def _alternative(kind: str, value: Any) -> bytes:
    """One subject alternative name, in the spelling of gRPC."""
    if kind not in ("DNS", "URI", "email", "IP Address"):
        return b"other types of SAN"
    return str(ip_address(value.strip()) if kind == "IP Address" else value).encode()
