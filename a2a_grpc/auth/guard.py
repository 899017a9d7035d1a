"""Guards: interceptors that let pass whom they know, and say who that is."""

import traceback
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

import grpc
import grpc.aio

from ..caller import Caller, caller
from ..errors import A2AError, UnauthenticatedError, log
from ..generated.a2a_pb2 import SecurityScheme

Metadata = Sequence[tuple[str, str | bytes]]
Known: TypeAlias = Caller | str | None
"""Who has been recognised: a caller, or only its name; None is nobody."""
Verdict: TypeAlias = Known | Awaitable[Known]


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
                found = await verified(authenticator, given[0]) if len(given) == 1 else None
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
        if not all(isinstance(alternative, Authenticator) for alternative in alternatives):
            raise TypeError("AnyOf takes authenticators one by one: AnyOf(ApiKey(...), Bearer(...))")
        ways = [authenticator.advice for authenticator in alternatives]
        if twice := next((way for way in ways if ways.count(way) > 1), None):
            raise ValueError(f"two alternatives read {twice}: give one of them a function that knows both")
        self.alternatives = alternatives


async def verified(authenticator: Authenticator, credentials: str) -> Caller | None:
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
        return caller_of(known)
    raise fault


def caller_of(known: Any) -> Caller | None:
    if not known:
        return None
    found = Caller(known) if isinstance(known, str) else known
    if not isinstance(found, Caller) or not found.name:
        raise TypeError("who is recognised must be a Caller with a name, or its name")
    return found
