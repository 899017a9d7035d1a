"""Our client, an agent of the official Python SDK: every operation on every binding."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from a2a_grpc.client import Client, TaskFailedError, connect
from a2a_grpc.errors import A2AError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import BINDINGS

pytest.importorskip("a2a", reason="the official SDK is not installed")
pytest.importorskip("uvicorn", reason="what serves the official SDK's agents is not installed")
from tests.client.sdk_agent import sdk_agent


@pytest.fixture(params=BINDINGS)
async def agent(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with asyncio.timeout(20), sdk_agent() as url:
        async with connect(url, bindings=[request.param], backoff=0.01) as client:
            assert client.interface.protocol_binding == request.param
            yield client


async def test_sending(agent: Client) -> None:
    task = await agent.send("Ann!")
    assert isinstance(task, pb.Task)
    assert task.status.state == pb.TASK_STATE_COMPLETED
    reply = await agent.send("reply hi", accepted_output_modes=["text/plain"])
    assert isinstance(reply, pb.Message)
    assert reply.parts[0].text == "hi"
    begun = await agent.send("wait", return_immediately=True)
    assert isinstance(begun, pb.Task)
    assert begun.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)


async def test_asking(agent: Client) -> None:
    assert (await agent.ask("Ann!")).text == "Hello, Ann!"
    assert (await agent.ask("reply hi")).text == "hi"
    question = await agent.ask("ask")
    assert question.question == "which?"
    assert (await agent.ask("Bob!", task_id=question.task_id)).text == "Hello, Bob!"
    with pytest.raises(TaskFailedError, match="no paper"):
        await agent.ask("fail")


async def test_streaming(agent: Client) -> None:
    kinds = [event.WhichOneof("payload") async for event in agent.stream("Ann!")]
    assert kinds[0] == "task"
    assert kinds.count("artifact_update") == 3
    assert kinds[-1] == "status_update"


async def test_reading_and_listing(agent: Client) -> None:
    sent = [await agent.send(text, context_id="C7") for text in ("a", "b", "c")]
    assert (await agent.get_task(sent[0].id)).id == sent[0].id
    assert not (await agent.get_task(sent[0].id, history_length=0)).history
    listed = [t async for t in agent.list_tasks(context_id="C7", page_size=2, include_artifacts=True)]
    assert {t.id for t in listed} == {t.id for t in sent}
    assert listed[0].artifacts
    future = datetime(2999, 1, 1, tzinfo=UTC)
    assert [t async for t in agent.list_tasks(status="TASK_STATE_COMPLETED", status_timestamp_after=future)] == []


async def test_following_and_canceling(agent: Client) -> None:
    task = await agent.send("wait", return_immediately=True)
    async with aclosing(agent.subscribe(task.id)) as events:
        assert (await anext(events)).task.id == task.id
        canceled = await agent.cancel(task.id)
        assert canceled.status.state == pb.TASK_STATE_CANCELED
        states = [e.status_update.status.state async for e in events if e.HasField("status_update")]
    assert states[-1] == pb.TASK_STATE_CANCELED
    with pytest.raises((TaskNotCancelableError, UnsupportedOperationError)):
        await agent.cancel((await agent.send("x")).id)


async def test_webhooks(agent: Client) -> None:
    task = await agent.send("ask")
    made = await agent.create_push_config(task.id, pb.TaskPushNotificationConfig(id="w1", url="https://example.com/h"))
    assert (made.id, made.task_id) == ("w1", task.id)
    assert (await agent.get_push_config(task.id, "w1")).url == "https://example.com/h"
    assert [c.id async for c in agent.list_push_configs(task.id)] == ["w1"]
    await agent.delete_push_config(task.id, "w1")
    assert [c.id async for c in agent.list_push_configs(task.id)] == []


async def test_the_extended_card(agent: Client) -> None:
    assert (await agent.extended_card()).name == "Peer, extended"
    assert agent.card.name == "Peer, extended"


async def test_errors(agent: Client) -> None:
    for call in (agent.get_task("nope"), agent.cancel("nope"), agent.send("x", task_id="nope")):
        with pytest.raises(TaskNotFoundError) as caught:
            await call
        assert caught.value.code == 5
    with pytest.raises(A2AError):
        await anext(agent.stream("x", task_id="nope"))
    with pytest.raises(TaskNotFoundError):
        await anext(agent.subscribe("nope"))
