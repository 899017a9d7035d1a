"""Credentials: kept by providers, chosen by the security schemes of a card, presented with each call."""

import base64
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..errors import quote
from ..generated.a2a_pb2 import AgentCard, SecurityScheme

_TOKENS = ("oauth2_security_scheme", "open_id_connect_security_scheme")
NO_SCHEME = SecurityScheme()


class CredentialsError(ValueError):
    """The credentials that were given are not those that the card asks for, or may not go where they would."""


class Presented(NamedTuple):
    """What goes with a call. On gRPC, headers become metadata."""

    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}


class Credential(Protocol):
    """A provider. `fits` a scheme of the card, or NO_SCHEME where the card has none."""

    def fits(self, scheme: SecurityScheme) -> bool: ...

    async def present(self, scheme: SecurityScheme) -> Presented: ...


@runtime_checkable
class Renewable(Protocol):
    """A provider that can do better where what it presented was refused; the call is made again then, once."""

    def renew(self, refused: Presented) -> bool:
        """Whether there will be something else to present."""
        ...


Given = Credential | Sequence[Credential] | Mapping[str, Credential]
Chosen = tuple[Credential, SecurityScheme]


@dataclass(frozen=True)
class ApiKey:
    """A key; the card tells where it goes (header, query or cookie) and its name, which else is `name`, a header."""

    key: str = field(repr=False)
    name: str = "X-API-Key"

    def fits(self, scheme: SecurityScheme) -> bool:
        return scheme.WhichOneof("scheme") in (None, "api_key_security_scheme")

    async def present(self, scheme: SecurityScheme) -> Presented:
        told = scheme.api_key_security_scheme
        name = told.name or self.name
        if told.location == "query":
            return Presented(query={name: self.key})
        if told.location == "cookie":
            return Presented({"cookie": f"{name}={self.key}"})
        return Presented({name.lower(): self.key})


@dataclass(frozen=True)
class Bearer:
    """A token, or a function that gives one for each call. Fits Bearer, OAuth 2 and OpenID Connect."""

    token: str | Callable[[], str | Awaitable[str]] = field(repr=False)

    def fits(self, scheme: SecurityScheme) -> bool:
        return fits_token(scheme)

    async def present(self, scheme: SecurityScheme) -> Presented:
        token: Any = self.token() if callable(self.token) else self.token
        return bearer(await token if isawaitable(token) else token)


@dataclass(frozen=True)
class Basic:
    """A name and a password."""

    user: str
    password: str = field(repr=False)

    def fits(self, scheme: SecurityScheme) -> bool:
        kind = scheme.WhichOneof("scheme")
        return kind is None or scheme.http_auth_security_scheme.scheme.lower() == "basic"

    async def present(self, scheme: SecurityScheme) -> Presented:
        return Presented({"authorization": basic(self.user, self.password)})


class Certificate:
    """Stands for the client's own certificate, which TLS shows."""

    def fits(self, scheme: SecurityScheme) -> bool:
        return scheme.HasField("mtls_security_scheme")

    async def present(self, scheme: SecurityScheme) -> Presented:
        return Presented()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def bearer(token: str) -> Presented:
    return Presented({"authorization": f"Bearer {token}"})


def fits_token(scheme: SecurityScheme) -> bool:
    kind = scheme.WhichOneof("scheme")
    return kind is None or kind in _TOKENS or scheme.http_auth_security_scheme.scheme.lower() == "bearer"


def select(card: AgentCard, given: Given) -> list[Chosen]:
    """Which credentials go with a call: those of the first of the card's alternatives that they satisfy.

    A card that asks for nothing gets the first one, in its usual place. Raises CredentialsError where credentials were
    given and satisfy none of the alternatives.
    """
    if not isinstance(given, Mapping | Sequence):
        given = (given,)
    if not given:
        return []
    for requirement in card.security_requirements:
        found = [_for_scheme(name, card, given) for name in sorted(requirement.schemes)]
        if all(found):
            return [chosen for chosen in found if chosen]
    if card.security_requirements:
        raise CredentialsError(_unsatisfied(card))
    return list(_unasked(card, given))


def _for_scheme(name: str, card: AgentCard, given: Mapping[str, Credential] | Sequence[Credential]) -> Chosen | None:
    scheme = card.security_schemes.get(name, NO_SCHEME)
    candidates = [c for n, c in given.items() if n == name] if isinstance(given, Mapping) else given
    return next(((c, scheme) for c in candidates if c.fits(scheme)), None)


def _unasked(card: AgentCard, given: Mapping[str, Credential] | Sequence[Credential]) -> Iterator[Chosen]:
    """One for a scheme that the card defines without requiring it, or for none at all."""
    for name in sorted(card.security_schemes):
        if chosen := _for_scheme(name, card, given):
            yield chosen
            return
    candidates = list(given.values()) if isinstance(given, Mapping) else given
    if not card.security_schemes:
        yield from ((c, NO_SCHEME) for c in candidates[:1] if c.fits(NO_SCHEME))


def _unsatisfied(card: AgentCard) -> str:
    ways = " or ".join(" and ".join(sorted(r.schemes)) for r in card.security_requirements)
    kinds = "".join(f"\n  {name}: {_kind(card.security_schemes[name])}" for name in sorted(card.security_schemes))
    return f"The card of {quote(card.name)} asks for {ways}, and the credentials given do not fit; it defines{kinds}"


def _kind(scheme: SecurityScheme) -> str:
    kind = scheme.WhichOneof("scheme") or "an unknown scheme"
    if kind == "api_key_security_scheme":
        return f"API key in {scheme.api_key_security_scheme.location} {scheme.api_key_security_scheme.name}"
    if kind == "http_auth_security_scheme":
        return f"HTTP {scheme.http_auth_security_scheme.scheme}"
    return kind.removesuffix("_security_scheme").replace("_", " ")
