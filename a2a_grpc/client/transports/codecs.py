"""How each HTTP binding writes a call and reads its answer: JSON-RPC (section 9) and HTTP+JSON (section 11)."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import Message

from ...bindings.http_rule import bindings, expand
from ...bindings.protojson import dumps, to_dict
from ...errors import InvalidAgentResponseError, InvalidParamsError, Violation
from ...methods import Method, methods
from ...validation import validator
from ..errors import Fault
from . import failures
from .tolerant import read


class Request(NamedTuple):
    verb: str
    url: str
    query: Sequence[tuple[str, str]]
    body: bytes | None


class Codec(Protocol):
    media_type: str
    accept: str

    def requests(self, method: Method, message: Message) -> Sequence[Request]:
        """The request; more than one are alternatives for servers that do not serve the first."""

    def message(self, method: Method, value: Any) -> Message:
        """The message of a response, or of one event. Raises what `failures.error` gives for an error."""

    def fault(self, value: Any, http_status: int) -> Fault | None:
        """The error that a response is; None where it is none of this binding's."""


class JsonRpc:
    media_type = "application/json"
    accept = "application/json, text/event-stream"

    def __init__(self, url: str) -> None:
        self._url, self._ids = url, count(1)

    def requests(self, method: Method, message: Message) -> Sequence[Request]:
        call = {"jsonrpc": "2.0", "id": next(self._ids), "method": method.name, "params": to_dict(message)}
        return [Request("POST", self._url, (), dumps(call))]

    def message(self, method: Method, value: Any) -> Message:
        if fault := self.fault(value, 200):
            raise failures.error(fault)
        result = value.get("result") if isinstance(value, dict) else None
        if result is None and method.response.DESCRIPTOR.fields:
            raise InvalidAgentResponseError("The agent answered with a JSON-RPC response that has no result")
        return read(method.response, result or {})

    def fault(self, value: Any, http_status: int) -> Fault | None:
        error = value.get("error") if isinstance(value, dict) else None
        return failures.of_jsonrpc(error, http_status) if isinstance(error, dict) else None


class Rest:
    media_type = "application/a2a+json"
    accept = "application/a2a+json, application/json, text/event-stream"

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._bindings = {m.name: tuple(bindings(m)) for m in methods().values()}

    def requests(self, method: Method, message: Message) -> Sequence[Request]:
        try:
            call = expand(self._bindings[method.name], message)
        except ValueError as error:
            missing = validator(method.request)(message)
            raise InvalidParamsError(missing or [Violation("", str(error))]) from None
        body = None if call.body is None else dumps(to_dict(call.body))
        request = Request(call.verb, self._url + call.path, call.query, body)
        if method.name == "SubscribeToTask":  # GET by the proto, POST by the text: BR-17
            return [request._replace(verb="POST", body=b"{}"), request._replace(verb="GET", body=None)]
        return [request]

    def message(self, method: Method, value: Any) -> Message:
        if fault := self.fault(value, 200):
            raise failures.error(fault)
        return read(method.response, {} if value is None else value)

    def fault(self, value: Any, http_status: int) -> Fault | None:
        error = value.get("error") if isinstance(value, dict) else None
        return failures.of_rest(error, _status(error, http_status)) if isinstance(error, dict) else None


def _status(error: Mapping[str, Any], http_status: int) -> int:
    """That of the response; an event of a stream says its own."""
    code = error.get("code")
    return code if http_status == 200 and type(code) is int else http_status
