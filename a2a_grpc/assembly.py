"""One agent, assembled: its servicer behind the duties, its complete card, its two HTTP bindings."""

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from .auth import secured
from .bindings.http_body import HttpLimits
from .bindings.http_call import HttpCalls
from .bindings.http_rule import Router
from .bindings.jsonrpc import JsonRpcBinding
from .bindings.rest import RestBinding
from .bindings.site import AgentSite
from .card import GRPC, HTTP_JSON, JSONRPC, CardDocument, challenges, check, complete, rebased
from .errors import nearest
from .generated.a2a_pb2 import AgentCard, AgentInterface
from .handlers import Duties, handlers, implemented
from .inprocess import InProcessServer
from .methods import methods
from .options import Mount, Options

MOST_HOSTS = 64  # forwarded hosts whose card is kept
SERVED_VERSION = "1.0"


@dataclass(frozen=True)
class Agent:
    mount: Mount
    card: AgentCard
    server: InProcessServer
    site: AgentSite
    challenge: str


@dataclass(frozen=True)
class Address:
    """Where a server can be called: its HTTP base URL and its gRPC host:port, each empty where it is not served."""

    http: str = ""
    grpc: str = ""


def assemble(mount: Mount, options: Options, address: Address) -> Agent:
    """Raises CardError where the card cannot be served, TypeError for what is no servicer."""
    _check_kind(mount.servicer)
    names = implemented(mount.servicer)
    card = _card(mount, options, address, names)
    _check_methods(mount.servicer, names)
    table = handlers(mount.servicer, Duties(card, options.version_policy, _tenants(mount, options)))
    server = InProcessServer(table, options.interceptors)
    challenge = challenges(card)
    return Agent(mount, card, server, _site(mount, card, server, options, challenge), challenge)


def _check_kind(servicer: Any) -> None:
    if isinstance(servicer, type):
        raise TypeError(f"{servicer.__name__} is a class: pass an instance, {servicer.__name__}()")
    if inspect.isroutine(servicer):
        raise TypeError(f"{servicer.__name__} is a function: decorate it with @agent")


def _check_methods(servicer: Any, names: set[str]) -> None:
    if names:
        return
    written = [name for name in dir(servicer) if not name.startswith("_") and name not in methods()]
    meant = next((f"; did you mean {m}?" for name in written if (m := nearest(name, methods()))), "")
    raise TypeError(f"{type(servicer).__name__} has no method of A2AService, such as SendMessage{meant}")


def _card(mount: Mount, options: Options, address: Address, names: set[str]) -> AgentCard:
    given = mount.card or getattr(mount.servicer, "card", None)
    if not isinstance(given, AgentCard):
        raise TypeError(
            f"{type(mount.servicer).__name__} needs a card: pass an AgentCard, or give it a `card` attribute"
        )
    served = list(_interfaces(mount, options, address))
    card = complete(secured(given, options.interceptors), served, names)
    check(card, names, served)
    return card


def _interfaces(mount: Mount, options: Options, address: Address) -> Sequence[AgentInterface]:
    base = address.http + mount.prefix
    urls: Mapping[str, str] = {
        GRPC: address.grpc,
        JSONRPC: address.http and (base if urlsplit(base).path else base + "/"),
        HTTP_JSON: address.http and base,
    }
    return [
        AgentInterface(url=urls[b], protocol_binding=b, protocol_version=SERVED_VERSION, tenant=mount.tenant)
        for b in options.bindings
        if urls[b]
    ]


def _tenants(mount: Mount, options: Options) -> frozenset[str] | None:
    if mount.tenant:
        return frozenset({mount.tenant, ""})
    return None if options.tenants is None else frozenset({*options.tenants, ""})


def _site(mount: Mount, card: AgentCard, server: InProcessServer, options: Options, challenge: str) -> AgentSite:
    limits = HttpLimits(
        options.max_message_size, options.max_body, options.read_timeout, options.write_timeout, options.keepalive
    )
    calls = HttpCalls(server, limits, challenge)
    return AgentSite(
        prefix=mount.prefix,
        calls=calls,
        jsonrpc=JsonRpcBinding(calls, methods()) if JSONRPC in options.bindings else None,
        rest=RestBinding(calls, Router(methods().values())) if HTTP_JSON in options.bindings else None,
        card=_card_responder(mount, card),
        trusted_proxies=options.proxies,
    )


def _card_responder(mount: Mount, card: AgentCard) -> Any:
    """Answers with the card as it is, or, for a forwarded base URL, with its URLs below that."""
    started = time.time()
    document = CardDocument(card, started=started)
    given = mount.card or mount.servicer.card
    chosen = [interface.url for interface in given.supported_interfaces if interface.url]

    @lru_cache(MOST_HOSTS)
    def forwarded(base: str) -> CardDocument:
        try:
            return CardDocument(rebased(card, base, keep=chosen), started=started)
        except ValueError:
            return document

    def respond(verb: str, headers: Mapping[str, str], base: str | None) -> tuple[int, dict[str, str], bytes]:
        return (forwarded(base) if base else document).respond(verb, headers)

    return respond
