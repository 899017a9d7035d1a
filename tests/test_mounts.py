"""Several agents in one process, and an agent inside someone else's application."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from aiohttp import web
from google.protobuf.json_format import ParseDict
from lab import Lab, card, reply, send
from wires import All, grpc_fault, sse_events, wire

from a2a_grpc import Mount, Server, mount
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, A2AServiceStub

WELL_KNOWN = "/.well-known/agent-card.json"


class Named(A2AServiceServicer):
    """Answers with its name, and the tenant that it was asked for."""

    def __init__(self, name: str) -> None:
        self.name, self.card = name, card(name=name)

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        return pb.SendMessageResponse(message=reply(f"{self.name} {request.tenant}".strip()))

    async def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        yield pb.StreamResponse(message=reply(self.name))
        await asyncio.Event().wait()


TWO = (
    Mount(Named("glossary"), prefix="/glossary", tenant="words"),
    Mount(Named("brief"), prefix="/brief", tenant="letters"),
)


async def fetched(http: aiohttp.ClientSession, url: str) -> pb.AgentCard:
    async with http.get(url) as response:
        assert response.status == 200
        return ParseDict(await response.json(), pb.AgentCard())


def interface(of: pb.AgentCard, binding: str) -> pb.AgentInterface:
    [found] = [i for i in of.supported_interfaces if i.protocol_binding == binding]
    return found


async def call_by_card(http: aiohttp.ClientSession, of: pb.AgentCard) -> set[str]:
    """What an agent answers over each interface of its card, called by nothing but the card."""
    answers = set()
    for i in of.supported_interfaces:
        request = send("hello", tenant=i.tenant)
        if i.protocol_binding == "GRPC":
            async with grpc.aio.insecure_channel(i.url) as channel:
                answer = await A2AServiceStub(channel).SendMessage(request, timeout=5)
        elif i.protocol_binding == "JSONRPC":
            params = {"tenant": i.tenant, "message": MESSAGE}
            envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
            async with http.post(i.url, json=envelope) as response:
                answer = ParseDict((await response.json())["result"], pb.SendMessageResponse())
        else:
            url = i.url + (f"/{i.tenant}" if i.tenant else "") + "/message:send"
            async with http.post(url, json={"message": MESSAGE}) as response:
                answer = ParseDict(await response.json(content_type=None), pb.SendMessageResponse())
        answers.add(answer.message.parts[0].text)
    return answers


MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}


# Several in one process


async def test_each_agent_has_its_card_under_its_prefix_and_is_called_by_it() -> None:
    async with Server(TWO, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        for name, tenant in (("glossary", "words"), ("brief", "letters")):
            its = await fetched(http, f"{server.http_url}/{name}{WELL_KNOWN}")
            assert its.name == name
            assert {i.tenant for i in its.supported_interfaces} == {tenant}
            assert interface(its, "GRPC").url == server.grpc_address
            assert interface(its, "JSONRPC").url == f"{server.http_url}/{name}"
            assert interface(its, "HTTP+JSON").url == f"{server.http_url}/{name}"
            assert await call_by_card(http, its) == {f"{name} {tenant}"}


@pytest.mark.parametrize("slash", ["", "/"])
async def test_jsonrpc_at_a_prefix_with_and_without_a_slash(slash: str) -> None:
    async with Server(TWO, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
        async with http.post(f"{server.http_url}/brief{slash}", json=envelope) as response:
            assert (await response.json())["result"]["message"]["parts"] == [{"text": "brief"}]
        async with http.get(f"{server.http_url}/brief{slash}") as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/", WELL_KNOWN, "/message:send", "/glossaryx", "/glossary%2F", "/brie"])
async def test_a_path_of_no_agent_names_the_agents(path: str) -> None:
    async with Server(TWO, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        async with http.get(aiohttp.client.URL(server.http_url + path, encoded=True)) as response:
            assert response.status == 404
            assert "/brief, /glossary" in (await response.json())["error"]["message"]


async def test_the_tenant_of_another_agent_is_refused_at_a_prefix() -> None:
    async with Server(TWO, http_port=0, grpc_port=0) as server:
        for binding in ("jsonrpc", "rest"):
            client = await wire(binding, server, prefix="/brief")
            outcome = await client.call("SendMessage", send("x", tenant="words"))
            assert outcome.fault
            assert outcome.fault.violations == [("tenant", '"words" is not a tenant of this agent')]
            await client.close()


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("tenant", ["", "nobody"])
async def test_grpc_without_the_tenant_of_an_agent_is_refused(tenant: str, method: str) -> None:
    async with Server(TWO, http_port=0, grpc_port=0) as server:
        client = await wire("grpc", server)
        outcome = await client.call(method, send("x", tenant=tenant))
        await client.close()
    assert outcome.fault
    assert outcome.fault.reason == "INVALID_PARAMS"
    [(field, text)] = outcome.fault.violations
    assert field == "tenant"
    assert "words" not in text  # which tenants there are is told by cards, not by errors


async def test_grpc_that_does_not_decode_is_refused_as_such() -> None:
    async with Server(TWO, http_port=0, grpc_port=0) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(b"\xff\xff", timeout=5)
    assert "not a valid lf.a2a.v1.SendMessageRequest" in grpc_fault(caught.value).message


async def test_one_agent_may_have_no_tenant_and_no_prefix() -> None:
    mounts = [Mount(Named("main")), TWO[1]]
    async with Server(mounts, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        async with All(server) as clients:
            outcomes = await clients.call("SendMessage", send("x"))
            assert {o.only.message.parts[0].text for o in outcomes} == {"main"}
        assert (await fetched(http, server.http_url + WELL_KNOWN)).name == "main"
        assert await call_by_card(http, await fetched(http, f"{server.http_url}/brief{WELL_KNOWN}")) == {
            "brief letters"
        }


@pytest.mark.parametrize(
    ("mounts", "text"),
    [
        ([Mount(Named("a"), prefix="/a"), Mount(Named("b"), prefix="/b")], "gRPC tells agents apart by it"),
        ([Mount(Named("a"), tenant="a"), Mount(Named("b"), tenant="b")], "HTTP tells agents apart by it"),
        ([Named("a"), Named("b")], 'a prefix of its own, as HTTP tells agents apart by it; given: "", ""'),
    ],
)
def test_agents_that_cannot_be_told_apart_are_refused(mounts: list[Any], text: str) -> None:
    with pytest.raises(ValueError, match="each agent needs a") as caught:
        Server(mounts)
    assert text in str(caught.value)


async def test_agents_need_no_tenant_where_there_is_no_grpc() -> None:
    mounts = [Mount(Named("a"), prefix="/a"), Mount(Named("b"), prefix="/b")]
    async with Server(mounts, http_port=0, grpc_port=None) as server, aiohttp.ClientSession() as http:
        assert await call_by_card(http, await fetched(http, f"{server.http_url}/a{WELL_KNOWN}")) == {"a"}


@pytest.mark.parametrize("prefix", ["glossary", "/glossary/", "/", "/a b", "/a?b", "//a"])
def test_a_wrong_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        Mount(Lab(), prefix=prefix)


async def test_a_prefix_of_several_segments_and_one_within_another() -> None:
    mounts = [Mount(Named("outer"), prefix="/a", tenant="o"), Mount(Named("inner"), prefix="/a/b", tenant="i")]
    async with Server(mounts, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        assert await call_by_card(http, await fetched(http, f"{server.http_url}/a{WELL_KNOWN}")) == {"outer o"}
        assert await call_by_card(http, await fetched(http, f"{server.http_url}/a/b{WELL_KNOWN}")) == {"inner i"}


# Inside an aiohttp application


@contextlib.asynccontextmanager
async def running(app: web.Application, sock: Any) -> AsyncIterator[web.AppRunner]:
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=5)
    await runner.setup()
    await web.SockSite(runner, sock).start()
    try:
        yield runner
    finally:
        await runner.cleanup()


async def hello(request: web.Request) -> web.Response:
    return web.Response(text="mine")


@pytest.mark.parametrize("prefix", ["", "/agents/lab"])
@pytest.mark.parametrize("above", ["", "/sub"], ids=["app", "sub-app"])
async def test_an_agent_in_an_application_is_called_by_its_card(
    above: str, prefix: str, unused_socket: tuple[Any, str]
) -> None:
    sock, base = unused_socket
    app = web.Application()
    app.router.add_get("/mine", hello)
    own = web.Application() if above else app
    mount(own, Named("guest"), prefix=prefix, public_url=base + above)
    if above:
        app.add_subapp(above, own)
    async with running(app, sock), aiohttp.ClientSession() as http:
        its = await fetched(http, base + above + prefix + WELL_KNOWN)
        assert [i.protocol_binding for i in its.supported_interfaces] == ["JSONRPC", "HTTP+JSON"]
        assert await call_by_card(http, its) == {"guest"}
        async with http.get(base + "/mine") as response:
            assert await response.text() == "mine"
        async with http.get(base + above + prefix + "/tasks/a%2Fb") as response:
            assert response.status == 501  # the path is read as it was sent


async def test_streams_of_an_agent_in_an_application_end_with_it(unused_socket: tuple[Any, str]) -> None:
    sock, base = unused_socket
    app = web.Application()
    mount(app, Named("guest"), prefix="/guest", public_url=base)
    async with aiohttp.ClientSession() as http:
        async with running(app, sock) as runner:
            response = await http.post(base + "/guest/message:stream", json={"message": MESSAGE})
            await response.content.readuntil(b"\n\n")
            await asyncio.wait_for(runner.cleanup(), 2)
        [(name, _)] = sse_events(await response.read())
        assert name == "error"


async def test_a_client_that_goes_ends_its_stream_in_an_application(unused_socket: tuple[Any, str]) -> None:
    sock, base = unused_socket
    servicer = Lab()
    app = web.Application()
    mount(app, servicer, prefix="/lab", public_url=base)
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "1:hold"}]}
    async with running(app, sock), aiohttp.ClientSession() as http:
        response = await http.post(base + "/lab/message:stream", json={"message": message})
        await response.content.readuntil(b"\n\n")
        response.close()
        await asyncio.wait_for(servicer.closed.wait(), 5)


async def test_browsers_may_call_an_agent_in_an_application(unused_socket: tuple[Any, str]) -> None:
    sock, base = unused_socket
    app = web.Application()
    mount(app, Named("guest"), prefix="/guest", public_url=base, cors=["https://app.example.com"])
    async with running(app, sock), aiohttp.ClientSession() as http:
        origin = {"Origin": "https://app.example.com"}
        async with http.get(base + "/guest" + WELL_KNOWN, headers=origin) as response:
            assert response.headers["Access-Control-Allow-Origin"] == "https://app.example.com"


@pytest.fixture
def unused_socket() -> Iterator[tuple[socket.socket, str]]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock, f"http://127.0.0.1:{sock.getsockname()[1]}"
