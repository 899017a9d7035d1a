"""The peer: the same agent written with the official SDK, in the way that costs it least, without its tracing."""

import os
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

import grpc.aio
import uvicorn
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.types import a2a_pb2_grpc
from starlette.applications import Starlette
from uvloop import new_event_loop

from a2a_grpc.generated.a2a_pb2 import AgentInterface, StreamResponse, Task

from . import messages
from .agent import EVENTS

LOOPS = {"http": new_event_loop}  # uvloop is what uvicorn picks itself; grpc.aio does no better with it


class Executor(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        for response in _responses(context.message, context.get_user_input()):
            event = getattr(response, response.WhichOneof("payload"))
            setattr(event, "id" if isinstance(event, Task) else "task_id", context.task_id)
            event.context_id = context.context_id
            await event_queue.enqueue_event(event)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        raise NotImplementedError


async def http(port: int) -> None:
    handler = _handler()
    app = Starlette(routes=[*create_jsonrpc_routes(handler, "/"), *create_rest_routes(handler)])
    await uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", access_log=False)).serve()


async def grpc_(port: int) -> grpc.aio.Server:
    server = grpc.aio.server()
    server.add_insecure_port(f"127.0.0.1:{port}")
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(_handler()), server)
    await server.start()
    return server


def _responses(message: Any, text: str) -> Iterable[StreamResponse]:
    """Copies of the kept events, since the SDK wants the ids of its own task in them."""
    return map(_copy, EVENTS) if text == messages.IN_PIECES else [StreamResponse(task=messages.task(message))]


def _copy(event: StreamResponse) -> StreamResponse:
    copied = StreamResponse()
    copied.CopyFrom(event)
    return copied


def _handler() -> DefaultRequestHandler:
    card = messages.card()
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
        card.supported_interfaces.append(
            AgentInterface(url="http://127.0.0.1/", protocol_binding=binding, protocol_version="1.0")
        )
    return DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
