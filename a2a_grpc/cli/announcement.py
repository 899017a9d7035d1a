"""What a started server says on the terminal: where it can be called, and a first call to try."""

from collections.abc import Iterator
from pathlib import Path

from ..assembly import Agent
from ..card import GRPC, HTTP_JSON, JSONRPC, WELL_KNOWN_PATH
from ..server import Server
from . import calls

NAMES = {JSONRPC: "JSON-RPC", HTTP_JSON: "HTTP+JSON", GRPC: "gRPC"}


def announcement(server: Server) -> Iterator[str]:
    agent = server.agents[0]
    yield f"{agent.card.name} {agent.card.version} is served:"
    for name, url in _places(server, agent):
        yield f"  {name:<10} {url}"
    yield ""
    yield "Try it:"
    for command in _first_calls(server, agent):
        yield f"  {calls.shown(command)}"


def _places(server: Server, agent: Agent) -> Iterator[tuple[str, str]]:
    public = server.options.public_url or server.http_url
    yield "card", public.rstrip("/") + agent.mount.prefix + WELL_KNOWN_PATH
    urls = {interface.protocol_binding: interface.url for interface in agent.card.supported_interfaces}
    yield from ((name, urls[binding]) for binding, name in NAMES.items() if binding in urls)


def _first_calls(server: Server, agent: Agent) -> Iterator[list[str]]:
    """At the addresses that are listened on, which answer whether or not the public ones lead here yet."""
    tls, tenant = server.options.tls, agent.mount.tenant
    trust = calls.Trust(Path(tls.certificate), tls.client_ca is not None) if tls else calls.Trust()
    body = calls.request("Hello", tenant)
    yield calls.grpcurl(server.grpc_address, "SendMessage", body, trust, reflection=server.options.reflection)
    yield calls.curl(
        calls.rest_url(server.http_url + agent.mount.prefix, "send", tenant), calls.request("Hello"), trust
    )
