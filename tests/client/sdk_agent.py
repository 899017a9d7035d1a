"""An agent of the official Python SDK, wired as its samples do, on all three bindings, in this process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import grpc.aio
import uvicorn
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from starlette.applications import Starlette


class Agent(AgentExecutor):  # type: ignore[misc]
    """`reply TEXT` answers with a message; `ask`, `fail`, `wait` and anything else make a task."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        text, ids = context.get_user_input(), (context.task_id, context.context_id)
        if text.startswith("reply "):
            said = Message(message_id="r1", role=Role.ROLE_AGENT, parts=[Part(text=text[6:])], context_id=ids[1])
            await event_queue.enqueue_event(said)
            return
        updater = TaskUpdater(event_queue, *ids)
        if context.current_task is None:
            begun = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(Task(id=ids[0], context_id=ids[1], status=begun, history=[context.message]))
        await updater.start_work()
        await self._work(text, updater)

    async def _work(self, text: str, updater: Any) -> None:
        if text == "wait":
            await asyncio.Event().wait()
        if text == "ask":
            await updater.requires_input(updater.new_agent_message([Part(text="which?")]))
            return
        if text == "fail":
            await updater.failed(updater.new_agent_message([Part(text="no paper")]))
            return
        for index, piece in enumerate(("Hel", "lo, ", text)):
            await updater.add_artifact(
                [Part(text=piece)], artifact_id="A1", name="greeting", append=index > 0, last_chunk=index == 2
            )
        await updater.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def _card(http: str, grpc_address: str) -> AgentCard:
    urls = {"JSONRPC": http + "/rpc", "HTTP+JSON": http + "/rest", "GRPC": grpc_address}
    return AgentCard(
        name="Peer",
        description="Greets.",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="greet", name="Greet", description="Greets.", tags=["test"])],
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0") for binding, url in urls.items()
        ],
    )


@asynccontextmanager
async def sdk_agent() -> AsyncIterator[str]:
    """The base URL, below which the card is."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        http = f"http://127.0.0.1:{sock.getsockname()[1]}"
        grpc_server = grpc.aio.server()
        port = grpc_server.add_insecure_port("127.0.0.1:0")
        card = _card(http, f"127.0.0.1:{port}")
        handler = DefaultRequestHandler(
            agent_executor=Agent(),
            task_store=InMemoryTaskStore(),
            agent_card=card,
            push_config_store=InMemoryPushNotificationConfigStore(),
            extended_agent_card=_extended(card),
        )
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
        await grpc_server.start()
        async with _uvicorn(handler, card, sock):
            yield http
        await grpc_server.stop(None)


def _extended(card: AgentCard) -> AgentCard:
    made = AgentCard()
    made.CopyFrom(card)
    made.name = "Peer, extended"
    return made


class _Server(uvicorn.Server):  # type: ignore[misc]
    """Takes no signals, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    def capture_signals(self) -> Any:
        return nullcontext()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def _uvicorn(handler: Any, card: AgentCard, sock: socket.socket) -> AsyncIterator[None]:
    routes = [
        *create_agent_card_routes(agent_card=card),
        *create_jsonrpc_routes(handler, "/rpc"),
        *create_rest_routes(handler, path_prefix="/rest"),
    ]
    config = uvicorn.Config(Starlette(routes=routes), log_level="critical", ws="none", lifespan="off")
    config.timeout_graceful_shutdown = 1
    server = _Server(config)
    serving = asyncio.create_task(server.serve([sock]))
    await server.ready.wait()
    try:
        yield
    finally:
        server.should_exit = True
        await serving
