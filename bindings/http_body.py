"""The body of an HTTP request: its media type, and the limits of its size and its time."""

import asyncio
from dataclasses import dataclass

from aiohttp import ClientPayloadError, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from google.protobuf.message import Message

from ..errors import A2AError, TooLargeError

JSON = "application/json"
A2A_JSON = "application/a2a+json"


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


def media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def is_json(request: web.BaseRequest) -> bool:
    """Whether the Content-Type is one that may hold JSON; an absent one may."""
    kind = media_type(request.headers.get("Content-Type", ""))
    return not kind or kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


async def read_body(request: web.BaseRequest, limits: HttpLimits) -> bytes:
    """The whole body. Raises TooLargeError before it is buffered, SlowBodyError where it stalls."""
    if (request.content_length or 0) <= limits.max_body:
        body = request.content.read_nowait() if request.content.is_eof() else await _arriving(request, limits)
        if len(body) <= limits.max_body:
            return body
    raise TooLargeError(f"The body of the request is larger than {limits.max_body} bytes")


async def _arriving(request: web.BaseRequest, limits: HttpLimits) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    try:
        async with asyncio.timeout(limits.read_timeout):
            return await _read_on(request, limits.max_body)
    except TimeoutError:
        raise SlowBodyError from None
    except (ClientPayloadError, HttpProcessingError, web.RequestPayloadError):
        raise BodyError from None


async def _read_on(request: web.BaseRequest, most: int) -> bytes:
    """To its end, or to where it is too large."""
    body = bytearray()
    while len(body) <= most and (chunk := await request.content.readany()):
        body += chunk
    return bytes(body)


def check_size(message: object, limits: HttpLimits) -> None:
    """Refuses what gRPC would not take either: numbers in JSON are smaller than as protobuf, bytes larger."""
    if isinstance(message, Message) and message.ByteSize() > limits.max_message:
        raise TooLargeError(f"The request is larger than {limits.max_message} bytes as a protobuf message")
