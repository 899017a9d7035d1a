"""connect: from the address of an agent, or its card, to a client."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NoReturn

import aiohttp

from ..card import GRPC, HTTP_JSON, JSONRPC
from ..errors import log
from ..generated.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface
from ..option_rules import from_keywords
from .addresses import Origin, address, origin
from .calls import Calls
from .cards.choose import Objection, choose
from .cards.fetching import fetch_card
from .client import Client
from .credentials.credential import Certificate
from .credentials.select import Chosen, select
from .settings import ClientOptions
from .transports.authenticated import Authenticated
from .transports.codecs import JsonRpc, Rest
from .transports.grpc import GrpcTransport
from .transports.http import HttpTransport, new_session
from .transports.transport import Transport


def connect(agent: str | AgentCard | AgentInterface, **given: Any) -> "Connecting":
    """A client for the agent at a URL, or of a card that is already there; options are those of `ClientOptions`.

        async with connect("https://agent.example") as agent:
            print((await agent.ask("What is a record?")).text)

    The card is fetched from the well-known path below the URL, or from the URL itself if that ends in ".json".
    Credentials go to the origin of the URL, and to `origins`; interfaces elsewhere are not used with them. Raises
    ConnectError and CardReadError where there is no card, NoInterfaceError where it offers nothing to use,
    CredentialsError.
    """
    if not isinstance(agent, str | AgentCard | AgentInterface):
        raise TypeError(f"connect to a URL, an AgentCard or an AgentInterface, not {type(agent).__name__}")
    return Connecting(_connected(agent, from_keywords(ClientOptions, given)))


class Connecting(AbstractAsyncContextManager[Client]):
    """A client to be: `async with` makes it."""

    def __init__(self, connecting: AbstractAsyncContextManager[Client]) -> None:
        self._connecting = connecting

    async def __aenter__(self) -> Client:
        return await self._connecting.__aenter__()

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._connecting.__aexit__(*raised)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"there is no {name} before the client is connected: {_USE}")

    def __await__(self) -> NoReturn:
        raise TypeError(_USE)

    __enter__ = __exit__ = __await__


_USE = "write `async with connect(...) as agent:`"


@asynccontextmanager
async def _connected(agent: str | AgentCard | AgentInterface, options: ClientOptions) -> AsyncIterator[Client]:
    async with new_session(options) as session:
        card, home = await _card(agent, session, options)
        client = Client(_calls(card, home, session, options))
        try:
            yield client
        finally:
            await client.close()


async def _card(
    agent: str | AgentCard | AgentInterface, session: aiohttp.ClientSession, options: ClientOptions
) -> tuple[AgentCard, list[Origin]]:
    """The card, and the origins that the caller has named with it."""
    if isinstance(agent, str):
        url = _base(agent, options)
        return await fetch_card(url, session, options), [origin(url)]
    if isinstance(agent, AgentInterface):
        everything = AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True)
        agent = AgentCard(supported_interfaces=[agent], capabilities=everything)
    usable = choose(agent, options.bindings)
    return agent, [origin(i.url, insecure=options.insecure) for i in usable]


def _calls(card: AgentCard, home: Collection[Origin], session: aiohttp.ClientSession, options: ClientOptions) -> Calls:
    credentials = select(card, options.credentials, certificate=bool(options.tls and options.tls.certificate))
    allowed = {*home, *(origin(o, insecure=options.insecure) for o in options.origins)}
    objection = _objection(allowed, credentials, options)
    interfaces = choose(card, options.bindings, objection)
    return Calls(card, interfaces, _opener(session, credentials, options), options)


def _objection(allowed: Collection[Origin], credentials: Collection[Chosen], options: ClientOptions) -> Objection:
    secret = [scheme for credential, scheme in credentials if not isinstance(credential, Certificate)]
    in_query = any(scheme.api_key_security_scheme.location == "query" for scheme in secret)

    def objection(interface: AgentInterface) -> str | None:
        where = origin(interface.url, insecure=options.insecure)
        if secret and where not in allowed:
            known = ", ".join(map(str, allowed))
            log.warning("%s at %s is not used: credentials go to %s only", interface.protocol_binding, where, known)
            return f"credentials go to {known} only; name {where} in `origins` if it may have them"
        if in_query and interface.protocol_binding == GRPC:
            return "gRPC has no query that could hold the API key"
        return None

    return objection


def _opener(
    session: aiohttp.ClientSession, credentials: Sequence[Chosen], options: ClientOptions
) -> Callable[[AgentInterface], Transport]:
    openers: dict[str, Callable[[str], Transport]] = {
        GRPC: lambda url: GrpcTransport(url, options),
        JSONRPC: lambda url: HttpTransport(url, JsonRpc(url), session, options),
        HTTP_JSON: lambda url: HttpTransport(url, Rest(url), session, options),
    }
    return lambda interface: Authenticated(openers[interface.protocol_binding](interface.url), credentials)


def _base(url: str, options: ClientOptions) -> str:
    """The URL itself; of a bare host, what reaches it."""
    if url.startswith("unix:"):
        raise ValueError("a card is fetched over HTTP: give its URL, or an AgentInterface with the address of a socket")
    found = address(url, insecure=options.insecure)
    if url.lower().startswith(("http://", "https://")):
        return url
    return str(found.origin)
