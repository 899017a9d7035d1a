"""One call: tenant and version, interceptors; another interface where one does not connect; retries."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any

from google.protobuf.message import Message

from .. import service_parameters
from ..errors import A2AError, DeadlineExceededError, InvalidAgentResponseError
from ..generated.a2a_pb2 import AgentCard, AgentInterface, Task
from ..inherited import sooner, trace
from ..methods import Method, methods
from .cards.choose import VERSION
from .durations import DURATION, is_duration
from .errors import ConnectError, is_broken, retry_delay
from .settings import Call, ClientOptions
from .transports.transport import Outgoing, Transport

LONGEST_BACKOFF = 5.0  # seconds
READS = frozenset(
    {
        "GetTask",
        "ListTasks",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "GetExtendedAgentCard",
    }
)
"""What may be called again without harm."""

Open = Callable[[AgentInterface], Transport]


class Calls:
    """Calls to one agent. `interfaces` are tried in order; the one that connects is kept."""

    def __init__(
        self,
        card: AgentCard,
        interfaces: Sequence[AgentInterface],
        open_transport: Open,
        options: ClientOptions,
    ) -> None:
        self.card, self.options = card, options
        self._interfaces, self._open = interfaces, open_transport
        self._transports: dict[int, Transport] = {}
        self._methods = methods()
        self._at, self._closed = 0, False

    @property
    def interface(self) -> AgentInterface:
        """The one in use."""
        return self._interfaces[self._at]

    async def unary(self, name: str, message: Any, until: float | None = None) -> Any:
        """`until` is on the clock of the loop; where it is None, the option `deadline` and the inherited one hold."""
        until = until_of(self.options.deadline) if until is None else until
        assert until is not None
        _check_time(name, until)
        method, call = self._methods[name], self._read if name in READS else self._unary
        try:
            async with asyncio.timeout_at(until) as limit:
                return await call(method, message, until)
        except TimeoutError:
            if not limit.expired():  # it is of an interceptor, or of credentials
                raise
            raise DeadlineExceededError(f"{name} did not end within its deadline") from None

    async def stream(self, name: str, message: Any, until: float | None = None) -> AsyncGenerator[Any, None]:
        """Without `until` it may last; what must come within `idle_timeout` is the next sign of life."""
        method, first = self._methods[name], None
        _check_time(name, until)
        for index in self._order():
            started = False
            try:
                call, sent = await self._outgoing(index, method, message, until, self.options.idle_timeout)
                async with aclosing(self._transport(index).stream(method, sent, call)) as events:
                    async for event in events:
                        started, self._at = True, index
                        yield event
                self._at = index
                return
            except ConnectError as error:
                if started or error.sent:
                    raise
                first = first or error
        raise first or AssertionError

    async def close(self) -> None:
        self._closed = True
        for transport in self._transports.values():
            await transport.close()

    async def _read(self, method: Method, message: Message, until: float) -> Message:
        """Tries again until it has an answer. No attempt takes longer than the option `deadline`."""
        for attempt in range(1, self.options.attempts):
            try:
                return await self._attempt(method, message, until)
            except (A2AError, ConnectError) as error:
                pause = max(backoff(self.options.backoff, attempt), retry_delay(error))
                if not is_broken(error) or now() + pause >= until:
                    raise
                await asyncio.sleep(pause)
        return await self._attempt(method, message, until)

    async def _attempt(self, method: Method, message: Message, until: float) -> Message:
        end = min(until, now() + self.options.deadline)
        try:
            async with asyncio.timeout_at(end) as limit:
                return await self._unary(method, message, end)
        except (TimeoutError, DeadlineExceededError) as error:
            if now() >= until or (isinstance(error, TimeoutError) and not limit.expired()):
                raise
            raise ConnectError(f"{method.name}: no answer in {self.options.deadline:g} s", sent=True) from None

    async def _unary(self, method: Method, message: Message, until: float) -> Message:
        first = None
        for index in self._order():
            try:
                call, sent = await self._outgoing(index, method, message, until, None)
                response = await self._transport(index).unary(method, sent, call)
                self._at = index
                return _checked(method, response)
            except A2AError:
                self._at = index
                raise
            except ConnectError as error:
                if error.sent:
                    raise
                first = first or error
        raise first or AssertionError

    def _order(self) -> Iterator[int]:
        """All interfaces, from the one in use."""
        count, at = len(self._interfaces), self._at
        return ((at + step) % count for step in range(count))

    def _transport(self, index: int) -> Transport:
        if self._closed:
            raise ConnectError("the client was closed", sent=False)
        if index not in self._transports:
            self._transports[index] = self._open(self._interfaces[index])
        return self._transports[index]

    async def _outgoing(
        self, index: int, method: Method, message: Any, until: float | None, idle: float | None
    ) -> tuple[Outgoing, Message]:
        call = await self._intercepted(index, method, message)
        timeout = None if until is None else max(0.001, until - now())
        return Outgoing(call.metadata, timeout=timeout, idle=idle), call.message

    async def _intercepted(self, index: int, method: Method, message: Any) -> Call:
        sent = type(message)()
        sent.CopyFrom(message)
        sent.tenant = self._interfaces[index].tenant
        metadata = {service_parameters.VERSION: VERSION, **trace()}
        if self.options.extensions:
            metadata[service_parameters.EXTENSIONS[0]] = ",".join(self.options.extensions)
        call = Call(method, sent, metadata, self.card)
        for interceptor in self.options.interceptors:
            made = interceptor(call)
            made = await made if isawaitable(made) else made
            if not isinstance(made, Call):
                raise TypeError(f"an interceptor must return a Call: {interceptor} returned {made!r}")
            call = made
        return call


def _checked(method: Method, response: Message) -> Message:
    if isinstance(response, Task) and not response.id:
        raise InvalidAgentResponseError(f"The agent answered {method.name} with a task that has no id")
    return response


def now() -> float:
    return asyncio.get_running_loop().time()


def until_of(deadline: float | None) -> float | None:
    """On the clock of the loop: what a caller allows, and no longer than the call that is being answered."""
    if deadline is not None and not is_duration(deadline):
        raise ValueError(f"deadline must be a number of {DURATION}, not {deadline!r}")
    return sooner(None if deadline is None else now() + deadline)


def _check_time(name: str, until: float | None) -> None:
    if until is not None and until <= now():
        raise DeadlineExceededError(f"{name} was not sent: its deadline has passed")


def backoff(first: float, attempt: int) -> float:
    """Seconds before another attempt: doubling, and spread so that many clients do not come at once."""
    longest: float = min(LONGEST_BACKOFF, first * 2 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)
