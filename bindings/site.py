"""What answers HTTP requests: health, and below each agent's prefix its card and its two HTTP bindings."""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ..card import WELL_KNOWN_PATH
from ..errors import PathNotFoundError, VerbNotAllowedError
from .http import EXTRA_HEADERS
from .http_call import HttpCalls
from .jsonrpc import JsonRpcBinding
from .rest import DEFAULT, RestBinding

EXPOSED = "A2A-Extensions, Retry-After, WWW-Authenticate"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_FORWARDED = re.compile(r"https? (\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]+)? (/[\w.~-]+)*", re.ASCII)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
CardResponder = Callable[[str, Mapping[str, str], str | None], tuple[int, dict[str, str], bytes]]


@dataclass(frozen=True)
class AgentSite:
    """One agent below a prefix ("" or "/name"). `card` answers (verb, headers, forwarded base URL or None)."""

    prefix: str
    calls: HttpCalls
    jsonrpc: JsonRpcBinding | None
    rest: RestBinding | None
    card: CardResponder
    trusted_proxies: Sequence[Network] = ()
    own_paths: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_paths", frozenset((self.prefix, self.prefix + "/")))

    def owns(self, path: str) -> bool:
        return path in self.own_paths or path.startswith(self.prefix + "/")

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if self.jsonrpc and path in self.own_paths:
            return await self.jsonrpc(request) if request.method == "POST" else self._only("POST", request)
        relative = path[len(self.prefix) :]
        if relative == WELL_KNOWN_PATH:
            return self._card(request)
        return await self.rest(request, relative) if self.rest else self.calls.refusal(DEFAULT, PathNotFoundError())

    def _card(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return self._only("GET, HEAD", request)
        status, headers, body = self.card(request.method, request.headers, self._forwarded(request))
        return web.Response(status=status, headers=headers, body=body)

    def _only(self, verbs: str, request: web.BaseRequest) -> web.Response:
        error = VerbNotAllowedError(f"{request.method[:20]} is not allowed here; use {verbs}")
        response = self.calls.refusal(DEFAULT, error)
        response.headers["Allow"] = verbs
        return response

    def _forwarded(self, request: web.BaseRequest) -> str | None:
        """The URL by which a trusted proxy was called; None where there is none, or it is not trusted."""
        if not self.trusted_proxies or not _within(request.remote, self.trusted_proxies):
            return None
        scheme, host, prefix = (_last(request, f"X-Forwarded-{name}") for name in ("Proto", "Host", "Prefix"))
        scheme, prefix = scheme or request.scheme, prefix.rstrip("/")
        return f"{scheme}://{host}{prefix}" if _FORWARDED.fullmatch(f"{scheme} {host} {prefix}") else None


class Site:
    """All agents of one server, told apart by prefix."""

    def __init__(self, agents: Sequence[AgentSite], ready: Callable[[], bool]) -> None:
        self._agents = sorted(agents, key=lambda agent: -len(agent.prefix))
        self._ready = ready
        self._own = {"/healthz": self._health, "/readyz": self._readiness}

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = _path(request)
        if (own := self._own.get(path)) is not None:
            return own()
        for agent in self._agents:
            if agent.owns(path):
                return await agent.answer(request, path)
        return self._nothing(path)

    def _health(self) -> web.Response:
        return web.Response(text="ok\n")

    def _readiness(self) -> web.Response:
        return web.Response(text="ready\n") if self._ready() else web.Response(status=503, text="draining\n")

    def _nothing(self, path: str) -> web.Response:
        prefixes = ", ".join(sorted(agent.prefix for agent in self._agents))
        error = PathNotFoundError(f"{PathNotFoundError.text}; agents are served below {prefixes}")
        return self._agents[0].calls.refusal(DEFAULT, error)


def mount_paths(prefix: str) -> tuple[str, ...]:
    """The paths of the aiohttp routes that an agent below a prefix is mounted at."""
    return (prefix + "{a2a_path:(/.*)?}",) if prefix else ("", "/{a2a_path:.*}")


def mount_point(agent: AgentSite, cors: Sequence[str]) -> Handler:
    """The handler of an agent inside someone else's aiohttp application, or a sub-application of one."""

    async def answer(request: Any) -> web.StreamResponse:
        above = request.match_info.route.resource.canonical.partition("{a2a_path")[0].rstrip("/")
        return await agent.answer(request, agent.prefix + _path(request)[len(above) :])

    return with_cors(answer, cors)


def with_cors(answer: Handler, origins: Collection[str]) -> Handler:
    """The same handler, for browsers at these origins too; "*" is any."""
    if not origins:
        return answer

    async def cors(request: web.BaseRequest) -> web.StreamResponse:
        if "Origin" not in request.headers:
            return await answer(request)
        headers = _cors_headers(request.headers["Origin"], origins)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            return web.Response(status=204, headers=headers | _preflight(request))
        request[EXTRA_HEADERS] = headers
        response = await answer(request)
        if not response.prepared:
            response.headers.update(headers)
        return response

    return cors


def _cors_headers(origin: str, origins: Collection[str]) -> dict[str, str]:
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": EXPOSED}
    allowed = {"Access-Control-Allow-Origin": origin} if origin in origins else {}
    return {**allowed, "Vary": "Origin", "Access-Control-Expose-Headers": EXPOSED}


def _path(request: web.BaseRequest) -> str:
    """The path as it was sent, still percent-encoded."""
    raw = request.raw_path
    if not raw.startswith("/"):  # the absolute form, as proxies send it
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    return raw.partition("?")[0]


def _preflight(request: web.BaseRequest) -> dict[str, str]:
    asked = request.headers.get("Access-Control-Request-Headers", "")
    return {
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Allow-Headers": asked,
        "Access-Control-Max-Age": "600",
    }


def _last(request: web.BaseRequest, name: str) -> str:
    """What the nearest proxy said: it adds to the end of what it was sent."""
    return ",".join(request.headers.getall(name, ())).rpartition(",")[2].strip()


def _within(address: str | None, networks: Sequence[Network]) -> bool:
    try:
        return any(ipaddress.ip_address(address or "") in network for network in networks)
    except ValueError:
        return False
