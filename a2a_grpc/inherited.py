"""What a call hands down to the calls that an agent makes to answer it: its deadline and its trace context."""

import asyncio
import re
from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple, Protocol

TRACE = ("traceparent", "tracestate")
"""The names of W3C Trace Context, level 1."""

_PARENT = re.compile(r"(?!ff)(?!00.{54})[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_STATE = re.compile(r"[ -~]{1,512}")  # longer ones need not be handed on


class Inherited(NamedTuple):
    """`until` is a deadline on the clock of the event loop; `trace` the values of `TRACE` as they came."""

    until: float | None
    trace: Sequence[str]


class Call(Protocol):
    """A call that is being answered."""

    def time_remaining(self) -> float | None: ...

    def parameter(self, *names: str) -> list[str]: ...


inherited: ContextVar[Inherited | Call | None] = ContextVar("a2a_grpc.inherited", default=None)
"""Set for every call, which is looked at only when something asks; None is outside of any call."""


def of(call: Call) -> Inherited:
    remaining = call.time_remaining()
    until = None if remaining is None else asyncio.get_running_loop().time() + remaining
    return Inherited(until, call.parameter(TRACE[0]) and call.parameter(*TRACE))


def sooner(until: float | None) -> float | None:
    """The earlier one of a deadline and the inherited one."""
    deadline = _given().until
    if until is None or deadline is None:
        return deadline if until is None else until
    return min(until, deadline)


def trace() -> dict[str, str]:
    """The metadata to go with a call; empty where the trace context is malformed."""
    values = _given().trace
    parents = [value for value in values if _PARENT.fullmatch(value)]
    if len(parents) != 1:
        return {}
    state = ",".join(value for value in values if "=" in value)  # no parent has one
    return {TRACE[0]: parents[0], **({TRACE[1]: state} if _STATE.fullmatch(state) else {})}


def _given() -> Inherited:
    given = inherited.get()
    if given is None:
        return Inherited(None, ())
    return given if isinstance(given, Inherited) else of(given)
