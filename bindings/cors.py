"""Cross-origin requests: pages of other origins that may call an agent from a browser."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

EXPOSED = "A2A-Extensions, Retry-After, WWW-Authenticate"
# Where a request keeps the headers that its response must have; a typed key where aiohttp knows them.
_HEADERS: Any = web.RequestKey("headers", dict) if hasattr(web, "RequestKey") else "a2a_grpc.headers"


def with_cors(answer: Handler, origins: Collection[str]) -> Handler:
    """The same handler, for browsers at these origins too; "*" is any."""
    if not origins:
        return answer

    async def cors(request: web.BaseRequest) -> web.StreamResponse:
        if "Origin" not in request.headers:
            return await answer(request)
        request[_HEADERS] = headers = _headers(request.headers["Origin"], origins)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return web.Response(status=204, headers=headers | _preflight(request))
        response = await answer(request)
        if not response.prepared:
            response.headers.update(headers)
        return response

    return cors


async def prepare(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """For what is sent before its handler returns."""
    response.headers.update(request.get(_HEADERS, {}))
    await response.prepare(request)


def _headers(origin: str, origins: Collection[str]) -> dict[str, str]:
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": EXPOSED}
    allowed = {"Access-Control-Allow-Origin": origin} if origin in origins else {}
    return {**allowed, "Vary": "Origin", "Access-Control-Expose-Headers": EXPOSED}


def _preflight(request: web.BaseRequest) -> dict[str, str]:
    return {
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": request.headers.get("Access-Control-Request-Headers", ""),
        "Access-Control-Max-Age": "600",
    }
