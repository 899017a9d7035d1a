"""The agent card: what is read of it, and how it is completed from what is served."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from .errors import A2AError, PushNotificationNotSupportedError, UnsupportedOperationError, Violation, listed
from .generated.a2a_pb2 import AgentCard, AgentInterface

WELL_KNOWN_PATH = "/.well-known/agent-card.json"
GRPC, JSONRPC, HTTP_JSON = "GRPC", "JSONRPC", "HTTP+JSON"


class Capability(NamedTuple):
    """What an agent may be able to do. Spec section 3.3.4."""

    needed: AbstractSet[str]
    """The RPCs that a servicer must have for it."""
    refusal: type[A2AError]
    """What a caller of them is told where the card does not declare it."""
    optional: AbstractSet[str] = frozenset()
    """RPCs that it is needed for, but that a servicer may lack."""


_PUSH = {
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
}

CAPABILITIES: Mapping[str, Capability] = {
    # by field of AgentCapabilities; an agent can stream without keeping tasks that one could come back to
    "streaming": Capability({"SendStreamingMessage"}, UnsupportedOperationError, {"SubscribeToTask"}),
    "push_notifications": Capability(_PUSH, PushNotificationNotSupportedError),
    "extended_agent_card": Capability({"GetExtendedAgentCard"}, UnsupportedOperationError),
}


class CardError(ValueError):
    """The card is not fit to be served. `violations` holds every reason, with paths of proto names."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"The agent card cannot be served:{listed(self.violations)}")


def complete(card: AgentCard, interfaces: Sequence[AgentInterface], implemented: AbstractSet[str]) -> AgentCard:
    """A copy of the card with the served interfaces and the capabilities that its author left open.

    Declared interfaces come first and keep what they say; what they leave empty is taken from the served interface of
    the same binding. `implemented` holds the names of the RPCs that the servicer really has.
    """
    done = AgentCard()
    done.CopyFrom(card)
    del done.supported_interfaces[:]
    done.supported_interfaces.extend(_interfaces(card.supported_interfaces, interfaces))
    for name, capability in CAPABILITIES.items():
        if not card.capabilities.HasField(name):
            setattr(done.capabilities, name, capability.needed <= implemented)
    return done


def _interfaces(declared: Collection[AgentInterface], served: Sequence[AgentInterface]) -> Iterator[AgentInterface]:
    yield from (_overlaid(wanted, served) for wanted in declared)
    yield from (s for s in served if not any(is_same(wanted, s) for wanted in declared))


def _overlaid(wanted: AgentInterface, served: Sequence[AgentInterface]) -> AgentInterface:
    made = AgentInterface()
    for interface in (*[s for s in served if is_same(wanted, s)][:1], wanted):
        made.MergeFrom(interface)
    return made


def is_same(declared: AgentInterface, served: AgentInterface) -> bool:
    """Whether they are of the same binding and version, which a declared one may leave open."""
    same_version = declared.protocol_version in ("", served.protocol_version)
    return same_version and declared.protocol_binding == served.protocol_binding


def missing_capability(card: AgentCard, rpc: str) -> str | None:
    """The capability that an RPC needs and the card does not declare, if there is one."""
    needs = [name for name, capability in CAPABILITIES.items() if rpc in capability.needed | capability.optional]
    return next((name for name in needs if not getattr(card.capabilities, name)), None)


def extensions(card: AgentCard) -> dict[str, bool]:
    """The URI of each declared extension, and whether callers must activate it."""
    return {extension.uri: extension.required for extension in card.capabilities.extensions}
