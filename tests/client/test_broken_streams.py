"""Streams that break: never a success, never sent again, the true state in the end. BR-73, BR-75, X-STR-3, X-STR-7."""

import asyncio
import logging
from contextlib import aclosing
from itertools import chain, repeat
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from a2a_grpc.client import Bearer, Client, ConnectError, RemoteError, StreamBrokenError, TaskFailedError, connect
from a2a_grpc.errors import (
    A2AError,
    DeadlineExceededError,
    InvalidAgentResponseError,
    ResourceExhaustedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
)
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, add_A2AServiceServicer_to_server
from tests.client.scripted import (
    BINDINGS,
    SSE_HEAD,
    Leg,
    Script,
    card,
    chunk,
    raw_server,
    read_request,
    reply,
    scripted,
    snapshot,
    status,
    task,
)

SUBMITTED, WORKING, COMPLETED = pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED
FAILED, ASKING = pb.TASK_STATE_FAILED, pb.TASK_STATE_INPUT_REQUIRED
BEGUN = [snapshot(WORKING), chunk("Hel", append=False)]
DONE = snapshot(COMPLETED, "Hel", "lo")
BREAKS = ["end", "cut", "reset", "half", UnavailableError(), ResourceExhaustedError()]

MESSAGE = pb.Message(message_id="M1", role=pb.ROLE_USER, parts=[pb.Part(text="go")])

everywhere = pytest.mark.parametrize("binding", BINDINGS)


@pytest.fixture(autouse=True)
async def _in_time() -> Any:
    async with asyncio.timeout(20):
        yield


def sent(state: int, message_id: str) -> pb.Task:
    """A task that a message has made."""
    made = task(state)
    made.history.add(message_id=message_id)
    return made


async def told(client: Client, **more: Any) -> list[pb.StreamResponse]:
    return [event async for event in client.stream("go", **more)]


@everywhere
@pytest.mark.parametrize("end", BREAKS, ids=str)
async def test_a_stream_that_breaks_is_taken_up_by_subscribing(binding: str, end: Any) -> None:
    script = Script([Leg(BEGUN, end), Leg([snapshot(WORKING, "Hel")], end), Leg([DONE])])
    async with scripted(binding, script) as client:
        events = await told(client)
    assert events[-1] == DONE
    assert script.calls == ["SendStreamingMessage", "SubscribeToTask", "SubscribeToTask"]


@everywhere
async def test_where_it_cannot_subscribe_it_reads_the_task(binding: str) -> None:
    gone = Leg([], UnsupportedOperationError())
    script = Script([Leg(BEGUN, "cut"), gone], {"GetTask": [task(WORKING), UnavailableError(), task(COMPLETED, "x")]})
    async with scripted(binding, script) as client:
        events = await told(client)
    assert events[-1] == snapshot(COMPLETED, "x")
    assert script.calls.count("SendStreamingMessage") == 1


@everywhere
@pytest.mark.parametrize("end", ["end", "cut"])
async def test_a_task_that_never_ends_is_never_a_success(binding: str, end: str) -> None:
    script = Script([Leg(BEGUN, end), Leg([snapshot(WORKING, "Hel")], end)])
    async with scripted(binding, script, recoveries=2) as client:
        with pytest.raises(StreamBrokenError, match="T1") as caught:
            await told(client)
    assert caught.value.task_id == "T1"
    assert script.calls == ["SendStreamingMessage"] + ["SubscribeToTask"] * 3


@everywhere
@pytest.mark.parametrize("end", ["end", "cut", "reset"])
async def test_what_breaks_before_it_begins_is_not_sent_again(binding: str, end: str) -> None:
    unaware = {"GetTask": [task(WORKING)], "ListTasks": [pb.ListTasksResponse(tasks=[sent(WORKING, "another")])]}
    for more in ({}, {"task_id": "T1"}):
        script = Script([Leg([], end)], unaware)
        async with scripted(binding, script) as client:
            with pytest.raises((StreamBrokenError, ConnectError), match=r"ended before it began|connection"):
                await told(client, **more)
        assert script.calls == ["SendStreamingMessage", *["GetTask" if more else "ListTasks"] * 2]


@everywhere
@pytest.mark.parametrize("end", ["end", "cut", "reset"])
async def test_what_breaks_before_it_begins_is_found_by_its_message(binding: str, end: str) -> None:
    listed = [pb.ListTasksResponse(), pb.ListTasksResponse(tasks=[sent(WORKING, "another"), sent(WORKING, "M1")])]
    script = Script([Leg([], end), Leg([DONE])], {"ListTasks": listed})
    async with scripted(binding, script) as client:
        events = [event async for event in client.stream(MESSAGE)]
    assert [event.task.status.state for event in events] == [WORKING, COMPLETED]
    assert script.calls == ["SendStreamingMessage", "ListTasks", "ListTasks", "SubscribeToTask"]

    script = Script([Leg([], end)], {"GetTask": [sent(COMPLETED, "M1")]})
    async with scripted(binding, script) as client:
        assert (await client.ask(MESSAGE, task_id="T1")).completed
    assert script.calls[:2] == ["SendStreamingMessage", "GetTask"]


@everywhere
async def test_where_tasks_are_not_listed_a_lost_message_is_an_error(binding: str) -> None:
    script = Script([Leg([], "cut")], {"ListTasks": [UnsupportedOperationError()]})
    async with scripted(binding, script) as client:
        with pytest.raises(ConnectError):
            await told(client)


@everywhere
@pytest.mark.parametrize("end", [A2AError(), UnavailableError(), TaskNotFoundError(), "cut", "reset", "half"], ids=str)
async def test_an_error_after_the_end_is_none(binding: str, end: Any) -> None:
    script = Script([Leg([*BEGUN, status(COMPLETED)], end)])
    async with scripted(binding, script) as client:
        for _ in range(100 if isinstance(end, A2AError) else 20):
            events = await told(client)
            assert events[-1] == status(COMPLETED)
    assert {*script.calls} == {"SendStreamingMessage"}


@pytest.mark.soak
@everywhere
async def test_an_error_after_the_end_is_none_a_thousand_times(binding: str) -> None:
    script = Script([Leg([*BEGUN, status(COMPLETED)], A2AError())])
    async with scripted(binding, script) as client:
        for _ in range(1000):
            assert (await client.ask("go")).text == "Hel"


@everywhere
async def test_a_server_that_does_not_close_is_not_waited_for(binding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_grpc.client.following.following.LINGER", 0.05)
    script = Script([Leg([status(COMPLETED)], "hang")])
    async with scripted(binding, script) as client:
        assert len(await told(client)) == 1


@everywhere
async def test_other_errors_in_a_stream_are_raised(binding: str) -> None:
    script = Script([Leg(BEGUN, UnauthenticatedError())])
    async with scripted(binding, script) as client:
        with pytest.raises(UnauthenticatedError):
            await told(client)
    assert script.calls == ["SendStreamingMessage"]


@everywhere
@pytest.mark.parametrize("named", [True, False])
async def test_errors_are_read_in_either_shape_of_sse(binding: str, named: bool) -> None:
    for events in ([], BEGUN):
        script = Script([Leg(events, TaskNotFoundError("gone", metadata={"taskId": "T1"}))], named_errors=named)
        async with scripted(binding, script) as client:
            with pytest.raises(TaskNotFoundError, match="gone") as caught:
                await told(client)
        assert caught.value.metadata == {"taskId": "T1"}


@everywhere
async def test_a_wait_for_input_ends_a_stream_that_is_closed_and_not_one_that_is_cut(binding: str) -> None:
    waiting = snapshot(ASKING)
    async with scripted(binding, Script([Leg([waiting])])) as client:
        assert await told(client) == [waiting]
    script = Script([Leg([waiting], "cut"), Leg([snapshot(WORKING), status(COMPLETED)])])
    async with scripted(binding, script) as client:
        assert (await told(client))[-1] == status(COMPLETED)
    script = Script([Leg([waiting], "cut"), Leg([waiting], "hang")])
    async with scripted(binding, script) as client:
        assert await told(client) == [waiting, waiting]


@everywhere
async def test_a_last_snapshot_is_passed_on(binding: str) -> None:
    script = Script([Leg([*BEGUN, status(COMPLETED), DONE])])
    async with scripted(binding, script) as client:
        assert (await told(client))[-2:] == [status(COMPLETED), DONE]


@everywhere
async def test_a_stream_may_begin_without_a_task(binding: str) -> None:
    script = Script([Leg([status(WORKING), chunk("a"), status(COMPLETED)])])
    async with scripted(binding, script) as client:
        assert (await client.ask("go")).text == "a"


@everywhere
async def test_a_message_is_the_whole_answer(binding: str) -> None:
    script = Script([Leg([reply("hi")])])
    async with scripted(binding, script) as client:
        answer = await client.ask("go")
    assert answer.message == reply("hi").message
    assert (answer.text, answer.task, answer.completed) == ("hi", None, True)


@everywhere
async def test_events_of_other_tasks_are_told_and_left_out(binding: str, caplog: pytest.LogCaptureFixture) -> None:
    foreign = [chunk("evil", id="T2"), status(COMPLETED, id="T2"), snapshot(FAILED, id="T2")]
    script = Script([Leg([*BEGUN, *foreign, chunk("lo"), status(COMPLETED)])])
    with caplog.at_level(logging.WARNING, "a2a_grpc"):
        async with scripted(binding, script) as client:
            answer = await client.ask("go")
    assert answer.text == "Hello"
    assert sum("'T2'" in r.message for r in caplog.records) == 3


@everywhere
async def test_a_silent_stream_is_taken_up_again(binding: str) -> None:
    script = Script([Leg(BEGUN, "hang"), Leg([DONE])])
    async with scripted(binding, script, idle_timeout=0.1) as client:
        assert (await told(client))[-1] == DONE
    assert script.calls == ["SendStreamingMessage", "SubscribeToTask"]


@pytest.mark.parametrize("binding", BINDINGS[1:])
async def test_comments_are_life(binding: str) -> None:
    script = Script([Leg(BEGUN, "hang")], pulse=0.05)
    async with scripted(binding, script, idle_timeout=0.2) as client:
        with pytest.raises(DeadlineExceededError) as caught:
            await told(client, deadline=0.6)
    assert caught.value.metadata == {"taskId": "T1"}
    assert script.calls == ["SendStreamingMessage"]


@everywhere
async def test_a_deadline_holds_for_the_whole_of_a_stream(binding: str) -> None:
    script = Script([Leg(BEGUN, "end"), Leg([snapshot(WORKING)], "hang")])
    async with scripted(binding, script) as client:
        with pytest.raises(DeadlineExceededError):
            await told(client, deadline=0.15)


# Subscribing


@everywhere
async def test_subscribing_outlasts_breaks_and_waits_for_input(binding: str) -> None:
    waiting = Leg([snapshot(ASKING)], "cut")
    script = Script([Leg([], UnavailableError()), waiting, Leg([snapshot(WORKING), status(COMPLETED)])])
    async with scripted(binding, script) as client:
        events = [event async for event in client.subscribe("T1")]
    assert events == [snapshot(ASKING), snapshot(WORKING), status(COMPLETED)]


@everywhere
async def test_subscribing_to_what_has_ended_is_an_error(binding: str) -> None:
    async with scripted(binding, Script([Leg([], UnsupportedOperationError())])) as client:
        with pytest.raises(UnsupportedOperationError):
            await anext(client.subscribe("T1"))


@everywhere
async def test_leaving_a_stream_early_leaves_nothing_behind(binding: str) -> None:
    async with scripted(binding, Script([Leg(BEGUN, "hang")])) as client:
        async with aclosing(client.stream("go")) as events:
            assert await anext(events) == BEGUN[0]


# Asking


@everywhere
async def test_chunks_are_put_together_to_the_letter(binding: str) -> None:
    script = Script([Leg([snapshot(WORKING), *map(chunk, ("Hel", "lo, ", "wor", "ld!")), status(COMPLETED)])])
    async with scripted(binding, script) as client:
        assert (await client.ask("go")).text == "Hello, world!"
    assert script.calls == ["SendStreamingMessage"]  # and no call that nobody asked for


@everywhere
@pytest.mark.parametrize("end", BREAKS, ids=str)
async def test_asking_ends_with_the_true_state(binding: str, end: Any) -> None:
    again = Leg([snapshot(WORKING, "Hel"), status(COMPLETED)])
    script = Script([Leg(BEGUN, end), again], {"GetTask": [task(COMPLETED, "Hel", "lo")]})
    async with scripted(binding, script) as client:
        assert (await client.ask("go")).text == "Hello"


@everywhere
async def test_asking_polls_where_no_stream_comes_through(binding: str) -> None:
    states = [task(WORKING), task(COMPLETED, "late")]
    script = Script([Leg(BEGUN, "cut"), Leg([snapshot(WORKING)], "cut")], {"GetTask": states})
    async with scripted(binding, script, recoveries=1) as client:
        assert (await client.ask("go")).text == "late"
    assert script.calls.count("SendStreamingMessage") == 1


@everywhere
async def test_submitted_is_not_the_result(binding: str) -> None:
    submitted = pb.SendMessageResponse(task=task(SUBMITTED))
    script = Script([], {"SendMessage": [submitted], "GetTask": [task(WORKING), task(COMPLETED, "done")]})
    async with scripted(binding, script, streaming=False) as client:
        assert (await client.ask("go")).text == "done"
        assert (await client.ask("more", task_id="T1")).text == "done"
    assert script.calls.count("SendMessage") == 2


@everywhere
async def test_asking_has_a_deadline_which_names_the_task(binding: str) -> None:
    submitted = pb.SendMessageResponse(task=task(SUBMITTED))
    for streaming in (True, False):
        script = Script([Leg(BEGUN, "hang")], {"SendMessage": [submitted], "GetTask": [task(WORKING)]})
        async with scripted(binding, script, streaming=streaming) as client:
            with pytest.raises(DeadlineExceededError, match="T1") as caught:
                await client.ask("go", deadline=0.3)
        assert caught.value.metadata == {"taskId": "T1"}


@everywhere
async def test_a_task_that_failed_is_raised_with_its_words(binding: str) -> None:
    script = Script([Leg([snapshot(WORKING), status(FAILED, text="no paper")])])
    async with scripted(binding, script) as client:
        with pytest.raises(TaskFailedError, match="TASK_STATE_FAILED: no paper") as caught:
            await client.ask("go")
    assert caught.value.answer.task_id == "T1"


@everywhere
async def test_what_a_status_said_becomes_history(binding: str) -> None:
    said = [status(WORKING, text="reading"), status(WORKING, text="writing"), status(COMPLETED)]
    async with scripted(binding, Script([Leg([snapshot(WORKING), *said])])) as client:
        answer = await client.ask("go")
    assert answer.task
    assert [message.parts[0].text for message in answer.task.history] == ["reading", "writing"]


@everywhere
async def test_a_question_is_an_answer(binding: str) -> None:
    script = Script([Leg([snapshot(WORKING), status(ASKING, text="which?")])])
    async with scripted(binding, script) as client:
        answer = await client.ask("go")
    assert (answer.question, answer.completed, answer.state) == ("which?", False, "TASK_STATE_INPUT_REQUIRED")


# Calls that do not stream


@pytest.mark.parametrize(
    "details", [b"", b"\xff", Status(code=0).SerializeToString(), Status(code=3).SerializeToString()]
)
async def test_details_of_another_status_are_none(details: bytes) -> None:
    class Contradicting(A2AServiceServicer):
        async def GetTask(self, request: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "gone", (("grpc-status-details-bin", details),))

    server = grpc.aio.server()
    add_A2AServiceServicer_to_server(Contradicting(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with connect(card(f"127.0.0.1:{port}", "GRPC")) as client:
            with pytest.raises(TaskNotFoundError, match="gone"):
                await client.get_task("T1")
    finally:
        await server.stop(None)


@everywhere
async def test_reads_are_repeated_and_sends_are_not(binding: str) -> None:
    busy = UnavailableError()
    script = Script([], {"GetTask": [busy, busy, task(WORKING)], "SendMessage": [busy], "CancelTask": [busy]})
    async with scripted(binding, script) as client:
        assert await client.get_task("T1") == task(WORKING)
        for call in (client.send("go"), client.cancel("T1")):
            with pytest.raises(UnavailableError):
                await call
    assert script.calls == ["GetTask"] * 3 + ["SendMessage", "CancelTask"]


@everywhere
async def test_a_pause_beyond_the_deadline_is_not_waited_for(binding: str) -> None:
    busy = UnavailableError("busy", details=[RetryInfo(retry_delay=Duration(seconds=3600))])
    script = Script([], {"GetTask": [busy]})
    async with scripted(binding, script, deadline=5) as client:
        with pytest.raises(UnavailableError, match="busy"):
            await client.get_task("T1")
    assert script.calls == ["GetTask"]


@everywhere
async def test_a_timeout_of_somebody_elses_is_passed_on(binding: str) -> None:
    def vault() -> str:
        raise TimeoutError("the vault did not answer")

    async with scripted(binding, Script([Leg([])]), credentials=Bearer(vault)) as client:
        for call in (client.get_task("T1"), client.send("x"), anext(client.subscribe("T1"))):
            with pytest.raises(TimeoutError, match="the vault"):
                await call


@everywhere
async def test_a_client_that_is_closed_says_so(binding: str) -> None:
    script = Script([Leg(BEGUN, "hang")], {"GetTask": [task(WORKING)]})
    async with scripted(binding, script, attempts=1, recoveries=0) as client:
        events = client.stream("go")
        assert await anext(events) == BEGUN[0]
        await anext(events)
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
    with pytest.raises((ConnectError, StreamBrokenError), match=r"closed|connection failed"):
        await reading
    for call in (client.get_task("T1"), client.send("x"), anext(client.stream("x"))):
        with pytest.raises(ConnectError, match="the client was closed"):
            await call


@everywhere
async def test_a_limit_that_is_reached_is_not_tried_again(binding: str) -> None:
    script = Script([], {"GetTask": [ResourceExhaustedError()]})
    async with scripted(binding, script) as client:
        with pytest.raises(ResourceExhaustedError):
            await client.get_task("T1")
    assert script.calls == ["GetTask"]


@everywhere
async def test_a_response_of_neither_kind_is_an_error(binding: str) -> None:
    async with scripted(binding, Script([], {"SendMessage": [pb.SendMessageResponse()]})) as client:
        with pytest.raises(InvalidAgentResponseError):
            await client.send("go")


@everywhere
async def test_pages_without_an_end_are_an_error(binding: str) -> None:
    page = pb.ListTasksResponse(tasks=[task(WORKING)], next_page_token="same")
    async with scripted(binding, Script([], {"ListTasks": [page]})) as client:
        with pytest.raises(InvalidAgentResponseError, match="same page token"):
            async for _ in client.list_tasks():
                pass
    empty = [pb.ListTasksResponse(next_page_token=str(n)) for n in range(200)]
    async with scripted(binding, Script([], {"ListTasks": empty})) as client:
        with pytest.raises(InvalidAgentResponseError, match="too many empty pages"):
            async for _ in client.list_tasks():
                pass


@everywhere
async def test_a_server_that_goes_on_talking_after_the_end_is_left(
    binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a2a_grpc.client.following.following.LINGER", 0.05)
    script = Script([Leg(chain([status(COMPLETED)], repeat(chunk("more"))))])
    async with scripted(binding, script) as client:
        assert (await told(client))[0] == status(COMPLETED)


@everywhere
async def test_the_end_of_a_task_stands(binding: str) -> None:
    script = Script([Leg([status(COMPLETED), status(WORKING), snapshot(WORKING, "again")])])
    async with scripted(binding, script) as client:
        assert await told(client) == [status(COMPLETED)]
        assert (await client.ask("go")).completed
    assert {*script.calls} == {"SendStreamingMessage"}


@everywhere
async def test_a_task_without_an_id_is_none(binding: str) -> None:
    async with scripted(binding, Script([], {"GetTask": [pb.Task()]})) as client:
        with pytest.raises(InvalidAgentResponseError, match="a task that has no id"):
            await client.get_task("T1")


@everywhere
async def test_an_answer_that_grows_without_an_end_is_an_error(binding: str) -> None:
    script = Script([Leg(repeat(chunk("x" * 1000)))])
    async with scripted(binding, script, max_response=50_000) as client:
        with pytest.raises(ResourceExhaustedError, match="larger than 50000 bytes"):
            await client.ask("go")


@pytest.mark.parametrize("binding", BINDINGS[1:])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_what_drips_before_a_stream_is_no_sign_of_life(binding: str, kind: str) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n"
        writer.write(head.encode() + (b"\r\n" if "json" in kind else b""))
        while True:
            writer.write(b" " if "json" in kind else b"X-More: x\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with raw_server(drip) as url:
        async with connect(card(url, binding), idle_timeout=0.2, backoff=0.01, attempts=1) as client:
            with pytest.raises((ConnectError, StreamBrokenError)):
                await told(client)


@pytest.mark.parametrize("binding", BINDINGS[1:])
async def test_a_stream_of_comments_only_can_be_left(binding: str) -> None:
    async def comments(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SSE_HEAD)
        while True:
            writer.write(b"fa0\r\n" + b": x\n" * 1000 + b"\r\n")
            await writer.drain()

    async with raw_server(comments) as url, connect(card(url, binding)) as client:
        with pytest.raises(DeadlineExceededError):
            await told(client, deadline=0.3)


@everywhere
async def test_an_unknown_reason_keeps_what_is_known(binding: str) -> None:
    class StrangeError(A2AError):
        reason, code, text = "OUT_OF_PAPER", 9, "no paper"

    script = Script([], {"GetTask": [StrangeError(metadata={"tray": "2"})]})
    async with scripted(binding, script) as client:
        with pytest.raises(RemoteError, match="no paper") as caught:
            await client.get_task("T1")
    assert (caught.value.reason, caught.value.metadata) == ("OUT_OF_PAPER", {"tray": "2"})


@everywhere
async def test_a_task_that_is_canceled_already_is_canceled(binding: str) -> None:
    canceled = task(pb.TASK_STATE_CANCELED)
    late = TaskNotCancelableError(metadata={"state": "TASK_STATE_CANCELED"})
    script = Script([], {"CancelTask": [late, TaskNotCancelableError()], "GetTask": [canceled]})
    async with scripted(binding, script) as client:
        assert await client.cancel("T1") == canceled
        with pytest.raises(TaskNotCancelableError):
            await client.cancel("T1")


@everywhere
async def test_a_stream_that_begins_again_and_again_is_not_followed_for_ever(binding: str) -> None:
    script = Script([Leg([snapshot(WORKING), chunk("a")], "end")])
    async with scripted(binding, script, recoveries=3) as client:
        with pytest.raises(StreamBrokenError):
            await told(client)
    assert len(script.calls) == 4
