"""Malformed HTTP requests, as bytes: each made from a random generator alone, so that a seed gives the same again."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

Pairs = Iterable[tuple[str, str | bytes]]


class Http(NamedTuple):
    """What is sent. `whole`: it is a request, and must be answered; `form`: the error format that must answer it."""

    data: bytes
    whole: bool = True
    form: str = "any"
    verb: str = "POST"


MESSAGE = {
    "messageId": "m1",
    "contextId": "C1",
    "role": "ROLE_USER",
    "parts": [
        {"text": "hi", "metadata": {"a": [1, {"b": None}]}, "mediaType": "text/plain"},
        {"raw": "AAEC", "filename": "f"},
        {"url": "https://example.com/x"},
        {"data": {"x": 1.5, "y": [True, None]}},
    ],
    "metadata": {"n": 42},
    "extensions": ["urn:x"],
    "referenceTaskIds": ["T0"],
}
PARAMS: Mapping[str, dict[str, Any]] = {
    "SendMessage": {
        "message": MESSAGE,
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 3, "returnImmediately": True},
        "metadata": {"k": "v"},
    },
    "SendStreamingMessage": {"message": MESSAGE},
    "GetTask": {"id": "T1", "historyLength": 2},
    "ListTasks": {
        "contextId": "C1", "status": "TASK_STATE_WORKING", "pageSize": 2, "includeArtifacts": True,
        "statusTimestampAfter": "2026-01-02T03:04:05.678Z",
    },
    "CancelTask": {"id": "T1", "metadata": {"why": "no"}},
    "SubscribeToTask": {"id": "T1"},
    "CreateTaskPushNotificationConfig": {
        "taskId": "T1", "url": "https://example.com/hook", "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "c"},
    },
    "GetTaskPushNotificationConfig": {"taskId": "T1", "id": "P1"},
    "ListTaskPushNotificationConfigs": {"taskId": "T1", "pageSize": 1},
    "DeleteTaskPushNotificationConfig": {"taskId": "T1", "id": "P1"},
    "GetExtendedAgentCard": {},
}  # fmt: skip
POSTS = {  # REST: path → the params that are its body
    "/message:send": "SendMessage",
    "/message:stream": "SendStreamingMessage",
    "/tasks/T1:cancel": "CancelTask",
    "/tasks/T1:subscribe": "SubscribeToTask",
    "/tasks/T1/pushNotificationConfigs": "CreateTaskPushNotificationConfig",
    "/acme/message:send": "SendMessage",
}
GETS = ("/tasks/T1", "/tasks", "/tasks/T1/pushNotificationConfigs", "/extendedAgentCard", "/tasks/T1:subscribe")


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400,
    "", "x", "\x00", "ä😀", "ROLE_USER", "1", "true", "null", "9" * 400, "a" * 10_000, "../../etc/passwd",
    [], [1], [[]], [None], [{}], ["x"] * 200, {}, {"a": 1}, {"": ""}, {"text": "x"}, {"parts": [{}]}, nested(50),
    nested(97), nested(150),
)  # fmt: skip


def request(verb: str, target: str | bytes, headers: Pairs = (), body: bytes = b"", sized: bool = True) -> bytes:
    """A request that closes its connection. The target and the headers go out as they are."""
    lines = [verb.encode("latin-1", "replace") + b" " + _bytes(target) + b" HTTP/1.1", b"Host: x", b"Connection: close"]
    lines += [b"Content-Length: %d" % len(body)] if sized and (body or verb == "POST") else []
    lines += [name.encode("latin-1") + b": " + _bytes(value) for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def envelope(method: Any, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


# JSON: a valid value, spoilt in one way.


def _odd_value(random: Random, value: Any) -> bytes:
    """An odd value in a random place."""
    copy = json.loads(json.dumps(value))
    holders = list(_holders(copy))
    if holders:
        holder = random.choice(holders)
        holder[random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))] = random.choice(ODD)
    return text(copy)


def _holders(value: Any) -> Iterable[Any]:
    if isinstance(value, dict | list) and value:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _holders(item)


def _flipped(random: Random, value: Any) -> bytes:
    data = bytearray(text(value))
    for _ in range(random.randint(1, 4)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _cut(random: Random, value: Any) -> bytes:
    data = text(value)
    return data[: random.randrange(len(data))]


def _doubled(random: Random, value: Any) -> bytes:
    """A name twice in one object."""
    data = text(value)
    places = [i for i in range(len(data)) if data[i : i + 1] == b"{"]
    at = random.choice(places) + 1
    name = random.choice([b'"message"', b'"id"', b'"jsonrpc"', b'"a"', b'"text"'])
    return data[:at] + name + b":1," + name + b":2," + data[at:]


def _inserted(random: Random, value: Any) -> bytes:
    """A piece that does not belong, at a random place."""
    data = text(value)
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(PIECES) + data[at:]


def _replaced(random: Random, value: Any) -> bytes:
    """A piece that does not belong, in place of a string."""
    data = text(value)
    start = random.choice([i for i in range(len(data)) if data[i : i + 1] == b'"'])
    end = data.find(b'"', start + 1) + 1
    return data[:start] + random.choice(PIECES) + data[end or len(data) :]


def _encoded_oddly(random: Random, value: Any) -> bytes:
    data = text(value)
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data.decode().encode("utf-16"),
        lambda: data.decode().encode("utf-32"),
        lambda: data + random.choice([b"x", b"{}", b"\x00", data]),
        lambda: data.replace(b'"', b"'"),
        lambda: data.replace(b":", b"=").replace(b",", b";"),
    )
    return random.choice(ways)()


def _large(random: Random, value: Any) -> bytes:
    unit, size = random.choice(LARGE)
    return unit * (size // len(unit))


PIECES = (
    b"NaN", b"-Infinity", b"1e999", b"-", b"00", b"1" * 5000, b"0x10", b"\\ud800", b'"\\ud800"', b'"\\udc00\\ud800"',
    b'"\\u0000"', b"\x00", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"/**/", b"//", b",", b"}",
    b"]", b"[" * 101, b'{"a":' * 101, b'"', b"\\", b"\n", b"\r\n\r\n", b"\x1b[31m", b"'", b"undefined",
    b"None", b"True",
)  # fmt: skip
LARGE = (
    (b"[", 1_000_000), (b'{"a":', 1_000_000), (b'"', 100_001), (b" ", 300_000), (b"9", 500_000), (b"\x00", 100_000),
    (b'{"a":1,', 700_000), (b"[],", 300_000), (b"\\", 100_000),
)  # fmt: skip
SPOILERS = (_odd_value,) * 6 + (_flipped, _cut, _doubled, _inserted, _replaced, _encoded_oddly)


def _spoilt(random: Random, value: Any) -> bytes:
    return (_large if random.random() < 0.02 else random.choice(SPOILERS))(random, value)


# Families: each makes one kind of request.


def rpc_bodies(random: Random) -> Http:
    method = random.choice(list(PARAMS))
    return Http(request("POST", "/", JSON, _spoilt(random, envelope(method, PARAMS[method]))), form="jsonrpc")


def rest_bodies(random: Random) -> Http:
    path = random.choice(list(POSTS))
    return Http(request("POST", path, JSON, _spoilt(random, PARAMS[POSTS[path]])), form="rest")


def envelopes(random: Random) -> Http:
    """Members of every JSON type, in every place; batches; values that are no objects."""
    value: Any = envelope(random.choice(METHODS), PARAMS["GetTask"])
    for _ in range(random.randint(1, 2)):
        value[random.choice(["jsonrpc", "id", "method", "params", "extra", "result"])] = random.choice(ODD)
    if random.random() < 0.3:
        value.pop(random.choice(list(value)))
    if random.random() < 0.15:
        value = random.choice([[value], [value] * 3, [], [1], "hello", 7, None, True, [[value]]])
    return Http(request("POST", "/", JSON, text(value)), form="jsonrpc")


def paths(random: Random) -> Http:
    target: str | bytes = "/" + "/".join(random.choice(SEGMENTS) for _ in range(random.randint(0, 5)))
    if random.random() < 0.2:
        target = random.choice(TARGETS)
    elif random.random() < 0.1:
        target = _bytes(target) + random.randbytes(5)
    verb = random.choice(VERBS)
    body = random.choice([b"", b"{}", text(PARAMS["SendMessage"])])
    whole = verb != "CONNECT" and b"://" not in _bytes(target)  # aiohttp drops some that name a host
    return Http(request(verb, target, JSON if body else (), body), whole=whole, verb=verb)


def queries(random: Random) -> Http:
    pairs = [f"{random.choice(NAMES)}{random.choice(['=', '==', ''])}{random.choice(VALUES)}" for _ in range(3)]
    target = random.choice([*GETS, "/message:send"]) + "?" + random.choice(["&", "&&", ";"]).join(pairs)
    return Http(request("POST" if ":" in target else "GET", target))


def headers(random: Random) -> Http:
    """A good request under bad headers. Of those that change its framing, an answer is not asked."""
    method = random.choice(["SendMessage", "SendStreamingMessage", "GetTask"])
    odd = [random.choice(HEADERS) for _ in range(random.randint(1, 3))]
    framing = any(name.lower() in FRAMING or b"\n" in _bytes(value) for name, value in odd)
    data = request("POST", "/", [*([] if _types(odd) else JSON), *odd], text(envelope(method, PARAMS[method])))
    return Http(data, whole=not framing)


def _types(pairs: Pairs) -> bool:
    return any(name.lower() == "content-type" for name, _ in pairs)


def framings(random: Random) -> Http:
    """Bodies that are not as long, not so chunked or not so compressed as is said."""
    body = text(envelope("GetTask", PARAMS["GetTask"]))
    made = random.choice(FRAMED)(random, body)
    target = random.choice(["/", "/message:send"])
    return Http(request("POST", target, [*JSON, *made[0]], made[1], sized=False), whole=False)


def compressed(random: Random) -> Http:
    body = text(envelope("GetTask", PARAMS["GetTask"]))
    name = random.choice(["gzip", "deflate", "br", "zstd", "identity", "GZIP", "x-gzip", "gzip, gzip", "odd", ""])
    made = random.choice(COMPRESSED)(random, body)
    return Http(request("POST", random.choice(["/", "/message:send"]), [*JSON, ("Content-Encoding", name)], made))


def garbage(random: Random) -> Http:
    """Bytes that are no HTTP."""
    start = random.choice(
        [b"", b"GET / HTTP/9.9\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\r\n"]
    )
    return Http(start + random.randbytes(random.choice([1, 16, 200, 20_000])) + b"\r\n\r\n", whole=False)


def halves(random: Random) -> Http:
    """A good request that stops in its middle."""
    method = random.choice(list(PARAMS))
    data = request("POST", "/", JSON, text(envelope(method, PARAMS[method])))
    return Http(data[: random.randrange(len(data))], whole=False)


def pipelines(random: Random) -> Http:
    """Requests behind one another, the last one spoilt; one that ends before its answer is read."""
    good = b"GET /tasks/T1 HTTP/1.1\r\nHost: x\r\n\r\n"
    return Http(good * random.randint(1, 40) + garbage(random).data, whole=False)


JSON: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
METHODS = (*PARAMS, "message/send", "sendmessage", "Nope", "", "x" * 5000, "__class__", "rpc.discover")
VERBS = (
    "GET",
    "POST",
    "DELETE",
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "BREW",
    "get",
    "M-SEARCH",
    "PRI",
)
SEGMENTS = (
    "tasks", "T1", "message:send", "message:stream", "T1:cancel", "T1:subscribe", "pushNotificationConfigs", "..", ".",
    "", "%", "%zz", "%2", "%00", "%2F", "%2e%2e", "%ff", "%ed%a0%80", "%F0%9F%98%80", "ä", "😀", "v1", ".well-known",
    "agent-card.json", "healthz", "readyz", "extendedAgentCard", "x" * 3000, ":", "a:", ":send", "a:b:c", "{id}", "*",
    "'", '"', "<script>", "a;b=c", "a+b", "~", "\\", "$(id)", "%0d%0aX-Evil:1", "tasks:send", "acme",
)  # fmt: skip
TARGETS: tuple[str | bytes, ...] = (
    "*", "http://x/tasks/T1", "http://", "http:///tasks", "https://x", "x:80", "//", "///tasks", "/?", "/#f",
    "?", "", "/ /",
    "//evil.example/tasks", "/tasks/T1?A2A-Version=9", "ftp://x/tasks", "http://[::1/tasks", "http://x:99999/tasks",
    b"/\x00", b"/\xff\xfe", b"/tasks/\x01", b"/tasks/T1\t", "/" + "a/" * 2000, "/" + "%41" * 2500,
    "/tasks/" + ":" * 500,
    "/?" + "a=1&" * 1500,
)  # fmt: skip
NAMES = ("historyLength", "history_length", "pageSize", "pageToken", "status", "includeArtifacts", "A2A-Version",
         "statusTimestampAfter", "contextId", "tenant", "id", "message", "message.role", "message.parts",
         "a.b.c", "", "x" * 500,
         "%ff", "configuration.historyLength", "message.metadata")  # fmt: skip
VALUES = ("", "0", "-1", "abc", "1.5", "2147483648", "1e3", "TASK_STATE_WORKING", "working", "2", "true", "TRUE", "1,2",
          "2026-01-02T03:04:05.678Z", "2026-13-45T99:99:99Z", "9" * 400, "%00", "%ff", "%zz", "+",
          "%F0%9F%98%80", "[]", "{}",
          "x" * 2000, "NaN", "1.0")  # fmt: skip
FRAMING = (
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "expect",
    "content-encoding",
    "x y",
    "",
    "trailer",
)
HEADERS: tuple[tuple[str, str | bytes], ...] = (
    ("Content-Type", ""), ("Content-Type", "text/plain"), ("Content-Type", "application/json; charset=utf-16"),
    ("Content-Type", "application/jsonx"), ("Content-Type", "multipart/form-data"), ("Content-Type", ";;;"),
    ("Content-Type", "x" * 3000), ("Content-Type", "application/json\x00"), ("Content-Type", b"\xff\xfe"),
    ("Accept", ""), ("Accept", "text/html"), ("Accept", "application/xml;q=zz"), ("Accept", "," * 500),
    ("Accept", b"\xff"),
    ("Accept", "text/event-stream"), ("Accept-Encoding", "gzip;q=9, *"), ("Accept-Charset", "klingon"),
    ("A2A-Version", "99.0"), ("A2A-Version", "abc"), ("A2A-Version", "1.0.0.0"), ("A2A-Version", "1" * 3000),
    ("A2A-Version", "-1.0"), ("A2A-Version", "١.٠"), ("A2A-Version", b"\xff"), ("A2A-Version", "1.0, 0.3"),
    ("A2A-Extensions", "," * 500), ("A2A-Extensions", "urn:x," * 400), ("A2A-Extensions", b"\xff\xfe"),
    ("A2A-Extensions", "x" * 4000), ("Grpc-Timeout", ""), ("Grpc-Timeout", "abc"), ("Grpc-Timeout", "-1S"),
    ("Grpc-Timeout", "0n"), ("Grpc-Timeout", "99999999H"), ("Grpc-Timeout", "999999999S"), ("Grpc-Timeout", "1S1S"),
    ("Grpc-Timeout", "٣S"), ("Grpc-Timeout", b"\xb2S"), ("Expect", "100-continue"), ("Expect", "200-ok"),
    ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked"), ("Transfer-Encoding", "odd"), ("Content-Length", "-1"),
    ("Content-Length", "5"),
    ("Content-Length", "abc"), ("Content-Length", "9" * 30), ("Content-Length", "0x10"), ("Connection", "upgrade"),
    ("Upgrade", "websocket"), ("Upgrade", "h2c"), ("Connection", "Upgrade, HTTP2-Settings"), ("Connection",
    "keep-alive"),
    ("Sec-WebSocket-Key", "x"), ("TE", "trailers"), ("Trailer", "x"), ("Host", "evil.example"), ("Host", ""),
    ("Cookie", "a" * 5000), ("Authorization", "Bearer " + "x" * 5000), ("Authorization", b"\xff"), ("Origin", "null"),
    ("Range", "bytes=0-"), ("If-None-Match", '"'), ("If-Modified-Since", "yesterday"), ("Content-Encoding", "odd"),
    ("X-Forwarded-Host", "evil.example/\\"), ("X-Forwarded-Proto", "javascript"), ("Traceparent", "00-zz-zz-zz"),
    ("X-Evil", "a\r\nX-More: b"), ("X-Evil", "a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: y\r\n"), ("X-Evil", "a\nb"),
    ("X-Evil", "a\x00b"), ("X-Evil", "\x7f\x01"), ("x y", "1"), ("", "1"), ("X-Long", "x" * 9000), ("X" * 9000, "1"),
    *((f"X-{i}", "1") for i in range(3)), ("X-Bin-Bin", "not base64!"), ("Grpc-Status", "0"), (":path", "/"),
)  # fmt: skip
CHUNKED = ("Transfer-Encoding", "chunked")
BOMB = gzip.compress(bytes(50_000_000), 1, mtime=0)
FRAMED: tuple[Callable[[Random, bytes], tuple[Pairs, bytes]], ...] = (
    lambda r, b: ([("Content-Length", str(len(b) + r.choice([1, 10, 100_000])))], b),
    lambda r, b: ([("Content-Length", str(r.randrange(len(b))))], b),
    lambda r, b: ([("Content-Length", "50000000")], b),
    lambda r, b: ([("Content-Length", str(len(b))), ("Content-Length", "3")], b),
    lambda r, b: ([("Content-Length", str(len(b))), ("Transfer-Encoding", "chunked")], b),
    lambda r, b: ([CHUNKED], b),
    lambda r, b: ([CHUNKED], b"%x\r\n%s\r\n0\r\n\r\n" % (len(b), b)),
    lambda r, b: ([CHUNKED], b"%x\r\n%s\r\n" % (len(b), b)),
    lambda r, b: ([CHUNKED], b"%x\r\n%s" % (len(b) + 10, b)),
    lambda r, b: ([CHUNKED], b"zz\r\n%s\r\n0\r\n\r\n" % b),
    lambda r, b: ([CHUNKED], b"-1\r\n%s\r\n0\r\n\r\n" % b),
    lambda r, b: ([CHUNKED], b"f" * 40 + b"\r\n" + b),
    lambda r, b: ([CHUNKED], b"1;" + b"x" * 10_000 + b"\r\n{\r\n0\r\n\r\n"),
    lambda r, b: ([CHUNKED], b"".join(b"1\r\n%c\r\n" % byte for byte in b) + b"0\r\n\r\n"),
    lambda r, b: ([CHUNKED], b"%x\r\n%s\r\n0\r\nX-Trailer: %s\r\n\r\n" % (len(b), b, b"x" * 20_000)),
    lambda r, b: ([CHUNKED, ("Content-Encoding", "gzip")], b"5\r\nhello\r\n0\r\n\r\n"),
    lambda r, b: ([], b),
)
COMPRESSED: tuple[Callable[[Random, bytes], bytes], ...] = (
    lambda r, b: b,
    lambda r, b: gzip.compress(b, mtime=0),
    lambda r, b: gzip.compress(b, mtime=0)[: r.randint(1, 30)],
    lambda r, b: gzip.compress(b, mtime=0) + b"tail",
    lambda r, b: b"\x1f\x8b" + r.randbytes(60),
    lambda r, b: zlib.compress(b),
    lambda r, b: zlib.compress(b)[2:-4],
    lambda r, b: r.randbytes(100),
    lambda r, b: BOMB if r.random() < 0.2 else b"",
)
FAMILIES = (
    rpc_bodies,
    rest_bodies,
    envelopes,
    paths,
    queries,
    headers,
    framings,
    compressed,
    garbage,
    halves,
    pipelines,
)
