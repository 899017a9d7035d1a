"""Authenticators: interceptors that say who is calling, on every binding, and that describe themselves in the card.

    Server(Joker(), card, interceptors=[AnyOf(ApiKey({"9f8e…": "ann"}), Bearer(verify))])

Interceptors in a list are all asked, and the last one names the caller; those in `AnyOf` are alternatives. A call
without credentials, or with wrong ones, ends with UnauthenticatedError before anything else is looked at. Spec
sections 4.5 and 7.
"""

import re
import traceback
from abc import abstractmethod
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from inspect import isawaitable
from itertools import product
from typing import Any, ClassVar, Literal, TypeAlias, get_args
from urllib.parse import parse_qsl

import grpc
import grpc.aio

from .caller import Caller, caller
from .card import CardError
from .context import QUERY
from .errors import A2AError, UnauthenticatedError, Violation, log, quote
from .generated.a2a_pb2 import (
    AgentCard,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

Location = Literal["header", "query", "cookie"]
Metadata = Sequence[tuple[str, str | bytes]]
Known: TypeAlias = Caller | str | None
"""Who has been recognised: a caller, or only its name; None is nobody."""
Verdict: TypeAlias = Known | Awaitable[Known]

_VISIBLE = re.compile("[!-~]+")
_HEADER = re.compile(r"(?!grpc-)[\w.-]+(?<!-bin)", re.ASCII | re.IGNORECASE)  # a name that is one on HTTP and gRPC
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Guard(grpc.aio.ServerInterceptor):
    """Lets a call pass that one of its `alternatives` knows, and sets `a2a_grpc.caller.caller`.

    The first alternative that finds credentials of its kind decides: wrong ones are not made good by others.
    """

    alternatives: Sequence["Authenticator"] = ()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        try:
            caller.set(await self._identify(handler_call_details.invocation_metadata))
        except UnauthenticatedError:
            log.info("%s refused: credentials are missing or not valid", handler_call_details.method)
            raise
        return await continuation(handler_call_details)

    async def _identify(self, metadata: Any) -> Caller:
        for authenticator in self.alternatives:
            if given := authenticator.find(metadata):
                found = await _verified(authenticator, given[0]) if len(given) == 1 else None
                if found is None:
                    raise UnauthenticatedError("Credentials are not valid")
                return found
        ways = " or ".join(authenticator.advice for authenticator in self.alternatives)
        raise UnauthenticatedError(f"Credentials are missing: send {ways}")


class Authenticator(Guard):
    """One kind of credentials. Subclass it for a kind of your own."""

    scheme_name: str
    """Its name in the card's `security_schemes`."""
    advice: str
    """How a client sends such credentials, for the text of an error."""

    @property
    def alternatives(self) -> Sequence["Authenticator"]:  # type: ignore[override]
        return (self,)

    @abstractmethod
    def scheme(self) -> SecurityScheme: ...

    @abstractmethod
    def find(self, metadata: Metadata) -> Sequence[str]:
        """All credentials of this kind in a call, valid or not; more than one is ambiguous, and refused."""

    @abstractmethod
    def verify(self, credentials: str) -> Verdict:
        """Whose credentials these are. Anything from outside may be passed; an exception is the server's own fault."""


class AnyOf(Guard):
    """Alternatives, in the order in which their credentials are looked for."""

    def __init__(self, *alternatives: Authenticator) -> None:
        if not alternatives:
            raise ValueError("AnyOf needs at least one authenticator: nobody could call")
        ways = [authenticator.advice for authenticator in alternatives]
        if twice := next((way for way in ways if ways.count(way) > 1), None):
            raise ValueError(f"two alternatives read {twice}: give one of them a function that knows both")
        self.alternatives = alternatives


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
        self._verify = _Secrets(_keys(keys)) if isinstance(keys, Mapping) else keys

    def scheme(self) -> SecurityScheme:
        return SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location=self.location, name=self.name))

    def find(self, metadata: Metadata) -> Sequence[str]:
        return self._find(metadata, self.name)

    def verify(self, credentials: str) -> Verdict:
        return self._verify(credentials) if _VISIBLE.fullmatch(credentials) else None


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
    """Tokens, visible ASCII. `verify` must not block, and may be a coroutine. RFC 6750."""

    auth_scheme = "Bearer"

    def __init__(self, verify: Callable[[str], Verdict], *, scheme_name: str = "bearer") -> None:
        self._verify, self.scheme_name = verify, scheme_name

    def verify(self, credentials: str) -> Verdict:
        return self._verify(credentials) if _VISIBLE.fullmatch(credentials) else None


class Basic(_Authorization):
    """Users with their passwords, or a function (user, password) that must not block and may be a coroutine.

    A user is the caller of that name. For passwords that are kept as salted hashes give a function. RFC 7617, UTF-8.
    """

    auth_scheme = "Basic"

    def __init__(
        self, verify: Mapping[str, str] | Callable[[str, str], Verdict], *, scheme_name: str = "basic"
    ) -> None:
        self._verify = _password_check(verify) if isinstance(verify, Mapping) else verify
        self.scheme_name = scheme_name

    def verify(self, credentials: str) -> Verdict:
        try:
            text = b64decode(credentials, validate=True).decode()
        except ValueError:
            return None
        user, colon, password = text.partition(":")
        return self._verify(user, password) if colon and not _CONTROL.search(text) else None


# In the card


def secured(card: AgentCard, interceptors: Iterable[object]) -> AgentCard:
    """A copy of the card with the schemes of the authenticators among the interceptors, and what they require.

    A scheme keeps what its author adds under its name, such as a description; requirements that an author gives stay.
    Raises CardError where two different schemes have one name.
    """
    done = AgentCard()
    done.CopyFrom(card)
    guards = [guard for guard in interceptors if isinstance(guard, Guard)]
    for name, scheme in _schemes(guards).items():
        done.security_schemes[name].MergeFrom(scheme)
    if guards and not card.security_requirements:
        done.security_requirements.extend(_requirement(every) for every in product(*(g.alternatives for g in guards)))
    return done


def _schemes(guards: Iterable[Guard]) -> dict[str, SecurityScheme]:
    found: dict[str, SecurityScheme] = {}
    for authenticator in (a for guard in guards for a in guard.alternatives):
        name, scheme = authenticator.scheme_name, authenticator.scheme()
        if found.setdefault(name, scheme) != scheme:
            advice = "is the name of two different authenticators: give one of them another scheme_name"
            raise CardError([Violation(f"security_schemes[{quote(name)}]", advice)])
    return found


def _requirement(authenticators: Iterable[Authenticator]) -> SecurityRequirement:
    return SecurityRequirement(schemes={a.scheme_name: StringList() for a in authenticators})


# Finding credentials


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


# Verifying them


async def _verified(authenticator: Authenticator, credentials: str) -> Caller | None:
    """Raises A2AErrors of the verification, and a RuntimeError for any other: its text may hold credentials."""
    try:
        verdict = authenticator.verify(credentials)
        known = await verdict if isawaitable(verdict) else verdict
    except A2AError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        fault = RuntimeError(f"{authenticator.scheme_name}: {type(error).__name__} at {at.filename}:{at.lineno}")
    else:
        return _caller(known)
    raise fault


def _caller(known: Any) -> Caller | None:
    if not known:
        return None
    found = Caller(known) if isinstance(known, str) else known
    if not isinstance(found, Caller) or not found.name:
        raise TypeError("who is recognised must be a Caller with a name, or its name")
    return found


class _Secrets:
    """Whose a secret is. It compares with all of them, in a time that does not depend on what was given."""

    def __init__(self, callers: Iterable[tuple[str, Caller]]) -> None:
        self._known = [(_digest(secret), who) for secret, who in callers]

    def __call__(self, secret: str) -> Caller | None:
        given, found = _digest(secret), None
        for known, who in self._known:
            if compare_digest(known, given):
                found = who
        return found


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _keys(keys: Mapping[str, Caller | str]) -> Iterator[tuple[str, Caller]]:
    for key, known in keys.items():
        who = _caller(known)
        if who is None:
            raise ValueError("a key belongs to a caller with a name")
        if not _VISIBLE.fullmatch(key):
            raise ValueError(f"a key of {who.name} is not visible ASCII without spaces")
        yield key, who


def _password_check(passwords: Mapping[str, str]) -> Callable[[str, str], Caller | None]:
    for user in passwords:
        if not user or ":" in user:
            raise ValueError(f"user {quote(user)} must not be empty, nor have a colon: RFC 7617")
    secrets = _Secrets((f"{user}:{password}", Caller(user)) for user, password in passwords.items())
    return lambda user, password: secrets(f"{user}:{password}")


def _advice(name: str, location: Location) -> str:
    """Raises ValueError for a name or a location that cannot be."""
    if location not in get_args(Location):
        raise ValueError(f"location must be one of {', '.join(get_args(Location))}, not {quote(location)}")
    if not (_HEADER.fullmatch(name) if location == "header" else name):
        raise ValueError(f"{quote(name)} cannot be the name of a {location}")
    if location == "header":
        return f"the header `{name}` (gRPC metadata `{name.lower()}`)"
    return {"query": f"the query parameter `{name}`", "cookie": f"the cookie `{name}`"}[location]
