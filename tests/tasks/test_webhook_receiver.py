"""What a client makes of notifications: the rules by tables, the handler over real HTTP, and with our own sender."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.encoded import Encoded
from a2a_grpc.errors import A2AError, InvalidParamsError, ParseError, TaskNotFoundError, UnauthenticatedError
from a2a_grpc.generated.a2a_pb2 import (
    TASK_STATE_UNSPECIFIED,
    TASK_STATE_WORKING,
    AuthenticationInfo,
    StreamResponse,
    TaskPushNotificationConfig,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a_grpc.tasks.push import PushSender
from a2a_grpc.tasks.push_policy import PushPolicy
from a2a_grpc.tasks.webhook_receiver import WebhookReceiver, aiohttp_handler


def update(n: int = 0, task_id: str = "t1") -> bytes:
    metadata = {"n": n}
    status = {"state": "TASK_STATE_WORKING", "timestamp": "1970-01-01T00:16:40Z"}
    return json.dumps(
        {"statusUpdate": {"taskId": task_id, "contextId": "c1", "status": status, "metadata": metadata}}
    ).encode()


def appended(text: str) -> bytes:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return json.dumps({"artifactUpdate": {"taskId": "t1", "artifact": artifact, "append": True}}).encode()


TOKEN, BEARER = {"token": "tok"}, {"credentials": "Bearer abc"}

VERIFIED = [  # what is expected, the headers, whether they are believed
    ({}, {}, True),
    (TOKEN, {"X-A2A-Notification-Token": "tok"}, True),
    (TOKEN, {"a2a-notification-token": "tok"}, True),
    (TOKEN, {"X-A2A-NOTIFICATION-TOKEN": "tok", "A2A-Notification-Token": "tok"}, True),
    (TOKEN, {}, False),
    (TOKEN, {"X-A2A-Notification-Token": ""}, False),
    (TOKEN, {"X-A2A-Notification-Token": "TOK"}, False),
    (TOKEN, {"X-A2A-Notification-Token": "tok2"}, False),
    (TOKEN, {"X-A2A-Notification-Token": "тok\udcff\ud800"}, False),
    (TOKEN, {"Authorization": "tok"}, False),
    ({"token": "ключ"}, {"A2A-Notification-Token": "ключ"}, True),
    (BEARER, {"Authorization": "Bearer abc"}, True),
    (BEARER, {"authorization": "bearer abc"}, True),
    (BEARER, {"Authorization": "Bearer ABC"}, False),
    (BEARER, {"Authorization": "Basic abc"}, False),
    (BEARER, {"Authorization": "abc"}, False),
    (BEARER, {"Authorization": "Bearer"}, False),
    (BEARER, {}, False),
    (TOKEN | BEARER, {"Authorization": "Bearer abc", "A2A-Notification-Token": "tok"}, True),
    (TOKEN | BEARER, {"Authorization": "Bearer abc"}, False),
    (TOKEN | BEARER, {"A2A-Notification-Token": "tok"}, False),
]


@pytest.mark.parametrize(("expected", "headers", "believed"), VERIFIED)
def test_who_is_believed(expected: dict[str, Any], headers: dict[str, str], believed: bool) -> None:
    receiver = WebhookReceiver(**expected)
    if believed:
        assert receiver.accept(headers, update()) is not None
        return
    with pytest.raises(UnauthenticatedError) as raised:
        receiver.accept(headers, b"not even JSON")
    assert "tok" not in raised.value.message.replace("token", "")
    assert "abc" not in raised.value.message


@pytest.mark.parametrize("name", ["token", "credentials"])
def test_an_empty_secret_is_a_mistake(name: str) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        WebhookReceiver(**{name: ""})


BODIES = [  # body → kind of event
    ({"task": {"id": "t1", "status": {"state": "TASK_STATE_WORKING"}}}, "task"),
    ({"message": {"messageId": "m1", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}}, "message"),
    ({"statusUpdate": {"taskId": "t1"}}, "status_update"),
    ({"artifactUpdate": {"taskId": "t1", "artifact": {"artifactId": "a"}}}, "artifact_update"),
    ({"statusUpdate": {"taskId": "t1", "added": 1}, "added": {}}, "status_update"),
]


@pytest.mark.parametrize(("body", "kind"), BODIES)
def test_events_are_read(body: dict[str, Any], kind: str) -> None:
    event = WebhookReceiver().accept({}, json.dumps(body).encode())
    assert event is not None
    assert event.WhichOneof("payload") == kind


def test_a_state_of_a_later_version_reads_as_unspecified() -> None:
    body = {"statusUpdate": {"taskId": "t1", "status": {"state": "TASK_STATE_PAUSED"}}}
    event = WebhookReceiver().accept({}, json.dumps(body).encode())
    assert event is not None
    assert (event.status_update.task_id, event.status_update.status.state) == ("t1", TASK_STATE_UNSPECIFIED)


WRONG: list[tuple[bytes, type[A2AError], str]] = [
    (b"", ParseError, "empty"),
    (b"{", ParseError, "line 1"),
    (b"\xff", ParseError, "UTF-8"),
    (b"[" * 5000, ParseError, ""),
    (b"null", InvalidParamsError, "object"),
    (b"[1]", InvalidParamsError, "object"),
    (b"{}", InvalidParamsError, "statusUpdate"),
    (b'{"id": "t1", "status": {"state": "TASK_STATE_WORKING"}}', InvalidParamsError, "statusUpdate"),
    (b'{"statusUpdate": 1}', InvalidParamsError, "status_update"),
    (b'{"statusUpdate": {"taskId": 1}}', InvalidParamsError, "task_id"),
    (b'{"statusUpdate": {}, "task": {}}', InvalidParamsError, "both"),
]


@pytest.mark.parametrize(("body", "error", "word"), WRONG)
def test_what_is_no_event(body: bytes, error: type[A2AError], word: str) -> None:
    with pytest.raises(error) as raised:
        WebhookReceiver().accept({}, body)
    assert word in raised.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["task", "statusUpdate", "id", "x"]), inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()), st.dictionaries(st.text(), st.text()))
def test_nothing_but_the_documented_errors(body: bytes, headers: dict[str, str]) -> None:
    try:
        assert WebhookReceiver(expects=bool, max_age=10).accept(headers, body) is not None
    except (ParseError, InvalidParamsError, TaskNotFoundError):
        pass


EXPECTED = [
    ({"task": {"id": "t1"}}, True),
    ({"message": {"messageId": "m", "taskId": "t1"}}, True),
    ({"statusUpdate": {"taskId": "t1"}}, True),
    ({"artifactUpdate": {"taskId": "t1"}}, True),
    ({"task": {"id": "t2"}}, False),
    ({"message": {"messageId": "m"}}, False),
]


@pytest.mark.parametrize(("body", "expected"), EXPECTED)
def test_only_expected_tasks(body: dict[str, Any], expected: bool) -> None:
    receiver = WebhookReceiver(expects={"t1"}.__contains__)
    if expected:
        assert receiver.accept({}, json.dumps(body).encode()) is not None
    else:
        with pytest.raises(TaskNotFoundError):
            receiver.accept({}, json.dumps(body).encode())


@pytest.mark.parametrize(("now", "taken"), [(1000, True), (1060, True), (1061, False), (900, True)])
def test_stale_statuses(now: float, taken: bool) -> None:
    receiver = WebhookReceiver(max_age=60, clock=lambda: now)
    if taken:
        assert receiver.accept({}, update()) is not None
    else:
        with pytest.raises(InvalidParamsError, match="61 seconds ago"):
            receiver.accept({}, update())


# Repetition

SEQUENCES = [  # deliveries (id, body), and which of them are new
    ([("", update(1)), ("", update(1)), ("", update(2)), ("", update(1))], [1, 0, 1, 0]),
    ([("k1", update(1)), ("k1", update(1)), ("k2", update(1))], [1, 0, 1]),
    ([("k1", appended("a")), ("k2", appended("a")), ("k1", appended("a"))], [1, 1, 0]),
    ([("", appended("a")), ("", appended("a"))], [1, 1]),
    ([("k1", update(1)), ("k1", update(2))], [1, 1]),
]


@pytest.mark.parametrize(("deliveries", "new"), SEQUENCES)
def test_an_event_that_was_seen_is_none(deliveries: list[tuple[str, bytes]], new: list[int]) -> None:
    receiver = WebhookReceiver()
    found = [receiver.accept({"idempotency-key": id} if id else {}, body) for id, body in deliveries]
    assert [event is not None for event in found] == [bool(n) for n in new]


def test_memory_is_bounded() -> None:
    receiver = WebhookReceiver(remember=3)
    assert all(receiver.accept({}, update(n)) for n in range(50))
    assert len(receiver._seen) == 3
    assert [receiver.accept({}, update(n)) is None for n in (47, 48, 49, 46)] == [True, True, True, False]


def test_a_released_event_is_accepted_again() -> None:
    receiver = WebhookReceiver()
    assert receiver.accept({}, update()) is not None
    receiver.release({}, update())
    assert receiver.accept({}, update()) is not None


# Over HTTP

Serve = Callable[..., Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners = []

    async def start(receiver: WebhookReceiver, on_event: Callable[[StreamResponse], Any], **options: Any) -> str:
        app = web.Application()
        app.router.add_post("/hook", aiohttp_handler(receiver, on_event, **options))
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/hook"  # type: ignore[union-attr]

    yield start
    for runner in runners:
        await runner.cleanup()


ANSWERS = [  # headers, body → status
    ({"A2A-Notification-Token": "tok"}, update(), 204),
    ({"A2A-Notification-Token": "no"}, update(), 401),
    ({}, b"x" * 5000, 401),
    ({"A2A-Notification-Token": "tok"}, b"{", 400),
    ({"A2A-Notification-Token": "tok"}, b"{}", 400),
    ({"A2A-Notification-Token": "tok"}, update(task_id="t2"), 404),
    ({"A2A-Notification-Token": "tok"}, b"x" * 5000, 413),
]


@pytest.mark.parametrize(("headers", "body", "status"), ANSWERS)
async def test_statuses(serve: Serve, headers: dict[str, str], body: bytes, status: int) -> None:
    events: list[StreamResponse] = []
    receiver = WebhookReceiver(token="tok", expects={"t1"}.__contains__)
    url = await serve(receiver, events.append, max_body=1000)
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        text = await response.text()
    assert (response.status, len(events)) == (status, int(status == 204))
    assert ("WWW-Authenticate" in response.headers) is (status == 401)
    assert bool(text) is (status != 204)


async def test_bodies_may_be_as_large_as_agents_send_them(serve: Serve) -> None:
    events: list[StreamResponse] = []
    url = await serve(WebhookReceiver(), events.append)
    async with aiohttp.ClientSession() as session:
        await session.post(url, data=_pieces(appended("x" * 5_000_000)))
    assert len(events[0].artifact_update.artifact.parts[0].text) == 5_000_000


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


async def test_a_repetition_is_answered_alike_and_not_told(serve: Serve) -> None:
    events: list[StreamResponse] = []
    url = await serve(WebhookReceiver(), events.append)
    async with aiohttp.ClientSession() as session:
        statuses = [(await session.post(url, data=update())).status for _ in range(3)]
    assert (statuses, len(events)) == ([204] * 3, 1)


async def test_an_event_that_could_not_be_processed_is_told_again(serve: Serve) -> None:
    events: list[StreamResponse] = []

    async def on_event(event: StreamResponse) -> None:
        events.append(event)
        if len(events) == 1:
            raise RuntimeError("the queue is full")

    url = await serve(WebhookReceiver(), on_event)
    async with aiohttp.ClientSession() as session:
        statuses = [(await session.post(url, data=update())).status for _ in range(3)]
    assert (statuses, len(events)) == ([500, 204, 204], 2)


async def test_with_our_own_sender(serve: Serve) -> None:
    """A failure in the middle loses nothing, doubles nothing, and keeps the order."""
    events: list[StreamResponse] = []
    failures = [RuntimeError("now and then"), None, RuntimeError("again")]

    def on_event(event: StreamResponse) -> None:
        failure = failures.pop() if failures else None
        if failure:
            raise failure
        events.append(event)

    url = await serve(WebhookReceiver(token="tok", credentials="Bearer abc"), on_event)
    config = TaskPushNotificationConfig(
        id="h",
        task_id="t1",
        url=url,
        token="tok",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="abc"),
    )
    sent = [
        StreamResponse(status_update=TaskStatusUpdateEvent(task_id="t1", status=TaskStatus(state=TASK_STATE_WORKING)))
        for _ in range(5)
    ]
    sender = PushSender(PushPolicy(allow_http=True, allow_private=True), first_delay=0.001)
    async with asyncio.timeout(10):
        await asyncio.gather(*(sender.deliver(config, Encoded(event)) for event in sent))
        await sender.close(10)
    assert events == sent
