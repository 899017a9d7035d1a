"""What answers HTTP requests: health, and below each agent's prefix its card and its two HTTP bindings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from ..card import WELL_KNOWN_PATH
from ..errors import PathNotFoundError
from .cors import Handler, with_cors
from .doors import INSTEAD
from .forwarded import Network, forwarded_url
from .http_call import HttpCalls, wrong_verb
from .http_context import sent_path
from .jsonrpc import JsonRpcBinding
from .rest import DEFAULT, RestBinding

OWN_PATHS = frozenset({"", "/"})  # of an agent, below its prefix
HEALTH = {"/healthz": "ok\n", "/readyz": "ready\n"}

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

    def owns(self, path: str) -> bool:
        return path == self.prefix or path.startswith(self.prefix + "/")

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        relative = path[len(self.prefix) :]
        if relative in OWN_PATHS and self.jsonrpc and request.method == "POST":
            return await self.jsonrpc(request)
        if relative == WELL_KNOWN_PATH:
            return self._card(request)
        if relative in OWN_PATHS or relative in INSTEAD or not self.rest:
            return self._guide(request, relative)
        return await self.rest(request, relative)

    def _card(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return self.calls.refusal(DEFAULT, wrong_verb(request, "GET, HEAD"))
        base = forwarded_url(request, self.trusted_proxies)
        status, headers, body = self.card(request.method, request.headers, base)
        return web.Response(status=status, headers=headers, body=body)

    def _guide(self, request: web.BaseRequest, relative: str) -> web.Response:
        guide = self.calls.doors.guide(relative, sent_path(request).removesuffix(relative))
        if relative in OWN_PATHS and self.jsonrpc:
            return self.calls.refusal(DEFAULT, wrong_verb(request, "POST", guide))
        return self.calls.refusal(DEFAULT, PathNotFoundError(f"{PathNotFoundError.text}. {guide}"))


class Site:
    """All agents of one server, told apart by prefix."""

    def __init__(self, agents: Sequence[AgentSite], ready: Callable[[], bool]) -> None:
        self._agents = sorted(agents, key=lambda agent: -len(agent.prefix))
        self._ready = ready

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = sent_path(request)
        if path in HEALTH:
            return self._health(path)
        for agent in self._agents:
            if agent.owns(path):
                return await agent.answer(request, path)
        return self._nothing()

    def _health(self, path: str) -> web.Response:
        if path == "/readyz" and not self._ready():
            return web.Response(status=503, text="draining\n")
        return web.Response(text=HEALTH[path])

    def _nothing(self) -> web.Response:
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
        return await agent.answer(request, agent.prefix + sent_path(request)[len(above) :])

    return with_cors(answer, cors)
