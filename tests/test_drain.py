"""The drain: what clients and orchestrators see of a server that ends, and that it ends in time whatever hangs."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from lab import artifact, card, reply, send
from wires import BINDINGS, All, grpc_fault, sse_events, wire

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, A2AServiceStub

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
BODY = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "x"}]}}


class Held(A2AServiceServicer):
    """Calls that last until they are let go; `cleaning` seconds go by in their `finally`."""

    card = card()

    def __init__(self, cleaning: float = 0.0) -> None:
        self.cleaning, self.cleaned, self.entered = cleaning, 0, 0
        self.go = asyncio.Event()

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        self.entered += 1
        try:
            if request.message.parts[0].text == "abort":
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "told to")
            await self.go.wait()
        finally:
            await self._clean()
        return pb.SendMessageResponse(message=reply("done"))

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        self.entered += 1
        try:
            yield artifact(0)
            await self.go.wait()
            yield artifact(1)
        finally:
            await self._clean()

    async def _clean(self) -> None:
        await asyncio.sleep(self.cleaning)
        self.cleaned += 1


async def entered(servicer: Held, calls: int) -> None:
    async with asyncio.timeout(5):
        while servicer.entered < calls:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_readiness_turns_false_while_calls_end_and_the_health_of_grpc_too() -> None:
    servicer = Held()
    async with Server(servicer, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        client = await wire("grpc", server)
        call = asyncio.create_task(client.call("SendStreamingMessage", send("x")))
        await entered(servicer, 1)
        health = health_pb2_grpc.HealthStub(client.channel)  # type: ignore[union-attr]
        watch = health.Watch(health_pb2.HealthCheckRequest(service="lf.a2a.v1.A2AService"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.create_task(server.stop(10))
        assert (await asyncio.wait_for(watch.read(), 5)).status == NOT_SERVING
        assert (await health.Check(health_pb2.HealthCheckRequest(), timeout=5)).status == NOT_SERVING
        async with http.get(server.http_url + "/readyz") as response:
            assert (response.status, await response.text()) == (503, "draining\n")
        async with http.get(server.http_url + "/healthz") as response:
            assert response.status == 200
        servicer.go.set()  # a call that ends by itself is not disturbed, and ends the drain
        assert len((await call).messages) == 2
        await asyncio.wait_for(stopping, 3)
        await client.close()


@pytest.mark.parametrize("binding", BINDINGS)
async def test_streams_end_cleanly(binding: str) -> None:
    servicer = Held()
    async with Server(servicer, http_port=0, grpc_port=0) as server:
        client = await wire(binding, server)
        call = asyncio.create_task(client.call("SendStreamingMessage", send("x")))
        await entered(servicer, 1)
        started = time.monotonic()
        await server.stop(1)
        outcome = await call
        assert 0.4 < time.monotonic() - started < 1
        await client.close()
    assert len(outcome.messages) == 1
    assert outcome.fault
    assert (outcome.fault.reason, outcome.fault.domain) == ("UNAVAILABLE", "a2a-protocol.org")
    assert outcome.fault.wire == {"grpc": 14, "jsonrpc": -32603, "rest": 503}[binding]


async def test_an_sse_stream_ends_with_an_error_event_and_the_end_of_the_body() -> None:
    servicer = Held()
    async with Server(servicer, http_port=0, grpc_port=None) as server, aiohttp.ClientSession() as http:
        async with http.post(server.http_url + "/message:stream", json=BODY) as response:
            stopping = asyncio.create_task(server.stop(0.2))
            events = sse_events(await asyncio.wait_for(response.read(), 5))
            assert [name for name, _ in events] == ["", "error"]
        await stopping


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_br_31_stop_returns_after_the_cleanup_of_its_handlers(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler has a 1 s `finally`, after an abort, or after the stream is ended for it."""
    servicer = Held(cleaning=1.0)
    async with Server(servicer, http_port=0, grpc_port=0) as server, All(server) as clients:
        calls = [asyncio.create_task(client.call(method, send("abort"))) for client in clients.wires]
        await entered(servicer, 3)
        await server.stop(3)
        assert servicer.cleaned == 3
        for outcome in await asyncio.gather(*calls):
            assert outcome.fault
            assert outcome.fault.reason == ("FAILED_PRECONDITION" if method == "SendMessage" else "UNAVAILABLE")
    assert not caplog.records


async def test_a_call_that_is_cancelled_at_the_deadline_cleans_up_before_stop_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    servicer = Held(cleaning=0.1)
    async with Server(servicer, http_port=0, grpc_port=0) as server, All(server) as clients:
        calls = [asyncio.create_task(client.call("SendMessage", send("x"))) for client in clients.wires]
        await entered(servicer, 3)
        await server.stop(0.2)
        assert servicer.cleaned == 3
        await asyncio.gather(*calls, return_exceptions=True)
    assert not caplog.records


async def test_new_calls_are_served_until_streams_are_ended_and_refused_after() -> None:
    servicer = Held()
    async with Server(servicer, http_port=0, grpc_port=0) as server:
        stub = A2AServiceStub(grpc.aio.insecure_channel(server.grpc_address))
        open_stream = stub.SendStreamingMessage(send("x"))
        await open_stream.read()
        stopping = asyncio.create_task(server.stop(1))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.SendMessage(send("abort"), timeout=5)
        assert grpc_fault(caught.value).reason == "FAILED_PRECONDITION"
        await stopping
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.SendMessage(send("abort"), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


STUCK = """
import asyncio, logging, os, sys, time
sys.path.insert(0, "tests")
from lab import artifact, card
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer
from a2a_grpc import Server
from a2a_grpc.running import run_server

class Stuck(A2AServiceServicer):
    card = card()

    async def SendMessage(self, request, context):  # swallows every cancellation
        os.write(1, b"swallowing\\n")
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

    async def SendStreamingMessage(self, request, context):
        yield artifact(0)
        await asyncio.Event().wait()

    def GetTask(self, request, context):
        os.write(1, b"sleeping\\n")
        time.sleep(3600)

    def ListTasks(self, request, context):
        time.sleep(0.1)

def started(server):
    print(server.http_port, server.grpc_port, flush=True)

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
run_server(Server(Stuck(), http_port=0, grpc_port=0, shutdown_deadline=float(sys.argv[1])), started)
"""


class Process:
    """The process of a stuck server, and all that is open to it."""

    async def start(self, deadline: float) -> None:
        command = [sys.executable, "-W", "default", "-c", STUCK, str(deadline)]
        self.process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.http_port, self.grpc_port = (int(port) for port in (await self.line()).split())
        self.http = aiohttp.ClientSession(f"http://127.0.0.1:{self.http_port}", connector=aiohttp.TCPConnector(limit=0))
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.grpc_port}")

    async def line(self) -> str:
        assert self.process.stdout
        line = await asyncio.wait_for(self.process.stdout.readline(), 10)
        assert line, f"the process has ended: {await self.process.communicate()}"
        return line.decode().strip()

    async def ended(self, within: float) -> tuple[int | None, str]:
        _, err = await asyncio.wait_for(self.process.communicate(), within)
        return self.process.returncode, err.decode()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.communicate()
        await self.http.close()
        await self.channel.close()


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    started = Process()
    yield started
    await started.close()


async def sse(http: aiohttp.ClientSession) -> tuple[aiohttp.ClientResponse, bytes]:
    response = await http.post("/message:stream", json=BODY)
    return response, await response.content.readuntil(b"\n\n")


async def hang(process: Process) -> list[asyncio.Task[Any]]:
    """Calls that will never end: one on each way."""
    calls = [
        asyncio.create_task(process.http.post("/message:send", json=BODY)),
        asyncio.create_task(process.http.get("/tasks/T1")),
        asyncio.create_task(_grpc(A2AServiceStub(process.channel).SendMessage(send("x")))),
    ]
    assert sorted([await process.line() for _ in calls]) == ["sleeping", "swallowing", "swallowing"]
    return calls


async def _grpc(call: Any) -> Any:
    return await call


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_br_14_a_server_ends_in_time_whatever_is_open_and_whatever_hangs(
    number: signal.Signals, process: Process
) -> None:
    deadline = 1.5
    await process.start(deadline)
    idle = [await asyncio.open_connection("127.0.0.1", process.http_port) for _ in range(10)]
    for reader, writer in idle:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok\n")
    streams = await asyncio.gather(*(sse(process.http) for _ in range(20)))
    rpcs = [A2AServiceStub(process.channel).SendStreamingMessage(send("x")) for _ in range(5)]
    for rpc in rpcs:
        await rpc.read()
    calls = await hang(process)

    started = time.monotonic()
    process.process.send_signal(number)
    for response, _ in streams:
        [(name, _)] = sse_events(await asyncio.wait_for(response.read(), deadline))
        assert name == "error"
    for rpc in rpcs:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.read()
        assert grpc_fault(caught.value).reason == "UNAVAILABLE"
    for reader, writer in idle:
        assert await asyncio.wait_for(reader.read(), deadline) == b""
        writer.close()
    code, log = await process.ended(within=deadline + 2)
    assert time.monotonic() - started < deadline + 1
    await asyncio.gather(*calls, return_exceptions=True)
    assert code == 0
    assert log == "INFO a2a_grpc: draining, for 1.5 seconds at most\n"


async def test_a_second_signal_ends_the_process_at_once(process: Process) -> None:
    await process.start(60.0)
    calls = await hang(process)
    process.process.send_signal(signal.SIGTERM)
    assert process.process.stderr
    assert b"draining" in await asyncio.wait_for(process.process.stderr.readline(), 5)
    started = time.monotonic()
    process.process.send_signal(signal.SIGINT)
    code, _ = await process.ended(within=5)
    assert time.monotonic() - started < 1
    assert code == 1
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_drained_process_that_nothing_hangs_in_returns(process: Process) -> None:
    await process.start(5.0)
    async with process.http.get("/tasks") as response:  # a thread was used, and is idle
        assert response.status == 500
    started = time.monotonic()
    os.kill(process.process.pid, signal.SIGTERM)
    code, log = await process.ended(within=5)
    assert time.monotonic() - started < 1
    assert code == 0
    assert "Task was destroyed" not in log
