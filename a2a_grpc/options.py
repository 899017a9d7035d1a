"""What can be set about a server, in one place."""

import ipaddress
import re
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import grpc
import grpc.aio

from .option_rules import Rule, check, is_list
from .service_parameters import VersionPolicy

BindingName = Literal["GRPC", "JSONRPC", "HTTP+JSON"]


@dataclass(frozen=True)
class TLS:
    """PEM files for both ports. With `client_ca`, callers must show a certificate that it signed (mTLS)."""

    certificate: Path | str
    key: Path | str
    client_ca: Path | str | None = None

    def server_credentials(self) -> grpc.ServerCredentials:
        pair = (Path(self.key).read_bytes(), Path(self.certificate).read_bytes())
        ca = Path(self.client_ca).read_bytes() if self.client_ca else None
        return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)

    def ssl_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        if self.client_ca:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a server. Times are in seconds, sizes in bytes.

    Ports: 0 takes any free one, None does not serve those bindings at all.
    """

    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = 50051
    public_url: str | None = None  # the HTTP base URL that clients use, if it is not the listening one
    public_grpc: str | None = None  # the same for gRPC, host:port
    trusted_proxies: Sequence[str] = ()  # networks whose X-Forwarded-Host, -Proto and -Prefix are believed
    tls: TLS | None = None
    bindings: Sequence[BindingName] = ("GRPC", "JSONRPC", "HTTP+JSON")  # what is served, the preferred one first
    interceptors: Sequence[grpc.aio.ServerInterceptor] = ()  # the outermost first; they guard every binding
    version_policy: VersionPolicy = "infer"
    tenants: Collection[str] | None = None  # the known tenants; None accepts any, () refuses all
    reflection: bool = True
    max_message_size: int = 4 * 1024 * 1024  # of a request, as protobuf; JSON may be a third larger for its base64
    keepalive: float = 15.0  # between comments on an idle SSE stream
    read_timeout: float = 30.0  # for the body of a request to arrive
    write_timeout: float = 30.0  # for a client to take what was written
    shutdown_deadline: float = 10.0  # for calls to end after SIGTERM; streams are ended after half of it
    max_connection_age: float | None = None  # of a gRPC connection, so that clients spread over new servers
    cors: Sequence[str] = ()  # origins of browsers that may call the HTTP bindings; "*" for any

    def __post_init__(self) -> None:
        check(self, _RULES)
        if not self.grpc_served and not self.http_bindings:
            raise ValueError(f"nothing is served: no port is given for any of the bindings {', '.join(self.bindings)}")

    @property
    def grpc_served(self) -> bool:
        return "GRPC" in self.bindings and self.grpc_port is not None

    @property
    def http_bindings(self) -> list[BindingName]:
        return [b for b in self.bindings if b != "GRPC"] if self.http_port is not None else []

    @property
    def max_body(self) -> int:
        """One limit for all bindings: JSON carries bytes as base64, a third larger."""
        return self.max_message_size * 4 // 3 + 64 * 1024

    @property
    def proxies(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        return [ipaddress.ip_network(network) for network in self.trusted_proxies]


_BINDINGS = get_args(BindingName)
_POSITIVE = ("keepalive", "read_timeout", "write_timeout", "max_message_size")
_RULES = (
    Rule(("bindings", "trusted_proxies", "cors"), is_list, "a list"),
    Rule(("tenants",), lambda v: v is None or is_list(v), "None or a list"),
    Rule(("bindings",), lambda v: 0 < len(v) == len({*v} & {*_BINDINGS}), f"some of {', '.join(_BINDINGS)}, each once"),
    Rule(
        ("interceptors",),
        lambda v: is_list(v) and all(isinstance(interceptor, grpc.aio.ServerInterceptor) for interceptor in v),
        "a list of instances of grpc.aio.ServerInterceptor, as in [Bearer(known)]",
    ),
    Rule(("host",), lambda v: v and isinstance(v, str), 'an address or a name; "0.0.0.0" is every address'),
    Rule(("http_port", "grpc_port"), lambda v: v is None or 0 <= v <= 65535, "None or a number from 0 to 65535"),
    Rule(_POSITIVE, lambda v: v > 0, "a number above 0"),
    Rule(("max_connection_age",), lambda v: v is None or v > 0, "None or a number above 0"),
    Rule(("shutdown_deadline",), lambda v: v >= 0, "a number, 0 or more"),
    Rule(("public_url",), lambda v: not v or re.match("https?://[^/]", v), "an absolute http or https URL"),
    Rule(("tls",), lambda v: v is None or isinstance(v, TLS), "a TLS(certificate, key)"),
    Rule(("trusted_proxies",), lambda v: all(map(ipaddress.ip_network, v)), 'networks, such as "10.0.0.0/8"'),
    Rule(("version_policy",), get_args(VersionPolicy).__contains__, f"one of {', '.join(get_args(VersionPolicy))}"),
)
