"""Every operation on every binding of our own server: raw servicers and agents with tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc import Server
from a2a_grpc.client import Client, ClientTLS, ConnectError, connect, parts
from a2a_grpc.errors import (
    DeadlineExceededError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.servicer import AgentServicer
from a2a_grpc.tasks.turn import Turn
from tests.client.scripted import BINDINGS, raw_server
from tests.interop.agent import FAULTS, WEBHOOK, Catalogue, events, task, webhook
from tests.lab import Lab, artifact, card


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def catalogue(binding: str) -> AsyncIterator[Client]:
    async with asyncio.timeout(10), Server(Catalogue(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, bindings=[binding], backoff=0.01) as client:
            yield client


async def test_the_card_chooses(catalogue: Client, binding: str) -> None:
    assert catalogue.card.name == "Catalogue"
    assert catalogue.interface.protocol_binding == binding


async def test_sending(catalogue: Client) -> None:
    reply = await catalogue.send("hello")
    assert isinstance(reply, pb.Message)
    assert reply.parts[0].text == "HELLO"
    assert await catalogue.send(parts.message("task")) == task("t1")
    assert [e async for e in catalogue.stream("x")] == events("t1", "x")
    assert (await catalogue.ask("ab")).text == "abab"
    assert [e.message.parts[0].text async for e in catalogue.stream("message")] == ["MESSAGE"]


async def test_tasks(catalogue: Client) -> None:
    assert await catalogue.get_task("t1") == task("t1")
    assert not (await catalogue.get_task("t1", history_length=0)).history
    canceled = await catalogue.cancel("t2", metadata={"why": "no need"})
    assert canceled.status.state == pb.TASK_STATE_CANCELED
    assert canceled.metadata["why"] == "no need"
    assert [e async for e in catalogue.subscribe("t2")] == events("t2", "subscribed")
    with pytest.raises(TaskNotCancelableError):
        await catalogue.cancel("t1")
    with pytest.raises(UnsupportedOperationError):
        await anext(catalogue.subscribe("t1"))


async def test_webhooks(catalogue: Client) -> None:
    asked = webhook("w9")
    assert await catalogue.create_push_config("t1", asked) == asked
    made = await catalogue.create_push_config("t1", WEBHOOK)
    assert (made.id, made.task_id, made.url) == ("w1", "t1", WEBHOOK)
    assert await catalogue.get_push_config("t1", "w1") == webhook("w1")
    assert [c async for c in catalogue.list_push_configs("t1")] == [webhook("w1"), webhook("w2")]
    await catalogue.delete_push_config("t1", "w1")
    with pytest.raises(TaskNotFoundError):
        await catalogue.delete_push_config("t3", "w1")


async def test_the_extended_card_takes_the_place_of_the_public_one(catalogue: Client) -> None:
    assert (await catalogue.extended_card()).name == "Catalogue, extended"
    assert catalogue.card.name == "Catalogue, extended"


@pytest.mark.parametrize("reason", FAULTS)
async def test_errors(catalogue: Client, reason: str) -> None:
    for call in (catalogue.send(reason), anext(catalogue.stream(reason))):
        with pytest.raises(FAULTS[reason]) as caught:
            await call
        assert type(caught.value) is FAULTS[reason]


async def test_errors_in_a_stream(catalogue: Client) -> None:
    with pytest.raises(TaskNotFoundError):
        [e async for e in catalogue.stream("break TASK_NOT_FOUND")]


async def test_ids_may_hold_anything_and_not_be_empty(catalogue: Client) -> None:
    for id in ("a/b", "ä:cancel", "x?y=z&é", "%2F", "."):
        with pytest.raises(TaskNotFoundError):
            await catalogue.get_task(id)
    with pytest.raises(InvalidParamsError) as caught:
        await catalogue.get_task("")
    assert caught.value.violations[0].field == "id"


async def test_what_is_not_json_is_refused_before_it_is_sent(catalogue: Client) -> None:
    with pytest.raises(TypeError):
        await catalogue.send({"a": object()})
    with pytest.raises(TypeError, match="did you mean history_length"):
        await catalogue.send("x", historylength=1)
    with pytest.raises(ValueError, match="time zone"):
        await anext(catalogue.list_tasks(status_timestamp_after=datetime(2026, 1, 1)))


async def test_listing_sends_every_filter(binding: str) -> None:
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, bindings=[binding]) as client:
            listed = client.list_tasks(
                context_id="c/1 &=é",
                status=pb.TASK_STATE_COMPLETED,
                status_timestamp_after=datetime(2026, 1, 1, tzinfo=UTC),
                include_artifacts=True,
                history_length=0,
                page_size=7,
            )
            assert [t.id async for t in listed] == ["T1", "T2"]
    assert lab.seen[0][0] == pb.ListTasksRequest(
        context_id="c/1 &=é",
        status=pb.TASK_STATE_COMPLETED,
        status_timestamp_after=Timestamp(seconds=1_767_225_600),
        include_artifacts=True,
        history_length=0,
        page_size=7,
    )


async def test_version_extensions_tenant_and_deadline_are_sent(binding: str) -> None:
    lab = Lab()
    made = card()
    made.supported_interfaces.extend(pb.AgentInterface(protocol_binding=b, tenant="a b/c") for b in BINDINGS)
    options = {"bindings": [binding], "extensions": ["urn:x", "urn:y"]}
    async with Server(lab, made, http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, deadline=30, **options) as client:
            await client.send("x", metadata={"k": 1}, history_length=2)
            await client.get_task("T1")
            await client.delete_push_config("T1", "P1")
            await client.extended_card()
            async with aclosing(client.stream("2:")) as stream:
                await anext(stream)
    for request, context in lab.seen:
        metadata = dict(context.invocation_metadata())
        assert request.tenant == "a b/c"
        assert metadata["a2a-version"] == "1.0"
        assert metadata["a2a-extensions"] == "urn:x,urn:y"
    assert 20 < lab.seen[0][1].time_remaining() < 31
    assert lab.seen[-1][1].time_remaining() is None  # a stream may last
    assert (lab.seen[0][0].metadata["k"], lab.seen[0][0].configuration.history_length) == (1, 2)


async def test_a_call_ends_at_its_deadline(binding: str) -> None:
    class Slow(Lab):
        async def SendMessage(self, request: Any, context: Any) -> Any:
            await asyncio.Event().wait()

    async with Server(Slow(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, bindings=[binding]) as client:
            with pytest.raises(DeadlineExceededError):
                await client.send("x", deadline=0.1)


async def test_large_messages(binding: str) -> None:
    """BR-33: what a server can send, the client can read."""
    big = "x" * (6 * 1024 * 1024)

    class Big(Lab):
        async def GetTask(self, request: Any, context: Any) -> pb.Task:
            made = task(request.id)
            made.artifacts[0].parts.add(text=big)
            return made

        async def SubscribeToTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
            yield pb.StreamResponse(task=await self.GetTask(request, context))
            yield artifact(0)

    async with Server(Big(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, bindings=[binding]) as client:
            assert (await client.get_task("t1")).artifacts[0].parts[-1].text == big
            first = await anext(client.subscribe("t1"))
            assert first.task.artifacts[0].parts[-1].text == big


class Echo(AgentServicer):
    """Says it again."""

    async def execute(self, turn: Turn) -> None:
        if turn.text == "ask":
            await turn.ask("which?")
            return
        if turn.text == "wait":
            await turn.status("waiting")
            await asyncio.Event().wait()
        async with turn.artifact("echo") as out:
            for letter in turn.text:
                await out.write(letter)


async def test_a_life_with_an_agent(binding: str) -> None:
    async with asyncio.timeout(10), Server(Echo(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, bindings=[binding]) as client:
            assert (await client.ask("hello")).text == "hello"
            question = await client.ask("ask")
            assert question.question == "which?"
            assert (await client.ask("this", task_id=question.task_id)).text == "this"
            begun = await client.send("wait", return_immediately=True)
            assert isinstance(begun, pb.Task)
            async with aclosing(client.subscribe(begun.id)) as following:
                assert (await anext(following)).task.id == begun.id
                assert (await client.cancel(begun.id)).status.state == pb.TASK_STATE_CANCELED
                assert [e async for e in following][-1].status_update.status.state == pb.TASK_STATE_CANCELED
            assert (await client.cancel(begun.id)).status.state == pb.TASK_STATE_CANCELED
            assert len([t async for t in client.list_tasks(page_size=1)]) == 3


# Connections


async def test_a_server_that_has_gone_is_a_connect_error(binding: str) -> None:
    async with Server(Lab(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.agents[0].card, bindings=[binding], attempts=1) as client:
            await client.get_task("T1")
            await server.stop()
            with pytest.raises(ConnectError):
                await client.get_task("T1")
            with pytest.raises(ConnectError):
                await client.send("x")
            with pytest.raises(ConnectError):
                await anext(client.stream("x"))


async def test_another_interface_where_one_does_not_connect() -> None:
    async with Server(Lab(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        made = pb.AgentCard(name="L", capabilities=pb.AgentCapabilities(streaming=True))
        offers = [("GRPC", "127.0.0.1:1"), ("JSONRPC", "http://127.0.0.1:1"), ("HTTP+JSON", server.http_url)]
        for binding, url in offers:
            made.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="1.0")
        async with connect(made) as client:
            assert client.interface.protocol_binding == "GRPC"
            assert isinstance(await client.send("x"), pb.Message)
            assert client.interface.protocol_binding == "HTTP+JSON"
        async with connect(made) as client:
            assert (await anext(client.stream("2:"))).HasField("artifact_update")
        async with connect(made, bindings=["GRPC", "JSONRPC"]) as client:
            with pytest.raises(ConnectError, match=r"127.0.0.1:1 \(gRPC\)") as caught:
                await client.send("x")
    assert not caught.value.sent


async def test_a_host_that_does_not_answer_is_given_up_in_time() -> None:
    async with raw_server(lambda reader, writer: asyncio.sleep(60)) as url:
        made = pb.AgentInterface(url=url, protocol_binding="GRPC", protocol_version="1.0")
        async with connect(made, connect_timeout=0.1) as client:
            with pytest.raises(ConnectError, match=r"no answer in 0\.1 s") as caught:
                await client.send("x")
    assert not caught.value.sent


async def test_many_calls_at_once(binding: str) -> None:
    async with Server(Echo(), http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, bindings=[binding]) as client:
            answers = await asyncio.gather(*(client.ask(str(n)) for n in range(150)))
    assert [a.text for a in answers] == [str(n) for n in range(150)]


def test_tls_files_are_read_when_they_are_used() -> None:
    with pytest.raises(FileNotFoundError):
        ClientTLS(ca="/nowhere.pem").ssl_context()
