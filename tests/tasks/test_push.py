"""The webhook sender against real receivers on this machine. Retries wait in a clock of the test's own."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from a2a_grpc.bindings.protojson import from_json, loads
from a2a_grpc.encoded import Encoded
from a2a_grpc.generated.a2a_pb2 import (
    TASK_STATE_COMPLETED,
    TASK_STATE_SUBMITTED,
    TASK_STATE_WORKING,
    Artifact,
    AuthenticationInfo,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a_grpc.tasks.push import PushSender
from a2a_grpc.tasks.push_http import WebhookClient, retry_after
from a2a_grpc.tasks.push_policy import PushPolicy

OPEN = PushPolicy(allow_http=True, allow_private=True)
LOCAL_NAMES = PushPolicy(allow_http=True)
SECRETS = ("hush-token", "hush-credentials", "hush-path", "hush-query")


class Receiver:
    """Records requests; answers with what `answers` gives, one for each request, then with 204."""

    def __init__(self) -> None:
        self.requests: list[tuple[web.Request, bytes]] = []
        self.answers: list[Callable[[], Any]] = []
        self.arrived = asyncio.Condition()
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        async with self.arrived:
            self.arrived.notify_all()
        answer = self.answers.pop(0) if self.answers else lambda: web.Response(status=204)
        result = answer()
        return await result if asyncio.iscoroutine(result) else result

    async def wait(self, number: int) -> None:
        async with asyncio.timeout(10), self.arrived:
            await self.arrived.wait_for(lambda: len(self.requests) >= number)

    async def start(self) -> web.AppRunner:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{tail:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return runner

    @property
    def texts(self) -> list[str]:
        return [text_of(body) for _, body in self.requests]

    def config(self, **fields: Any) -> TaskPushNotificationConfig:
        return TaskPushNotificationConfig(
            **{"id": "hook", "task_id": "t1", "url": f"http://127.0.0.1:{self.port}/in"} | fields
        )


class Names(AbstractResolver):
    """Resolves every name to the addresses given."""

    def __init__(self, *addresses: str) -> None:
        self.addresses, self.asked = addresses, 0

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        self.asked += 1
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


class Sleeps:
    """A `sleep` that records and does not wait; `gate` makes it wait for ever."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.gate: asyncio.Event | None = None
        self.asleep = asyncio.Event()

    async def __call__(self, delay: float) -> None:
        self.delays.append(delay)
        self.asleep.set()
        if self.gate:
            await self.gate.wait()


class Lab:
    """Makes senders, and closes them in the end."""

    def __init__(self) -> None:
        self.sleeps = Sleeps()
        self.senders: list[PushSender] = []

    def sender(self, policy: PushPolicy = OPEN, **options: Any) -> PushSender:
        sender = PushSender(policy, **{"sleep": self.sleeps, "jitter": lambda: 1.0} | options)
        self.senders.append(sender)
        return sender


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    lab = Lab()
    yield lab
    for sender in lab.senders:
        await sender.close(0)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    runner = await receiver.start()
    yield receiver
    await runner.cleanup()


def chunk(text: str) -> Encoded:
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    return Encoded(
        StreamResponse(artifact_update=TaskArtifactUpdateEvent(task_id="t1", context_id="c1", artifact=artifact))
    )


def status(state: Any) -> Encoded:
    update = TaskStatusUpdateEvent(task_id="t1", context_id="c1", status=TaskStatus(state=state))
    return Encoded(StreamResponse(status_update=update))


def text_of(body: bytes) -> str:
    event = from_json(StreamResponse, loads(body))
    kind = event.WhichOneof("payload") or ""
    return event.artifact_update.artifact.parts[0].text if kind == "artifact_update" else kind


def answer(status: int, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.Response(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def forever() -> Any:
    return asyncio.Event().wait()


async def all_of(futures: Iterable[asyncio.Future[None]]) -> None:
    async with asyncio.timeout(10):
        await asyncio.gather(*futures)


async def idle(sender: PushSender) -> None:
    async with asyncio.timeout(10):
        while workers := [c.worker for c in sender._channels.values() if c.worker]:
            await asyncio.wait(workers)


# What is sent


async def test_every_event_is_one_post_of_a_stream_response_in_order(lab: Lab, receiver: Receiver) -> None:
    task = Task(id="t1", context_id="c1", status=TaskStatus(state=TASK_STATE_SUBMITTED))
    events = [
        Encoded(StreamResponse(task=task)),
        status(TASK_STATE_WORKING),
        *(chunk(str(n)) for n in range(20)),
        status(TASK_STATE_COMPLETED),
    ]
    sender = lab.sender()
    await all_of([sender.deliver(receiver.config(), event) for event in events])
    assert [body for _, body in receiver.requests] == [event.json for event in events]
    assert {r.method for r, _ in receiver.requests} == {"POST"}
    assert {r.headers["Content-Type"] for r, _ in receiver.requests} == {"application/a2a+json"}
    ids = [r.headers["Idempotency-Key"] for r, _ in receiver.requests]
    assert len(set(ids)) == len(events)


AUTHORIZATION = [  # scheme, credentials → header
    ("Bearer", "abc", "Bearer abc"),
    ("bearer", "abc", "bearer abc"),
    ("Basic", "dXNlcjpwdw==", "Basic dXNlcjpwdw=="),
    ("Bearer", "", None),
    ("", "abc", None),
    ("", "", None),
]


@pytest.mark.parametrize(("scheme", "credentials", "header"), AUTHORIZATION)
async def test_authorization(lab: Lab, receiver: Receiver, scheme: str, credentials: str, header: str | None) -> None:
    config = receiver.config(authentication=AuthenticationInfo(scheme=scheme, credentials=credentials))
    await all_of([lab.sender().deliver(config, chunk("x"))])
    assert receiver.requests[0][0].headers.get("Authorization") == header


@pytest.mark.parametrize("token", ["tok", ""])
async def test_the_token_has_two_headers(lab: Lab, receiver: Receiver, token: str) -> None:
    await all_of([lab.sender().deliver(receiver.config(token=token), chunk("x"))])
    headers = receiver.requests[0][0].headers
    assert [headers.get(n) for n in ("X-A2A-Notification-Token", "A2A-Notification-Token")] == [token or None] * 2


@pytest.mark.parametrize("target", ["/in?sig=a+b%2F%2f&x=1", "/a%2Fb/./c", "/", ""])
async def test_the_url_is_called_as_it_was_given(lab: Lab, receiver: Receiver, target: str) -> None:
    await all_of([lab.sender().deliver(receiver.config(url=f"HTTP://127.0.0.1:{receiver.port}{target}"), chunk("x"))])
    assert receiver.requests[0][0].raw_path == (target or "/")


async def test_large_bodies_are_sent_whole(lab: Lab, receiver: Receiver) -> None:
    await all_of([lab.sender().deliver(receiver.config(), chunk("x" * 5_000_000))])
    assert [len(text) for text in receiver.texts] == [5_000_000]


async def test_nothing_is_kept_between_requests(lab: Lab, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9/")
    receiver.answers = [answer(200, Set_Cookie="a=b; Path=/")]
    sender = lab.sender(resolver=Names("127.0.0.1"))
    config = receiver.config(url=f"http://cookies.example:{receiver.port}/")
    await all_of([sender.deliver(config, chunk(n)) for n in "ab"])
    assert receiver.texts == ["a", "b"]
    assert "Cookie" not in receiver.requests[1][0].headers


# Retries

TRIED = [  # status → how often it is tried, of three times at most
    *((s, 1) for s in (200, 201, 202, 204, 299)),
    *((s, 1) for s in (300, 301, 302, 303, 307, 308)),
    *((s, 1) for s in (400, 401, 403, 404, 410, 413, 422)),
    *((s, 3) for s in (408, 429, 500, 502, 503, 504, 599)),
]


@pytest.mark.parametrize(("status", "times"), TRIED)
async def test_what_is_tried_again(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture, status: int, times: int
) -> None:
    receiver.answers = [answer(status, Location=f"http://127.0.0.1:{receiver.port}/elsewhere")] * 3
    sender = lab.sender(attempts=3)
    sender.deliver(receiver.config(), chunk("x"))
    await idle(sender)
    assert [r.path for r, _ in receiver.requests] == ["/in"] * times
    assert len({r.headers["Idempotency-Key"] for r, _ in receiver.requests}) == 1
    assert caplog.text.count(f"gave up an event: HTTP status {status}") == (status >= 300)


async def test_delays_grow_and_end(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [answer(503)] * 9
    sender = lab.sender(attempts=6, first_delay=1, longest_delay=5)
    sender.deliver(receiver.config(), chunk("x"))
    await idle(sender)
    assert lab.sleeps.delays == [1, 2, 4, 5, 5]


async def test_jitter_shortens_a_delay_by_half_at_most(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [answer(503)] * 2
    sender = lab.sender(first_delay=8, jitter=iter([0.0, 0.5]).__next__)
    sender.deliver(receiver.config(), chunk("x"))
    await idle(sender)
    assert lab.sleeps.delays == [4, 12]


async def test_retry_after_is_waited_for(lab: Lab, receiver: Receiver) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    asked = ["7", "0", "nonsense", "9" * 400, "-5", date]
    receiver.answers = [answer(429, Retry_After=text) for text in asked]
    sender = lab.sender(attempts=7, first_delay=1, longest_delay=1000)
    sender.deliver(receiver.config(), chunk("x"))
    await idle(sender)
    assert lab.sleeps.delays[:5] == [7, 2, 4, 1000, 16]
    assert 32 < lab.sleeps.delays[5] <= 40
    assert receiver.texts == ["x"] * 7


RETRY_AFTER = [
    ("120", 120.0),
    ("0", 0.0),
    ("", 0.0),
    ("soon", 0.0),
    ("-1", 0.0),
    ("1.5", 0.0),
    ("²", 0.0),
    ("Thu, 01 Jan 1970 00:20:00 GMT", 200.0),
    ("Thu, 01 Jan 1970 00:20:00 -0000", 200.0),
    ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ("Thu, 99 Jan 1970 00:00:00 GMT", 0.0),
    ("Thu, 01 Jan 99999999999 00:00:00 GMT", 0.0),
]


@pytest.mark.parametrize(("text", "seconds"), RETRY_AFTER)
def test_retry_after_header(text: str, seconds: float) -> None:
    assert retry_after(text, 1000.0) == seconds


async def test_an_event_that_waits_to_be_tried_again_comes_before_the_next(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [answer(503), answer(503)]
    sender = lab.sender()
    await all_of([sender.deliver(receiver.config(), chunk(n)) for n in "abc"])
    assert receiver.texts == ["a", "a", "a", "b", "c"]


async def test_no_connection_is_tried_again(lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    sender = lab.sender(attempts=3)
    sender.deliver(receiver.config(url=f"http://127.0.0.1:{port}/"), chunk("x"))
    await idle(sender)
    assert len(lab.sleeps.delays) == 2
    assert "Connection refused" in caplog.text


async def test_a_receiver_that_does_not_answer_is_tried_again(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [forever]
    await all_of([lab.sender(timeout=0.05).deliver(receiver.config(), chunk("x"))])
    await receiver.wait(2)
    assert receiver.texts == ["x", "x"]


async def test_an_endless_answer_is_not_read(lab: Lab, receiver: Receiver) -> None:
    async def endless() -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(receiver.requests[0][0])
        while True:
            await response.write(b"x" * 65536)

    receiver.answers = [endless]
    sender = lab.sender(attempts=1)
    await all_of([sender.deliver(receiver.config(), chunk(n)) for n in "ab"])
    assert receiver.texts == ["a", "b"]


async def test_after_a_failure_events_are_tried_once_until_one_gets_through(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [*[answer(500)] * 4, answer(200), answer(500)]
    sender = lab.sender(attempts=2)
    await all_of([sender.deliver(receiver.config(), chunk(n)) for n in "abcde"])
    await idle(sender)
    assert receiver.texts == ["a", "a", "b", "c", "d", "e", "e"]


async def test_the_end_of_a_task_is_always_tried_in_full(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [answer(500)] * 9
    sender = lab.sender(attempts=2)
    await all_of([sender.deliver(receiver.config(), e) for e in (chunk("a"), chunk("b"), status(TASK_STATE_COMPLETED))])
    await idle(sender)
    assert receiver.texts == ["a", "a", "b", "status_update", "status_update"]


async def test_an_event_that_cannot_be_encoded_does_not_stop_the_next(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Encoded):
        @property
        def json(self) -> bytes:
            raise RuntimeError("hush")

    sender = lab.sender()
    await all_of([sender.deliver(receiver.config(), e) for e in (Broken(chunk("a").message), chunk("b"))])
    assert receiver.texts == ["b"]
    assert "RuntimeError" in caplog.text
    assert "hush" not in caplog.text


# Logs


async def test_giving_up_is_told_once_without_secrets(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.answers = [answer(500)] * 6
    config = receiver.config(
        id="hook\nforged line",
        url=f"http://127.0.0.1:{receiver.port}/hush-path?k=hush-query",
        token="hush-token",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="hush-credentials"),
    )
    sender = lab.sender(attempts=2)
    await all_of([sender.deliver(config, chunk(n)) for n in "abcde"])
    told = [r.getMessage() for r in caplog.records if r.name == "a2a_grpc"]
    assert len(told) == 1
    assert all(word in told[0] for word in ("t1", "hook", "127.0.0.1", "500"))
    assert "\n" not in told[0]
    ours = "\n".join(r.getMessage() for r in caplog.records if r.name != "aiohttp.access")
    assert not [secret for secret in SECRETS if secret in ours]


@pytest.mark.parametrize(
    "url", ["http://hush:hush@127.0.0.1/hush-path", "http://[hush-path", "http://127.0.0.1:1/hush-path?hush-query"]
)
async def test_no_failure_tells_secrets(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    caplog.set_level(logging.DEBUG)
    config = receiver.config(url=url, token="hush-token\r\n" if "[" in url else "hush-token")
    sender = lab.sender(attempts=1)
    await all_of([sender.deliver(config, chunk("x"))])
    await idle(sender)
    told = [r.getMessage() for r in caplog.records if r.name == "a2a_grpc"]
    assert len(told) == 1
    assert "hush" not in caplog.text


# Addresses


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["::ffff:127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["::1"]])
async def test_a_name_that_comes_to_mean_this_machine_is_not_dialled(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture, addresses: list[str]
) -> None:
    config = receiver.config(url=f"http://rebind.example:{receiver.port}/")
    assert LOCAL_NAMES.violations(config) == []
    names = Names(*addresses)
    with listening() as (port, connected):
        config.url = f"http://rebind.example:{port}/"
        sender = lab.sender(LOCAL_NAMES, resolver=names)
        await all_of([sender.deliver(config, chunk("x"))])
        await idle(sender)
        assert not connected()
    assert names.asked == 1
    assert "not one that webhooks may be at" in caplog.text


async def test_the_same_name_is_dialled_where_it_is_permitted(lab: Lab, receiver: Receiver) -> None:
    config = receiver.config(url=f"http://rebind.example:{receiver.port}/")
    await all_of([lab.sender(resolver=Names("127.0.0.1")).deliver(config, chunk("x"))])
    assert receiver.requests[0][0].host == f"rebind.example:{receiver.port}"


async def test_one_address_that_fails_leaves_the_others(lab: Lab, receiver: Receiver) -> None:
    config = receiver.config(url=f"http://both.example:{receiver.port}/")
    await all_of([lab.sender(resolver=Names("::1", "127.0.0.1")).deliver(config, chunk("x"))])
    assert receiver.texts == ["x"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
async def test_a_stored_config_that_the_policy_refuses_is_not_called(lab: Lab, receiver: Receiver, host: str) -> None:
    sender = lab.sender(LOCAL_NAMES)
    with listening() as (port, connected):
        await all_of([sender.deliver(receiver.config(url=f"http://{host}:{port}/"), chunk("x"))])
        assert not connected()
    assert lab.sleeps.delays == []


async def test_a_stored_config_is_judged_again(lab: Lab, receiver: Receiver) -> None:
    await all_of([lab.sender(PushPolicy(allow_private=True)).deliver(receiver.config(), chunk("x"))])
    await all_of([lab.sender(PushPolicy(allow_http=True, allow_private=True)).deliver(receiver.config(), chunk("y"))])
    assert receiver.texts == ["y"]


async def test_names_are_looked_up_by_the_worker_only(lab: Lab, receiver: Receiver) -> None:
    names = Names("127.0.0.1")
    future = lab.sender(resolver=names).deliver(receiver.config(url=f"http://x.example:{receiver.port}/"), chunk("x"))
    assert names.asked == 0
    await all_of([future])
    assert names.asked == 1


class listening:  # noqa: N801
    """A socket that listens, and a function that tells whether anybody connected to it."""

    def __enter__(self) -> tuple[int, Callable[[], bool]]:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        return self.server.getsockname()[1], self.connected

    def connected(self) -> bool:
        try:
            connection, _ = self.server.accept()
        except BlockingIOError:
            return False
        connection.close()
        return True

    def __exit__(self, *args: object) -> None:
        self.server.close()


def test_the_listening_socket_does_tell() -> None:
    with listening() as (port, connected):
        assert not connected()
        socket.create_connection(("127.0.0.1", port)).close()
        assert connected()


# Queues


async def test_deliver_returns_at_once_and_the_future_waits_for_the_first_attempt(lab: Lab, receiver: Receiver) -> None:
    lab.sleeps.gate = asyncio.Event()
    receiver.answers = [answer(503)]
    future = lab.sender().deliver(receiver.config(), chunk("x"))
    assert not future.done()
    assert receiver.requests == []
    await all_of([future])
    assert len(receiver.requests) == 1


async def test_slow_receivers_delay_nobody_else(lab: Lab, receiver: Receiver) -> None:
    slow, sender = Receiver(), lab.sender(concurrency=4)
    slow.answers = [forever] * 100
    runner = await slow.start()
    for n in range(100):
        sender.deliver(slow.config(id=f"slow{n}", url=f"http://localhost:{slow.port}/"), chunk("x"))
    await slow.wait(2)
    await all_of([sender.deliver(receiver.config(id=f"h{n}"), chunk(str(n))) for n in range(10)])
    assert sorted(receiver.texts) == sorted(map(str, range(10)))
    assert len(slow.requests) == 2
    await sender.close(0)
    await runner.cleanup()


async def test_one_slow_webhook_of_a_task_does_not_delay_another_on_the_same_host(lab: Lab, receiver: Receiver) -> None:
    receiver.answers = [forever]
    sender = lab.sender()
    sender.deliver(receiver.config(id="slow"), chunk("x"))
    await receiver.wait(1)
    await all_of([sender.deliver(receiver.config(id="quick"), chunk(n)) for n in "ab"])
    assert receiver.texts == ["x", "a", "b"]


async def test_no_more_requests_than_agreed_are_on_their_way(lab: Lab, receiver: Receiver) -> None:
    open_now, most = 0, 0

    async def counted() -> web.Response:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        for _ in range(20):
            await asyncio.sleep(0)
        open_now -= 1
        return web.Response()

    receiver.answers = [counted] * 60
    hosts = ["127.0.0.1", "localhost", "x.localhost"]
    sender = lab.sender(concurrency=6, resolver=Names("127.0.0.1"))
    await all_of(
        sender.deliver(receiver.config(id=f"{n}", url=f"http://{hosts[n % 3]}:{receiver.port}/"), chunk("x"))
        for n in range(60)
    )
    assert len(receiver.requests) == 60
    assert most == 6


async def test_a_full_queue_drops_what_comes_but_never_the_end(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    sender = lab.sender(queue=3)
    futures = [sender.deliver(receiver.config(), chunk(n)) for n in "abcde"]
    assert [f.done() for f in futures] == [False, False, False, True, True]
    futures.append(sender.deliver(receiver.config(), status(TASK_STATE_COMPLETED)))
    await all_of(futures)
    assert receiver.texts == ["a", "b", "c", "status_update"]
    assert [r.getMessage().count("dropped") for r in caplog.records if r.name == "a2a_grpc"] == [1]


@pytest.mark.parametrize("told_by", ["replace", "deliver"])
async def test_a_replaced_webhook_gets_what_waits(lab: Lab, receiver: Receiver, told_by: str) -> None:
    lab.sleeps.gate = asyncio.Event()
    receiver.answers = [answer(503)]
    sender = lab.sender()
    future = sender.deliver(receiver.config(), chunk("x"))
    await all_of([future])
    second = sender.deliver(receiver.config(), chunk("y"))
    new = receiver.config(url=f"http://127.0.0.1:{receiver.port}/new", token="new")
    if told_by == "replace":
        sender.replace(new)
    else:
        second = sender.deliver(new, chunk("z"))
    lab.sleeps.gate.set()
    await all_of([second])
    assert [r.path for r, _ in receiver.requests] == ["/in", *["/new"] * (2 if told_by == "replace" else 3)]
    assert "X-A2A-Notification-Token" in receiver.requests[1][0].headers


# Deletion and shutdown


async def test_a_deleted_webhook_gets_nothing_more(lab: Lab, receiver: Receiver) -> None:
    """Neither what is queued, nor what is on its way, nor what waits to be tried again."""
    lab.sleeps.gate = asyncio.Event()
    receiver.answers = [answer(503), forever]
    sender = lab.sender()
    futures = [sender.deliver(receiver.config(id="retrying"), chunk(n)) for n in "ab"]
    await asyncio.wait_for(lab.sleeps.asleep.wait(), 10)
    futures += [sender.deliver(receiver.config(id="sending"), chunk(n)) for n in "cd"]
    await receiver.wait(2)
    futures += [sender.deliver(receiver.config(id="unstarted"), chunk("e"))]
    workers = [channel.worker for channel in sender._channels.values()]
    await asyncio.gather(*(sender.forget("t1", id) for id in ("retrying", "sending", "unstarted", "unknown")))
    assert all(future.done() for future in futures)
    assert [worker.done() for worker in workers if worker] == [True] * 3
    lab.sleeps.gate.set()
    await all_of([sender.deliver(receiver.config(id="other"), chunk("f"))])
    assert receiver.texts == ["a", "c", "f"]


async def test_a_webhook_made_again_after_deletion_works(lab: Lab, receiver: Receiver) -> None:
    sender = lab.sender()
    sender.deliver(receiver.config(), chunk("a"))
    await sender.forget("t1", "hook")
    await all_of([sender.deliver(receiver.config(), chunk("b"))])
    assert receiver.texts == ["b"]


async def test_nothing_runs_while_nothing_waits(lab: Lab, receiver: Receiver) -> None:
    before = asyncio.all_tasks()
    sender = lab.sender()
    await all_of([sender.deliver(receiver.config(id=str(n)), chunk("x")) for n in range(5)])
    await idle(sender)
    assert not [t for t in asyncio.all_tasks() - before if "PushSender" in repr(t)]
    assert sender._channels == {}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets that senders make."""
    made: list[socket.socket] = []
    make = WebhookClient._socket

    def record(*args: Any) -> socket.socket:
        made.append(make(*args))
        return made[-1]

    monkeypatch.setattr(WebhookClient, "_socket", record)
    return made


async def test_close_delivers_what_waits(lab: Lab, receiver: Receiver, made: list[socket.socket]) -> None:
    sender = lab.sender()
    for n in "abc":
        sender.deliver(receiver.config(), chunk(n))
    await sender.close(10)
    assert receiver.texts == ["a", "b", "c"]
    assert {s.fileno() for s in made} == {-1}


async def test_close_is_bounded_and_leaves_nothing(
    lab: Lab, receiver: Receiver, caplog: pytest.LogCaptureFixture, made: list[socket.socket]
) -> None:
    before = asyncio.all_tasks()
    receiver.answers = [forever]
    sender = lab.sender()
    futures = [sender.deliver(receiver.config(), chunk(n)) for n in "ab"]
    await receiver.wait(1)
    futures += [sender.deliver(receiver.config(id="unstarted"), chunk("c"))]
    async with asyncio.timeout(5):
        await sender.close(0)
    assert all(future.done() for future in futures)
    assert not [t for t in asyncio.all_tasks() - before if "RequestHandler" not in repr(t)]
    assert {s.fileno() for s in made} == {-1}
    assert "2 webhooks were not told everything" in caplog.text
    assert sender.deliver(receiver.config(), chunk("d")).done()
    assert receiver.texts == ["a"]


async def test_closing_an_unused_sender_does_nothing(lab: Lab) -> None:
    await lab.sender().close(0)


@pytest.mark.parametrize("name", ["concurrency", "attempts", "queue"])
def test_numbers_that_make_no_sense(name: str) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        PushSender(OPEN, **{name: 0})
