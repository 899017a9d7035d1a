"""Fetching cards, through the cache, with conditions and again where the network fails."""

import asyncio
import time

import aiohttp

from ...card import WELL_KNOWN_PATH
from ...errors import A2AError, ResourceExhaustedError, UnavailableError
from ...generated.a2a_pb2 import AgentCard
from ...inherited import trace
from ..calls import backoff, until_of
from ..errors import ConnectError
from ..settings import ClientOptions
from ..transports import failures
from ..transports.http import network, read_body
from .cache import LEGACY_PATH, CardReadError, cached, card_of

LARGEST_CARD = 4 * 1024 * 1024  # bytes


async def fetch_card(url: str, session: aiohttp.ClientSession, options: ClientOptions) -> AgentCard:
    """From the cache while it is fresh, else asked for again. Only this, of all calls, carries no credentials."""
    try:
        async with asyncio.timeout_at(until_of(options.deadline)):
            card = AgentCard()
            card.CopyFrom(await _found(url, session, options))  # the cached one is shared
            return card
    except TimeoutError:
        raise ConnectError(f"{url} gave no card in time", sent=True) from None


async def _found(url: str, session: aiohttp.ClientSession, options: ClientOptions) -> AgentCard:
    paths = [""] if url.endswith(".json") else [WELL_KNOWN_PATH, LEGACY_PATH]
    for path in paths:
        card = await _fetch(url.rstrip("/") + path, session, options)
        if card:
            return card
    at = " and ".join(filter(None, paths))
    raise CardReadError(f"{url} has no agent card: HTTP 404" + (f" at {at}" if at else ""))


async def _fetch(url: str, session: aiohttp.ClientSession, options: ClientOptions) -> AgentCard | None:
    """None for 404."""
    for attempt in range(1, options.attempts):
        try:
            return await _once(url, session, options)
        except (ConnectError, UnavailableError):
            await asyncio.sleep(backoff(options.backoff, attempt))
    return await _once(url, session, options)


async def _once(url: str, session: aiohttp.ClientSession, options: ClientOptions) -> AgentCard | None:
    known, now = options.cards.cards.get(url), time.monotonic()
    if known and now < known.fresh_until:
        return known.card
    headers = {"Accept": "application/json", **trace(), **(known.conditions if known else {})}
    with network(url):
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            if response.status == 404:
                return None
            body = await _body(url, response, options)
    if response.status == 304 and known:
        options.cards.keep(url, known.renewed(response.headers, now))
        return known.card
    if response.status != 200:
        raise _refused(url, failures.error(failures.of_http(response.status, body, response.headers)))
    card = _read(url, body)
    if kept := cached(card, response.headers, now, options.card_max_age):
        options.cards.keep(url, kept)
    return card


async def _body(url: str, response: aiohttp.ClientResponse, options: ClientOptions) -> bytes:
    try:
        return await read_body(response, LARGEST_CARD, options.idle_timeout)
    except ResourceExhaustedError as error:
        raise CardReadError(f"{url}: {error.message}") from None


def _read(url: str, body: bytes) -> AgentCard:
    try:
        return card_of(body)
    except CardReadError as error:
        raise CardReadError(f"{url}: {error}") from None


def _refused(url: str, error: A2AError) -> Exception:
    return error if isinstance(error, UnavailableError) else CardReadError(f"{url}: {error.message}")
