"""Where an agent is: every form of address that cards hold, read into one. Requirements X-GRPC-7, A-22."""

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from ..errors import quote

_TLS: dict[str, bool | None] = {"https": True, "grpcs": True, "http": False, "grpc": False, "dns": None, "": None}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SHAPE = "want host:port, https://…, http://…, grpc://…, grpcs://…, dns:///host:port or unix:path"


class Origin(NamedTuple):
    """Whom one talks to: what may be told to one origin may not be told to another."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


class Address(NamedTuple):
    """`target` is what a gRPC channel is opened with."""

    target: str
    origin: Origin

    @property
    def tls(self) -> bool:
        return self.origin.tls


def address(url: str, *, insecure: bool = False) -> Address:
    """Reads an address of any form. A path is dropped; without a port it is 443 with TLS, else 80.

    Where no scheme says so, TLS is used, unless the host is this machine or `insecure` is set. Raises ValueError that
    says what is wrong.
    """
    if url.startswith("unix:"):
        return Address(url, Origin(False, url, 0))
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme not in _TLS:
        raise _wrong(url, f"has the unknown scheme {quote(scheme)}")
    if scheme == "dns":
        return _dns(url, insecure)
    return _made(url, _split(url, url[found.end() :] if found else url), _TLS[scheme], insecure)


def origin(url: str, *, insecure: bool = False) -> Origin:
    return address(url, insecure=insecure).origin


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _dns(url: str, insecure: bool) -> Address:
    """`dns://[resolver]/host[:port]`: kept for the channel, whose resolver it names."""
    _, slash, rest = url[len("dns://") :].partition("/")
    if not slash:
        raise _wrong(url, "has two slashes where a name follows three")
    made = _made(url, _split(url, rest), None, insecure)
    resolver = url[: len(url) - len(rest)]
    return made._replace(target=resolver + made.target)


def _made(url: str, parts: SplitResult, tls: bool | None, insecure: bool) -> Address:
    host = (parts.hostname or "").lower()
    secure = tls if tls is not None else not (insecure or is_loopback(host))
    port = _port(url, parts) or (443 if secure else 80)
    shown = f"[{host}]" if ":" in host else host
    return Address(f"{shown}:{port}", Origin(secure, host, port))


def _split(url: str, rest: str) -> SplitResult:
    """The host and port of what follows a scheme."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if re.search(r"[\x00-\x20\x7f\\]", url):
        raise _wrong(url, "has spaces or control characters")
    if "@" in authority:
        raise _wrong(url, "holds a user name: give credentials apart from the address")
    if authority.count(":") > 1 and not authority.startswith("["):
        raise _wrong(url, "has an IPv6 address that needs brackets, such as [::1]:50051")
    try:
        parts = urlsplit(f"//{authority}")
    except ValueError:
        raise _wrong(url, "has a malformed IPv6 address") from None
    if not _is_host(parts.hostname or ""):
        raise _wrong(url, "names no host" if not parts.hostname else "names a host that cannot be")
    return parts


def _is_host(name: str) -> bool:
    try:
        return bool(name.encode("idna"))
    except UnicodeError:  # labels are 1 to 63 characters
        return False


def _port(url: str, parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError:
        raise _wrong(url, "has a port that is no number from 1 to 65535") from None
    if port == 0:
        raise _wrong(url, "has port 0, which nobody can call")
    return port


def _wrong(url: str, why: str) -> ValueError:
    """Without what stands before an "@": a user name, and its password."""
    shown = re.sub(r"^([\w+.-]+://)?.*@", r"\1…@", url, flags=re.DOTALL)
    return ValueError(f"the address {quote(shown)} {why}; {_SHAPE}")
