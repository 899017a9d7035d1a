"""The card as the well-known document: made once, kept by caches, at the address that it is asked for at."""

import hashlib
import re
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_tz
from functools import lru_cache
from math import inf
from urllib.parse import urlsplit

from .bindings.protojson import to_json
from .card import HTTP_JSON, JSONRPC
from .card_check import http_fault
from .errors import quote
from .generated.a2a_pb2 import AgentCard

MOST_HOSTS = 64  # forwarded hosts whose card is kept
Answer = tuple[int, dict[str, str], bytes]


def card_responder(card: AgentCard, chosen: Collection[str]) -> Callable[[str, Mapping[str, str], str | None], Answer]:
    """Answers (verb, headers, base URL that a trusted proxy tells, or None): the card with its URLs below that base,
    but for those that its author has chosen."""
    started = time.time()
    document = CardDocument(card, started=started)

    @lru_cache(MOST_HOSTS)
    def forwarded(base: str) -> CardDocument:
        try:
            return CardDocument(rebased(card, base, keep=chosen), started=started)
        except ValueError:
            return document

    return lambda verb, headers, base: (forwarded(base) if base else document).respond(verb, headers)


class CardDocument:
    """A card as bytes, with the HTTP headers that let caches keep it. `started` is in Unix seconds."""

    def __init__(self, card: AgentCard, *, started: float) -> None:
        same_order = AgentCard.FromString(card.SerializeToString(deterministic=True))  # of maps, on every replica
        self.body = to_json(same_order)
        self.started = int(started)
        self.etag = f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'
        self.last_modified = formatdate(self.started, usegmt=True)

    def respond(self, verb: str, headers: Mapping[str, str]) -> Answer:
        """Status, headers and body for a GET or HEAD, conditional or not (RFC 9110, section 13.2.2)."""
        cached = {"ETag": self.etag, "Last-Modified": self.last_modified, "Cache-Control": "public, max-age=300"}
        if self._unchanged(_header(headers, "if-none-match"), _header(headers, "if-modified-since")):
            return 304, cached, b""
        described = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **cached}
        return 200, described, self.body if verb == "GET" else b""

    def _unchanged(self, none_match: str | None, modified_since: str | None) -> bool:
        if none_match is not None:
            return none_match.strip() == "*" or self.etag in re.findall(r'"[^"]*"', none_match)
        return modified_since is not None and self.started <= _seconds(modified_since)


def _header(headers: Mapping[str, str], name: str) -> str | None:
    found = [value for key, value in headers.items() if key.lower() == name]
    return ", ".join(found) if found else None


def _seconds(date: str) -> float:
    """A moment in Unix seconds; minus infinity for what is not an HTTP date, which RFC 9110 says to ignore."""
    try:
        parsed = parsedate_tz(date)
        return datetime(*parsed[:6], tzinfo=UTC).timestamp() - (parsed[9] or 0) if parsed else -inf
    except (ValueError, OverflowError):
        return -inf


def rebased(card: AgentCard, base_url: str, keep: Collection[str] = ()) -> AgentCard:
    """A copy whose HTTP interfaces stand under another `scheme://host[:port][/prefix]`, as a trusted proxy tells.

    URLs in `keep` (those an author chose) and gRPC interfaces stay. Signatures go, as they cover the URLs.
    Raises ValueError if `base_url` is not an absolute http or https URL.
    """
    if fault := http_fault(base_url):
        raise ValueError(f"base URL {quote(base_url)} {fault}")
    moved = AgentCard()
    moved.CopyFrom(card)
    del moved.signatures[:]
    for interface in moved.supported_interfaces:
        if interface.protocol_binding in (JSONRPC, HTTP_JSON) and interface.url not in keep:
            interface.url = base_url.rstrip("/") + urlsplit(interface.url).path
    return moved
