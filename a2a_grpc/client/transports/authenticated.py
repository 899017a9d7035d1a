"""Calls with credentials, which are presented last, and unseen by interceptors."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from google.protobuf.message import Message

from ...errors import UnauthenticatedError
from ...methods import Method
from ..credentials.credential import CredentialsError, Presented, Renewable
from ..credentials.select import Chosen
from .transport import Outgoing, Transport

_NAME, _VALUE = re.compile(r"[\w.-]+", re.ASCII), re.compile("[ -~]+")


class Authenticated:
    """A transport that presents credentials. What was refused is renewed, if that can be, and the call made again."""

    def __init__(self, transport: Transport, credentials: Sequence[Chosen]) -> None:
        self._transport, self._credentials = transport, credentials

    async def unary(self, method: Method, message: Message, call: Outgoing) -> Message:
        presented = await self._present()
        try:
            return await self._transport.unary(method, message, _with(call, presented))
        except UnauthenticatedError:
            if not self._renew(presented):
                raise
        return await self._transport.unary(method, message, _with(call, await self._present()))

    async def stream(self, method: Method, message: Message, call: Outgoing) -> AsyncGenerator[Message, None]:
        for may_renew in (True, False):
            presented, begun = await self._present(), False
            try:
                async with aclosing(self._transport.stream(method, message, _with(call, presented))) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except UnauthenticatedError:
                if begun or not may_renew or not self._renew(presented):
                    raise

    async def close(self) -> None:
        await self._transport.close()

    async def _present(self) -> list[Presented]:
        return [_sendable(await credential.present(scheme)) for credential, scheme in self._credentials]

    def _renew(self, refused: Sequence[Presented]) -> bool:
        pairs = zip((credential for credential, _ in self._credentials), refused, strict=True)
        renewed = [credential.renew(what) for credential, what in pairs if isinstance(credential, Renewable)]
        return any(renewed)


def _sendable(presented: Presented) -> Presented:
    """HTTP and gRPC refuse other characters each in its own way, with errors of their own."""
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in presented.headers.items()):
        names = ", ".join(map(repr, presented.headers))
        raise CredentialsError(f"the credentials for {names} hold what no header can, such as the end of a line")
    return presented


def _with(call: Outgoing, presented: Sequence[Presented]) -> Outgoing:
    """Names are put in lower case: an interceptor's and a credential's header of one name are one."""
    headers, query = {name.lower(): value for name, value in call.metadata.items()}, dict(call.query)
    for one in presented:
        cookies = [c for c in (headers.get("cookie"), one.headers.get("cookie")) if c]
        headers.update((name.lower(), value) for name, value in one.headers.items())
        if cookies:
            headers["cookie"] = "; ".join(cookies)
        query.update(one.query)
    return replace(call, metadata=headers, query=query)
