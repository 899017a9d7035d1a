"""WebhookReceiver: what a client does with the notifications of an agent. It knows no web framework; a handler does."""

import hashlib
import hmac
import inspect
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from google.protobuf import json_format

from .. import errors
from ..bindings.protojson import from_json, loads
from ..errors import A2AError, Violation
from ..generated import a2a_pb2 as pb
from .push_http import ID_HEADER, TOKEN_HEADERS

MAX_BODY = 8 * 1024 * 1024
KINDS = "task, message, statusUpdate, artifactUpdate"

OnEvent = Callable[[pb.StreamResponse], Awaitable[Any] | Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebhookReceiver:
    """Verifies, reads and deduplicates notifications. `token` and `credentials` ("Bearer abc") are those of the push
    notification config; where both are None, anybody is believed. `expects` tells whether a task is one's own.

    The last `remember` notifications are known again. Spec sections 4.3.3 and 13.2.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        credentials: str | None = None,
        remember: int = 10_000,
        expects: Callable[[str], bool] | None = None,
        max_age: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if token == "" or credentials == "":
            raise ValueError("token and credentials must not be empty; leave out what is not used")
        self._token = None if token is None else _bytes(token)
        self._credentials = None if credentials is None else _authorization(credentials)
        self._expects, self._remember, self._max_age, self._clock = expects, remember, max_age, clock
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def verify(self, headers: Mapping[str, str]) -> None:
        """Raises UnauthenticatedError. Comparing takes the same time wherever two secrets differ."""
        given = {name.lower(): value for name, value in headers.items()}
        tokens = [_bytes(given.get(name.lower(), "")) for name in TOKEN_HEADERS]
        if self._token is not None and not any(hmac.compare_digest(token, self._token) for token in tokens):
            raise errors.UnauthenticatedError("The notification token is missing or wrong")
        told = _authorization(given.get("authorization", ""))
        if self._credentials is not None and not hmac.compare_digest(told, self._credentials):
            raise errors.UnauthenticatedError("The Authorization header is missing or wrong")

    def accept(self, headers: Mapping[str, str], body: bytes) -> pb.StreamResponse | None:
        """The event of a notification; None for one that was accepted before.

        Raises UnauthenticatedError; ParseError or InvalidParamsError for a body that is not one StreamResponse; and
        TaskNotFoundError for an unexpected task.
        """
        self.verify(headers)
        event = _event(body)
        self._check(event)
        key = _key(headers, body, event)
        if key in self._seen:
            return None
        self._keep(key)
        return event

    def release(self, headers: Mapping[str, str], body: bytes) -> None:
        """Accepts a notification once more, as its event could not be processed: the agent will deliver it again."""
        self._seen.pop(_key(headers, body, _event(body)), None)

    def _check(self, event: pb.StreamResponse) -> None:
        task_id, status = _task_id(event), _status(event)
        if self._expects and not self._expects(task_id):
            raise errors.TaskNotFoundError(f"No notifications of task {errors.quote(task_id)} are expected here")
        age = self._clock() - status.timestamp.seconds
        if self._max_age is not None and status.HasField("timestamp") and age > self._max_age:
            text = f"is {age:.0f} seconds ago; at most {self._max_age:.0f} are taken"
            raise errors.InvalidParamsError([Violation("status.timestamp", text)])

    def _keep(self, key: bytes) -> None:
        if not key:
            return
        self._seen[key] = None
        while len(self._seen) > self._remember:
            self._seen.popitem(last=False)


def aiohttp_handler(receiver: WebhookReceiver, on_event: OnEvent, *, max_body: int = MAX_BODY) -> Handler:
    """A handler for `router.add_post`. It answers after `on_event`, which should only put the event where it is worked
    on: an agent waits a few seconds for the answer. Where `on_event` raises, the answer is 500, and the agent delivers
    the event again. Statuses: 204, 400, 401, 404 for an unexpected task, 413.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            receiver.verify(request.headers)  # before anything is read
            body = await _body(request, max_body)
            event = receiver.accept(request.headers, body)
        except A2AError as error:
            return _refusal(error)
        if event is not None:
            await _processed(receiver, on_event, event, request.headers, body)
        return web.Response(status=204)

    return handle


async def _processed(
    receiver: WebhookReceiver, on_event: OnEvent, event: pb.StreamResponse, headers: Mapping[str, str], body: bytes
) -> None:
    try:
        result = on_event(event)
        if inspect.isawaitable(result):
            await result
    except BaseException:
        receiver.release(headers, body)
        raise


async def _body(request: web.Request, most: int) -> bytes:
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > most:
            raise errors.TooLargeError(f"The notification is larger than {most} bytes")
    return bytes(body)


def _refusal(error: A2AError) -> web.Response:
    status = error.http_status or errors.http_status(error.code)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return web.Response(status=status, text=error.message, headers=headers)


def _event(body: bytes) -> pb.StreamResponse:
    value = loads(body)
    try:
        event = from_json(pb.StreamResponse, value)
    except errors.InvalidParamsError:
        lenient = _leniently(value)
        if lenient is None:
            raise
        event = lenient
    if event.WhichOneof("payload") is None:
        raise errors.InvalidParamsError([Violation("", f"the notification holds none of {KINDS}")])
    return event


def _leniently(value: Any) -> pb.StreamResponse | None:
    """What can be read of an event with enum values of a later version; they read as UNSPECIFIED."""
    try:
        return json_format.ParseDict(value, pb.StreamResponse(), ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _task_id(event: pb.StreamResponse) -> str:
    if event.HasField("task"):
        return event.task.id
    for update in (event.status_update, event.artifact_update, event.message):
        if update.task_id:
            return update.task_id
    return ""


def _status(event: pb.StreamResponse) -> pb.TaskStatus:
    return event.task.status if event.HasField("task") else event.status_update.status


def _key(headers: Mapping[str, str], body: bytes, event: pb.StreamResponse) -> bytes:
    """What tells a repeated delivery from a new event: the id that its sender gave it, else its bytes. Chunks that are
    appended have no key without an id, as two equal ones are two events."""
    id = next((value for name, value in headers.items() if name.lower() == ID_HEADER.lower()), "")
    if not id and event.artifact_update.append:
        return b""
    return hashlib.sha256(_bytes(id) + b"\0" + body).digest()


def _authorization(text: str) -> bytes:
    """Names of schemes are the same in upper and lower case."""
    scheme, space, credentials = text.partition(" ")
    return _bytes(scheme.lower() + space + credentials)


def _bytes(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
