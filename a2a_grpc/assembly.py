"""One agent, assembled: its servicer behind the duties, its complete card, its two HTTP bindings."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from .auth import secured
from .bindings.http_body import HttpLimits
from .bindings.http_call import HttpCalls
from .bindings.http_rule import Router
from .bindings.jsonrpc import JsonRpcBinding
from .bindings.rest import RestBinding
from .bindings.site import AgentSite
from .card import GRPC, HTTP_JSON, JSONRPC, complete
from .card_check import check
from .card_document import card_responder
from .challenge import challenges
from .generated.a2a_pb2 import AgentCard, AgentInterface
from .handlers import handlers, implemented
from .inprocess import InProcessServer
from .methods import methods
from .mounts import Mount
from .options import Options

SERVED_VERSION = "1.0"


@dataclass(frozen=True)
class Agent:
    mount: Mount
    card: AgentCard
    server: InProcessServer
    site: AgentSite
    challenge: str


def assemble(mount: Mount, options: Options, http: str = "", grpc: str = "") -> Agent:
    """`http` is the base URL that clients call, `grpc` their host:port, each empty where it is not served.

    Raises CardError where the card cannot be served.
    """
    card = _card(mount, options, http, grpc)
    table = handlers(mount.servicer, card, options.version_policy, _tenants(mount, options))
    server = InProcessServer(table, options.interceptors)
    challenge = challenges(card)
    calls = HttpCalls(server, _limits(options), challenge)
    return Agent(mount, card, server, _site(mount, card, calls, options), challenge)


def _card(mount: Mount, options: Options, http: str, grpc: str) -> AgentCard:
    names = implemented(mount.servicer)
    served = list(_interfaces(mount, options, http, grpc))
    card = complete(secured(mount.authors_card(), options.interceptors), served, names)
    check(card, names, served)
    return card


def _interfaces(mount: Mount, options: Options, http: str, grpc: str) -> Iterator[AgentInterface]:
    base = http + mount.prefix
    root = base if urlsplit(base).path else f"{base}/"
    urls = {GRPC: grpc, JSONRPC: http and root, HTTP_JSON: http and base}
    for binding in options.bindings:
        if url := urls[binding]:
            yield AgentInterface(
                url=url, protocol_binding=binding, protocol_version=SERVED_VERSION, tenant=mount.tenant
            )


def _tenants(mount: Mount, options: Options) -> frozenset[str] | None:
    if mount.tenant:
        return frozenset({mount.tenant, ""})
    return None if options.tenants is None else frozenset({*options.tenants, ""})


def _limits(options: Options) -> HttpLimits:
    return HttpLimits(
        options.max_message_size, options.max_body, options.read_timeout, options.write_timeout, options.keepalive
    )


def _site(mount: Mount, card: AgentCard, calls: HttpCalls, options: Options) -> AgentSite:
    return AgentSite(
        prefix=mount.prefix,
        calls=calls,
        jsonrpc=JsonRpcBinding(calls, methods()) if JSONRPC in options.bindings else None,
        rest=RestBinding(calls, Router(methods().values())) if HTTP_JSON in options.bindings else None,
        card=card_responder(card, [i.url for i in mount.authors_card().supported_interfaces if i.url]),
        trusted_proxies=options.proxies,
    )
