"""What a call hands down to the calls that an agent makes to answer it: its deadline and its trace context."""

import re
from collections.abc import Sequence
from contextvars import ContextVar

TRACE = ("traceparent", "tracestate")
"""The names of W3C Trace Context, level 1."""

Inherited = tuple[float | None, Sequence[str]]
inherited: ContextVar[Inherited | None] = ContextVar("a2a_grpc.inherited", default=None)
"""A deadline on the clock of the event loop, and the values of `TRACE` as they came. None is outside of any call."""

_PARENT = re.compile(r"(?!ff)(?!00.{54})[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_STATE = re.compile(r"[ -~]{1,512}")  # longer ones need not be handed on


def sooner(until: float | None) -> float | None:
    """The earlier one of a deadline and the inherited one."""
    given = inherited.get()
    deadline = given[0] if given else None
    if until is None or deadline is None:
        return deadline if until is None else until
    return min(until, deadline)


def trace() -> dict[str, str]:
    """The metadata to go with a call; empty where the trace context is malformed."""
    given = inherited.get()
    values = given[1] if given else ()
    parents = [value for value in values if _PARENT.fullmatch(value)]
    if len(parents) != 1:
        return {}
    state = ",".join(value for value in values if "=" in value)  # no parent has one
    return {TRACE[0]: parents[0], **({TRACE[1]: state} if _STATE.fullmatch(state) else {})}
