"""The JSON-RPC 2.0 binding: envelope → method → message, and the answer back into an envelope. Spec section 9."""

from collections.abc import Awaitable, Mapping
from typing import Any

from aiohttp import web
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from ..errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    Violation,
    jsonrpc_code,
    quote,
)
from ..inprocess import unknown_method
from ..methods import Method
from .doors import JSONRPC
from .http_body import JSON, is_json, read_body
from .http_call import Decoded, HttpCalls, decoded
from .http_context import sent_path
from .json_status import details
from .protojson import dumps, from_json, loads

OLD_NAMES = {  # method names of 0.3, and what they are called now
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/list": "ListTasks",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
HTTP_STATUS = {-31401: 401, -31403: 403}  # all else is answered with 200: clients discard what is not
TRANSPORT_LIMITS = (408, 413)
ID_TYPES = frozenset({str, int, float, type(None)})


class Envelope:
    """One request's id, and how its answer is written."""

    media_type = error_media_type = JSON

    _id = b"null"
    _head = b'{"jsonrpc":"2.0","id":null,"result":'

    def open(self, value: Any) -> tuple[str, Any]:
        """The method and params of a request object. Keeps its id first, for the errors that follow."""
        if not isinstance(value, dict):
            raise InvalidRequestError(_not_an_object(value))
        self._keep_id(value.get("id"))
        version, method = value.get("jsonrpc"), value.get("method")
        if version != "2.0":
            raise InvalidRequestError('The member "jsonrpc" must be "2.0"')
        if not isinstance(method, str):
            raise InvalidRequestError('The member "method" must be a string, such as "SendMessage"')
        return method, value.get("params")

    def result(self, json: bytes) -> bytes:
        return self._head + json + b"}"

    def error(self, status: Status, http_status: int | None = None) -> tuple[int, bytes]:
        code = jsonrpc_code(status)
        error = {"code": code, "message": status.message, "data": details(status)}
        body = b'{"jsonrpc":"2.0","id":' + self._id + b',"error":' + dumps(error) + b"}"
        return HTTP_STATUS.get(code) or (http_status if http_status in TRANSPORT_LIMITS else 200), body

    def _keep_id(self, id_: Any) -> None:
        if type(id_) not in ID_TYPES:
            raise InvalidRequestError('The member "id" must be a string, a number or null')
        self._id = dumps(id_)
        self._head = b'{"jsonrpc":"2.0","id":' + self._id + b',"result":'


class JsonRpcBinding:
    """Answers the POST requests of one agent."""

    def __init__(self, calls: HttpCalls, methods: Mapping[str, Method]) -> None:
        self._calls, self._methods = calls, methods
        calls.doors.served.append(JSONRPC)

    def __call__(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        envelope = Envelope()
        return self._calls.answer(request, envelope, self._decoded(request, envelope))

    async def _decoded(self, request: web.BaseRequest, envelope: Envelope) -> Decoded:
        body = await self._body(request)
        try:
            name, params = envelope.open(body)
        except InvalidRequestError as error:
            raise self._with_hint(error, request, body) from None
        method = self._methods.get(name)
        if method is None:
            raise self._unknown(name)
        return Decoded(method, decoded(_message, method, params), params)

    async def _body(self, request: web.BaseRequest) -> Any:
        if not is_json(request):
            given = quote(request.headers["Content-Type"])
            raise ContentTypeNotSupportedError(f"Content-Type {given} is not supported; send {JSON}")
        return loads(await read_body(request, self._calls.limits))

    def _with_hint(self, error: InvalidRequestError, request: web.BaseRequest, body: Any) -> InvalidRequestError:
        hint = self._calls.doors.of(body, sent_path(request).rstrip("/"), JSONRPC)
        return InvalidRequestError(f"{error.message}; {hint}") if hint else error

    def _unknown(self, name: str) -> MethodNotFoundError:
        if name in OLD_NAMES:
            return MethodNotFoundError(f"{name} is the 0.3 name of {OLD_NAMES[name]}, and this agent speaks 1.0")
        return unknown_method(name, self._methods)


def _message(method: Method, params: Any) -> Message:
    if params is not None and not isinstance(params, dict):
        raise InvalidParamsError([Violation("", "params must be an object")])
    return from_json(method.request, {} if params is None else params)


def _not_an_object(value: Any) -> str:
    if isinstance(value, list):
        return "Batches are not supported: send one request object at a time"
    return "The body must be a JSON-RPC request object"
