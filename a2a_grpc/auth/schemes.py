"""The kinds of credentials: API keys, Bearer tokens, and names with passwords."""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, get_args
from urllib.parse import parse_qsl

from ..caller import Caller
from ..context import QUERY
from ..errors import quote
from ..generated.a2a_pb2 import APIKeySecurityScheme, HTTPAuthSecurityScheme, SecurityScheme
from .guard import Authenticator, Metadata, Verdict
from .secrets import VISIBLE, Secrets, function, owned, password_check

Location = Literal["header", "query", "cookie"]

_HEADER = re.compile(r"(?!grpc-)[\w.-]+(?<!-bin)", re.ASCII | re.IGNORECASE)  # a name that is one on HTTP and gRPC
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ApiKey(Authenticator):
    """Keys and whose they are, or a function that tells. A key is visible ASCII; one caller may have several.

    gRPC has metadata for the locations header and cookie, and none for query. A cookie is sent by browsers on their
    own: give it SameSite. `verify` must not block, and may be a coroutine.
    """

    def __init__(
        self,
        keys: Mapping[str, Caller | str] | Callable[[str], Verdict],
        name: str = "X-API-Key",
        location: Location = "header",
        *,
        scheme_name: str = "apiKey",
    ) -> None:
        self.name, self.location, self.scheme_name = name, location, scheme_name
        self.advice = _advice(name, location)
        self._find = _FIND[location]
        self._verify = Secrets(owned(keys)) if isinstance(keys, Mapping) else function(keys, "keys", "a key")

    def scheme(self) -> SecurityScheme:
        return SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location=self.location, name=self.name))

    def find(self, metadata: Metadata) -> Sequence[str]:
        return self._find(metadata, self.name)

    def verify(self, credentials: str) -> Verdict:
        return self._verify(credentials) if VISIBLE.fullmatch(credentials) else None


class _Authorization(Authenticator):
    """What the header Authorization holds after the name of an HTTP authentication scheme."""

    auth_scheme: ClassVar[str]

    @property
    def advice(self) -> str:  # type: ignore[override]
        return f"`Authorization: {self.auth_scheme} …` (gRPC metadata `authorization`)"

    def scheme(self) -> SecurityScheme:
        return SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme=self.auth_scheme))

    def find(self, metadata: Metadata) -> Sequence[str]:
        """What every Authorization header holds, if one of them is of this scheme."""
        given = [value.partition(" ") for value in _header(metadata, "authorization")]
        ours = any(name.lower() == self.auth_scheme.lower() for name, _, _ in given)
        return [credentials.strip(" ") for _, _, credentials in given] if ours else []


class Bearer(_Authorization):
    """Tokens and whose they are, or a function that tells, which must not block, and may be a coroutine. RFC 6750.

    A token is visible ASCII.
    """

    auth_scheme = "Bearer"

    def __init__(
        self, verify: Mapping[str, Caller | str] | Callable[[str], Verdict], *, scheme_name: str = "bearer"
    ) -> None:
        self._verify = Secrets(owned(verify)) if isinstance(verify, Mapping) else function(verify, "tokens", "a token")
        self.scheme_name = scheme_name

    def verify(self, credentials: str) -> Verdict:
        return self._verify(credentials) if VISIBLE.fullmatch(credentials) else None


class Basic(_Authorization):
    """Users with their passwords, or a function (user, password) that must not block and may be a coroutine.

    A user is the caller of that name. For passwords that are kept as salted hashes give a function. RFC 7617, UTF-8.
    """

    auth_scheme = "Basic"

    def __init__(
        self, verify: Mapping[str, str] | Callable[[str, str], Verdict], *, scheme_name: str = "basic"
    ) -> None:
        self._verify = (
            password_check(verify)
            if isinstance(verify, Mapping)
            else function(verify, "users", "a user and a password")
        )
        self.scheme_name = scheme_name

    def verify(self, credentials: str) -> Verdict:
        try:
            text = b64decode(credentials, validate=True).decode()
        except ValueError:
            return None
        user, colon, password = text.partition(":")
        return self._verify(user, password) if colon and not _CONTROL.search(text) else None


# Finding them


def _header(metadata: Metadata, name: str) -> list[str]:
    lower = name.lower()
    return [value for key, value in metadata if key == lower and isinstance(value, str)]


def _query(metadata: Metadata, name: str) -> list[str]:
    pairs = (pair for query in _header(metadata, QUERY) for pair in parse_qsl(query, keep_blank_values=True))
    return [value for key, value in pairs if key == name]


def _cookie(metadata: Metadata, name: str) -> list[str]:
    cookies = (cookie.partition("=") for header in _header(metadata, "cookie") for cookie in header.split(";"))
    return [value.strip().strip('"') for key, _, value in cookies if key.strip() == name]


_FIND: Mapping[str, Callable[[Metadata, str], list[str]]] = {"header": _header, "query": _query, "cookie": _cookie}


def _advice(name: str, location: Location) -> str:
    """Raises ValueError for a name or a location that cannot be."""
    if location not in get_args(Location):
        raise ValueError(f"location must be one of {', '.join(get_args(Location))}, not {quote(location)}")
    if not (_HEADER.fullmatch(name) if location == "header" else name):
        raise ValueError(f"{quote(name)} cannot be the name of a {location}")
    if location == "header":
        return f"the header `{name}` (gRPC metadata `{name.lower()}`)"
    return {"query": f"the query parameter `{name}`", "cookie": f"the cookie `{name}`"}[location]
