"""The HTTP+JSON binding: verb and path → method → message by the service's `google.api.http` rules. Spec section 11."""

from collections.abc import Awaitable
from functools import partial
from typing import Any

from aiohttp import web
from google.rpc.status_pb2 import Status

from ..errors import MediaTypeError, PathNotFoundError, code_name, quote
from ..errors import http_status as canonical_status
from .doors import HTTP_JSON
from .http_body import A2A_JSON, JSON, is_json, media_type, read_body
from .http_call import Decoded, HttpCalls, decoded, wrong_verb
from .http_context import sent_path
from .http_rule import Allowed, Router, bind, hint
from .json_status import details
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
            "details": details(status),
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
        calls.doors.served.append(HTTP_JSON)

    def __call__(self, request: web.BaseRequest, raw_path: str) -> Awaitable[web.StreamResponse]:
        answer = form(request.headers.get("Accept", ""))
        return self._calls.answer(request, answer, self._decoded(request, raw_path))

    async def _decoded(self, request: web.BaseRequest, raw_path: str) -> Decoded:
        match = self._router.match(request.method, raw_path)
        if match is None:
            raise self._unknown(request, raw_path)
        if isinstance(match, Allowed):
            raise wrong_verb(request, ", ".join(match.verbs))
        query = request.query.items() if request.query_string else ()
        body = await self._body(request) if match.binding.body else None
        elsewhere = partial(self._elsewhere, request, raw_path, body)
        return Decoded(match.binding.method, decoded(bind, *match, query, body), body, elsewhere)

    def _unknown(self, request: web.BaseRequest, raw_path: str) -> PathNotFoundError:
        meant = hint(self._router, request.method, raw_path)
        guide = self._calls.doors.guide(raw_path, sent_path(request).removesuffix(raw_path))
        return PathNotFoundError(PathNotFoundError.text + (f"; {meant}" if meant else f". {guide}"))

    def _elsewhere(self, request: web.BaseRequest, raw_path: str, body: Any) -> str:
        return self._calls.doors.of(body, sent_path(request).removesuffix(raw_path), HTTP_JSON)

    async def _body(self, request: web.BaseRequest) -> Any:
        if not request.body_exists:
            return None
        if not is_json(request):
            given = quote(request.headers["Content-Type"])
            raise MediaTypeError(f"Content-Type {given} is not supported; send {A2A_JSON}")
        body = await read_body(request, self._calls.limits)
        return loads(body) if body else None
