"""The call of a gRPC client: what grpc.aio knows of it, and what it is told at its start and at its end."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.rpc.status_pb2 import Status

from ..context import AUTH_KEYS, CallContext, Metadatum
from .grpc_status import abort

CHALLENGE = "www-authenticate"
LONGEST_ABORT = 1.0  # seconds


class GrpcContext(CallContext):
    """The call as grpc.aio knows it. The challenge is told to a client without credentials."""

    def __init__(self, call: Any, metadata: Any, challenge: str) -> None:
        super().__init__()
        self._call, self._metadata, self._challenge = call, metadata, challenge

    def invocation_metadata(self) -> Any:
        return self._metadata

    def parameter(self, *names: str) -> list[str]:
        return [value for key, value in self._metadata if key in names]

    def peer(self) -> str:
        return "" if self.done() else str(self._call.peer())

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        if self.done():  # grpc's own would crash the process then
            return {}
        auth: Mapping[str, Iterable[bytes]] = self._call.auth_context()
        return {key: auth[key] for key in AUTH_KEYS if key in auth}

    def time_remaining(self) -> float | None:  # type: ignore[override]
        remaining: float | None = self._call.time_remaining()
        return remaining

    def set_compression(self, compression: grpc.Compression) -> None:
        self._call.set_compression(compression)

    def disable_next_message_compression(self) -> None:
        self._call.disable_next_message_compression()

    # What the client is told.

    async def tell_initial(self) -> None:
        if self.initial or self.echo:
            await self._call.send_initial_metadata((*self.echo, *self.initial))

    def tell_trailing(self) -> None:
        if self.trailing or self.echo:
            self._call.set_trailing_metadata((*self.echo, *self.trailing))

    async def fail(self, status: Status) -> None:
        """Raises, as `abort` does."""
        trailing = [*self.echo, *self.trailing]
        unauthenticated = status.code == grpc.StatusCode.UNAUTHENTICATED.value[0]
        if unauthenticated and self._challenge and not any(key == CHALLENGE for key, _ in trailing):
            trailing.append(Metadatum(CHALLENGE, self._challenge))
        await abort(self._call, status, trailing)

    async def fail_soon(self, status: Status) -> None:
        """The status waits behind what a stalled client has not read; the handler does not wait for that."""
        try:
            async with asyncio.timeout(LONGEST_ABORT):
                await self.fail(status)
        except TimeoutError:
            raise asyncio.CancelledError from None
