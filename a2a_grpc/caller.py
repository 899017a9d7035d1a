"""Who is calling: set by an interceptor, read by servicers, and what scopes tasks."""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `name` is unique among callers: it owns the tasks it makes. "" is anonymous."""

    name: str = ""
    scopes: frozenset[str] = frozenset()


ANONYMOUS = Caller()
caller: ContextVar[Caller] = ContextVar("a2a_grpc.caller", default=ANONYMOUS)
"""Set it in an interceptor: `caller.set(Caller("ann"))`."""
