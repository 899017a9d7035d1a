"""Which interfaces of a card a client can use, the best one first. Requirements X-CARD-2, X-VER-3."""

from collections.abc import Callable, Sequence

from ...card import GRPC, HTTP_JSON, JSONRPC
from ...errors import nearest, quote
from ...generated.a2a_pb2 import AgentCard, AgentInterface
from ...service_parameters import major_minor
from ..addresses import address

SPOKEN = (GRPC, JSONRPC, HTTP_JSON)
VERSION = "1.0"

Objection = Callable[[AgentInterface], str | None]


class NoInterfaceError(ValueError):
    """A card offers nothing that this client can use, in the way that it was told to."""


def choose(
    card: AgentCard,
    bindings: Sequence[str] = (),
    objection: Objection = lambda interface: None,
) -> list[AgentInterface]:
    """The interfaces to try, in order: the card's, or, where `bindings` are given, those only, in that order.

    The version must be the same by major.minor; none is exchanged for another. `objection` may refuse further ones.
    Raises NoInterfaceError that names what the card offers and why each was refused.
    """
    refusals = [_refusal(i, bindings or SPOKEN) or objection(i) for i in card.supported_interfaces]
    usable = [i for i, why in zip(card.supported_interfaces, refusals, strict=True) if why is None]
    if not usable:
        raise NoInterfaceError(_nothing(card, refusals, bindings or SPOKEN))
    if bindings:
        usable.sort(key=lambda interface: bindings.index(interface.protocol_binding))
    return usable


def _refusal(interface: AgentInterface, bindings: Sequence[str]) -> str | None:
    binding = interface.protocol_binding
    if binding not in SPOKEN:
        return _unknown(binding)
    if binding not in bindings:
        return f"{binding} was not asked for"
    if major_minor(interface.protocol_version) != VERSION:
        return f"version {interface.protocol_version or 'none'} is not {VERSION}"
    try:
        address(interface.url)
    except ValueError as error:
        return str(error)
    if binding != GRPC and not interface.url.lower().startswith(("http://", "https://")):
        return f"{quote(interface.url)} is not an http or https URL"
    return None


def _unknown(binding: str) -> str:
    near = nearest(binding, SPOKEN)
    return f"{quote(binding)} is not a binding that this client speaks" + (f"; is {near} meant?" if near else "")


def _nothing(card: AgentCard, refusals: Sequence[str | None], bindings: Sequence[str]) -> str:
    wanted = f"this client speaks {', '.join(bindings)} in version {VERSION}"
    if not card.supported_interfaces:
        return f"The card of {quote(card.name)} names no interface; {wanted}"
    lines = (
        f"\n  {i.protocol_binding} {i.protocol_version} at {i.url}: {why}"
        for i, why in zip(card.supported_interfaces, refusals, strict=True)
    )
    return f"The card of {quote(card.name)} offers nothing to use; {wanted}, and the card offers{''.join(lines)}"
