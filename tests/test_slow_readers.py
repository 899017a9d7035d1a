"""Readers that are slow, or stop: they are kept alive, or cut off, and nobody else feels it."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from lab import card, send
from wires import grpc_fault, sse_events, wire

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, A2AServiceStub

WRITE_TIMEOUT = 0.4
TICKS = 20
CHUNK = "x" * 256 * 1024
BODY = b'{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"%s"}]}}'
REQUESTS = {
    "rest": (b"POST /message:stream HTTP/1.1", BODY),
    "jsonrpc": (b"POST / HTTP/1.1", b'{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":' + BODY + b"}"),
}


def chunk(text: str) -> pb.StreamResponse:
    part = pb.Artifact(artifact_id="A1", parts=[pb.Part(text=text)])
    return pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(task_id="T1", context_id="C1", artifact=part))


class Talking(A2AServiceServicer):
    """Streams: `flood` without end, `ticks` of a few bytes each, `once` more than buffers hold, `idle` for a while."""

    card = card()

    def __init__(self) -> None:
        self.left: list[str] = []
        self.go = asyncio.Event()

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        kind = request.message.parts[0].text
        try:
            async with contextlib.aclosing(getattr(self, f"_{kind}")()) as events:
                async for event in events:
                    yield event
        finally:
            self.left.append(kind)

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        made = pb.Task(id="T1", context_id="C1", status=pb.TaskStatus(state=pb.TASK_STATE_COMPLETED))
        made.artifacts.add(artifact_id="A1").parts.add(text="x" * 32 * 1024 * 1024)
        return made

    async def _flood(self) -> AsyncIterator[pb.StreamResponse]:
        while True:
            yield chunk(CHUNK)

    async def _ticks(self) -> AsyncIterator[pb.StreamResponse]:
        for index in range(TICKS):
            yield chunk(str(index))
            await asyncio.sleep(2 * WRITE_TIMEOUT / TICKS)

    async def _once(self) -> AsyncIterator[pb.StreamResponse]:
        yield chunk("x" * 32 * 1024 * 1024)

    async def _idle(self) -> AsyncIterator[pb.StreamResponse]:
        yield chunk("first")
        await self.go.wait()
        yield chunk("last")


async def until(condition: Callable[[], bool], within: float = 5.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[Server, Talking]]:
    servicer = Talking()
    options = {"http_port": 0, "grpc_port": 0, "write_timeout": WRITE_TIMEOUT, **options}
    async with Server(servicer, **options) as server:
        yield server, servicer


def unread(port: int | None, request: bytes) -> socket.socket:
    """A connection with a request, and nobody who reads the answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    sock.connect(("127.0.0.1", port))
    sock.sendall(request)
    return sock


def stream_request(binding: str, kind: bytes) -> bytes:
    line, body = REQUESTS[binding]
    body %= kind
    return line + b"\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def is_cut(sock: socket.socket) -> None:
    """Reads what had arrived, and then the end or the reset of the connection."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(5):
        with contextlib.suppress(ConnectionError):
            while await loop.sock_recv(sock, 1 << 20):
                pass
    sock.close()


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


# Readers that stop


@pytest.mark.parametrize("keepalive", [15.0, 0.1], ids=["", "keepalive"])
@pytest.mark.parametrize("binding", REQUESTS)
async def test_an_sse_reader_that_stops_is_cut_off_and_no_other(
    binding: str, keepalive: float, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(keepalive=keepalive) as (server, servicer):
        tasks = asyncio.all_tasks()
        other = await wire(binding, server)
        ticks = asyncio.create_task(other.call("SendStreamingMessage", send("ticks")))
        started = time.monotonic()
        sock = unread(server.http_port, stream_request(binding, b"flood"))
        await until(lambda: "flood" in servicer.left)
        assert WRITE_TIMEOUT < time.monotonic() - started < WRITE_TIMEOUT + 2
        assert len((await ticks).messages) == TICKS
        await other.close()
        await until(lambda: asyncio.all_tasks() <= tasks)
        await is_cut(sock)
    assert not caplog.records


async def test_a_grpc_reader_that_stops_is_cut_off_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(http_port=None) as (server, servicer):
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            stub = A2AServiceStub(channel)
            ticks = stub.SendStreamingMessage(send("ticks"))
            flood = stub.SendStreamingMessage(send("flood"))
            await flood.read()
            await until(lambda: "flood" in servicer.left)
            assert len([event async for event in ticks]) == TICKS
            await until(lambda: not any("SendStreaming" in task.get_name() for task in asyncio.all_tasks()))
            with pytest.raises(grpc.aio.AioRpcError) as caught:  # what it is told if it ever reads on
                await read_all(flood)
            assert grpc_fault(caught.value).reason == "RESOURCE_EXHAUSTED"
    assert not caplog.records


@pytest.mark.parametrize("verb", [b"GET /tasks/T1", b"GET /a2a/tasks/T1"], ids=["", "tenant"])
async def test_a_large_answer_that_nobody_reads_is_cut_off(verb: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(grpc_port=None) as (server, _):
        tasks = asyncio.all_tasks()
        sock = unread(server.http_port, verb + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: not asyncio.all_tasks() <= tasks)
        started = time.monotonic()
        await until(lambda: asyncio.all_tasks() <= tasks)
        assert time.monotonic() - started < WRITE_TIMEOUT + 2
        await is_cut(sock)
    assert not caplog.records


@pytest.mark.parametrize("kind", [b"once", b"flood"])
async def test_a_stream_that_ends_while_nobody_reads_holds_up_neither_its_end_nor_the_server(
    kind: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(grpc_port=None, write_timeout=30) as (server, servicer):
        sock = unread(server.http_port, stream_request("rest", kind))
        await asyncio.to_thread(sock.recv, 1)
        started = time.monotonic()
        await server.stop(1)
        assert time.monotonic() - started < 2
        assert servicer.left == [kind.decode()]
        await is_cut(sock)
    assert not caplog.records


async def test_a_client_that_goes_in_the_middle_of_a_large_answer_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(grpc_port=None, write_timeout=30) as (server, _):
        tasks = asyncio.all_tasks()
        for request in (b"GET /tasks/T1 HTTP/1.1\r\nHost: x\r\n\r\n", stream_request("jsonrpc", b"once")):
            sock = unread(server.http_port, request)
            await asyncio.to_thread(sock.recv, 1)
            sock.close()
        await until(lambda: asyncio.all_tasks() <= tasks)
    assert not caplog.records


# Readers that are slow


async def test_a_slow_reader_that_goes_on_reading_is_not_cut_off() -> None:
    async with serving(grpc_port=None) as (server, servicer):
        sock = unread(server.http_port, stream_request("rest", b"flood"))
        sock.setblocking(False)
        loop, ends = asyncio.get_running_loop(), time.monotonic() + 3 * WRITE_TIMEOUT
        while time.monotonic() < ends:
            for _ in range(8):
                assert await asyncio.wait_for(loop.sock_recv(sock, 64 * 1024), 1)
            await asyncio.sleep(0.02)
        assert not servicer.left
        sock.close()
        await until(lambda: servicer.left == ["flood"])


# Keep-alive


async def test_comments_while_idle() -> None:
    async with serving(keepalive=0.1) as (server, servicer), aiohttp.ClientSession() as http:
        body = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "idle"}]}}
        async with http.post(server.http_url + "/message:stream", json=body) as response:
            await response.content.readuntil(b"\n\n")
            times = []
            for _ in range(4):
                assert await asyncio.wait_for(response.content.readuntil(b"\n\n"), 2) == b": keep-alive\n\n"
                times.append(time.monotonic())
            servicer.go.set()
            [(_, last)] = sse_events(await response.read())
    assert '"last"' in last
    assert 0.25 < times[-1] - times[0] < 0.6


async def test_no_comments_while_busy() -> None:
    async with serving(keepalive=0.2) as (server, _), aiohttp.ClientSession() as http:
        body = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "ticks"}]}}
        async with http.post(server.http_url + "/message:stream", json=body) as response:
            text = await response.read()
    assert len(sse_events(text)) == TICKS
    assert b": keep-alive" not in text
