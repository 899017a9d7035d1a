"""Cards as they are fetched: how long they are fresh, how they are asked for again, how they are read. RFC 9111."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any

from ...bindings.protojson import JsonSyntaxError, loads
from ...errors import InvalidAgentResponseError, nearest
from ...generated.a2a_pb2 import AgentCard
from ..transports.tolerant import read

LEGACY_PATH = "/.well-known/agent.json"
MOST_CARDS = 1000
_OF_0_3 = ("url", "preferredTransport", "additionalInterfaces", "protocolVersion", "supportsAuthenticatedExtendedCard")


class CardReadError(ValueError):
    """What was fetched is not a card that this client can use."""


@dataclass(frozen=True)
class CachedCard:
    """`fresh_until` is on the clock of whoever keeps it."""

    card: AgentCard
    fresh_until: float
    life: float
    etag: str = ""
    last_modified: str = ""

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that ask whether it is still the same."""
        asked = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in asked.items() if value and value.isprintable()}

    def renewed(self, headers: Mapping[str, str], now: float) -> "CachedCard":
        """After 304 Not Modified; what it does not say stays as it was. RFC 9111, 3.2."""
        return replace(self, fresh_until=now + (freshness(headers, self.life) or 0.0))


@dataclass
class CardCache:
    """Cards by URL. Give one to several `connect`s, and they share it."""

    cards: dict[str, CachedCard] = field(default_factory=dict)

    def keep(self, url: str, card: CachedCard) -> None:
        self.cards.pop(url, None)
        self.cards[url] = card
        if len(self.cards) > MOST_CARDS:
            del self.cards[next(iter(self.cards))]


def cached(card: AgentCard, headers: Mapping[str, str], now: float, usual: float) -> CachedCard | None:
    """A response as it is to be kept; None for `no-store`. `usual` is how long it is fresh where no header says."""
    fresh = freshness(headers, usual)
    if fresh is None:
        return None
    return CachedCard(card, now + fresh, fresh, headers.get("ETag", ""), headers.get("Last-Modified", ""))


def freshness(headers: Mapping[str, str], usual: float) -> float | None:
    """Seconds that a response stays fresh; None where it must not be kept at all."""
    control = ",".join(v for k, v in headers.items() if k.lower() == "cache-control").lower()  # on several lines, too
    directives = dict(re.findall(r'([\w-]+)(?:\s*=\s*"?([^",\s]*)"?)?', control))
    if "no-store" in directives:
        return None
    if "no-cache" in directives:
        return 0.0
    life = _number(directives.get("max-age", ""))
    if life is None:
        life = _until_expiry(headers)
    return usual if life is None else max(0.0, life - (_number(headers.get("Age", "")) or 0.0))


def card_of(body: bytes) -> AgentCard:
    """Reads a card. Raises CardReadError that says what is wrong with it."""
    try:
        value = loads(body)
        card = read(AgentCard, value)
    except (JsonSyntaxError, InvalidAgentResponseError) as error:
        raise CardReadError(f"it is no agent card: {error}") from None
    if not card.supported_interfaces:
        raise CardReadError(_no_interfaces(value))
    return card


def _no_interfaces(value: Mapping[str, Any]) -> str:
    old = [name for name in _OF_0_3 if name in value]
    if old:
        return f"it is a card of A2A 0.3 ({', '.join(old)}), and this client speaks 1.0, whose cards list interfaces"
    names = [f.json_name for f in AgentCard.DESCRIPTOR.fields]
    strange = [name for name in value if name not in names and name not in AgentCard.DESCRIPTOR.fields_by_name]
    told = ", ".join(f"{s} ({n}?)" if (n := nearest(s, names)) else s for s in strange[:8])
    return "its supportedInterfaces are empty or missing" + (f"; these are no fields of a card: {told}" if told else "")


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _until_expiry(headers: Mapping[str, str]) -> float | None:
    if "Expires" not in headers:
        return None
    try:
        date, expires = (parsedate_to_datetime(headers[name]) for name in ("Date", "Expires"))
        return max(0.0, (expires - date).total_seconds())
    except (KeyError, ValueError, TypeError):
        return 0.0
