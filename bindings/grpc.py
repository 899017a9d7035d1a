"""The gRPC binding: a grpc.aio server with reflection and health, whose methods call the in-process server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any
from urllib.parse import quote as percent_encoded

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio

from ..behaviors import RpcHandler
from ..context import AUTH_KEYS, STATUS_DETAILS, CallContext, CallError, Metadatum, grpc_code
from ..encoded import wire
from ..errors import MethodNotFoundError, error_info, with_error_info
from ..handlers import decoder
from ..inprocess import InProcessServer, unknown_method
from ..methods import A2A_SERVICE, Method, methods
from .reflection import add_reflection
from .write_watch import WriteWatch

# Clients accept 8 KiB of metadata. The message is in it twice: percent-encoded by itself, and in the status, as base64.
LARGEST_STATUS = 4000  # bytes
LONGEST_MESSAGE = 1500  # characters, once percent-encoded
LONGEST_ABORT = 1.0  # seconds
HEALTH = "grpc.health.v1.Health"
CHALLENGE = "www-authenticate"

Route = Callable[[Any], InProcessServer]


class GrpcContext(CallContext):
    """The call as grpc.aio knows it."""

    def __init__(self, call: Any, metadata: Any) -> None:
        super().__init__()
        self._call, self._metadata = call, metadata

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


class A2AHandler(grpc.GenericRpcHandler):
    """All methods of the service. A handler is bound to the metadata of its call, which grpc.aio has read already."""

    def __init__(self, route: Route, challenge: str, write_timeout: float) -> None:
        self._bind: dict[str, Callable[[Any], RpcHandler]] = {
            m.path: _stream_binder(m, route, challenge, write_timeout)
            if m.streaming
            else _unary_binder(m, route, challenge)
            for m in methods().values()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "RpcHandler | None":
        bind = self._bind.get(handler_call_details.method)
        return bind(handler_call_details.invocation_metadata or ()) if bind else None


class UnknownMethod(grpc.GenericRpcHandler):
    """An error that teaches, for every path that is none."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> RpcHandler:
        error = _unknown(handler_call_details.method)

        async def refuse(_: Any, call: Any) -> None:
            await _abort(call, error.status())

        return grpc.unary_unary_rpc_method_handler(refuse)


def server_options(max_message_size: int, max_connection_age: float | None) -> list[tuple[str, int]]:
    """Options of the grpc.aio server: one size limit, no shared port, pings that ordinary clients may send."""
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", max_message_size),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
    ]
    if max_connection_age:
        options.append(("grpc.max_connection_age_ms", int(max_connection_age * 1000)))
        options.append(("grpc.max_connection_age_grace_ms", 30_000))
    return options


def add_services(server: grpc.aio.Server, handler: A2AHandler, *, reflection: bool) -> health_aio.HealthServicer:
    """Registers the A2A service first, as it is asked first; then health, reflection, and what answers every path."""
    health = health_aio.HealthServicer()
    server.add_generic_rpc_handlers((handler, _health_handler(health)))
    if reflection:
        add_reflection(server, [A2A_SERVICE.full_name, HEALTH])
    server.add_generic_rpc_handlers((UnknownMethod(),))
    return health


def _health_handler(health: health_aio.HealthServicer) -> grpc.GenericRpcHandler:
    """Check and Watch, which grpcio implements; bytes that are no request ask for a service that there is not."""

    def decode(data: bytes) -> health_pb2.HealthCheckRequest:
        try:
            return health_pb2.HealthCheckRequest.FromString(data)
        except DecodeError:
            return health_pb2.HealthCheckRequest(service="?")

    serialize = health_pb2.HealthCheckResponse.SerializeToString
    handlers = {
        "Check": grpc.unary_unary_rpc_method_handler(health.Check, decode, serialize),
        "Watch": grpc.unary_stream_rpc_method_handler(health.Watch, decode, serialize),
    }
    return grpc.method_handlers_generic_handler(HEALTH, handlers)


def _unknown(path: str) -> MethodNotFoundError:
    service, _, name = path.lstrip("/").rpartition("/")
    if service == A2A_SERVICE.full_name:
        return unknown_method(name, methods())
    return MethodNotFoundError(f"Unknown method {path[:160]}. This server serves {A2A_SERVICE.full_name}.")


def _unary_binder(method: Method, route: Route, challenge: str) -> Callable[[Any], RpcHandler]:
    decode = decoder(method.request)

    async def behavior(metadata: Any, request: Any, call: Any) -> Any:
        context = GrpcContext(call, metadata)
        try:
            response = await route(request).unary(method, request, context)
        except CallError as error:
            return await _abort(call, error.status, _trailing(context, error.status, challenge))
        if context.initial or context.echo:
            await call.send_initial_metadata((*context.echo, *context.initial))
        if context.trailing or context.echo:
            call.set_trailing_metadata((*context.echo, *context.trailing))
        return response

    return lambda metadata: grpc.unary_unary_rpc_method_handler(partial(behavior, metadata), decode, wire)


def _stream_binder(method: Method, route: Route, challenge: str, write_timeout: float) -> Callable[[Any], RpcHandler]:
    decode = decoder(method.request)

    async def behavior(metadata: Any, request: Any, call: Any) -> None:
        context = GrpcContext(call, metadata)
        watch = WriteWatch(context, write_timeout)
        try:
            async with aclosing(route(request).stream(method, request, context)) as responses:
                await _write_all(call, context, responses, watch)
        except (CallError, asyncio.CancelledError) as error:
            status = context.status_of(error)
            await _abort_soon(call, status, _trailing(context, status, challenge))
        finally:
            watch.close()
        if context.trailing or context.echo:
            call.set_trailing_metadata((*context.echo, *context.trailing))

    return lambda metadata: grpc.unary_stream_rpc_method_handler(partial(behavior, metadata), decode, wire)


async def _abort_soon(call: Any, status: Status, trailing: Iterable[Metadatum]) -> None:
    """The status waits behind what a stalled client has not read; the handler does not wait for that."""
    try:
        async with asyncio.timeout(LONGEST_ABORT):
            await _abort(call, status, trailing)
    except TimeoutError:
        raise asyncio.CancelledError from None


async def _write_all(call: Any, context: CallContext, responses: AsyncIterator[Any], watch: WriteWatch) -> None:
    first = True
    async for response in responses:
        if first and (context.initial or context.echo):
            await call.send_initial_metadata((*context.echo, *context.initial))
        first = False
        watch.begin()
        await call.write(response)
        watch.end()


def _trailing(context: CallContext, status: Status, challenge: str) -> list[Metadatum]:
    trailing = [*context.echo, *context.trailing]
    unauthenticated = status.code == grpc.StatusCode.UNAUTHENTICATED.value[0]
    if unauthenticated and challenge and not any(key == CHALLENGE for key, _ in trailing):
        trailing.append(Metadatum(CHALLENGE, challenge))
    return trailing


async def _abort(call: Any, status: Status, trailing: Iterable[Metadatum] = ()) -> None:
    fitted = _fitted(status)
    details = Metadatum(STATUS_DETAILS, fitted.SerializeToString())
    await call.abort(grpc_code(status), fitted.message, (*trailing, details))


def _fitted(status: Status) -> Status:
    """The status, cut so that a client with the usual limit on metadata receives it."""
    cut = Status(code=status.code, message=_cut(status.message), details=status.details)
    if cut.ByteSize() <= LARGEST_STATUS:
        return cut
    info = error_info(status)
    short = Status(code=status.code, message=cut.message)
    if info:
        short.details.add().Pack(ErrorInfo(reason=info.reason[:100], domain=info.domain[:100]))
    return with_error_info(short)


def _cut(message: str) -> str:
    message = message[:LONGEST_MESSAGE]
    while len(percent_encoded(message)) > LONGEST_MESSAGE:
        message = message[: len(message) // 2] + "…"
    return message
