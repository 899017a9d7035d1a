"""The HTTP+JSON binding: verb and path → method → message by the service's `google.api.http` rules. Spec section 11."""

from typing import Any

from aiohttp import web
from google.rpc.status_pb2 import Status

from ..errors import (
    A2AError,
    InvalidParamsError,
    MediaTypeError,
    PathNotFoundError,
    VerbNotAllowedError,
    code_name,
    quote,
)
from ..errors import (
    http_status as canonical_status,
)
from ..handlers import Undecodable
from .http import A2A_JSON, JSON, HttpContext, check_size, details_json, is_json, media_type, read_body
from .http_call import HttpCalls
from .http_rule import Allowed, Match, Router, bind, hint
from .protojson import dumps, loads


class RestForm:
    """The media types that a request accepts: section 11.1, requirements A-3."""

    def __init__(self, media_type: str, error_media_type: str) -> None:
        self.media_type, self.error_media_type = media_type, error_media_type

    def result(self, json: bytes) -> bytes:
        return json

    def error(self, status: Status, http_status: int | None = None) -> tuple[int, bytes]:
        code = http_status or canonical_status(status.code)
        error = {
            "code": code,
            "status": code_name(status.code),
            "message": status.message,
            "details": details_json(status),
        }
        return code, dumps({"error": error})


DEFAULT = RestForm(A2A_JSON, JSON)
PLAIN = RestForm(JSON, JSON)
EXPLICIT = RestForm(A2A_JSON, A2A_JSON)


def form(accept: str) -> RestForm:
    if not accept or accept == "*/*":
        return DEFAULT
    accepted = {media_type(entry) for entry in accept.split(",")}
    if A2A_JSON in accepted:
        return EXPLICIT
    return PLAIN if JSON in accepted else DEFAULT


class RestBinding:
    """Answers the requests of one agent. `raw_path` is percent-encoded and relative to the agent's URL."""

    def __init__(self, calls: HttpCalls, router: Router) -> None:
        self._calls, self._router = calls, router

    async def __call__(self, request: web.BaseRequest, raw_path: str) -> web.StreamResponse:
        answer = form(request.headers.get("Accept", ""))
        match = self._router.match(request.method, raw_path)
        if not isinstance(match, Match):
            return self._unmatched(request, raw_path, match, answer)
        try:
            message = await self._message(request, match)
            check_size(message, self._calls.limits)
            context = HttpContext(request)
        except Exception as error:
            return self._calls.refusal(answer, error)
        return await self._calls.answer(request, match.binding.method, message, context, answer)

    async def _message(self, request: web.BaseRequest, match: Match) -> Any:
        body = await self._body(request) if match.binding.body else None
        try:
            return bind(match.binding, match.variables, request.query.items() if request.query_string else (), body)
        except InvalidParamsError as error:
            return Undecodable(error)

    async def _body(self, request: web.BaseRequest) -> Any:
        if not request.body_exists:
            return None
        content_type = request.headers.get("Content-Type", "")
        if not is_json(content_type):
            raise MediaTypeError(f"Content-Type {quote(content_type)} is not supported; send {A2A_JSON}")
        body = await read_body(request, self._calls.limits)
        return loads(body) if body else None

    def _unmatched(
        self, request: web.BaseRequest, raw_path: str, match: Allowed | None, answer: RestForm
    ) -> web.Response:
        if match is None:
            meant = hint(self._router, request.method, raw_path)
            text = PathNotFoundError.text + (f"; {meant}" if meant else "")
            return self._calls.refusal(answer, PathNotFoundError(text))
        verbs = ", ".join(match.verbs)
        error: A2AError = VerbNotAllowedError(f"{request.method[:20]} is not allowed here; use {verbs}")
        response = self._calls.refusal(answer, error)
        response.headers["Allow"] = verbs
        return response
