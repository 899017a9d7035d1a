"""Providers of credentials: what they fit, and what they present."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ...generated.a2a_pb2 import SecurityScheme

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


CERTIFICATE = Certificate()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def bearer(token: str) -> Presented:
    return Presented({"authorization": f"Bearer {token}"})


def fits_token(scheme: SecurityScheme) -> bool:
    kind = scheme.WhichOneof("scheme")
    return kind is None or kind in _TOKENS or scheme.http_auth_security_scheme.scheme.lower() == "bearer"
