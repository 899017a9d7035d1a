"""The official Python client, made from the card alone: every operation, every error, on every binding."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.utils import errors as sdk
from aiohttp import web
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc import Mount, Server, mount
from a2a_grpc.generated import a2a_pb2 as a2a
from a2a_grpc.methods import methods
from tests.interop.agent import FAULTS, WEBHOOK, Catalogue, events, reply, task, webhook

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")
TIMEOUT = 10.0  # seconds, for one test

everywhere = pytest.mark.parametrize("binding", BINDINGS)


@asynccontextmanager
async def connected(url: str, binding: str, *, streaming: bool = True) -> AsyncIterator[Client]:
    """A client that knows the URL under which the card is, and the binding that it prefers."""
    config = ClientConfig(
        streaming=streaming,
        supported_protocol_bindings=[binding],
        grpc_channel_factory=grpc.aio.insecure_channel,
    )
    async with asyncio.timeout(TIMEOUT), await ClientFactory(config).create_from_url(url) as client:
        yield client


def asking(text: str, **more: Any) -> a2a.SendMessageRequest:
    message = a2a.Message(message_id="m1", role=a2a.ROLE_USER, parts=[a2a.Part(text=text)], **more)
    return a2a.SendMessageRequest(message=message)


async def only(responses: AsyncIterator[a2a.StreamResponse]) -> a2a.StreamResponse:
    (response,) = [r async for r in responses]
    return response


async def drained(responses: AsyncIterator[a2a.StreamResponse]) -> None:
    async for _ in responses:
        pass


# Operations

LISTING = a2a.ListTasksRequest(
    context_id="c/1 &=é",
    status=a2a.TASK_STATE_COMPLETED,
    page_size=7,
    page_token="+/==",
    status_timestamp_after=Timestamp(seconds=1_767_225_600, nanos=5_000_000),
    include_artifacts=True,
)
LISTED = a2a.ListTasksResponse(
    tasks=[task("t1"), task("t2")],
    next_page_token="c/1 &=é|TASK_STATE_COMPLETED|2026-01-01T00:00:00.005Z|True",
    page_size=7,
    total_size=2,
)
HOOK = a2a.TaskPushNotificationConfig(
    task_id="t1",
    url=WEBHOOK,
    token="s3cret",
    authentication=a2a.AuthenticationInfo(scheme="Bearer", credentials="abc"),
)
TWO_HOOKS = a2a.ListTaskPushNotificationConfigsResponse(configs=[webhook("w1"), webhook("w2")], next_page_token="2")


def canceled(**metadata: Any) -> a2a.Task:
    made = task("t2")
    made.status.state = a2a.TASK_STATE_CANCELED
    made.metadata.Clear()
    made.metadata.update(metadata)
    return made


def without_history() -> a2a.Task:
    made = task("t1")
    del made.history[:]
    return made


UNARY: dict[str, tuple[Callable[[Client], Awaitable[Any]], Message | None]] = {
    "SendMessage": (
        lambda c: only(c.send_message(asking("hello ☃"))),
        a2a.StreamResponse(message=reply(asking("hello ☃").message)),
    ),
    "SendMessage, task": (
        lambda c: only(c.send_message(asking("task"))),
        a2a.StreamResponse(task=task("t1")),
    ),
    "GetTask": (lambda c: c.get_task(a2a.GetTaskRequest(id="t1")), task("t1")),
    "GetTask, historyLength 0": (
        lambda c: c.get_task(a2a.GetTaskRequest(id="t1", history_length=0)),
        without_history(),
    ),
    "ListTasks": (lambda c: c.list_tasks(LISTING), LISTED),
    "CancelTask": (
        lambda c: c.cancel_task(a2a.CancelTaskRequest(id="t2", metadata={"why": "tired", "n": 0.5})),
        canceled(why="tired", n=0.5),
    ),
    "CreateTaskPushNotificationConfig": (lambda c: c.create_task_push_notification_config(HOOK), webhook()),
    "GetTaskPushNotificationConfig": (
        lambda c: c.get_task_push_notification_config(a2a.GetTaskPushNotificationConfigRequest(task_id="t2", id="w9")),
        webhook("w9", "t2"),
    ),
    "ListTaskPushNotificationConfigs": (
        lambda c: c.list_task_push_notification_configs(
            a2a.ListTaskPushNotificationConfigsRequest(task_id="t1", page_size=2, page_token="2")
        ),
        TWO_HOOKS,
    ),
    "DeleteTaskPushNotificationConfig": (
        lambda c: c.delete_task_push_notification_config(
            a2a.DeleteTaskPushNotificationConfigRequest(task_id="t1", id="w1")
        ),
        None,
    ),
}
STREAMS: dict[str, tuple[Callable[[Client], AsyncIterator[Any]], list[a2a.StreamResponse]]] = {
    "SendStreamingMessage": (lambda c: c.send_message(asking("hello ☃")), events("t1", "hello ☃")),
    "SendStreamingMessage, message": (
        lambda c: c.send_message(asking("message")),
        [a2a.StreamResponse(message=reply(asking("message").message))],
    ),
    "SubscribeToTask": (
        lambda c: c.subscribe(a2a.SubscribeToTaskRequest(id="t2")),
        events("t2", "subscribed"),
    ),
}


def test_every_operation_is_called() -> None:
    called = {name.partition(",")[0] for name in (*UNARY, *STREAMS, "GetExtendedAgentCard")}
    assert called == set(methods())


@everywhere
@pytest.mark.parametrize("operation", UNARY)
async def test_unary(server: Server, binding: str, operation: str) -> None:
    call, expected = UNARY[operation]
    async with connected(server.http_url, binding, streaming=False) as client:
        assert await call(client) == expected


@everywhere
@pytest.mark.parametrize("operation", STREAMS)
async def test_stream(server: Server, binding: str, operation: str) -> None:
    call, expected = STREAMS[operation]
    async with connected(server.http_url, binding) as client:
        assert [event async for event in call(client)] == expected


@everywhere
async def test_extended_card(server: Server, binding: str) -> None:
    async with connected(server.http_url, binding) as client:
        card = await client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest())
    assert (card.name, len(card.supported_interfaces)) == ("Catalogue, extended", 1)


# Errors

REFUSED: dict[str, tuple[Callable[[Client], Awaitable[Any]], type[Exception], str]] = {
    "GetTask": (lambda c: c.get_task(a2a.GetTaskRequest(id="t9")), sdk.TaskNotFoundError, "No task t9"),
    "CancelTask, unknown": (
        lambda c: c.cancel_task(a2a.CancelTaskRequest(id="t9")),
        sdk.TaskNotFoundError,
        "No task t9",
    ),
    "CancelTask, ended": (
        lambda c: c.cancel_task(a2a.CancelTaskRequest(id="t1")),
        sdk.TaskNotCancelableError,
        "Task t1 has ended",
    ),
    "SubscribeToTask, ended": (
        lambda c: drained(c.subscribe(a2a.SubscribeToTaskRequest(id="t1"))),
        sdk.UnsupportedOperationError,
        "Task t1 has ended",
    ),
    "SubscribeToTask, unknown": (
        lambda c: drained(c.subscribe(a2a.SubscribeToTaskRequest(id="t9"))),
        sdk.TaskNotFoundError,
        "No task t9",
    ),
    "DeleteTaskPushNotificationConfig": (
        lambda c: c.delete_task_push_notification_config(
            a2a.DeleteTaskPushNotificationConfigRequest(task_id="t9", id="w1")
        ),
        sdk.TaskNotFoundError,
        "No task t9",
    ),
    "SendMessage, invalid": (
        lambda c: drained(
            c.send_message(a2a.SendMessageRequest(message=a2a.Message(message_id="m1", role="ROLE_USER")))
        ),
        sdk.InvalidParamsError,
        "message.parts: ",
    ),
    "ListTasks, invalid": (
        lambda c: c.list_tasks(a2a.ListTasksRequest(page_size=101)),
        sdk.InvalidParamsError,
        ("page_size: ", "pageSize: "),  # on gRPC, and where it was written as JSON
    ),
}


@everywhere
@pytest.mark.parametrize("operation", REFUSED)
async def test_errors(server: Server, binding: str, operation: str) -> None:
    call, kind, text = REFUSED[operation]
    async with connected(server.http_url, binding) as client:
        with pytest.raises(kind) as caught:
            await call(client)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


@everywhere
@pytest.mark.parametrize("streaming", [False, True], ids=["unary", "stream"])
async def test_each_kind_of_error(server: Server, binding: str, streaming: bool) -> None:
    async with connected(server.http_url, binding, streaming=streaming) as client:
        for reason, ours in FAULTS.items():
            with pytest.raises(sdk.A2AError) as caught:
                await drained(client.send_message(asking(reason)))
            assert (type(caught.value), str(caught.value)) == (sdk.A2A_REASON_TO_ERROR[reason], ours.text)


@everywhere
async def test_error_in_the_middle_of_a_stream(server: Server, binding: str) -> None:
    expected = events("t1", "break UNSUPPORTED_OPERATION")[:2]
    async with connected(server.http_url, binding) as client:
        responses = client.send_message(asking("break UNSUPPORTED_OPERATION"))
        assert [await anext(responses) for _ in expected] == expected
        with pytest.raises(sdk.UnsupportedOperationError):
            await anext(responses)


@everywhere
@pytest.mark.parametrize("streaming", [False, True], ids=["unary", "stream"])
async def test_a_crash_is_an_internal_error(
    server: Server, binding: str, streaming: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server.http_url, binding, streaming=streaming) as client:
        with caplog.at_level(logging.CRITICAL, "a2a_grpc"), pytest.raises(sdk.InternalError) as caught:
            await drained(client.send_message(asking("crash")))
    assert "Internal error. Reference: " in str(caught.value)
    assert "secret" not in str(caught.value)


# Addresses in the card


@everywhere
async def test_agents_below_prefixes(binding: str) -> None:
    """Each agent's card leads to that agent, on gRPC by its tenant."""
    mounts = [Mount(Named(name), prefix=f"/agents/{name}", tenant=name) for name in ("a", "b")]
    async with Server(mounts, http_port=0, grpc_port=0, shutdown_deadline=2) as server:
        for name in ("a", "b"):
            async with connected(f"{server.http_url}/agents/{name}", binding) as client:
                assert (await client.get_task(a2a.GetTaskRequest(id="t1"))).context_id == name
                assert [e async for e in client.send_message(asking("x"))] == events("t1", "x")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_agent_inside_another_application(binding: str) -> None:
    app = web.Application()
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    sock = _listening()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    mount(app, Catalogue(), prefix="/agents/a", public_url=url)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        async with connected(f"{url}/agents/a", binding) as client:
            assert await client.get_task(a2a.GetTaskRequest(id="t1")) == task("t1")
            assert [e async for e in client.send_message(asking("x"))] == events("t1", "x")
    finally:
        await runner.cleanup()


@everywhere
async def test_agent_that_listens_on_every_address(binding: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "a2a_grpc"):
        server = Server(Catalogue(), host="0.0.0.0", http_port=0, grpc_port=0, shutdown_deadline=2)
        async with server, connected(f"http://127.0.0.1:{server.http_port}", binding) as client:
            assert not any("0.0.0.0" in interface.url for interface in server.card.supported_interfaces)
            assert await client.get_task(a2a.GetTaskRequest(id="t1")) == task("t1")


class Named(Catalogue):
    """Tells its name as the context of a task."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def GetTask(self, request: a2a.GetTaskRequest, context: Any) -> a2a.Task:
        return task(request.id, self._name)


def _listening() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock
