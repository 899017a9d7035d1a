"""Mount: an agent, and where it stands among the agents of one process."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import nearest
from .generated.a2a_pb2 import AgentCard
from .handlers import implemented
from .methods import methods
from .options import Options

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


@dataclass(frozen=True)
class Mount:
    """An agent and where it stands: `prefix` is its path on HTTP ("/glossary"), `tenant` tells it apart on gRPC.

    Raises TypeError for what is no servicer, or has no card.
    """

    servicer: Any
    card: AgentCard | None = None
    prefix: str = ""
    tenant: str = ""

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f'prefix "{self.prefix}" must be empty or like "/name", without a slash at its end')
        _check_servicer(self.servicer)
        self.authors_card()

    def authors_card(self) -> AgentCard:
        """What the author says, before it is completed: the servicer's own card where no other is given."""
        card = self.card or getattr(self.servicer, "card", None)
        if not isinstance(card, AgentCard):
            name = type(self.servicer).__name__
            ways = "give it an attribute `card`, an a2a_pb2.AgentCard, or pass one (--card FILE on the command line)"
            raise TypeError(f"{name} needs a card: {ways}")
        return card


def mounts_of(servicer: Any, card: AgentCard | None, options: Options) -> tuple[Mount, ...]:
    """One servicer, or several mounts, which each binding must be able to tell apart."""
    given = tuple(servicer) if isinstance(servicer, list | tuple) else (servicer,)
    mounts = tuple(m if isinstance(m, Mount) else Mount(m, card) for m in given)
    if not mounts:
        raise ValueError("there is no agent to serve")
    if options.http_bindings:
        _check_distinct("prefix", "HTTP", [m.prefix for m in mounts])
    if options.grpc_served:
        _check_distinct("tenant", "gRPC", [m.tenant for m in mounts])
    return mounts


def _check_distinct(kind: str, binding: str, values: Sequence[str]) -> None:
    if len(set(values)) < len(values):
        given = ", ".join(f'"{value}"' for value in values)
        raise ValueError(f"each agent needs a {kind} of its own, as {binding} tells agents apart by it; given: {given}")


def _check_servicer(servicer: Any) -> None:
    if isinstance(servicer, type):
        raise TypeError(f"{servicer.__name__} is a class: pass an instance, {servicer.__name__}()")
    if inspect.isroutine(servicer):
        raise TypeError(f"{servicer.__name__} is a function: decorate it with @agent")
    if not implemented(servicer):
        written = [name for name in dir(servicer) if not name.startswith("_") and name not in methods()]
        near = next((m for name in written if (m := nearest(name, methods()))), None)
        advice = (
            f"did you mean {near}?" if near else "derive from a2a_pb2_grpc.A2AServiceServicer and write at least it"
        )
        raise TypeError(f"{type(servicer).__name__} has no method of A2AService, such as SendMessage; {advice}")
