"""What can be set about a client, in one place."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from google.protobuf.message import Message

from ..generated.a2a_pb2 import AgentCard
from ..methods import Method
from ..option_rules import Rule, check, is_list
from .cards.cache import CardCache
from .cards.choose import SPOKEN
from .credentials.select import Given, is_credential, several
from .durations import DURATION, is_duration


@dataclass(frozen=True)
class ClientTLS:
    """PEM files: the authority to trust instead of the system's, and one's own certificate and key (mTLS)."""

    ca: Path | str | None = None
    certificate: Path | str | None = None
    key: Path | str | None = None

    def ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context

    def channel_credentials(self) -> grpc.ChannelCredentials:
        files = self.ca, self.key or self.certificate, self.certificate  # one may hold both; grpc aborts without a key
        return grpc.ssl_channel_credentials(*(Path(f).read_bytes() if f else None for f in files))


@dataclass(frozen=True)
class Call:
    """A call that is about to be made, as interceptors see it. Make another with `dataclasses.replace`.

    `metadata` becomes headers or gRPC metadata, names in lower case. Credentials are added later, unseen.
    """

    method: Method
    message: Message
    metadata: Mapping[str, str]
    card: AgentCard


Interceptor = Callable[[Call], Call | Awaitable[Call]]


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """The options of a client. Times are in seconds, sizes in bytes."""

    bindings: Sequence[str] = ()  # only these, in this order; empty is the order of the card
    credentials: Given = ()  # one, several, or by the names of the card's security schemes
    origins: Sequence[str] = ()  # more addresses that credentials may go to, besides that of the card
    interceptors: Sequence[Interceptor] = ()  # the first one sees a call first
    extensions: Sequence[str] = ()  # URIs to activate
    tls: ClientTLS | None = None
    insecure: bool = False  # a bare host:port of the card is called without TLS
    connect_timeout: float = 5.0
    deadline: float = 60.0  # of a call that does not stream; sent to the server
    answer_deadline: float = 600.0  # of `ask`
    idle_timeout: float = 300.0  # without a byte on a stream: keep-alive comments count on HTTP, messages on gRPC
    attempts: int = 3  # at a call that only reads
    recoveries: int = 5  # of a broken stream, one after another without any news
    backoff: float = 0.2  # before the second attempt; it doubles
    max_response: int = 256 * 1024 * 1024
    card_max_age: float = 300.0  # of a card whose headers do not say
    cards: CardCache = field(default_factory=CardCache)  # share one, and a card that is fresh is not fetched again

    def __post_init__(self) -> None:
        check(self, _RULES)


_TIMES = ("connect_timeout", "deadline", "answer_deadline", "idle_timeout", "backoff")
_CREDENTIALS = "Bearer(...), ApiKey(...), Basic(...) or OAuth2(...) of a2a_grpc.client, one or several"
_RULES = (
    Rule(("bindings", "origins", "extensions", "interceptors"), is_list, "a list"),
    Rule(("bindings",), lambda v: all(b in SPOKEN for b in v), f"some of {', '.join(SPOKEN)}"),
    Rule(
        ("credentials",),
        lambda v: all(map(is_credential, several(v))),
        f"{_CREDENTIALS}; those of a2a_grpc are a server's",
    ),
    Rule(("interceptors",), lambda v: all(map(callable, v)), "a list of functions that take a Call and return one"),
    Rule(("tls",), lambda v: v is None or isinstance(v, ClientTLS), "a ClientTLS(...)"),
    Rule(("cards",), lambda v: isinstance(v, CardCache), "a CardCache()"),
    Rule(_TIMES, is_duration, f"a number of {DURATION}"),
    Rule(("max_response",), lambda v: v > 0, "a number above 0"),
    Rule(("attempts",), lambda v: v >= 1, "a number, 1 or more"),
    Rule(("recoveries", "card_max_age"), lambda v: v >= 0, "a number, 0 or more"),
)
