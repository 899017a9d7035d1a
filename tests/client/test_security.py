"""Where credentials go, and where they never go; redirects; tokens. Requirements AUTH-*, X-CARD-6; story 5."""

import asyncio
import base64
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import pytest

from a2a_grpc import Server
from a2a_grpc.auth import ApiKey as ApiKeyGuard
from a2a_grpc.auth import Basic as BasicGuard
from a2a_grpc.auth import Bearer as BearerGuard
from a2a_grpc.bindings.protojson import dumps, to_json
from a2a_grpc.client import (
    ApiKey,
    Basic,
    Bearer,
    Call,
    CardReadError,
    ConnectError,
    CredentialsError,
    NoInterfaceError,
    OAuth2,
    RemoteError,
    connect,
)
from a2a_grpc.client.addresses import address
from a2a_grpc.client.credentials.credential import NO_SCHEME
from a2a_grpc.client.credentials.select import select
from a2a_grpc.errors import UnauthenticatedError
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import BINDINGS, Leg, Script, card, raw_server, read_request, response, scripted, task
from tests.lab import Lab

everywhere = pytest.mark.parametrize("binding", BINDINGS)
SECRET = "s3cret-token"


@asynccontextmanager
async def recorder(*answers: bytes) -> AsyncIterator[tuple[str, list[tuple[bytes, bytes]]]]:
    """A server that keeps what it is sent, and answers in turn; the last answer stays."""
    seen: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            writer.write(answers[min(len(seen), len(answers)) - 1])
            await writer.drain()

    async with raw_server(serve) as url:
        yield url, seen


def secured(made: pb.AgentCard, **schemes: pb.SecurityScheme) -> pb.AgentCard:
    for name, scheme in schemes.items():
        made.security_schemes[name].CopyFrom(scheme)
        made.security_requirements.add().schemes[name].SetInParent()
    return made


def api_key(location: str, name: str = "X-Key") -> pb.SecurityScheme:
    return pb.SecurityScheme(api_key_security_scheme=pb.APIKeySecurityScheme(location=location, name=name))


def http_auth(scheme: str) -> pb.SecurityScheme:
    return pb.SecurityScheme(http_auth_security_scheme=pb.HTTPAuthSecurityScheme(scheme=scheme))


OAUTH = pb.SecurityScheme(oauth2_security_scheme=pb.OAuth2SecurityScheme())
MTLS = pb.SecurityScheme(mtls_security_scheme=pb.MutualTlsSecurityScheme())


# What goes with a call


@everywhere
@pytest.mark.parametrize(
    ("guard", "credentials"),
    [
        (ApiKeyGuard({SECRET: "ann"}, "X-My-Key"), ApiKey(SECRET)),
        (ApiKeyGuard({SECRET: "ann"}, "session", "cookie"), ApiKey(SECRET)),
        (ApiKeyGuard({SECRET: "ann"}, "key", "query"), ApiKey(SECRET)),
        (BearerGuard(lambda token: "ann" if token == SECRET else None), Bearer(SECRET)),
        (BearerGuard(lambda token: "ann" if token == SECRET else None), Bearer(lambda: SECRET)),
        (BasicGuard(lambda user, password: user if password == SECRET else None), Basic("ann", SECRET)),
    ],
    ids=["header", "cookie", "query", "bearer", "bearer function", "basic"],
)
async def test_a_guarded_agent_is_called(binding: str, guard: Any, credentials: Any) -> None:
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0, shutdown_deadline=1, interceptors=[guard]) as server:
        options = {"bindings": [binding], "origins": [server.grpc_address], "credentials": credentials}
        if binding == "GRPC" and getattr(guard, "location", "") == "query":
            with pytest.raises(NoInterfaceError, match="gRPC has no query"):
                await anext(aiter_connect(server.http_url, **options))
            return
        async with connect(server.http_url, **options) as client:
            await client.send("x")
            assert await anext(client.stream("1:"))
        async with connect(server.http_url, bindings=[binding]) as client:
            with pytest.raises(UnauthenticatedError):
                await client.send("x")


async def aiter_connect(*args: Any, **options: Any) -> AsyncIterator[Any]:
    async with connect(*args, **options) as client:
        yield client


@pytest.mark.parametrize(
    ("schemes", "given", "chosen"),
    [
        ({}, Bearer("t"), ["Bearer"]),
        ({}, (), []),
        ({"k": api_key("header")}, [Bearer("t"), ApiKey("k")], ["ApiKey"]),
        ({"a": http_auth("basic"), "b": http_auth("Bearer")}, Bearer("t"), ["Bearer"]),
        ({"o": OAUTH}, Bearer("t"), ["Bearer"]),
        ({"o": OAUTH, "k": api_key("header")}, {"k": ApiKey("k")}, ["ApiKey"]),
    ],
)
def test_credentials_are_chosen_by_the_card(schemes: Any, given: Any, chosen: list[str]) -> None:
    made = secured(pb.AgentCard(), **schemes)
    assert [type(credential).__name__ for credential, _ in select(made, given)] == chosen


def test_all_schemes_of_one_requirement_are_needed() -> None:
    made = secured(pb.AgentCard(), a=api_key("header", "X-A"))
    made.security_schemes["b"].CopyFrom(http_auth("bearer"))
    made.security_requirements[0].schemes["b"].SetInParent()
    assert len(select(made, [Bearer("t"), ApiKey("k")])) == 2
    with pytest.raises(CredentialsError, match="asks for a and b"):
        select(made, ApiKey("k"))


def test_what_the_card_asks_for_is_told() -> None:
    made = secured(pb.AgentCard(name="A"), k=api_key("query", "key"), m=MTLS, o=OAUTH)
    with pytest.raises(CredentialsError, match="asks for k or m or o") as caught:
        select(made, Basic("u", SECRET))
    assert "k: API key in query key" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    token = OAuth2("id", SECRET, token_url="https://login.example/token")
    for credential in (ApiKey(SECRET), Bearer(SECRET), Basic("u", SECRET), token):
        assert SECRET not in repr(credential)


async def test_a_key_without_a_scheme_has_its_usual_place() -> None:
    assert (await ApiKey("k").present(NO_SCHEME)).headers == {"x-api-key": "k"}


# Where they go


async def test_interfaces_of_another_origin_are_not_used_with_credentials() -> None:
    async with recorder(response(dumps({"jsonrpc": "2.0", "id": 1, "result": {"id": "T"}}))) as (evil, stolen):
        offered = card(evil, "JSONRPC")
        async with recorder(response(to_json(offered))) as (home, _):
            with pytest.raises(NoInterfaceError, match="credentials go to"):
                await anext(aiter_connect(home, credentials=Bearer(SECRET)))
            assert stolen == []
            async with connect(home, credentials=Bearer(SECRET), origins=[evil]) as client:
                await client.get_task("T")
            assert SECRET.encode() in stolen[0][0]
            async with connect(home) as client:
                await client.get_task("T")
            assert SECRET.encode() not in stolen[1][0]


async def test_an_interface_that_may_have_them_is_preferred() -> None:
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        async with connect(server.http_url, credentials=Bearer(SECRET)) as client:
            assert client.interface.protocol_binding == "JSONRPC"  # gRPC, first in the card, has another port
        async with connect(server.agents[0].card, credentials=Bearer(SECRET)) as client:
            assert client.interface.protocol_binding == "GRPC"  # whoever gives the card has named its addresses


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    async with recorder(response(b"{}")) as (elsewhere, seen):
        redirect = response(b"", status, Location=elsewhere)
        async with recorder(redirect) as (home, _):
            for binding in BINDINGS[1:]:
                async with connect(card(home, binding), credentials=Bearer(SECRET)) as client:
                    for call in (client.get_task("T"), client.send("x"), anext(client.stream("x"))):
                        with pytest.raises(RemoteError, match="redirects to"):
                            await call
            with pytest.raises(CardReadError, match="redirects to"):
                await anext(aiter_connect(home))
    assert seen == []


async def test_the_card_is_fetched_without_credentials() -> None:
    async with recorder(response(to_json(card("http://127.0.0.1:1", "JSONRPC")))) as (home, seen):
        with pytest.raises(NoInterfaceError):
            await anext(aiter_connect(home, credentials=Bearer(SECRET)))
    assert seen
    assert all(SECRET.encode() not in head for head, _ in seen)


async def test_cookies_of_a_server_are_not_kept() -> None:
    answer = response(dumps({"jsonrpc": "2.0", "id": 1, "result": {"id": "T"}}), Set_Cookie="a=b; Path=/")
    async with recorder(answer) as (home, seen):
        async with connect(card(home, "JSONRPC")) as client:
            await client.get_task("T")
            await client.get_task("T")
    assert b"cookie" not in seen[1][0].lower()


# Interceptors


@everywhere
async def test_interceptors_see_a_call_and_may_make_another(binding: str) -> None:
    seen: list[Call] = []

    def first(call: Call) -> Call:
        seen.append(call)
        return Call(call.method, pb.GetTaskRequest(id="T1"), {**call.metadata, "traceparent": "00-1"}, call.card)

    async def second(call: Call) -> Call:
        seen.append(call)
        return call

    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0, shutdown_deadline=1) as server:
        options = {"bindings": [binding], "interceptors": [first, second], "credentials": Bearer(SECRET)}
        async with connect(server.agents[0].card, **options) as client:
            assert (await client.get_task("other")).id == "T1"
    assert [c.message.id for c in seen] == ["other", "T1"]  # type: ignore[attr-defined]
    assert (seen[0].method.name, seen[0].card.name) == ("GetTask", "Lab")
    assert all("authorization" not in c.metadata for c in seen)
    assert dict(lab.seen[0][1].invocation_metadata())["traceparent"] == "00-1"
    assert dict(lab.seen[0][1].invocation_metadata())["authorization"] == f"Bearer {SECRET}"


# OAuth 2


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def tokens(*lives: int) -> list[bytes]:
    return [response(dumps({"access_token": f"t{n}", "expires_in": life})) for n, life in enumerate(lives)]


async def test_tokens_are_shared_and_renewed_ahead() -> None:
    clock = Clock()
    async with recorder(*tokens(600, 600)) as (home, seen):
        oauth = OAuth2("me", "a b+c", token_url=home + "/token", scope="read", clock=clock)

        async def header() -> str:
            return (await oauth.present(OAUTH)).headers["authorization"]

        assert await asyncio.gather(*(header() for _ in range(20))) == ["Bearer t0"] * 20
        assert len(seen) == 1
        head, body = seen[0]
        assert base64.b64encode(b"me:a%20b%2Bc") in head
        assert body == b"grant_type=client_credentials&scope=read"
        clock.now += 539
        assert await header() == "Bearer t0"
        clock.now += 2
        assert await header() == "Bearer t0"  # while the new one is on its way
        assert oauth._fetching is not None
        await oauth._fetching
        assert await header() == "Bearer t1"
        assert len(seen) == 2


async def test_a_token_that_cannot_be_had_is_an_error_and_tried_again() -> None:
    clock = Clock()
    async with recorder(response(dumps({"error": "invalid_client"}), 401), *tokens(10)) as (home, _):
        oauth = OAuth2("me", SECRET, token_url=home, clock=clock)
        async with connect(card("http://127.0.0.1:1", "JSONRPC"), credentials=oauth) as client:
            with pytest.raises(UnauthenticatedError, match="HTTP 401 invalid_client") as caught:
                await client.send("x")
        assert SECRET not in str(caught.value)
        assert (await oauth.present(OAUTH)).headers == {"authorization": "Bearer t0"}


@everywhere
async def test_a_token_that_is_refused_is_renewed_once(binding: str) -> None:
    accepted, interceptors = {"t1"}, [BearerGuard(lambda token: token if token in accepted else None)]
    async with recorder(*tokens(600, 600, 600)) as (home, seen):
        async with Server(Lab(), http_port=0, grpc_port=0, shutdown_deadline=1, interceptors=interceptors) as server:
            options: dict[str, Any] = {"bindings": [binding], "credentials": OAuth2("me", SECRET, token_url=home)}
            async with connect(server.agents[0].card, **options) as client:
                assert await asyncio.gather(*(client.get_task("T1") for _ in range(5)))
                assert len(seen) == 2
                accepted.clear()
                with pytest.raises(UnauthenticatedError):
                    await anext(client.stream("1"))
                assert len(seen) == 3
                accepted.add("t2")
                assert await anext(client.stream("1"))


@pytest.mark.parametrize(
    "answer",
    [
        b"[" * 200_000,
        b"x" * 100_000,
        dumps({"access_token": "a\nb"}),
        dumps({"access_token": 7}),
        b"\xff",
    ],
    ids=lambda answer: str(answer[:24]),
)
async def test_an_answer_that_is_no_token_is_an_error(answer: bytes) -> None:
    async with recorder(response(answer)) as (home, _):
        with pytest.raises(UnauthenticatedError, match="No token from"):
            await OAuth2("me", SECRET, token_url=home).present(OAUTH)


@pytest.mark.parametrize("life", ["²", 10**12, "soon", None, True])
async def test_a_life_that_is_none_is_the_usual_one(life: Any) -> None:
    clock = Clock()
    body = b'{"access_token": "t", "expires_in": %s}' % (str(life) if type(life) is int else json.dumps(life)).encode()
    async with recorder(response(body)) as (home, _):
        oauth = OAuth2("me", SECRET, token_url=home, clock=clock)
        await oauth.present(OAUTH)
    assert oauth._ends_at == clock.now + 300


async def test_a_secret_is_not_redirected() -> None:
    async with recorder(*tokens(10)) as (elsewhere, seen):
        async with recorder(response(b"{}", 307, Location=elsewhere)) as (home, _):
            with pytest.raises(UnauthenticatedError, match="HTTP 307"):
                await OAuth2("me", SECRET, token_url=home).present(OAUTH)
    assert seen == []


@pytest.mark.parametrize("url", ["", "http://login.example/token", "login.example"])
def test_a_token_url_is_safe(url: str) -> None:
    with pytest.raises(ValueError, match=r"https|no host"):
        OAuth2("me", SECRET, token_url=url)


def test_a_certificate_is_a_credential() -> None:
    both = secured(pb.AgentCard(), k=api_key("header"))
    both.security_schemes["m"].CopyFrom(MTLS)
    both.security_requirements[0].schemes["m"].SetInParent()
    for given in (ApiKey("key"), [ApiKey("key")], {"k": ApiKey("key")}, MappingProxyType({"k": ApiKey("key")})):
        assert len(select(both, given, certificate=True)) == 2
        with pytest.raises(CredentialsError):
            select(both, given)
    assert select(secured(pb.AgentCard(), m=MTLS), (), certificate=True) == []


@pytest.mark.parametrize("token", ["t\n", "t\r\nX: y", "tök", "t\0"])
@everywhere
async def test_a_secret_that_no_header_can_hold_is_told_alike(binding: str, token: str) -> None:
    async with scripted(binding, Script([], {"GetTask": [task(1)]}), credentials=Bearer(token)) as client:
        with pytest.raises(CredentialsError, match="hold what no header can") as caught:
            await client.get_task("T1")
    assert token not in str(caught.value)


async def test_no_text_of_an_error_holds_a_key() -> None:
    made = secured(card("http://127.0.0.1:1", "JSONRPC"), k=api_key("query"))
    for answer in (b"nonsense\r\n\r\n", response(b"", 307, Location="https://agent.example/?key=" + SECRET)):
        async with recorder(answer) as (home, _):
            made.supported_interfaces[0].url = home
            async with connect(made, credentials=ApiKey(SECRET), attempts=1) as client:
                with pytest.raises((ConnectError, RemoteError)) as caught:
                    await client.get_task("T1")
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ValueError, match="user name") as refused:
        address(f"https://ann:{SECRET}@agent.example")
    assert SECRET not in str(refused.value)


async def test_tokens_outlast_the_loop_that_fetched_them() -> None:
    async with recorder(*tokens(600, 600)) as (home, _):
        oauth = OAuth2("me", SECRET, token_url=home)

        async def leave() -> None:
            task = asyncio.ensure_future(oauth.present(OAUTH))
            await asyncio.sleep(0)
            task.cancel()

        await asyncio.to_thread(asyncio.run, leave())
        assert (await oauth.present(OAUTH)).headers["authorization"].startswith("Bearer t")


@everywhere
async def test_errors_of_authentication_come_through_on_streams(binding: str) -> None:
    script = Script([Leg([], UnauthenticatedError("who are you?"))], {"GetTask": [task(1)]})
    async with scripted(binding, script) as client:
        with pytest.raises(UnauthenticatedError, match="who are you"):
            await anext(client.stream("x"))
