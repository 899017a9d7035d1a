"""The server's life: what it listens on, what it refuses at start, whom it goes on serving, and what is left of it."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from lab import Lab, artifact, card, reply, send
from wires import BINDINGS, wire

from a2a_grpc import AgentServicer, Bearer, CardError, Mount, PortError, Server, mount, ports, run, serve
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, A2AServiceStub
from a2a_grpc.running import importing

SERVED = pb.AgentCard.FromString(card().SerializeToString())


class Waiting(A2AServiceServicer):
    """Waits in every call until it is let go; knows who entered and who left, and how."""

    card = SERVED

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.left: list[str] = []
        self.go = asyncio.Event()

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        with self._inside(request):
            await self.go.wait()
        return pb.SendMessageResponse(message=reply("done"))

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        with self._inside(request):
            yield artifact(0)
            await self.go.wait()
            yield artifact(1)

    @contextlib.contextmanager
    def _inside(self, request: pb.SendMessageRequest) -> Iterator[None]:
        name = request.message.parts[0].text
        self.entered.append(name)
        try:
            yield
        finally:
            self.left.append(name)


async def until(condition: Callable[[], bool], within: float = 5.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_ready(port: int) -> None:
    async with aiohttp.ClientSession() as http, asyncio.timeout(10):
        while not await _ready(http, port):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _ready(http: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with http.get(f"http://127.0.0.1:{port}/readyz") as response:
            return response.status == 200
    except aiohttp.ClientConnectionError:
        return False


def open_sockets() -> set[str]:
    """The TCP sockets of this process."""
    mine = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            mine.add(os.readlink(descriptor))
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return mine & {f"socket:[{row[9]}]" for row in rows}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


# Listening


async def test_port_zero_takes_free_ports_and_tells_them() -> None:
    async with Server(Lab(), http_port=0, grpc_port=0) as server:
        assert server.http_port
        assert server.grpc_port
        assert server.http_url == f"http://127.0.0.1:{server.http_port}"
        assert server.grpc_address == f"127.0.0.1:{server.grpc_port}"
        for name in BINDINGS:
            client = await wire(name, server)
            assert (await client.call("GetTask", {"id": "T1"})).only.id == "T1"
            await client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_returns_after_a_signal_and_gives_the_signal_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    port = free_port()
    serving = asyncio.create_task(serve(Lab(), http_port=port, grpc_port=0))
    await until_ready(port)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(serving, 5)
    assert signal.getsignal(number) is before


RUNNING = """
import sys
sys.path.insert(0, "tests")
from lab import Lab
from a2a_grpc import run
run(Lab(), http_port=int(sys.argv[1]), grpc_port=0)
print("returned")
"""


async def test_run_blocks_until_a_signal_and_returns() -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNING, str(port), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        await until_ready(port)
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 5)
    finally:
        if process.returncode is None:
            process.kill()
    assert (process.returncode, out, err) == (0, b"returned\n", b"")


@pytest.mark.parametrize("options", [{"http_port": 1}, {"grpc_port": 1}], ids=["HTTP", "gRPC"])
@pytest.mark.parametrize("reuse", [False, True], ids=["plain", "SO_REUSEPORT"])
async def test_a_port_in_use_is_refused_with_its_holder(options: dict[str, int], reuse: bool) -> None:
    code = (
        "import socket, sys; s = socket.socket(); "
        f"s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, {int(reuse)}); "
        "s.bind(('127.0.0.1', 0)); s.listen(); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", code, **pipes)
    assert holder.stdout
    try:
        port = int(await asyncio.wait_for(holder.stdout.readline(), 5))
        with pytest.raises(PortError) as caught:
            await Server(Lab(), **{"http_port": 0, "grpc_port": 0, **dict.fromkeys(options, port)}).start()
    finally:
        await holder.communicate(b"")
    what = "HTTP" if "http_port" in options else "gRPC"
    assert f"127.0.0.1:{port} ({what})" in str(caught.value)
    assert f"process {holder.pid} (" in str(caught.value)


async def test_one_port_for_both_is_refused() -> None:
    port = free_port()
    with pytest.raises(PortError, match="this process has this port"):
        await Server(Lab(), http_port=port, grpc_port=port).start()
    with socket.create_server(("127.0.0.1", port)):
        pass  # the one that was open is closed again


def resolving_to(*addresses: str) -> Callable[[str, int], list[tuple[int, str]]]:
    return lambda host, port: [(socket.AF_INET6 if ":" in a else socket.AF_INET, a) for a in addresses]


async def test_a_name_is_served_on_each_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "addresses", resolving_to("127.0.0.1", "127.0.0.2", "::1"))
    async with Server(Lab(), host="localhost", http_port=0, grpc_port=0) as server:
        assert server.http_url == f"http://localhost:{server.http_port}"
        for host in ("127.0.0.1", "127.0.0.2", "::1"):
            for port in (server.http_port, server.grpc_port):
                socket.create_connection((host, port), timeout=2).close()


async def test_a_name_with_one_address_taken_is_refused_and_the_others_are_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "addresses", resolving_to("127.0.0.1", "127.0.0.2"))
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortError, match=rf"127\.0\.0\.2:{port} \(gRPC\)"):
            await Server(Lab(), host="localhost", http_port=0, grpc_port=port).start()
        socket.create_server(("127.0.0.1", port)).close()


def test_a_free_port_is_free_on_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first free port of the one address may be taken on the other; another one is tried then."""
    chosen: list[int] = []
    real = ports._listen

    def listening(family: int, address: str, port: int, what: str) -> socket.socket | None:
        if address == "127.0.0.2" and len(chosen) < 2:
            chosen.append(port)
            with socket.create_server((address, port)):
                return real(family, address, port, what)
        return real(family, address, port, what)

    monkeypatch.setattr(ports, "_listen", listening)
    monkeypatch.setattr(ports, "addresses", resolving_to("127.0.0.1", "127.0.0.2"))
    sockets = ports.listen("localhost", 0, "HTTP")
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    assert len(chosen) == 2
    ports.close_all(sockets)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.7"])
async def test_a_host_that_is_not_here_is_refused(host: str) -> None:
    with pytest.raises(PortError, match=f"cannot listen on {host}"):
        await Server(Lab(), host=host, http_port=0, grpc_port=0).start()


async def test_every_address_of_both_families() -> None:
    async with Server(Lab(), host="::", http_port=0, grpc_port=0) as server:
        for host in ("127.0.0.1", "::1"):
            for port in (server.http_port, server.grpc_port):
                socket.create_connection((host, port), timeout=2).close()
        assert not any("::" in i.url or "0.0.0.0" in i.url for i in server.card.supported_interfaces)


# Refusing to start


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"htp_port": 1}, TypeError, "unknown option htp_port; did you mean http_port?"),
        ({"grpcport": 1}, TypeError, "did you mean grpc_port?"),
        ({"zzz": 1}, TypeError, "there are host, http_port,"),
        ({"http_port": 70000}, ValueError, "http_port must be None or a number from 0 to 65535, not 70000"),
        ({"http_port": "8001"}, ValueError, "http_port must be None or a number from 0 to 65535, not '8001'"),
        ({"bindings": "GRPC"}, ValueError, "bindings must be a list, not 'GRPC'"),
        ({"bindings": ["GRPC", "REST"]}, ValueError, "bindings must be some of GRPC, JSONRPC, HTTP+JSON"),
        ({"bindings": ["GRPC", "GRPC"]}, ValueError, "each once"),
        ({"bindings": []}, ValueError, "bindings must be some of"),
        ({"cors": "*"}, ValueError, "cors must be a list"),
        ({"tenants": "acme"}, ValueError, "tenants must be None or a list, not 'acme'"),
        ({"keepalive": 0}, ValueError, "keepalive must be a number above 0, not 0"),
        ({"keepalive": "15"}, ValueError, "keepalive must be a number above 0, not '15'"),
        ({"shutdown_deadline": None}, ValueError, "shutdown_deadline must be a number, 0 or more, not None"),
        ({"max_connection_age": 0}, ValueError, "max_connection_age must be None or a number above 0, not 0"),
        ({"tls": ("cert.pem", "key.pem")}, ValueError, "tls must be a TLS(certificate, key), not ('cert.pem'"),
        ({"interceptors": Bearer({}.get)}, ValueError, "ServerInterceptor, as in [Bearer(known)], not <a2a_grpc.auth"),
        ({"interceptors": [Bearer]}, ValueError, "as in [Bearer(known)], not [<class 'a2a_grpc.auth.schemes.Bearer'>]"),
        ({"public_url": "agent.example.com"}, ValueError, "public_url must be an absolute"),
        ({"trusted_proxies": ["proxy"]}, ValueError, "trusted_proxies must be networks"),
        ({"version_policy": "lax"}, ValueError, "version_policy must be one of infer, strict"),
        ({"host": ""}, ValueError, "host must be"),
        ({"http_port": None, "grpc_port": None}, ValueError, "nothing is served"),
        ({"http_port": None, "bindings": ["JSONRPC"]}, ValueError, "nothing is served"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_right(wrong: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        Server(Lab(), **wrong)
    assert text in str(caught.value)


async def test_an_invalid_card_is_refused_with_all_that_it_lacks_and_nothing_stays_open() -> None:
    before, port = open_sockets(), free_port()
    with pytest.raises(CardError) as caught:
        await Server(Lab(), pb.AgentCard(name="Half"), http_port=port, grpc_port=0).start()
    fields = {violation.field for violation in caught.value.violations}
    assert fields >= {"description", "version", "default_input_modes", "default_output_modes", "skills"}
    assert open_sockets() == before
    socket.create_server(("127.0.0.1", port)).close()


def test_a_servicer_without_a_card_is_refused() -> None:
    class Cardless(A2AServiceServicer):
        async def SendMessage(self, request: Any, context: Any) -> None: ...

    with pytest.raises(TypeError, match="Cardless needs a card: give it an attribute `card`"):
        Server(Cardless())


# Bindings and addresses in the card


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["GRPC", "JSONRPC", "HTTP+JSON"]),
        ({"bindings": ["HTTP+JSON", "GRPC"]}, ["HTTP+JSON", "GRPC"]),
        ({"bindings": ["JSONRPC"]}, ["JSONRPC"]),
        ({"http_port": None}, ["GRPC"]),
        ({"grpc_port": None, "public_grpc": "agent.example.com:443"}, ["JSONRPC", "HTTP+JSON"]),
    ],
)
async def test_the_card_names_what_is_served_in_the_given_order(options: dict[str, Any], expected: list[str]) -> None:
    async with Server(Lab(), **{"http_port": 0, "grpc_port": 0, **options}) as server:
        assert [i.protocol_binding for i in server.card.supported_interfaces] == expected
        assert bool(server.grpc_port) == ("GRPC" in expected)
        assert bool(server.http_port) == (expected != ["GRPC"])


@pytest.mark.parametrize(
    ("public_url", "jsonrpc", "rest"),
    [
        ("https://agent.example.com", "https://agent.example.com/", "https://agent.example.com"),
        ("https://example.com/a2a", "https://example.com/a2a", "https://example.com/a2a"),
        ("https://example.com:8443/a2a/", "https://example.com:8443/a2a", "https://example.com:8443/a2a"),
    ],
)
async def test_the_card_has_the_public_addresses(public_url: str, jsonrpc: str, rest: str) -> None:
    options = {"public_url": public_url, "public_grpc": "agent.example.com:443"}
    async with Server(Lab(), http_port=0, grpc_port=0, **options) as server:
        assert [i.url for i in server.card.supported_interfaces] == ["agent.example.com:443", jsonrpc, rest]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_an_address_that_cannot_be_called_is_never_in_the_card(host: str) -> None:
    async with Server(Lab(), host=host, http_port=0, grpc_port=0) as server:
        hosts = {i.url.removeprefix("http://").rpartition(":")[0] for i in server.card.supported_interfaces}
        assert not hosts & {"0.0.0.0", "[::]", "::", ""}
        async with aiohttp.ClientSession() as http, http.get(server.http_url + "/readyz") as response:
            assert response.status == 200


@pytest.mark.parametrize(
    ("off", "verb", "path"), [("JSONRPC", "POST", "/"), ("HTTP+JSON", "GET", "/tasks/T1")], ids=["JSONRPC", "HTTP+JSON"]
)
async def test_a_binding_that_is_off_is_not_found(off: str, verb: str, path: str) -> None:
    on = [b for b in ("JSONRPC", "HTTP+JSON") if b != off]
    async with Server(Lab(), http_port=0, bindings=on) as server, aiohttp.ClientSession() as http:
        body = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"T1"}}'
        async with http.request(verb, server.http_url + path, data=body) as response:
            assert response.status == 404
            assert (await response.json())["error"]["status"] == "NOT_FOUND"
        async with http.get(server.http_url + "/.well-known/agent-card.json") as response:
            interfaces = (await response.json())["supportedInterfaces"]
            assert [i["protocolBinding"] for i in interfaces] == on


# Health


async def test_grpc_health_by_service(caplog: pytest.LogCaptureFixture) -> None:
    async with Server(Lab(), http_port=0, grpc_port=0) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in ("", "lf.a2a.v1.A2AService"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await health.Check(health_pb2.HealthCheckRequest(service="nope"), timeout=5)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert not caplog.records


# Clients that go


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_that_goes_ends_its_call_and_nothing_else(
    binding: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    servicer = Waiting()
    async with Server(servicer, http_port=0, grpc_port=0) as server:
        goes, stays = await wire(binding, server), await wire(binding, server)
        going = asyncio.create_task(goes.call(method, send("goes")))
        staying = asyncio.create_task(stays.call("SendStreamingMessage", send("stays")))
        await until(lambda: sorted(servicer.entered) == ["goes", "stays"])
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
        await goes.close()
        await until(lambda: servicer.left == ["goes"])
        servicer.go.set()
        assert len((await staying).messages) == 2
        await stays.close()
    assert not caplog.records


async def test_a_client_that_resets_its_connection_ends_its_stream(caplog: pytest.LogCaptureFixture) -> None:
    servicer = Waiting()
    async with Server(servicer, http_port=0, grpc_port=None) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        body = b'{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"reset"}]}}'
        writer.write(b"POST /message:stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(b"data: ")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.close()
        await until(lambda: servicer.left == ["reset"])
    assert not caplog.records


# Nothing is left


async def test_stop_leaves_no_task_and_no_socket(caplog: pytest.LogCaptureFixture) -> None:
    tasks, sockets = asyncio.all_tasks(), open_sockets()
    servicer = Waiting()
    server = Server(servicer, http_port=0, grpc_port=0)
    await server.start()
    clients = [await wire(name, server) for name in BINDINGS]
    calls = [asyncio.create_task(c.call("SendStreamingMessage", send("x"))) for c in clients]
    idle = [await asyncio.open_connection("127.0.0.1", server.http_port) for _ in range(3)]
    channel = grpc.aio.insecure_channel(server.grpc_address)
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    await until(lambda: len(servicer.entered) == 3)
    async with asyncio.timeout(2):
        await server.stop(0.2)
    outcomes = await asyncio.gather(*calls)
    assert {o.fault.reason for o in outcomes if o.fault} == {"UNAVAILABLE"}
    assert len(servicer.left) == 3
    for client in clients:
        await client.close()
    await channel.close()
    for reader, writer in idle:
        assert await reader.read() == b""
        writer.close()
    watch.cancel()
    del watch, channel, calls
    await until(lambda: asyncio.all_tasks() <= tasks)
    await until(lambda: open_sockets() <= sockets)
    assert not caplog.records


async def test_stop_of_an_idle_server_is_quick_whoever_watches() -> None:
    async with Server(Lab(), http_port=0, grpc_port=0) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            await watch.read()
            started = asyncio.get_running_loop().time()
            await server.stop(10)
            assert asyncio.get_running_loop().time() - started < 2
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    await server.stop()  # once more does no harm


async def test_a_server_starts_again() -> None:
    server = Server(Lab(), http_port=0, grpc_port=0)
    for _ in range(2):
        async with server, grpc.aio.insecure_channel(server.grpc_address) as channel:
            assert (await A2AServiceStub(channel).GetTask(pb.GetTaskRequest(id="T1"), timeout=5)).id == "T1"


def test_mounts_need_something_to_serve() -> None:
    with pytest.raises(ValueError, match="there is no agent to serve"):
        Server([])


def test_mount_takes_options_by_name() -> None:
    with pytest.raises(TypeError, match="did you mean write_timeout"):
        mount(aiohttp.web.Application(), Lab(), prefix="/lab", public_url="https://example.com", write_timeot=1)
    with pytest.raises(ValueError, match="prefix"):
        Mount(Lab(), prefix="lab/")


class Misspelt(A2AServiceServicer):
    card = card()

    async def SendMesage(self, request: Any, context: Any) -> None: ...


def a_function(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("servicer", "text"),
    [
        (Lab, "Lab is a class: pass an instance, Lab()"),
        (a_function, "a_function is a function: decorate it with @agent"),
        (Misspelt(), "Misspelt has no method of A2AService, such as SendMessage; did you mean SendMessage?"),
    ],
)
async def test_what_is_no_servicer_is_refused_at_start(servicer: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        await Server(servicer, card(), http_port=0, grpc_port=0).start()


async def test_an_agent_that_forgets_its_super_or_its_execute_is_told() -> None:
    class Forgetful(AgentServicer):
        def __init__(self) -> None:
            pass

        async def execute(self, turn: Any) -> None: ...

    class Idle(AgentServicer):
        pass

    with pytest.raises(TypeError, match=re.escape("Forgetful.__init__ must call super().__init__()")):
        await Server(Forgetful(), http_port=0, grpc_port=0).start()
    with pytest.raises(TypeError, match="Idle must have a method `async def execute"):
        Idle()


def test_run_within_an_import_is_refused() -> None:
    token = importing.set("echo")
    try:
        with pytest.raises(RuntimeError, match=r"echo calls run\(\) when it is imported"):
            run(Lab())
    finally:
        importing.reset(token)
