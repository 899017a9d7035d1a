"""Which webhooks may be called, and what may stand in their headers. Pure: no name is looked up here.

A configuration is judged when it is created, without DNS. Every address is judged again when it is dialled, so that a
name cannot come to mean something else in between.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from ..errors import Violation, quote
from ..generated import a2a_pb2 as pb

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LONGEST = 8000  # characters of a URL or header value: what HTTP servers take
SCHEMES = ("https", "http")
_URL = re.compile(r"[!-\[\]-~]*")  # visible ASCII without the backslash, which readers understand differently
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_SPECIAL = [
    # networks that are not the public Internet, and what they are; the first that fits gives the name
    (ipaddress.ip_network(network), kind) for network, kind in {
        "0.0.0.0/8": "an unspecified",
        "10.0.0.0/8": "a private",
        "100.64.0.0/10": "a shared (carrier)",
        "127.0.0.0/8": "a loopback",
        "169.254.0.0/16": "a link-local",
        "172.16.0.0/12": "a private",
        "192.0.0.0/24": "a reserved",
        "192.0.2.0/24": "a documentation",
        "192.88.99.0/24": "a reserved",
        "192.168.0.0/16": "a private",
        "198.18.0.0/15": "a benchmarking",
        "198.51.100.0/24": "a documentation",
        "203.0.113.0/24": "a documentation",
        "224.0.0.0/4": "a multicast",
        "240.0.0.0/4": "a reserved",
        "::/128": "an unspecified",
        "::1/128": "a loopback",
        "::ffff:0:0/96": "an IPv4-mapped",
        "64:ff9b::/96": "an address translation (NAT64)",
        "64:ff9b:1::/48": "an address translation (NAT64)",
        "fc00::/7": "a private",
        "fe80::/10": "a link-local",
        "fec0::/10": "a site-local",
        "ff00::/8": "a multicast",
        "2001:db8::/32": "a documentation",
        "3fff::/20": "a documentation",
        "2001:2::/48": "a benchmarking",
        "2001::/23": "a reserved",
        "2002::/16": "an address translation (6to4)",
        "::/3": "a reserved",  # with the next two: all that is not global unicast, 2000::/3
        "4000::/2": "a reserved",
        "8000::/1": "a reserved",
    }.items()
]  # fmt: skip
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, kw_only=True)
class PushPolicy:
    """What a server permits. As it stands: https to public addresses, whatever their names.

    `allow` narrows this to the hosts that it holds (lower case, without port) or says yes to; it does not open private
    addresses. `allow_http` and `allow_private` are for development and for networks of one's own.
    """

    allow_http: bool = False
    allow_private: bool = False
    allow: Callable[[str], bool] | Collection[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.allow, str):
            raise TypeError(f"allow must be a collection of hosts or a function, not the text {quote(self.allow)}")

    def violations(self, config: pb.TaskPushNotificationConfig, path: str = "") -> list[Violation]:
        """What is wrong with a configuration, by field. `path` stands before each name, its dot included.

        Texts hold no credentials, no token, and of the URL the scheme and host only.
        """
        faults = {
            "url": self._url_fault(config.url),
            "token": _value_fault(config.token),
            "authentication.scheme": _scheme_fault(config.authentication.scheme),
            "authentication.credentials": _value_fault(config.authentication.credentials),
        }
        return [Violation(path + field, fault) for field, fault in faults.items() if fault]

    def allows_address(self, address: str) -> bool:
        """Whether an address may be dialled: the numbers that a name resolved to."""
        if self.allow_private:
            return True
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return not _special(_inner(found))

    def _url_fault(self, url: str) -> str:
        if not url:
            return "is required"
        if len(url) > LONGEST:
            return f"has {len(url)} characters; at most {LONGEST} are taken"
        if not _URL.fullmatch(url):
            return "holds a character that URLs do not have; percent-encode it, or write the host in its xn-- form"
        try:
            parts = urlsplit(url)
            return self._scheme_fault(parts.scheme) or _authority_fault(parts) or self._host_fault(parts.hostname or "")
        except ValueError:
            return "is not a URL; write it like https://example.com/path"

    def _scheme_fault(self, scheme: str) -> str:
        if scheme not in SCHEMES:
            return f"must begin with https://, not with {quote(scheme)}" if scheme else "must begin with https://"
        return (
            "must begin with https://; http is not permitted here" if scheme == "http" and not self.allow_http else ""
        )

    def _host_fault(self, host: str) -> str:
        name = host.removesuffix(".")
        address = _address(name)
        if address is None and not _is_name(name):
            return f"{quote(host)} is neither a host name nor an IP address"
        fault = "" if self.allow_private else _private_fault(name, address)
        if fault:
            return f"{quote(host)} is {fault}; a webhook must be at a public one"
        if isinstance(address, ipaddress.IPv4Address) and str(address) != host:
            return f"write the address {quote(host)} as {address}"
        return "" if self._allows_host(name) else f"the host {quote(host)} is not one that webhooks may be at"

    def _allows_host(self, host: str) -> bool:
        if self.allow is None:
            return True
        return host in self.allow if isinstance(self.allow, Collection) else self.allow(host)


def _authority_fault(parts: SplitResult) -> str:
    if "@" in parts.netloc:
        return "must not hold a user name or password; give them as authentication"
    if not parts.hostname or ("[" in parts.netloc) != (":" in parts.hostname):
        return "names no host; write it like https://example.com/path"
    return "" if parts.port is None or parts.port > 0 else "port 0 cannot be called"


def _is_name(name: str) -> bool:
    """Readers take a name that ends in a number for an address."""
    return bool(_NAME.fullmatch(name)) and not _NUMBER.fullmatch(name.rpartition(".")[2])


def _address(host: str) -> Address | None:
    """The address that a host is, in any spelling that resolvers understand: decimal, octal, hexadecimal, short."""
    try:
        return ipaddress.IPv6Address(host) if ":" in host else ipaddress.IPv4Address(socket.inet_aton(host))
    except (ValueError, OSError):
        return None


def _private_fault(name: str, address: Address | None) -> str:
    if address is not None:
        kind = _special(address)
        return f"{kind} address" if kind else ""
    return "a name of this machine" if name == "localhost" or name.endswith(".localhost") else ""


def _special(address: Address) -> str:
    return next((kind for network, kind in _SPECIAL if address in network), "")


def _inner(address: Address) -> Address:
    """The IPv4 address in an IPv6 one: where DNS64 is in use, every IPv4 host resolves to such a one."""
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _scheme_fault(scheme: str) -> str:
    return "" if _TOKEN.fullmatch(scheme) else "is not the name of an HTTP authentication scheme, such as Bearer"


def _value_fault(value: str) -> str:
    if len(value) > LONGEST:
        return f"has {len(value)} characters; at most {LONGEST} are taken"
    if _CONTROL.search(value):
        return "holds a line break or another control character, which no HTTP header can carry"
    return "" if value == value.strip() else "begins or ends with a space, which HTTP drops"
