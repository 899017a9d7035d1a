"""The URL by which a proxy was called, where that proxy is trusted to say it."""

import ipaddress
import re
from collections.abc import Sequence

from aiohttp import web

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_URL = re.compile(r"https? (\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]+)? (/[\w.~-]+)*", re.ASCII)


def forwarded_url(request: web.BaseRequest, trusted: Sequence[Network]) -> str | None:
    """The base URL of the `X-Forwarded-…` headers; None where there is none, or the peer is not in `trusted`."""
    if not trusted or not _within(request.remote, trusted):
        return None
    scheme, host, prefix = (_last(request, f"X-Forwarded-{name}") for name in ("Proto", "Host", "Prefix"))
    scheme, prefix = scheme or request.scheme, prefix.rstrip("/")
    return f"{scheme}://{host}{prefix}" if _URL.fullmatch(f"{scheme} {host} {prefix}") else None


def _last(request: web.BaseRequest, name: str) -> str:
    """What the nearest proxy said: it adds to the end of what it was sent."""
    return ",".join(request.headers.getall(name, ())).rpartition(",")[2].strip()


def _within(address: str | None, networks: Sequence[Network]) -> bool:
    try:
        return any(ipaddress.ip_address(address or "") in network for network in networks)
    except ValueError:
        return False
