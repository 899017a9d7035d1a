"""Authenticators guard every binding alike, say who is calling, and tell how in the card."""

import asyncio
import base64
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from lab import Lab, card, message, reply, send
from wires import NONE, All, Outcome

from a2a_grpc import CardError, PermissionDeniedError, Server
from a2a_grpc.auth import AnyOf, ApiKey, Authenticator, Basic, Bearer, secured
from a2a_grpc.caller import Caller, caller
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer
from a2a_grpc.tasks import AgentServicer, PushPolicy, Turn

ANN = Caller("ann", frozenset({"read"}))
KEYS: Mapping[str, Caller | str] = {"key-of-ann": ANN, "old-key-of-ann": ANN, "key-of-bob": "bob"}
SECRET = "s3cret-XYZ"
CODES = [16, -31401, 401]
UNARY, STREAM = "SendMessage", "SendStreamingMessage"


def token(given: str) -> Caller | str | None:
    return {"token-of-ann": ANN, "token-of-bob": "bob"}.get(given)


async def awaited_token(given: str) -> Caller | str | None:
    await asyncio.sleep(0)
    return token(given)


def password(user: str, given: str) -> str | None:
    return user if given == f"password of {user}" else None


async def awaited_password(user: str, given: str) -> str | None:
    await asyncio.sleep(0)
    return password(user, given)


def basic(user: str, given: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{given}".encode()).decode()


def who() -> str:
    return f"{caller.get().name} {sorted(caller.get().scopes)}"


class Who(A2AServiceServicer):
    """Says who is calling."""

    card = card()

    async def SendMessage(self, request: Any, context: Any) -> pb.SendMessageResponse:
        return pb.SendMessageResponse(message=reply(who()))

    async def SendStreamingMessage(self, request: Any, context: Any) -> AsyncIterator[pb.StreamResponse]:
        yield pb.StreamResponse(message=reply(who()))


class SyncWho(A2AServiceServicer):
    card = card()

    def SendMessage(self, request: Any, context: Any) -> pb.SendMessageResponse:
        return pb.SendMessageResponse(message=reply(who()))

    def SendStreamingMessage(self, request: Any, context: Any) -> Any:
        yield pb.StreamResponse(message=reply(who()))


class WritingWho(Who):
    async def SendStreamingMessage(self, request: Any, context: Any) -> None:  # type: ignore[override]
        await context.write(pb.StreamResponse(message=reply(who())))


def guarded(servicer: Any, *interceptors: Any) -> Server:
    return Server(servicer, http_port=0, grpc_port=0, interceptors=interceptors)


async def outcomes(
    servicer: Any, interceptor: Any, headers: Mapping[str, str] = NONE, method: str = UNARY
) -> list[Outcome]:
    async with guarded(servicer, interceptor) as server, All(server) as every:
        return await every.call(method, send("hi"), headers)


def said(found: list[Outcome]) -> list[str]:
    return [outcome.only.message.parts[0].text for outcome in found]


def refusals(found: list[Outcome]) -> list[tuple[str, int]]:
    return [(o.fault.reason, o.fault.wire) for o in found if o.fault]


REFUSED = [("UNAUTHENTICATED", code) for code in CODES]
BY_KEY = {"X-API-Key": "key-of-ann"}

# Success

GOOD: Mapping[str, tuple[Callable[[], Authenticator], dict[str, str], str]] = {
    "key": (lambda: ApiKey(KEYS), BY_KEY, "ann ['read']"),
    "older key": (lambda: ApiKey(KEYS), {"x-api-key": "old-key-of-ann"}, "ann ['read']"),
    "key of a name": (lambda: ApiKey(KEYS, "X-Other.Key"), {"X-Other.Key": "key-of-bob"}, "bob []"),
    "verified key": (lambda: ApiKey(token), {"X-API-Key": "token-of-ann"}, "ann ['read']"),
    "awaited key": (lambda: ApiKey(awaited_token), {"X-API-Key": "token-of-bob"}, "bob []"),
    "cookie": (lambda: ApiKey(KEYS, "sid", "cookie"), {"Cookie": "a=b; sid=key-of-ann;c"}, "ann ['read']"),
    "quoted cookie": (lambda: ApiKey(KEYS, "sid", "cookie"), {"Cookie": 'sid="key-of-ann"'}, "ann ['read']"),
    "bearer": (lambda: Bearer(token), {"Authorization": "Bearer token-of-ann"}, "ann ['read']"),
    "awaited bearer": (lambda: Bearer(awaited_token), {"Authorization": "bearer  token-of-bob"}, "bob []"),
    "basic": (lambda: Basic({"ann": "pässword:"}), {"Authorization": basic("ann", "pässword:")}, "ann []"),
    "verified basic": (lambda: Basic(password), {"Authorization": basic("bob", "password of bob")}, "bob []"),
    "awaited basic": (lambda: Basic(awaited_password), {"Authorization": basic("bob", "password of bob")}, "bob []"),
}


@pytest.mark.parametrize("case", GOOD)
async def test_good_credentials_set_the_caller(case: str) -> None:
    made, headers, expected = GOOD[case]
    assert said(await outcomes(Who(), made(), headers)) == [expected] * 3
    assert caller.get() == Caller()


@pytest.mark.parametrize("servicer", [Who, SyncWho, WritingWho])
@pytest.mark.parametrize("method", [UNARY, STREAM])
async def test_every_kind_of_method_knows_the_caller(servicer: Any, method: str) -> None:
    assert said(await outcomes(servicer(), ApiKey(KEYS), BY_KEY, method)) == ["ann ['read']"] * 3


async def test_callers_who_share_a_connection_are_told_apart() -> None:
    async with guarded(Who(), ApiKey(KEYS)) as server, All(server) as every:
        for key, name in [("key-of-ann", "ann ['read']"), ("key-of-bob", "bob []")] * 2:
            assert said(await every.call(UNARY, send("hi"), {"X-API-Key": key})) == [name] * 3
            assert refusals(await every.call(UNARY, send("hi"))) == REFUSED


async def test_callers_at_the_same_time_are_told_apart() -> None:
    async with guarded(Who(), Bearer(awaited_token)) as server, All(server) as every:
        names = ["ann", "bob"] * 10
        calls = [every.call(UNARY, send("hi"), {"Authorization": f"Bearer token-of-{name}"}) for name in names]
        found = await asyncio.gather(*calls)
    assert [said(f)[0].split()[0] for f in found] == names
    assert all(len(set(said(f))) == 1 for f in found)


# Refusal

WRONG: Mapping[str, tuple[Callable[[], Authenticator], dict[str, str]]] = {
    "unknown key": (lambda: ApiKey(KEYS), {"X-API-Key": SECRET}),
    "empty key": (lambda: ApiKey(KEYS), {"X-API-Key": ""}),
    "start of a key": (lambda: ApiKey(KEYS), {"X-API-Key": "key-of-an"}),
    "two keys in one": (lambda: ApiKey(KEYS), {"X-API-Key": "key-of-ann, key-of-ann"}),
    "long key": (lambda: ApiKey(KEYS), {"X-API-Key": "k" * 6000}),
    "key with a space": (lambda: ApiKey(KEYS), {"X-API-Key": "key of ann"}),
    "unknown cookie": (lambda: ApiKey(KEYS, "sid", "cookie"), {"Cookie": f"sid={SECRET}"}),
    "two cookies": (lambda: ApiKey(KEYS, "sid", "cookie"), {"Cookie": "sid=key-of-ann; sid=key-of-ann"}),
    "empty cookie": (lambda: ApiKey(KEYS, "sid", "cookie"), {"Cookie": "sid"}),
    "unknown token": (lambda: Bearer(token), {"Authorization": f"Bearer {SECRET}"}),
    "no token": (lambda: Bearer(token), {"Authorization": "Bearer"}),
    "two tokens": (lambda: Bearer(token), {"Authorization": "Bearer token-of-ann, Bearer token-of-ann"}),
    "long token": (lambda: Bearer(token), {"Authorization": "Bearer " + "t" * 6000}),
    "falsy verdict": (lambda: Bearer(lambda _: False), {"Authorization": "Bearer x"}),  # type: ignore[arg-type, return-value]
    "wrong password": (lambda: Basic(password), {"Authorization": basic("ann", SECRET)}),
    "password of another": (lambda: Basic({"ann": "1", "bob": "2"}), {"Authorization": basic("ann", "2")}),
    "no user": (lambda: Basic(lambda *_: "all"), {"Authorization": "Basic"}),
    "no colon": (lambda: Basic(lambda *_: "all"), {"Authorization": "Basic YW5u"}),
    "no base64": (lambda: Basic(lambda *_: "all"), {"Authorization": "Basic ann:password"}),
    "base64 and more": (lambda: Basic({"a": "b"}), {"Authorization": "Basic YT!pi"}),
    "base64 cut off": (lambda: Basic(lambda *_: "all"), {"Authorization": basic("ann", "password")[:-1]}),
    "no UTF-8": (lambda: Basic(lambda *_: "all"), {"Authorization": "Basic " + base64.b64encode(b"a:\xff").decode()}),
    "control character": (lambda: Basic(lambda *_: "all"), {"Authorization": basic("ann\0", "p")}),
}
MISSING: Mapping[str, tuple[Callable[[], Authenticator], dict[str, str]]] = {
    "no key": (lambda: ApiKey(KEYS), {}),
    "key elsewhere": (lambda: ApiKey(KEYS), {"Authorization": "Bearer key-of-ann", "Cookie": "X-API-Key=key-of-ann"}),
    "no cookie": (lambda: ApiKey(KEYS, "sid", "cookie"), {"Cookie": "asid=key-of-ann; x=sid=key-of-ann"}),
    "no authorization": (lambda: Bearer(token), {}),
    "another scheme": (lambda: Bearer(token), {"Authorization": basic("ann", "token-of-ann")}),
    "bare token": (lambda: Bearer(token), {"Authorization": "token-of-ann"}),
    "empty header": (lambda: Basic(password), {"Authorization": ""}),
}


@pytest.mark.parametrize("method", [UNARY, STREAM])
@pytest.mark.parametrize("case", WRONG)
async def test_wrong_credentials(case: str, method: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made, headers = WRONG[case]
    await assert_refused(made(), headers, method, "Credentials are not valid", caplog)


@pytest.mark.parametrize("method", [UNARY, STREAM])
@pytest.mark.parametrize("case", MISSING)
async def test_missing_credentials(case: str, method: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made, headers = MISSING[case]
    await assert_refused(made(), headers, method, f"Credentials are missing: send {made().advice}", caplog)


async def assert_refused(
    authenticator: Authenticator, headers: dict[str, str], method: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab()
    found = await outcomes(lab, authenticator, headers, method)
    assert refusals(found) == REFUSED
    assert [o.fault.message for o in found if o.fault] == [text] * 3
    challenges = {{**o.headers, **o.trailing}["www-authenticate"] for o in found}
    assert challenges == {challenge(authenticator)}
    assert lab.seen == []
    told = repr([o.fault for o in found]) + "".join(r.getMessage() for r in caplog.records if "grpc" in r.name)
    assert not any(value in told for value in headers.values() if value)
    assert sum("refused" in r.getMessage() for r in caplog.records) == 3


def challenge(authenticator: Authenticator) -> str:
    match authenticator:
        case ApiKey(name=name, location=location):
            return f'ApiKey realm="Lab", in="{location}", name="{name}"'
    return f'{type(authenticator).__name__} realm="Lab"'


TWICE = [
    (ApiKey(KEYS), [("X-API-Key", "key-of-ann"), ("X-API-Key", "key-of-ann")]),
    (Bearer(token), [("Authorization", "Bearer token-of-ann"), ("Authorization", "Bearer token-of-ann")]),
    (AnyOf(Bearer(token), Basic(password)), [
        ("Authorization", basic("bob", "password of bob")), ("Authorization", "Bearer token-of-ann"),
    ]),
    (ApiKey(KEYS, "sid", "cookie"), [("Cookie", "sid=key-of-ann"), ("Cookie", "sid=key-of-bob")]),
]  # fmt: skip


@pytest.mark.parametrize(("interceptor", "headers"), TWICE)
async def test_credentials_that_are_sent_twice(interceptor: Any, headers: list[tuple[str, str]]) -> None:
    async with guarded(Lab(), interceptor) as server:
        assert await _raw_call(server.grpc_address, headers) is grpc.StatusCode.UNAUTHENTICATED
        for path in ("/", "/message:send"):
            assert await _raw_post(server, path, "".join(f"{k}: {v}\r\n" for k, v in headers).encode()) == 401


@pytest.mark.parametrize("header", [b"X-API-Key: k\xc3\xa9y", b"X-API-Key: k\xff", b"Authorization: Bearer \xe9\x80"])
async def test_credentials_that_are_not_ascii(header: bytes) -> None:
    async with guarded(Lab(), AnyOf(ApiKey(lambda _: "all"), Bearer(lambda _: "all"))) as server:
        for path in ("/", "/message:send"):
            assert await _raw_post(server, path, header + b"\r\n") == 401


async def _raw_call(address: str, headers: Any, data: bytes | None = None) -> grpc.StatusCode:
    async with grpc.aio.insecure_channel(address) as channel:
        data = send("hi").SerializeToString() if data is None else data
        lower = tuple((key.lower(), value) for key, value in headers)
        call = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(data, metadata=lower, timeout=5)
        return await call.code()


async def _raw_post(server: Server, path: str, headers: bytes) -> int:
    """The status of a request whose headers are these very bytes."""
    params = '{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}'
    body = params if path != "/" else f'{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{params}}}'
    reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + headers + b"\r\n" + body.encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


async def test_credentials_are_told_before_anything_else() -> None:
    """Wrong credentials, a wrong version, and a request that is not valid or does not even decode: A-33, BR-57."""
    bad = {"message": {"messageId": "m", "role": "nobody", "parts": [{"text": "x", "url": "y"}]}}
    headers = {"X-API-Key": SECRET, "A2A-Version": "9.0"}
    async with guarded(Lab(), ApiKey(KEYS)) as server, All(server) as every:
        assert await _raw_call(server.grpc_address, headers.items(), b"\xff") is grpc.StatusCode.UNAUTHENTICATED
        assert refusals([await w.call(UNARY, bad, headers) for w in every.wires[1:]]) == REFUSED[1:]
        assert {o.fault.reason for o in await every.call(UNARY, {}, headers | BY_KEY) if o.fault} == {
            "VERSION_NOT_SUPPORTED"
        }


METHODS = {
    "SendMessage": {"message": MessageToDict(message("hi"))},
    "SendStreamingMessage": {"message": MessageToDict(message("1:"))},
    **{m: {"id": "T1"} for m in ("GetTask", "CancelTask", "SubscribeToTask")},
    "ListTasks": {},
    "CreateTaskPushNotificationConfig": {"taskId": "T1", "url": "https://example.com/"},
    **{f"{m}TaskPushNotificationConfig": {"taskId": "T1", "id": "P1"} for m in ("Get", "Delete")},
    "ListTaskPushNotificationConfigs": {"taskId": "T1"},
    "GetExtendedAgentCard": {},
}


async def test_every_operation_is_guarded() -> None:
    lab = Lab()
    async with guarded(lab, ApiKey(KEYS)) as server, All(server) as every:
        for method, request in METHODS.items():
            assert refusals(await every.call(method, request)) == REFUSED, method
        assert lab.seen == []
        for method, request in METHODS.items():
            assert refusals(await every.call(method, request, BY_KEY)) == [], method
    assert len(lab.seen) == 3 * 11


async def test_card_health_and_reflection_are_open() -> None:
    async with guarded(Lab(), ApiKey(KEYS)) as server:
        async with aiohttp.ClientSession(server.http_url) as session:
            for path in ("/.well-known/agent-card.json", "/healthz", "/readyz"):
                async with session.get(path) as response:
                    assert response.status == 200, path
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check", None, health_pb2.HealthCheckResponse.FromString)
            assert (await check(b"", timeout=5)).status == health_pb2.HealthCheckResponse.SERVING
            ask = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
            info = channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                None,
                reflection_pb2.ServerReflectionResponse.FromString,
            )(iter([ask]), timeout=5)
            names = [s.name async for answer in info for s in answer.list_services_response.service]
            assert "lf.a2a.v1.A2AService" in names


# The query


QUERIES = [
    ("api_key=key%2Dof-ann", 200), ("tenant=&api_key=key-of-ann", 200), ("api_key=x", 401), ("api_key=", 401),
    ("api_key=key-of-ann&api_key=key-of-ann", 401), ("api_key=&api_key=key-of-ann", 401),
    ("API_KEY=key-of-ann", 401), ("api_key=%FF%zz", 401), ("", 401),
]  # fmt: skip


async def test_a_key_in_the_query() -> None:
    async with guarded(Lab(), ApiKey(KEYS, "api_key", "query")) as server:
        for query, status in QUERIES:
            for path in ("/", "/message:send"):
                assert await _raw_post_query(server, path, query) == status, (path, query)


async def _raw_post_query(server: Server, path: str, query: str) -> int:
    body: Any = METHODS["SendMessage"]
    if path == "/":
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body}
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{server.http_url}{path}?{query}", json=body) as response:
            return response.status


async def test_a_key_in_the_query_is_not_one_of_grpc() -> None:
    async with guarded(Lab(), ApiKey(KEYS, "api_key", "query")) as server:
        code = await _raw_call(server.grpc_address, [("api_key", "key-of-ann")])
    assert code is grpc.StatusCode.UNAUTHENTICATED


# Several


EITHER = AnyOf(Bearer(token), Basic(password), ApiKey(KEYS))
ALTERNATIVES = [
    ({"Authorization": "Bearer token-of-ann"}, "ann ['read']"),
    ({"Authorization": basic("cat", "password of cat")}, "cat []"),
    ({"X-API-Key": "key-of-bob"}, "bob []"),
    ({"X-API-Key": "key-of-bob", "Authorization": "Bearer token-of-ann"}, "ann ['read']"),
    ({"X-API-Key": "key-of-bob", "Authorization": "Digest x"}, "bob []"),
]


@pytest.mark.parametrize(("headers", "expected"), ALTERNATIVES)
async def test_alternatives(headers: dict[str, str], expected: str) -> None:
    assert said(await outcomes(Who(), EITHER, headers)) == [expected] * 3


@pytest.mark.parametrize("headers", [
    {}, {"Authorization": "Bearer x"}, {"Authorization": basic("cat", "x")}, {"X-API-Key": "x"},
    {"X-API-Key": "key-of-bob", "Authorization": "Bearer x"}, {"X-API-Key": "x", "Authorization": "Digest x"},
])  # fmt: skip
async def test_no_alternative(headers: dict[str, str]) -> None:
    """Wrong credentials are not made good by others."""
    found = await outcomes(Who(), EITHER, headers)
    assert refusals(found) == REFUSED
    told = {({**o.headers, **o.trailing}["www-authenticate"], o.fault.message) for o in found if o.fault}
    challenges = 'ApiKey realm="Lab", in="header", name="X-API-Key", Basic realm="Lab", Bearer realm="Lab"'
    missing = "Credentials are missing: send " + " or ".join(a.advice for a in EITHER.alternatives)
    assert told == {(challenges, "Credentials are not valid" if headers else missing)}


@pytest.mark.parametrize(("headers", "expected"), [
    ({"X-API-Key": "key-of-bob", "Authorization": "Bearer token-of-ann"}, ["ann ['read']"] * 3),
    ({"X-API-Key": "key-of-bob"}, REFUSED), ({"Authorization": "Bearer token-of-ann"}, REFUSED),
])  # fmt: skip
async def test_interceptors_in_a_list_are_all_asked(headers: dict[str, str], expected: Any) -> None:
    async with guarded(Who(), ApiKey(KEYS), Bearer(token)) as server, All(server) as every:
        found = await every.call(UNARY, send("hi"), headers)
    assert (refusals(found) or said(found)) == expected


# Verification


async def test_an_error_of_a_verification_is_told() -> None:
    def verify(_: str) -> Any:
        raise PermissionDeniedError("The token lacks the scope read")

    found = await outcomes(Who(), Bearer(verify), {"Authorization": "Bearer x"})
    assert [(o.fault.reason, o.fault.wire, o.fault.message) for o in found if o.fault] == [
        ("UNAUTHORIZED", code, "The token lacks the scope read") for code in (7, -31403, 403)
    ]


async def test_a_broken_verification_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def verify(given: str) -> Any:
        raise ValueError(f"cannot read {given}")

    found = await outcomes(Lab(), Bearer(verify), {"Authorization": f"Bearer {SECRET}"})
    assert [o.fault.reason for o in found if o.fault] == ["INTERNAL_ERROR"] * 3
    logged = [logging.Formatter().format(record) for record in caplog.records]
    assert sum("bearer: ValueError at " in text and "test_auth.py" in text for text in logged) == 3
    assert SECRET not in repr(found) + "".join(logged)


@pytest.mark.parametrize("verdict", [True, Caller(), 7])
async def test_a_verdict_that_names_nobody_lets_nobody_in(verdict: Any, caplog: pytest.LogCaptureFixture) -> None:
    found = await outcomes(Lab(), Bearer(lambda _: verdict), {"Authorization": "Bearer x"})
    assert [o.fault.reason for o in found if o.fault] == ["INTERNAL_ERROR"] * 3
    assert sum("must be a Caller with a name" in str(r.exc_info) for r in caplog.records) == 3


@pytest.mark.parametrize("given", ["key-of-ann", "key-of-bob", "key-of-", "wrong"])
async def test_a_key_is_compared_with_all_keys_in_constant_time(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = count_comparisons(monkeypatch)
    await outcomes(Who(), ApiKey(KEYS), {"X-API-Key": given})
    assert sizes == [(32, 32)] * 3 * len(KEYS)


@pytest.mark.parametrize(("user", "given"), [("ann", "1"), ("bob", "2"), ("ann", "2"), ("cat", "")])
async def test_a_password_is_compared_with_all(user: str, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = count_comparisons(monkeypatch)
    await outcomes(Who(), Basic({"ann": "1", "bob": "2"}), {"Authorization": basic(user, given)})
    assert sizes == [(32, 32)] * 3 * 2


def count_comparisons(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    sizes: list[tuple[int, int]] = []
    original = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        sizes.append((len(one), len(other)))
        return original(one, other)

    monkeypatch.setattr("a2a_grpc.auth.secrets.compare_digest", compare)
    return sizes


@pytest.mark.parametrize(("make", "text"), [
    (lambda: ApiKey({"": "ann"}), "a key of ann is not visible ASCII"),
    (lambda: ApiKey({f"{SECRET} x": "ann"}), "a key of ann is not visible ASCII"),
    (lambda: ApiKey({"kéy": ANN}), "a key of ann is not visible ASCII"),
    (lambda: ApiKey({"k": ""}), "a key belongs to a caller with a name"),
    (lambda: ApiKey(KEYS, "x y"), '"x y" cannot be the name of a header'),
    (lambda: ApiKey(KEYS, "key-bin"), '"key-bin" cannot be the name of a header'),
    (lambda: ApiKey(KEYS, "", "cookie"), '"" cannot be the name of a cookie'),
    (lambda: ApiKey(KEYS, "key", "body"), 'location must be one of header, query, cookie, not "body"'),
    (lambda: Basic({"a:b": "x"}), 'user "a:b" must not be empty, nor have a colon'),
    (lambda: Basic({"": "x"}), 'user "" must not be empty, nor have a colon'),
    (lambda: AnyOf(Bearer(token), ApiKey(KEYS), Bearer(awaited_token)), "two alternatives read `Authorization: Bearer"),
    (AnyOf, "AnyOf needs at least one authenticator"),
])  # fmt: skip
def test_mistakes_are_told_at_once(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        make()
    assert SECRET not in str(caught.value)


# The card

KEY_SCHEME = {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}
BEARER_SCHEME = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
BASIC_SCHEME = {"httpAuthSecurityScheme": {"scheme": "Basic"}}


def needs(*names: str) -> dict[str, Any]:
    return {"schemes": {name: {} for name in names}}


@pytest.mark.parametrize(("interceptors", "schemes", "requirements"), [
    ([], {}, []),
    ([object()], {}, []),
    ([ApiKey(KEYS)], {"apiKey": KEY_SCHEME}, [needs("apiKey")]),
    ([object(), Basic(password, scheme_name="b")], {"b": BASIC_SCHEME}, [needs("b")]),
    ([AnyOf(Bearer(token), Basic(password))], {"bearer": BEARER_SCHEME, "basic": BASIC_SCHEME},
     [needs("bearer"), needs("basic")]),
    ([ApiKey(KEYS), Bearer(token)], {"apiKey": KEY_SCHEME, "bearer": BEARER_SCHEME}, [needs("apiKey", "bearer")]),
    ([ApiKey(KEYS), AnyOf(Bearer(token), Basic(password))],
     {"apiKey": KEY_SCHEME, "bearer": BEARER_SCHEME, "basic": BASIC_SCHEME},
     [needs("apiKey", "bearer"), needs("apiKey", "basic")]),
])  # fmt: skip
def test_the_card_follows_what_is_configured(interceptors: list[Any], schemes: Any, requirements: Any) -> None:
    given = card()
    made = secured(given, interceptors)
    told = MessageToDict(made)
    assert (told.get("securitySchemes", {}), told.get("securityRequirements", [])) == (schemes, requirements)
    assert secured(made, interceptors) == made
    assert given == card()


def test_an_author_may_say_more_of_a_scheme() -> None:
    given = card()
    given.security_schemes["bearer"].http_auth_security_scheme.description = "ask ops"
    given.security_schemes["tls"].mtls_security_scheme.SetInParent()
    given.security_requirements.add().schemes["tls"].SetInParent()
    made = secured(given, [Bearer(token)])
    assert made.security_requirements == given.security_requirements
    assert MessageToDict(made)["securitySchemes"] == {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "ask ops"}},
        "tls": {"mtlsSecurityScheme": {}},
    }


def test_two_schemes_of_one_name() -> None:
    with pytest.raises(CardError, match=r'security_schemes\["apiKey"\]: .* another scheme_name'):
        secured(card(), [AnyOf(ApiKey(KEYS), ApiKey(KEYS, "sid", "cookie"))])


# Owners


class Diary(AgentServicer):
    """Waits for a word to end; shows each caller a card of their own."""

    push = PushPolicy()

    async def execute(self, turn: Turn) -> None:
        await turn.ask(f"Hello {turn.caller.name}, {len(turn.referenced)} referenced")

    async def extended_card(self, caller: Caller) -> pb.AgentCard:
        return card(name=f"Card of {caller.name}")


BY_ANN, BY_BOB = {"X-API-Key": "key-of-ann"}, {"X-API-Key": "key-of-bob"}


def follow_up(task: str, context: str = "") -> dict[str, Any]:
    return {"message": MessageToDict(message("and?", task_id=task, context_id=context))}


def by_id(task: str) -> list[tuple[str, dict[str, Any]]]:
    """All operations that name a task."""
    return [
        *[(method, {"id": task}) for method in ("GetTask", "CancelTask", "SubscribeToTask")],
        *[(method, follow_up(task)) for method in (UNARY, STREAM)],
        ("CreateTaskPushNotificationConfig", {"taskId": task, "url": "https://example.com/bob"}),
        ("GetTaskPushNotificationConfig", {"taskId": task, "id": "P1"}),
        ("ListTaskPushNotificationConfigs", {"taskId": task}),
        ("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "P1"}),
    ]


async def test_br_59_a_task_is_its_owners() -> None:
    """Another caller is told the same as of a task that is unknown, and changes nothing."""
    async with guarded(Diary(), ApiKey(KEYS)) as server, All(server) as every:
        task = (await every.wires[0].call(UNARY, send("hi"), BY_ANN)).only.task
        config = {"taskId": task.id, "id": "P1", "url": "https://example.com/ann"}
        await every.wires[0].call("CreateTaskPushNotificationConfig", config, BY_ANN)
        before = await _of_ann(every, task)
        for (method, request), (_, unknown) in zip(by_id(task.id), by_id("T9"), strict=True):
            foreign = await every.call(method, request, BY_BOB)
            assert [o.fault.reason for o in foreign if o.fault] == ["TASK_NOT_FOUND"] * 3, method
            assert _told(foreign, task.id) == _told(await every.call(method, unknown, BY_BOB), "T9"), method
        listed = await every.call("ListTasks", {"contextId": task.context_id}, BY_BOB)
        assert [(list(o.only.tasks), o.only.total_size) for o in listed] == [([], 0)] * 3
        assert await _of_ann(every, task) == before
        assert len(before[0].only.history) == 1


def _told(found: list[Outcome], task: str) -> list[Any]:
    return [(o.messages, repr(o.fault).replace(task, "ID")) for o in found]


async def _of_ann(every: All, task: pb.Task) -> list[Outcome]:
    """What ann sees of her task."""
    asked = [
        ("GetTask", {"id": task.id}),
        ("ListTaskPushNotificationConfigs", {"taskId": task.id}),
        ("ListTasks", {"contextId": task.context_id}),
    ]
    found = [outcome for method, request in asked for outcome in await every.call(method, request, BY_ANN)]
    assert not refusals(found)
    return [Outcome(o.messages) for o in found]


async def test_br_59_a_context_or_a_reference_shows_nothing_of_another_caller() -> None:
    async with guarded(Diary(), ApiKey(KEYS)) as server, All(server) as every:
        task = (await every.wires[0].call(UNARY, send("hi"), BY_ANN)).only.task
        mine = pb.SendMessageRequest(message=message("hi", context_id=task.context_id, reference_task_ids=[task.id]))
        texts = {}
        for headers in (BY_BOB, BY_ANN):
            found = [o.only.task for o in await every.call(UNARY, mine, headers)]
            assert task.id not in [t.id for t in found]
            texts[headers["X-API-Key"]] = {t.status.message.parts[0].text for t in found}
        listed = await every.call("ListTasks", {}, BY_BOB)
    assert texts == {"key-of-bob": {"Hello bob, 0 referenced"}, "key-of-ann": {"Hello ann, 1 referenced"}}
    assert [len(o.only.tasks) for o in listed] == [3] * 3


async def test_keys_of_one_caller_open_the_same_tasks() -> None:
    async with guarded(Diary(), ApiKey(KEYS)) as server, All(server) as every:
        task = (await every.wires[0].call(UNARY, send("hi"), BY_ANN)).only.task
        found = await every.call("GetTask", {"id": task.id}, {"X-API-Key": "old-key-of-ann"})
    assert [o.only.id for o in found] == [task.id] * 3


async def test_the_extended_card_is_its_callers() -> None:
    async with guarded(Diary(), ApiKey(KEYS)) as server, All(server) as every:
        assert refusals(await every.call("GetExtendedAgentCard", {})) == REFUSED
        for headers, name in ((BY_ANN, "ann"), (BY_BOB, "bob")):
            found = await every.call("GetExtendedAgentCard", {}, headers)
            assert [o.only.name for o in found] == [f"Card of {name}"] * 3
