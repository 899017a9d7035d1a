"""One call over HTTP, for either binding: from the in-process server to a response or an SSE stream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from aiohttp import web
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from ..encoded import json
from ..errors import A2AError, InvalidParamsError, VerbNotAllowedError, detail, to_status
from ..handlers import Undecodable
from ..inprocess import InProcessServer
from ..methods import Method
from .cors import prepare
from .doors import Doors
from .event_stream import EventStream, end
from .http_body import HttpLimits, check_size
from .http_context import HttpContext
from .json_status import in_json
from .protojson.fields import descriptor
from .sse import error_frame, frame

LARGE_RESPONSE = 64 * 1024  # bytes; a smaller one fits the socket's buffers and never waits for its reader


class Form(Protocol):
    """How one binding writes the answer to one request."""

    media_type: str
    error_media_type: str

    def result(self, json: bytes) -> bytes: ...

    def error(self, status: Status, http_status: int | None = None) -> tuple[int, bytes]:
        """The HTTP status and the body."""


class Decoded(NamedTuple):
    """A request as its binding understands it: an RPC, its message, and the JSON from which that was `decoded`.

    What `hint` says is told with what is wrong with the message.
    """

    method: Method
    message: Any
    json: Any
    hint: Callable[[], str] = str  # which says nothing


def decoded(read: Callable[..., Message], *arguments: Any) -> Any:
    """The message that is read. One that cannot be is refused by the call, after wrong credentials."""
    try:
        return read(*arguments)
    except InvalidParamsError as error:
        return Undecodable(error)


class HttpCalls:
    """Makes the calls of one agent."""

    def __init__(self, server: InProcessServer, limits: HttpLimits, challenge: str) -> None:
        self._server, self.limits, self._challenge = server, limits, challenge
        self.doors = Doors()

    async def answer(self, request: web.BaseRequest, form: Form, decoding: Awaitable[Decoded]) -> web.StreamResponse:
        """The answer to a request, which may never become a call."""
        try:
            method, message, value, hint = await decoding
            check_size(message, self.limits)
            context = HttpContext(request)
        except Exception as error:
            return self.refusal(form, error)
        try:
            respond = self._stream if method.streaming else self._unary
            return await respond(method, message, context, form)
        except (Exception, asyncio.CancelledError) as error:
            status = in_json(context.status_of(error), descriptor(method.request), value, hint())
            return self._failure(form, status, context.response_headers(ended=True))

    def refusal(self, form: Form, error: Exception) -> web.Response:
        """The answer to a request that is no call."""
        allowed = error.metadata.get("allow") if isinstance(error, VerbNotAllowedError) else None
        http_status = error.http_status if isinstance(error, A2AError) else None
        return self._failure(form, in_json(to_status(error)), {"Allow": allowed} if allowed else {}, http_status)

    def _failure(
        self, form: Form, status: Status, headers: dict[str, str], http_status: int | None = None
    ) -> web.Response:
        code, body = form.error(status, http_status)
        headers |= {**_error_headers(status, self._challenge), "Content-Type": form.error_media_type}
        return web.Response(status=code, body=body, headers=headers)

    async def _unary(self, method: Method, message: object, context: HttpContext, form: Form) -> web.StreamResponse:
        body = form.result(json(await self._server.unary(method, message, context)))
        headers = {"Content-Type": form.media_type}
        if context.request.method == "GET":  # what one caller is answered is not for the next; section 9, X-CARD-5
            headers["Cache-Control"] = "private, no-store"
        headers |= context.response_headers(ended=True)
        response = web.Response(body=body, headers=headers)
        if len(body) >= LARGE_RESPONSE:
            await prepare(context.request, response)
            await end(context.request, response, self.limits.write_timeout)
        return response

    async def _stream(self, method: Method, message: object, context: HttpContext, form: Form) -> web.StreamResponse:
        async with aclosing(self._server.stream(method, message, context)) as responses:
            first = await anext(responses, None)
            async with EventStream(context, self.limits) as events:
                try:
                    if first is not None:
                        await events.write(frame(form.result(json(first))))
                    await _copy(responses, events, form)
                except ConnectionError:
                    pass  # the client has gone
                except (Exception, asyncio.CancelledError) as error:
                    _, body = form.error(in_json(context.status_of(error)))
                    await events.write_last(error_frame(body))
                return events.response


async def _copy(responses: AsyncIterator[object], events: EventStream, form: Form) -> None:
    async for response in responses:
        await events.write(frame(form.result(json(response))))


def wrong_verb(request: web.BaseRequest, allowed: str, more: str = "") -> VerbNotAllowedError:
    text = f"{request.method[:20]} is not allowed here; use {allowed}"
    return VerbNotAllowedError(f"{text}. {more}" if more else text, metadata={"allow": allowed})


def _error_headers(status: Status, challenge: str) -> dict[str, str]:
    """What an error says in headers: a challenge for credentials, a time to try again."""
    headers = {"WWW-Authenticate": challenge} if status.code == 16 and challenge else {}
    if (retry := detail(status, RetryInfo)) is not None:
        headers["Retry-After"] = str(retry.retry_delay.seconds + bool(retry.retry_delay.nanos))
    return headers
