"""One call over HTTP, for either binding: from the in-process server to a response or an SSE stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Protocol

from aiohttp import web
from google.rpc.status_pb2 import Status

from ..context import CallContext
from ..encoded import json
from ..errors import A2AError, DeadlineExceededError, to_status
from ..inprocess import InProcessServer
from ..methods import Method
from .event_stream import EventStream
from .http import LARGE_RESPONSE, HttpContext, HttpLimits, error_headers, metadata_headers, send
from .sse import error_frame, frame


class Form(Protocol):
    """How one binding writes the answer to one request."""

    media_type: str
    error_media_type: str

    def result(self, json: bytes) -> bytes: ...

    def error(self, status: Status, http_status: int | None = None) -> tuple[int, bytes]:
        """The HTTP status and the body."""


class HttpCalls:
    """Makes the calls of one agent."""

    def __init__(self, server: InProcessServer, limits: HttpLimits, challenge: str) -> None:
        self._server, self.limits, self._challenge = server, limits, challenge

    async def answer(
        self, request: web.BaseRequest, method: Method, message: object, context: HttpContext, form: Form
    ) -> web.StreamResponse:
        deadline = _deadline(context)
        try:
            respond = self._stream if method.streaming else self._unary
            return await respond(request, method, message, context, form)
        except (Exception, asyncio.CancelledError) as error:
            return self.failure(
                form, context.status_of(error), metadata_headers((*context.echo, *context.initial, *context.trailing))
            )
        finally:
            if deadline:
                deadline.cancel()

    def refusal(self, form: Form, error: Exception) -> web.Response:
        """The answer to a request that never became a call."""
        return self.failure(form, to_status(error), {}, error.http_status if isinstance(error, A2AError) else None)

    def failure(
        self, form: Form, status: Status, headers: dict[str, str], http_status: int | None = None
    ) -> web.Response:
        code, body = form.error(status, http_status)
        headers = {**headers, **error_headers(status, self._challenge), "Content-Type": form.error_media_type}
        return web.Response(status=code, body=body, headers=headers)

    async def _unary(
        self, request: web.BaseRequest, method: Method, message: object, context: HttpContext, form: Form
    ) -> web.StreamResponse:
        body = form.result(json(await self._server.unary(method, message, context)))
        headers = {"Content-Type": form.media_type}
        if request.method == "GET":  # what one caller is answered is not for the next; section 9, X-CARD-5
            headers["Cache-Control"] = "private, no-store"
        if context.echo or context.initial or context.trailing:
            headers |= metadata_headers((*context.echo, *context.initial, *context.trailing))
        response = web.Response(body=body, headers=headers)
        return response if len(body) < LARGE_RESPONSE else await send(request, response, self.limits)

    async def _stream(
        self, request: web.BaseRequest, method: Method, message: object, context: HttpContext, form: Form
    ) -> web.StreamResponse:
        async with aclosing(self._server.stream(method, message, context)) as responses:
            first = await anext(responses, None)
            async with EventStream(request, context, _headers(context), self.limits) as events:
                try:
                    if first is not None:
                        await events.write(frame(form.result(json(first))))
                    await _copy(responses, events, form)
                except ConnectionError:
                    pass  # the client has gone
                except (Exception, asyncio.CancelledError) as error:
                    _, body = form.error(context.status_of(error))
                    await events.write_last(error_frame(body))
                return events.response


async def _copy(responses: AsyncIterator[object], events: EventStream, form: Form) -> None:
    async for response in responses:
        await events.write(frame(form.result(json(response))))


def _headers(context: CallContext) -> dict[str, str]:
    return metadata_headers((*context.echo, *context.initial)) if context.echo or context.initial else {}


def _deadline(context: HttpContext) -> asyncio.TimerHandle | None:
    remaining = context.time_remaining()
    if remaining is None:
        return None
    return asyncio.get_running_loop().call_later(remaining, context.cancel_with, DeadlineExceededError())
