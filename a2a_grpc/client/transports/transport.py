"""What a client asks of a transport."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import Message

from ...methods import Method


@dataclass(frozen=True)
class Outgoing:
    """What goes with one call. `timeout` and `idle` are seconds; the first is told to the server."""

    metadata: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    idle: float | None = None


class Transport(Protocol):
    """Carries calls to one interface of an agent.

    Raises the errors of `failures`: A2AError for what the server says, ConnectError for what the network does. A stream
    that simply ends has been ended by the server.
    """

    async def unary(self, method: Method, message: Message, call: Outgoing) -> Message: ...

    def stream(self, method: Method, message: Message, call: Outgoing) -> AsyncGenerator[Message, None]: ...

    async def close(self) -> None: ...
