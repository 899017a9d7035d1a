"""Calls over gRPC."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status

from ...errors import A2AError, InvalidAgentResponseError
from ...methods import Method
from ..addresses import address
from ..errors import ConnectError, Fault
from ..settings import ClientOptions
from .failures import error, of_status
from .transport import Outgoing

LONGEST_RETRY = 1.0  # seconds between two attempts of a channel to connect
DETAILS = "grpc-status-details-bin"
_READY = grpc.ChannelConnectivity.READY
_FAILED = grpc.ChannelConnectivity.TRANSIENT_FAILURE


class _Connection:
    """A channel, and how many calls use it. One that is given up is closed after the last of them."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self._calls: dict[str, Any] = {}
        self._in_use = 0
        self._given_up = False

    def start(self, method: Method, message: Message, call: Outgoing) -> Any:
        multi = self._calls.get(method.name)
        if multi is None:
            shape = self.channel.unary_stream if method.streaming else self.channel.unary_unary
            multi = shape(method.path, method.request.SerializeToString, method.response.FromString)
            self._calls[method.name] = multi
        metadata = tuple(call.metadata.items())
        return multi(message, metadata=metadata, timeout=call.timeout)

    def give_up(self) -> None:
        self._given_up = True

    async def __aenter__(self) -> Self:
        self._in_use += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._in_use -= 1
        if self._given_up and not self._in_use:
            await self.channel.close()


class GrpcTransport:
    """One channel, and another where a stream has gone silent: its connection may be dead without knowing it.

    Pings go at most every five minutes: servers refuse, by default, clients that ping more often.
    """

    def __init__(self, url: str, options: ClientOptions) -> None:
        self._address = address(url, insecure=options.insecure)
        self._options = options
        self._connection = self._opened()

    async def unary(self, method: Method, message: Message, call: Outgoing) -> Message:
        await self._connect()
        try:
            async with self._connection as connection:
                response = await connection.start(method, message, call)
        except (grpc.aio.AioRpcError, KeyError) as failed:
            raise _failure(failed) from None
        except asyncio.CancelledError:
            _check_open()
            raise
        return _decoded(method, response)

    async def stream(self, method: Method, message: Message, call: Outgoing) -> AsyncGenerator[Message, None]:
        await self._connect()
        async with self._connection as connection:
            running = connection.start(method, message, call)
            try:
                while (response := await self._read(connection, running, call.idle)) is not grpc.aio.EOF:
                    yield _decoded(method, response)
            except (grpc.aio.AioRpcError, KeyError) as failed:
                raise _failure(failed) from None
            except asyncio.CancelledError:
                _check_open()
                raise
            finally:
                running.cancel()

    async def close(self) -> None:
        await self._connection.channel.close()

    async def _read(self, connection: _Connection, running: Any, idle: float | None) -> Any:
        try:
            async with asyncio.timeout(idle):
                return await running.read()
        except TimeoutError:
            if connection is self._connection:
                connection.give_up()
                self._connection = self._opened()
            raise ConnectError(f"nothing came on the stream in {idle:g} s", sent=True) from None

    def _opened(self) -> _Connection:
        target, options = self._address.target, _channel_options(self._options)
        if not self._address.tls:
            return _Connection(grpc.aio.insecure_channel(target, options))
        tls = self._options.tls.channel_credentials() if self._options.tls else grpc.ssl_channel_credentials()
        return _Connection(grpc.aio.secure_channel(target, tls, options))

    async def _connect(self) -> None:
        """Waits until the channel is connected, which a call alone cannot tell from a server that is unavailable."""
        channel = self._connection.channel
        state = channel.get_state(try_to_connect=True)
        if state is _READY:
            return
        failed_before = state is _FAILED  # and stays so while the channel goes on trying
        seconds = min(self._options.connect_timeout, LONGEST_RETRY) if failed_before else self._options.connect_timeout
        try:
            async with asyncio.timeout(seconds):
                await self._connected(channel, failed_before)
        except TimeoutError:
            self._refuse(f"no answer in {seconds:g} s")

    async def _connected(self, channel: grpc.aio.Channel, failed_before: bool) -> None:
        while (state := channel.get_state(try_to_connect=True)) is not _READY:
            if state is _FAILED and not failed_before:
                self._refuse("refused, or not gRPC" + (" with TLS" if self._address.tls else " without TLS"))
            await channel.wait_for_state_change(state)

    def _refuse(self, why: str) -> None:
        raise ConnectError(f"cannot connect to {self._address.target} (gRPC): {why}", sent=False)


def _channel_options(options: ClientOptions) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", options.max_response),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 64 * 1024),
        ("grpc.absolute_max_metadata_size", 128 * 1024),
        ("grpc.keepalive_time_ms", 300_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", int(LONGEST_RETRY * 1000)),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),  # no more than on HTTP
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
    ]


def _check_open() -> None:
    """grpc cancels the calls of a channel that is closed; nobody has cancelled the task that made one."""
    task = asyncio.current_task()
    if task and not task.cancelling():
        raise ConnectError("the client was closed", sent=True) from None


def _decoded(method: Method, response: Any) -> Message:
    if not isinstance(response, method.response):  # grpc gives None where it could not decode
        raise InvalidAgentResponseError(f"The agent answered {method.name} with bytes that do not decode")
    return response


def _failure(failed: grpc.aio.AioRpcError | KeyError) -> A2AError | ConnectError:
    if isinstance(failed, KeyError):  # older grpc, of a code that is none
        return error(Fault(code_pb2.UNKNOWN, f"the agent answered with the unknown code {failed}"))
    status = _status(failed)
    fault = of_status(status)
    if failed.code() is grpc.StatusCode.UNAVAILABLE and fault.info is None:
        return ConnectError(f"the connection failed: {status.message}", sent=True)
    return error(fault)


def _status(failed: grpc.aio.AioRpcError) -> Status:
    """With its details, unless they are of another status."""
    plain = Status(code=failed.code().value[0], message=failed.details() or "")
    for key, value in failed.trailing_metadata() or ():
        if key == DETAILS and isinstance(value, bytes):
            with suppress(DecodeError):
                status = Status.FromString(value)
                return status if status.code == plain.code else plain
    return plain
