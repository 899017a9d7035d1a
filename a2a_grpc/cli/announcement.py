"""What a started server says on the terminal: where it can be called, and a first call to try."""

import shlex
from collections.abc import Iterator

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
        yield f"  {shlex.join(command)}"


def _places(server: Server, agent: Agent) -> Iterator[tuple[str, str]]:
    public = server.options.public_url or server.http_url
    yield "card", public.rstrip("/") + agent.mount.prefix + WELL_KNOWN_PATH
    urls = {interface.protocol_binding: interface.url for interface in agent.card.supported_interfaces}
    yield from ((name, urls[binding]) for binding, name in NAMES.items() if binding in urls)


def _first_calls(server: Server, agent: Agent) -> Iterator[list[str]]:
    """In words that the agent knows, at the addresses that are listened on, which answer whether or not the public ones
    lead here yet."""
    options, tenant = server.options, agent.mount.tenant
    said = next((example for skill in agent.card.skills for example in skill.examples), "Hello")
    body = calls.request(said, tenant)
    yield calls.grpcurl(server.grpc_address, "SendMessage", body, options.tls, reflection=options.reflection)
    yield calls.curl(
        calls.rest_url(server.http_url + agent.mount.prefix, "send", tenant), calls.request(said), options.tls
    )
