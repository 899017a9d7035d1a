"""What the HTTP side answers around the calls: the card, health, browsers, proxies, bodies, media types, deadlines."""

import asyncio
import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
from lab import Lab, card, send, task
from wires import sse_events, wire

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb

WELL_KNOWN = "/.well-known/agent-card.json"
MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "x"}]}
SEND = {"message": MESSAGE}
KIBI = 1024


def said(text: str) -> dict[str, Any]:
    return {"message": {**MESSAGE, "parts": [{"text": text}]}}


def envelope(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


class Slow(Lab):
    """Takes longer than anyone waits."""

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> Any:
        await asyncio.Event().wait()

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        await asyncio.Event().wait()
        return task()


class Site:
    """A server, and what it answers to a request."""

    def __init__(self, server: Server, http: aiohttp.ClientSession) -> None:
        self.server, self.http, self.url = server, http, server.http_url

    async def ask(self, verb: str, path: str, **more: Any) -> tuple[int, Mapping[str, str], bytes]:
        async with self.http.request(verb, self.url + path, **more) as response:
            return response.status, response.headers, await response.read()

    async def fault(self, verb: str, path: str, **more: Any) -> tuple[int, str, str]:
        """HTTP status, and code and reason of the error in the body, whichever of the two forms it has."""
        status, _, body = await self.ask(verb, path, **more)
        error = json.loads(body)["error"]
        [info, *_] = error.get("details") or error["data"]
        return status, error["code"], info["reason"]

    async def card(self, **headers: str) -> Any:
        _, _, body = await self.ask("GET", WELL_KNOWN, headers=headers)
        return json.loads(body)


@pytest.fixture
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """With the options, and instead of Lab the servicer, that a test gives as its parameter."""
    options = {"http_port": 0, "grpc_port": None, **getattr(request, "param", {})}
    servicer = options.pop("servicer", Lab)()
    async with Server(servicer, **options) as server, aiohttp.ClientSession() as http:
        yield Site(server, http)


def options(**given: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("site", [given], indirect=True, ids=[""])


async def raw(site: Site, *chunks: bytes) -> bytes:
    """All that is answered to these bytes, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.http_port)
    for chunk in chunks:
        writer.write(chunk)
        await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


# The card


async def test_the_card_and_its_caching(site: Site) -> None:
    status, headers, body = await site.ask("GET", WELL_KNOWN)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["name"] == "Lab"
    assert "max-age" in headers["Cache-Control"]
    for condition in (
        {"If-None-Match": headers["ETag"]},
        {"If-None-Match": f'W/{headers["ETag"]}, "other"'},
        {"If-None-Match": "*"},
        {"If-Modified-Since": headers["Last-Modified"]},
    ):
        again, same, nothing = await site.ask("GET", WELL_KNOWN, headers=condition)
        assert (again, nothing) == (304, b"")
        assert same["ETag"] == headers["ETag"]
    for condition in ({"If-None-Match": '"other"'}, {"If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}):
        assert (await site.ask("GET", WELL_KNOWN, headers=condition))[0] == 200


async def test_head_tells_what_get_would(site: Site) -> None:
    _, headers, body = await site.ask("GET", WELL_KNOWN)
    status, same, nothing = await site.ask("HEAD", WELL_KNOWN)
    assert (status, nothing) == (200, b"")
    for name in ("Content-Length", "Content-Type", "ETag", "Last-Modified", "Cache-Control"):
        assert same[name] == headers[name]
    assert same["Content-Length"] == str(len(body))
    assert (await site.ask("HEAD", WELL_KNOWN, headers={"If-None-Match": headers["ETag"]}))[0] == 304


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
async def test_the_card_is_only_read(verb: str, site: Site) -> None:
    status, headers, _ = await site.ask(verb, WELL_KNOWN)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_the_card_needs_no_version_and_stays_public(site: Site) -> None:
    for version in ("0.3", "99", "x"):
        assert (await site.ask("GET", WELL_KNOWN, headers={"A2A-Version": version}))[0] == 200


# Proxies

FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "agent.example.com", "X-Forwarded-Prefix": "/a2a"}


def urls(of: Any) -> list[str]:
    return [i["url"] for i in of["supportedInterfaces"]]


async def test_forwarded_headers_of_a_stranger_are_ignored(site: Site) -> None:
    own = [site.url + "/", site.url]
    assert urls(await site.card()) == own
    assert urls(await site.card(**FORWARDED)) == own
    assert urls(await site.card(Host="evil.example.com")) == own
    assert urls(await site.card(Forwarded="host=evil.example.com;proto=https")) == own


@options(trusted_proxies=["127.0.0.0/8"])
async def test_forwarded_headers_of_a_trusted_proxy(site: Site) -> None:
    own = [site.url + "/", site.url]
    moved = "https://agent.example.com"
    assert urls(await site.card(**FORWARDED)) == [f"{moved}/a2a/", f"{moved}/a2a"]
    assert urls(await site.card(**{**FORWARDED, "X-Forwarded-Prefix": "/"})) == [f"{moved}/", moved]
    assert urls(await site.card(**{**FORWARDED, "X-Forwarded-Host": "evil.example.com, agent.example.com"}))[1] == (
        f"{moved}/a2a"
    )
    assert urls(await site.card(Host="evil.example.com")) == own
    assert urls(await site.card(**{"X-Forwarded-Proto": "https"})) == own


@options(trusted_proxies=["127.0.0.0/8"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"X-Forwarded-Host": "good.example.com@evil.example.com"},
        {"X-Forwarded-Host": "evil.example.com/path"},
        {"X-Forwarded-Host": "evil.example.com?"},
        {"X-Forwarded-Host": "a b"},
        {"X-Forwarded-Host": "0.0.0.0"},
        {"X-Forwarded-Host": "x:99999"},
        {"X-Forwarded-Host": ""},
        {"X-Forwarded-Prefix": "@evil.example.com"},
        {"X-Forwarded-Prefix": ".evil.example.com"},
        {"X-Forwarded-Prefix": "//evil.example.com"},
        {"X-Forwarded-Prefix": "/a?b#c"},
        {"X-Forwarded-Proto": "javascript"},
    ],
)
async def test_forwarded_headers_that_are_no_url_are_ignored(wrong: dict[str, str], site: Site) -> None:
    assert urls(await site.card(**{**FORWARDED, **wrong})) == [site.url + "/", site.url]


@options(trusted_proxies=["10.0.0.0/8", "2001:db8::/32"])
async def test_a_proxy_from_elsewhere_is_not_trusted(site: Site) -> None:
    assert urls(await site.card(**FORWARDED)) == [site.url + "/", site.url]


@options(trusted_proxies=["127.0.0.0/8"], public_url="https://public.example.com/a2a", public_grpc="x.example.com:443")
async def test_a_card_that_stands_elsewhere_has_the_etag_of_its_own_text(site: Site) -> None:
    first = (await site.ask("GET", WELL_KNOWN))[1]["ETag"]
    second = (await site.ask("GET", WELL_KNOWN, headers=FORWARDED))[1]["ETag"]
    assert first != second
    assert (await site.ask("GET", WELL_KNOWN, headers={**FORWARDED, "If-None-Match": first}))[0] == 200


# Health


async def test_health_and_readiness(site: Site) -> None:
    for path, text in (("/healthz", b"ok\n"), ("/readyz", b"ready\n")):
        status, headers, body = await site.ask("GET", path)
        assert (status, body) == (200, text)
        assert headers["Content-Type"].startswith("text/plain")
        assert (await site.ask("HEAD", path))[0] == 200


# Browsers

ORIGIN = "https://app.example.com"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type, a2a-version, authorization",
}


@options(cors=[ORIGIN])
@pytest.mark.parametrize("path", ["/", "/message:send", WELL_KNOWN])
async def test_a_preflight(path: str, site: Site) -> None:
    status, headers, _ = await site.ask("OPTIONS", path, headers=PREFLIGHT)
    assert status == 204
    assert headers["Access-Control-Allow-Origin"] == ORIGIN
    assert headers["Access-Control-Allow-Headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert {"GET", "POST", "DELETE"} <= set(headers["Access-Control-Allow-Methods"].split(", "))
    assert headers["Vary"] == "Origin"


@options(cors=[ORIGIN])
@pytest.mark.parametrize(
    ("verb", "path", "body", "expected"),
    [
        ("GET", WELL_KNOWN, None, 200),
        ("POST", "/message:send", SEND, 200),
        ("POST", "/", envelope("SendMessage", SEND), 200),
        ("POST", "/message:send", {}, 400),
        ("POST", "/", {}, 200),
        ("GET", "/nope", None, 404),
        ("PUT", "/message:send", None, 405),
        ("POST", "/message:stream", said("2:"), 200),
        ("POST", "/", envelope("SendStreamingMessage", said("2:")), 200),
        ("POST", "/message:send", said("x" * 100_000), 200),
    ],
)
async def test_a_browser_may_read_each_answer(verb: str, path: str, body: Any, expected: int, site: Site) -> None:
    status, headers, _ = await site.ask(verb, path, json=body, headers={"Origin": ORIGIN})
    assert status == expected
    assert headers.getall("Access-Control-Allow-Origin") == [ORIGIN]  # type: ignore[attr-defined]
    assert "A2A-Extensions" in headers["Access-Control-Expose-Headers"]


@options(cors=[ORIGIN])
async def test_a_browser_elsewhere_may_not(site: Site) -> None:
    elsewhere = {"Origin": "https://evil.example.com"}
    for verb, path, headers in (("GET", WELL_KNOWN, elsewhere), ("OPTIONS", "/", {**PREFLIGHT, **elsewhere})):
        _, answered, _ = await site.ask(verb, path, headers=headers)
        assert "Access-Control-Allow-Origin" not in answered


@options(cors=["*"])
async def test_any_browser(site: Site) -> None:
    _, headers, _ = await site.ask("GET", WELL_KNOWN, headers={"Origin": ORIGIN})
    assert headers["Access-Control-Allow-Origin"] == "*"


async def test_no_browser_by_default(site: Site) -> None:
    status, headers, _ = await site.ask("OPTIONS", "/message:send", headers=PREFLIGHT)
    assert status == 405
    assert "Access-Control-Allow-Origin" not in headers


# Bodies


@options(max_message_size=64 * KIBI)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [("/message:send", (413, 413, "MESSAGE_TOO_LARGE")), ("/", (413, -32600, "MESSAGE_TOO_LARGE"))],
)
async def test_a_body_that_is_too_large(path: str, expected: tuple[int, int, str], chunked: bool, site: Site) -> None:
    content = said("x" * 300 * KIBI)
    body = json.dumps(content if path != "/" else envelope("SendMessage", content)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 16 * KIBI):
            yield body[start : start + 16 * KIBI]

    data = pieces() if chunked else body
    assert await site.fault("POST", path, data=data, headers={"Content-Type": "application/json"}) == expected


@options(max_message_size=64 * KIBI)
@pytest.mark.parametrize("path", ["/message:send", "/"])
async def test_a_length_that_is_too_large_is_refused_before_the_body_is_sent(path: str, site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.http_port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n{{".encode())
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_body_within_the_limit_and_the_same_on_grpc() -> None:
    size = 200 * KIBI
    async with Server(Lab(), http_port=0, grpc_port=0, max_message_size=size) as server:
        for binding in ("grpc", "jsonrpc", "rest"):
            client = await wire(binding, server)
            raw_part = pb.Part(raw=b"\xff" * (size - KIBI))
            request = pb.SendMessageRequest(message=pb.Message(message_id="1", role=pb.ROLE_USER, parts=[raw_part]))
            assert (await client.call("SendMessage", request)).only
            await client.close()


@options(max_message_size=64 * KIBI)
async def test_gzip_is_read(site: Site) -> None:
    body = gzip.compress(json.dumps(SEND).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert (await site.ask("POST", "/message:send", data=body, headers=headers))[0] == 200


def bomb(mebibytes: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(b"[" * KIBI * KIBI) for _ in range(mebibytes)) + packer.flush()


@options(max_message_size=64 * KIBI)
@pytest.mark.parametrize("path", ["/message:send", "/"])
async def test_a_gzip_bomb_is_refused_before_it_has_grown(path: str, site: Site) -> None:
    body = io.BytesIO(bomb(200))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    tracemalloc.start()
    try:
        status, _, reason = await site.fault("POST", path, data=body, headers=headers)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (status, reason) == (413, "MESSAGE_TOO_LARGE")
    assert peak < 80 * KIBI * KIBI  # one read of 64 KiB grows a thousandfold before aiohttp 3.14 and is then refused


@pytest.mark.parametrize("path", ["/message:send", "/"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_is_not_what_its_encoding_says(encoding: str, path: str, site: Site) -> None:
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    status, _, reason = await site.fault("POST", path, data=b"{not gzip}", headers=headers)
    assert status in (200, 400)  # the first byte may tell, before it is known whose request this is
    assert reason == "INVALID_REQUEST"


@options(read_timeout=0.2)
@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"])
async def test_a_body_that_does_not_arrive(head: bytes, site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.http_port)
    writer.write(b"POST /message:send HTTP/1.1\r\nHost: x\r\n" + head)
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 408 ")
    head_read = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert b"application/json" in head_read
    writer.close()


@options(read_timeout=0.2)
async def test_jsonrpc_is_told_that_its_body_did_not_arrive(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.http_port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 408 ")
    await reader.readuntil(b"\r\n\r\n")
    told = await asyncio.wait_for(reader.readuntil(b"DEADLINE_EXCEEDED"), 5)
    assert told.startswith(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,')
    writer.close()


@pytest.mark.parametrize(
    "request_",
    [b"NOT HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n"],
)
async def test_what_is_not_http_is_answered_in_our_form(
    request_: bytes, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await raw(site, request_)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.")
    assert b" 400 " in head.splitlines()[0]
    assert json.loads(body)["error"]["status"] == "INVALID_ARGUMENT"
    assert not [r for r in caplog.records if r.exc_info]


# Media types


@pytest.mark.parametrize(
    ("path", "content_type", "expected"),
    [
        *(
            (path, kind, None)
            for path in ("/message:send", "/")
            for kind in ("application/json", "application/a2a+json", "APPLICATION/JSON; charset=utf-8", "")
        ),
        ("/message:send", "text/plain", (415, 415, "CONTENT_TYPE_NOT_SUPPORTED")),
        ("/message:send", "application/xml", (415, 415, "CONTENT_TYPE_NOT_SUPPORTED")),
        ("/message:send", "application/x-www-form-urlencoded", (415, 415, "CONTENT_TYPE_NOT_SUPPORTED")),
        ("/", "text/plain", (200, -32005, "CONTENT_TYPE_NOT_SUPPORTED")),
        ("/", "multipart/form-data", (200, -32005, "CONTENT_TYPE_NOT_SUPPORTED")),
    ],
)
async def test_the_media_type_of_a_request(
    path: str, content_type: str, expected: tuple[int, int, str] | None, site: Site
) -> None:
    body = json.dumps(SEND if path != "/" else envelope("SendMessage", SEND)).encode()
    headers = {"Content-Type": content_type} if content_type else {}
    more: dict[str, Any] = {"data": body, "headers": headers, "skip_auto_headers": ["Content-Type"]}
    if expected is None:
        status, _, answered = await site.ask("POST", path, **more)
        assert (status, "error" in json.loads(answered)) == (200, False)
    else:
        assert await site.fault("POST", path, **more) == expected


async def test_a_body_of_another_type_is_not_parsed_for_jsonrpc(site: Site) -> None:
    headers = {"Content-Type": "text/plain"}
    assert (await site.fault("POST", "/", data=b"{not json", headers=headers))[1] == -32005


JSON, A2A = "application/json", "application/a2a+json"


@pytest.mark.parametrize(
    ("accept", "success", "error"),
    [
        ("", A2A, JSON),
        ("*/*", A2A, JSON),
        ("application/json", JSON, JSON),
        ("application/a2a+json", A2A, A2A),
        ("application/a2a+json, application/json", A2A, A2A),
        ("application/json;q=0.9, application/a2a+json", A2A, A2A),
        ("text/event-stream", A2A, JSON),
        ("text/html", A2A, JSON),
    ],
)
async def test_the_media_type_of_a_rest_answer(accept: str, success: str, error: str, site: Site) -> None:
    headers = {"Accept": accept} if accept else {}
    for path, expected in (("/tasks/T1", success), ("/tasks/nope", error)):
        more: dict[str, Any] = {} if accept else {"skip_auto_headers": ["Accept"]}
        assert (await site.ask("GET", path, headers=headers, **more))[1]["Content-Type"] == expected


async def test_the_media_type_of_a_jsonrpc_answer(site: Site) -> None:
    for params in ({"id": "T1"}, {"id": "nope"}, {}):
        status, headers, _ = await site.ask("POST", "/", json=envelope("GetTask", params), headers={"Accept": A2A})
        assert (status, headers["Content-Type"]) == (200, JSON)


# Deadlines


@options(servicer=Slow)
@pytest.mark.parametrize("timeout", ["50m", "0S", "1n", "50000u"])
async def test_a_deadline_that_passes(timeout: str, site: Site) -> None:
    headers = {"grpc-timeout": timeout}
    assert await site.fault("GET", "/tasks/T1", headers=headers) == (504, 504, "DEADLINE_EXCEEDED")
    body = envelope("GetTask", {"id": "T1"})
    assert await site.fault("POST", "/", json=body, headers=headers) == (200, -32603, "DEADLINE_EXCEEDED")


async def test_a_deadline_of_a_stream_that_has_begun(site: Site) -> None:
    headers = {"grpc-timeout": "100m"}
    _, _, body = await site.ask("POST", "/message:stream", json=said("1:hold"), headers=headers)
    (first, _), (last, text) = sse_events(body)
    assert (first, last) == ("", "error")
    assert json.loads(text)["error"]["status"] == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize("timeout", ["", "1", "S", "-1S", "1.5S", "1s", "123456789S", "1 S", "x"])
async def test_a_malformed_deadline(timeout: str, site: Site) -> None:
    headers = {"grpc-timeout": timeout}
    assert await site.fault("GET", "/tasks/T1", headers=headers) == (400, 400, "INVALID_PARAMS")
    body = envelope("GetTask", {"id": "T1"})
    assert await site.fault("POST", "/", json=body, headers=headers) == (200, -32602, "INVALID_PARAMS")


@pytest.mark.parametrize("timeout", ["10S", "99999999H", "5M"])
async def test_a_deadline_that_does_not_pass(timeout: str, site: Site) -> None:
    assert (await site.ask("GET", "/tasks/T1", headers={"grpc-timeout": timeout}))[0] == 200


# Verbs, and what Server-Sent Events look like on the wire


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH", "HEAD"])
async def test_jsonrpc_is_posted(verb: str, site: Site) -> None:
    status, headers, _ = await site.ask(verb, "/")
    assert (status, headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/message:stream", "/"])
async def test_the_headers_of_a_stream(path: str, site: Site) -> None:
    body = said("2:") if path != "/" else envelope("SendStreamingMessage", said("2:"))
    more = {"json": body, "headers": {"Accept-Encoding": "gzip, deflate, br", "Accept": "text/event-stream"}}
    status, headers, text = await site.ask("POST", path, **more)
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    assert headers["Cache-Control"] == "no-cache"
    assert headers["X-Accel-Buffering"] == "no"
    assert "Content-Encoding" not in headers
    assert len(sse_events(text)) == 2


async def test_an_http_1_0_client_reads_a_stream_to_its_end(site: Site) -> None:
    body = json.dumps(said("2:")).encode()
    head = b"POST /message:stream HTTP/1.0\r\nContent-Length: %d\r\nConnection: keep-alive\r\n\r\n" % len(body)
    answer = await raw(site, head + body)
    headers, _, text = answer.partition(b"\r\n\r\n")
    assert headers.startswith(b"HTTP/1.0 200 ")
    assert b"chunked" not in headers.lower()
    assert len(sse_events(text)) == 2


def _declaring(url: str) -> pb.AgentCard:
    return card(supported_interfaces=[pb.AgentInterface(url=url, protocol_binding="HTTP+JSON")])


async def test_a_url_that_the_author_chose_stays_behind_a_proxy() -> None:
    chosen = "https://chosen.example.com/lab"
    options = {"http_port": 0, "grpc_port": None, "trusted_proxies": ["127.0.0.1/32"]}
    async with Server(Lab(), _declaring(chosen), **options) as server, aiohttp.ClientSession() as http:
        of = await Site(server, http).card(**FORWARDED)
        assert urls(of) == [chosen, "https://agent.example.com/a2a/"]


async def test_grpc_refuses_what_is_too_large_too() -> None:
    async with Server(Lab(), http_port=None, grpc_port=0, max_message_size=64 * KIBI) as server:
        client = await wire("grpc", server)
        call = client.channel.unary_unary(  # type: ignore[union-attr]
            "/lf.a2a.v1.A2AService/SendMessage", pb.SendMessageRequest.SerializeToString
        )
        with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
            await call(send("x" * 100 * KIBI), timeout=5)
        await client.close()
