"""The gRPC binding: a grpc.aio server with reflection and health, whose methods call the in-process server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health_aio

from ..behaviors import RpcHandler
from ..context import CallError
from ..encoded import wire
from ..errors import MethodNotFoundError
from ..handlers import decoder
from ..inprocess import InProcessServer, unknown_method
from ..methods import A2A_SERVICE, Method, methods
from .grpc_context import GrpcContext
from .grpc_status import abort
from .reflection import add_reflection
from .write_watch import WriteWatch

HEALTH = "grpc.health.v1.Health"

Route = Callable[[Any], InProcessServer]


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
            await abort(call, error.status())

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
        context = GrpcContext(call, metadata, challenge)
        try:
            response = await route(request).unary(method, request, context)
        except CallError as error:
            return await context.fail(error.status)
        await context.tell_initial()
        context.tell_trailing()
        return response

    return lambda metadata: grpc.unary_unary_rpc_method_handler(partial(behavior, metadata), decode, wire)


def _stream_binder(method: Method, route: Route, challenge: str, write_timeout: float) -> Callable[[Any], RpcHandler]:
    decode = decoder(method.request)

    async def behavior(metadata: Any, request: Any, call: Any) -> None:
        context = GrpcContext(call, metadata, challenge)
        watch = WriteWatch(context, write_timeout)
        try:
            async with aclosing(route(request).stream(method, request, context)) as responses:
                await _write_all(call, context, responses, watch)
        except (CallError, asyncio.CancelledError) as error:
            await context.fail_soon(context.status_of(error))
        finally:
            watch.close()
        context.tell_trailing()

    return lambda metadata: grpc.unary_stream_rpc_method_handler(partial(behavior, metadata), decode, wire)


async def _write_all(call: Any, context: GrpcContext, responses: AsyncIterator[Any], watch: WriteWatch) -> None:
    first = True
    async for response in responses:
        if first:
            await context.tell_initial()
        first = False
        watch.begin()
        await call.write(response)
        watch.end()
