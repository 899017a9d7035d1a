"""OAuth 2 client credentials: a token fetched once, shared by all calls, and renewed before it ends. RFC 6749, 4.4."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp

from ...bindings.protojson import JsonSyntaxError, loads
from ...errors import ResourceExhaustedError, UnauthenticatedError, log
from ...generated.a2a_pb2 import SecurityScheme
from ..addresses import is_loopback, origin
from ..transports.http import read_body
from .credential import Presented, basic, bearer, fits_token

USUAL_LIFE = 300.0  # seconds of a token that does not say
LONGEST_FETCH = 10.0  # seconds
LARGEST_ANSWER = 64 * 1024  # bytes
_TOKEN = re.compile("[!-~]+")
_SECONDS = re.compile("[0-9]{1,9}")


class TokenError(UnauthenticatedError):
    """There is no token to call with. What the place of tokens says is not for one's own callers."""

    received = True


@dataclass
class OAuth2:
    """Client credentials. `token_url` is not read from the card: a card must not choose who is told the secret.

    A token is renewed `ahead` seconds before it ends, or after half of its life, beside the calls that still use it; at
    once, where the agent refuses it.
    """

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str = ""
    scope: str = ""
    ahead: float = 60.0
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _token: str = field(default="", init=False, repr=False)
    _renew_at: float = field(default=0.0, init=False, repr=False)
    _ends_at: float = field(default=0.0, init=False, repr=False)
    _fetching: "asyncio.Task[None] | None" = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        found = origin(self.token_url)
        if not self.token_url.startswith("https://") and not is_loopback(found.host):
            raise ValueError("token_url must begin with https://: a secret is sent there")

    def fits(self, scheme: SecurityScheme) -> bool:
        return fits_token(scheme)

    async def present(self, scheme: SecurityScheme) -> Presented:
        now = self.clock()
        fetching = self._fetching
        if fetching and fetching.get_loop() is not asyncio.get_running_loop():
            fetching = None  # another thread's, or one whose loop has gone
        if now >= self._renew_at and fetching is None:
            self._fetching = fetching = asyncio.create_task(self._fetch())
            fetching.add_done_callback(self._fetched)
        if fetching and now >= self._ends_at:
            await asyncio.shield(fetching)
        return bearer(self._token)

    def renew(self, refused: Presented) -> bool:
        """A token that was refused before its end has been revoked."""
        if refused == bearer(self._token):
            self._renew_at = self._ends_at = 0.0
        return True

    def _fetched(self, task: "asyncio.Task[None]") -> None:
        if self._fetching is task:
            self._fetching = None
        if not task.cancelled() and (error := task.exception()):
            log.warning("a token could not be fetched: %s", error)

    async def _fetch(self) -> None:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        pair = basic(quote(self.client_id, safe=""), quote(self.client_secret, safe=""))  # RFC 6749, 2.3.1
        headers = {"Authorization": pair, "Accept": "application/json"}
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(LONGEST_FETCH)) as session:
                async with session.post(self.token_url, data=form, headers=headers, allow_redirects=False) as response:
                    answer = loads(await read_body(response, LARGEST_ANSWER, LONGEST_FETCH))
        except (aiohttp.ClientError, OSError, JsonSyntaxError, ResourceExhaustedError) as error:
            raise TokenError(f"No token from {origin(self.token_url)}: {type(error).__name__}") from error
        self._keep(answer, response.status)

    def _keep(self, answer: Any, http_status: int) -> None:
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if http_status != 200 or not isinstance(token, str) or not _TOKEN.fullmatch(token):
            why = answer.get("error", "") if isinstance(answer, dict) else ""
            raise TokenError(f"No token from {origin(self.token_url)}: HTTP {http_status} {why}".rstrip())
        given = str(answer.get("expires_in"))
        life = float(given) if _SECONDS.fullmatch(given) else USUAL_LIFE
        now = self.clock()
        self._token, self._ends_at = token, now + life
        self._renew_at = self._ends_at - min(self.ahead, life / 2)
