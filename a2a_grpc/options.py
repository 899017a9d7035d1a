"""What can be set about a server, in one place."""

import ipaddress
import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import grpc
import grpc.aio

from .errors import nearest
from .generated.a2a_pb2 import AgentCard
from .service_parameters import VersionPolicy

BindingName = Literal["GRPC", "JSONRPC", "HTTP+JSON"]
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


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


@dataclass(frozen=True)
class Mount:
    """An agent and where it stands: `prefix` is its path on HTTP ("/glossary"), `tenant` tells it apart on gRPC."""

    servicer: Any
    card: AgentCard | None = None
    prefix: str = ""
    tenant: str = ""

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f'prefix "{self.prefix}" must be empty or like "/name", without a slash at its end')


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
        wrong = [b for b in self.bindings if b not in ("GRPC", "JSONRPC", "HTTP+JSON")]
        if wrong or not self.bindings:
            raise ValueError(f"bindings must be some of GRPC, JSONRPC, HTTP+JSON, not {list(self.bindings)}")
        if self.public_url and not re.match(r"https?://[^/]", self.public_url):
            raise ValueError(f'public_url must be an absolute http or https URL, not "{self.public_url}"')
        if self.version_policy not in ("infer", "strict"):
            raise ValueError(f'version_policy must be "infer" or "strict", not "{self.version_policy}"')

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


def options(given: Mapping[str, Any]) -> Options:
    """Options from keyword arguments; TypeError names the nearest right name."""
    names = [f.name for f in fields(Options)]
    for name in given:
        if name not in names:
            near = nearest(name, names)
            raise TypeError(
                f"unknown option {name}" + (f"; did you mean {near}?" if near else f"; there are {', '.join(names)}")
            )
    return Options(**given)
