"""The agent card: what is read of it, and how it is completed from what is served."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from .errors import A2AError, PushNotificationNotSupportedError, UnsupportedOperationError, Violation
from .generated.a2a_pb2 import AgentCard, AgentInterface

WELL_KNOWN_PATH = "/.well-known/agent-card.json"
GRPC, JSONRPC, HTTP_JSON = "GRPC", "JSONRPC", "HTTP+JSON"

CAPABILITY: Mapping[str, str] = {
    "SendStreamingMessage": "streaming",
    "SubscribeToTask": "streaming",
    "CreateTaskPushNotificationConfig": "push_notifications",
    "GetTaskPushNotificationConfig": "push_notifications",
    "ListTaskPushNotificationConfigs": "push_notifications",
    "DeleteTaskPushNotificationConfig": "push_notifications",
    "GetExtendedAgentCard": "extended_agent_card",
}
"""The field of AgentCapabilities that an RPC needs; RPCs that are not listed need none."""

REFUSAL: Mapping[str, type[A2AError]] = {
    "streaming": UnsupportedOperationError,
    "push_notifications": PushNotificationNotSupportedError,
    "extended_agent_card": UnsupportedOperationError,
}
"""What a caller is told where the card does not declare a capability. Spec section 3.3.4."""

_OPTIONAL = {"SubscribeToTask"}  # an agent can stream without keeping tasks that one could come back to
NEEDED = {
    capability: {rpc for rpc, needs in CAPABILITY.items() if needs == capability} - _OPTIONAL for capability in REFUSAL
}
"""The RPCs that a servicer must have for a capability."""


class CardError(ValueError):
    """The card is not fit to be served. `violations` holds every reason, with paths of proto names."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        lines = "".join(f"\n  {v.field}: {v.description}" for v in self.violations)
        super().__init__(f"The agent card cannot be served:{lines}")


def complete(card: AgentCard, interfaces: Sequence[AgentInterface], implemented: AbstractSet[str]) -> AgentCard:
    """A copy of the card with the served interfaces and the capabilities that its author left open.

    Declared interfaces come first and keep what they say; what they leave empty is taken from the served interface of
    the same binding. `implemented` holds the names of the RPCs that the servicer really has.
    """
    done = AgentCard()
    done.CopyFrom(card)
    del done.supported_interfaces[:]
    done.supported_interfaces.extend(_interfaces(card.supported_interfaces, interfaces))
    for capability, needed in NEEDED.items():
        if not card.capabilities.HasField(capability):
            setattr(done.capabilities, capability, needed <= implemented)
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


def offers(card: AgentCard, rpc: str) -> bool:
    """Whether the card declares the capability that an RPC needs, if it needs one."""
    return rpc not in CAPABILITY or bool(getattr(card.capabilities, CAPABILITY[rpc]))


def extensions(card: AgentCard) -> dict[str, bool]:
    """The URI of each declared extension, and whether callers must activate it."""
    return {extension.uri: extension.required for extension in card.capabilities.extensions}
