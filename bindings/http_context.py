"""The call of an HTTP request: its headers are the metadata, and the metadata of its answer become headers."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from ..context import QUERY, CallContext, Metadatum
from ..errors import DeadlineExceededError, InvalidParamsError, Violation
from ..service_parameters import VERSION
from .tls_peer import auth_context

_HOP_BY_HOP = {"connection", "content-length", "content-type", "host", "keep-alive", "proxy-authenticate"}
_HOP_BY_HOP |= {"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class HttpContext(CallContext):
    """The call as aiohttp knows it. Raises InvalidParamsError for a malformed `Grpc-Timeout`."""

    _deadline: float | None = None  # on the clock of the event loop
    _metadata: tuple[Metadatum, ...] | None = None

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self.request = request
        if (timeout := request.headers.get("Grpc-Timeout")) is not None:
            self._end_after(_seconds(timeout))

    def parameter(self, *names: str) -> list[str]:
        headers = self.request.headers
        values = [value for name in names if name in headers for value in headers.getall(name)]
        if not values and VERSION in names and self.request.query_string:
            return [value for key, value in self.request.query.items() if key.lower() == VERSION]
        return values

    def invocation_metadata(self) -> Any:
        """Names in lower case."""
        if self._metadata is None:
            lower = [Metadatum(key.lower(), value) for key, value in self.request.headers.items()]
            self._metadata = tuple(m for m in lower if _travels(m.key))
            if VERSION not in self.request.headers:
                self._metadata += tuple(Metadatum(VERSION, value) for value in self.parameter(VERSION))
            if self.request.query_string:
                self._metadata += (Metadatum(QUERY, self.request.rel_url.raw_query_string),)
        return self._metadata

    def peer(self) -> str:
        peer = self.request.transport and self.request.transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return "unix:"
        return f"ipv6:[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"ipv4:{peer[0]}:{peer[1]}"

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return auth_context(self.request.transport and self.request.transport.get_extra_info("ssl_object"))

    def time_remaining(self) -> float | None:  # type: ignore[override]
        return None if self._deadline is None else max(0.0, self._deadline - asyncio.get_running_loop().time())

    def response_headers(self, *, ended: bool = False) -> dict[str, str]:
        """What the agent and the framework have said so far; the trailing metadata too, once the call has ended."""
        said = self.echo + self.initial + (self.trailing if ended else ())
        return _headers(said) if said else {}

    def _end_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + seconds
        timer = loop.call_later(seconds, self.cancel_with, DeadlineExceededError())
        self.add_done_callback(lambda _: timer.cancel())


def sent_path(request: web.BaseRequest) -> str:
    """The path as it was sent, still percent-encoded."""
    raw = request.raw_path
    if not raw.startswith("/"):  # the absolute form, as proxies send it
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    return raw.partition("?")[0]


def _travels(key: str) -> bool:
    return key not in _HOP_BY_HOP and not key.endswith("-bin")


def _seconds(timeout: str) -> float:
    found = _TIMEOUT.fullmatch(timeout.strip())
    if not found:
        text = "must be digits and a unit (H, M, S, m, u or n), such as 30S"
        raise InvalidParamsError([Violation("grpc-timeout", text)])
    return int(found[1]) * _SECONDS[found[2]]


def _headers(metadata: Iterable[Metadatum]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in metadata:
        if isinstance(value, str) and _travels(key) and not key.startswith("grpc-"):
            name, clean = _header_name(key), _CONTROL.sub(" ", value)
            headers[name] = f"{headers[name]}, {clean}" if name in headers else clean
    return headers


def _header_name(key: str) -> str:
    return "-".join("A2A" if word == "a2a" else word.capitalize() for word in key.split("-"))
