"""One attempt to deliver to a webhook: a POST to an address that the policy allows."""

import errno
import io
import os
import socket
import time
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from ..encoded import Encoded
from ..generated import a2a_pb2 as pb
from .push_policy import PushPolicy

MEDIA_TYPE = "application/a2a+json"
TOKEN_HEADERS = ("X-A2A-Notification-Token", "A2A-Notification-Token")
ID_HEADER = "Idempotency-Key"  # the same in all attempts of one delivery: two equal chunks are two events
RETRIED = frozenset({408, 429, *range(500, 600)})
LARGE = 1 << 20  # a larger body is written piece by piece


class Outcome(NamedTuple):
    """Of one attempt; `failure` is "" where it succeeded. `after` is what the receiver asked to wait, in seconds."""

    failure: str = ""
    retry: bool = False
    after: float = 0.0


class WebhookClient:
    """Keeps connections, and nothing else, from one request to the next. `timeout` is in seconds, DNS included."""

    def __init__(self, policy: PushPolicy, timeout: float, resolver: AbstractResolver | None) -> None:
        self._policy, self._timeout, self._resolver = policy, aiohttp.ClientTimeout(total=timeout), resolver
        self._session: aiohttp.ClientSession | None = None

    async def post(self, config: pb.TaskPushNotificationConfig, event: Encoded, id: str) -> Outcome:
        """Raises nothing. What comes back is told by its status; its body is not read."""
        try:
            if violations := self._policy.violations(config):
                return Outcome(f"not permitted: {violations[0].field} {violations[0].description}")
            return await self._post(config, event.json, id)
        except Exception as error:
            return _failed(error)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _post(self, config: pb.TaskPushNotificationConfig, body: bytes, id: str) -> Outcome:
        async with self._open().post(
            URL(config.url, encoded=True),
            data=body if len(body) < LARGE else io.BytesIO(body),
            headers=_headers(config, id),
            allow_redirects=False,
        ) as response:
            if 200 <= response.status < 300:
                return Outcome()
            after = retry_after(response.headers.get("Retry-After", ""), time.time())
            return Outcome(f"HTTP status {response.status}", response.status in RETRIED, after)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=self._resolver, socket_factory=self._socket),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "a2a-grpc"},
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Sees every address before it is dialled, so that no name can lead where the policy does not allow."""
        family, kind, protocol, _, address = info
        if not self._policy.allows_address(address[0]):
            raise OSError(errno.EACCES, "webhooks may not be at this address")
        return socket.socket(family, kind, protocol)


def retry_after(text: str, now: float) -> float:
    """Seconds from a Retry-After header, which holds them or a date; 0 for anything else."""
    try:
        if text.isdecimal():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0


def _headers(config: pb.TaskPushNotificationConfig, id: str) -> dict[str, str]:
    headers = {"Content-Type": MEDIA_TYPE, ID_HEADER: id}
    authentication = config.authentication
    if authentication.scheme and authentication.credentials:
        headers["Authorization"] = f"{authentication.scheme} {authentication.credentials}"
    if config.token:
        headers |= dict.fromkeys(TOKEN_HEADERS, config.token)
    return headers


def _failed(error: Exception) -> Outcome:
    """Without the text of the error, which may hold the URL."""
    number = getattr(error, "errno", None) or 0
    if number == errno.EACCES:
        return Outcome("its address is not one that webhooks may be at")
    is_network = isinstance(error, aiohttp.ClientError | OSError)
    return Outcome(os.strerror(number) if number > 0 else type(error).__name__, is_network)
