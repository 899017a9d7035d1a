"""Malformed gRPC: calls that a client library would make, and bytes on the wire that it would not."""

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from google.protobuf.json_format import ParseDict
from hostile_http import PARAMS

from a2a_grpc.methods import methods

METHODS = tuple(methods().values())
GOODS = {m.name: ParseDict(PARAMS[m.name], m.request()).SerializeToString() for m in METHODS}
GOOD = GOODS["SendMessage"]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4


class Call(NamedTuple):
    """What a client library sends. `cancel`: it gives up at once."""

    path: str
    data: bytes
    metadata: tuple[tuple[str, str | bytes], ...] = ()
    timeout: float = 5.0
    cancel: bool = False
    streaming: bool = False


class Frames(NamedTuple):
    """Bytes for the gRPC port. `whole`: they hold a call that must be answered, or its connection closed."""

    data: bytes
    whole: bool = False


def messages(random: Random) -> Call:
    """Random bytes, and good messages spoilt, for every method."""
    method = random.choice(METHODS)
    return Call(method.path, random.choice(BYTES)(random, GOODS[method.name]), streaming=method.streaming)


def unknown(random: Random) -> Call:
    return Call(random.choice(PATHS), random.choice(BYTES)(random, GOOD), streaming=random.random() < 0.5)


def metadata(random: Random) -> Call:
    method = random.choice(METHODS)
    pairs = tuple(random.choice(METADATA) for _ in range(random.randint(1, 3)))
    return Call(method.path, GOODS[method.name], pairs, streaming=method.streaming)


def hurried(random: Random) -> Call:
    """Deadlines that have passed, and callers that give up."""
    method = random.choice(METHODS)
    cancel = random.random() < 0.5
    timeout = 5.0 if cancel else random.choice([0.0, 1e-9, 1e-4, 1e-3])
    return Call(method.path, GOODS[method.name], timeout=timeout, cancel=cancel, streaming=method.streaming)


def prefaces(random: Random) -> Frames:
    start = random.choice(
        [b"", PREFACE[:10], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"PRI"]
    )
    return Frames(start + random.randbytes(random.choice([0, 1, 9, 300, 20_000])))


def frames(random: Random) -> Frames:
    """A good preface, and frames of random kinds, flags, streams and lengths."""
    made = [_random_frame(random) for _ in range(random.randint(1, 30))]
    data = PREFACE + frame(SETTINGS) + b"".join(made)
    return Frames(data[: random.randrange(len(PREFACE), len(data))] if random.random() < 0.3 else data)


def _random_frame(random: Random) -> bytes:
    payload = random.randbytes(random.choice([0, 1, 4, 5, 8, 9, 100]))
    kind = random.choice([*range(10), random.randrange(256)])
    made = frame(kind, payload, random.randrange(256), random.choice([0, 1, 2, 3, 2**31 - 1]))
    return made if random.random() < 0.9 else random.randrange(2**24).to_bytes(3, "big") + made[3:]


def calls(random: Random) -> Frames:
    """One call by hand, with one thing wrong about its headers or its message."""
    head = list(HEAD)
    change = random.choice(HEAD_CHANGES)
    body = random.choice(MESSAGES)(random)
    return Frames(PREFACE + frame(SETTINGS) + _call(change(random, head), body), whole=_holds_a_message(body))


def call_of(path: bytes) -> Frames:
    """A good call by hand, of any path."""
    head = [(name, path if name == b":path" else value) for name, value in HEAD]
    return Frames(PREFACE + frame(SETTINGS) + _call(head, prefixed(GOOD)))


def floods(random: Random) -> Frames:
    return Frames(PREFACE + frame(SETTINGS) + random.choice(FLOODS)(random))


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def hpack(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Literals without indexing, by RFC 7541, section 6.2.2."""
    return b"".join(b"\x00" + _sized(name) + _sized(value) for name, value in pairs)


def _sized(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    out, size = bytearray((127,)), size - 127
    while size >= 128:
        out.append(size % 128 | 128)
        size //= 128
    return bytes((*out, size)) + text


def _call(head: Iterable[tuple[bytes, bytes]], body: bytes, stream: int = 1) -> bytes:
    block = hpack(head)
    made = frame(HEADERS, block[:16_000], 0 if len(block) > 16_000 else END_HEADERS, stream)
    for start in range(16_000, len(block), 16_000):
        last = start + 16_000 >= len(block)
        made += frame(CONTINUATION, block[start : start + 16_000], END_HEADERS if last else 0, stream)
    return made + frame(DATA, body, END_STREAM, stream)


def prefixed(data: bytes, flag: int = 0, size: int | None = None) -> bytes:
    """A message as gRPC frames it, with a length that may lie."""
    return bytes((flag,)) + (len(data) if size is None else size).to_bytes(4, "big") + data


BYTES: tuple[Callable[[Random, bytes], bytes], ...] = (
    lambda r, good: r.randbytes(r.choice([0, 1, 2, 5, 20, 200, 5000])),
    lambda r, good: good[: r.randrange(len(good) + 1)],
    lambda r, good: bytes(b ^ (1 << r.randrange(8)) if r.random() < 0.1 else b for b in good),
    lambda r, good: bytes(b ^ (1 << r.randrange(8)) if r.random() < 0.01 else b for b in good),
    lambda r, good: b"\x0a" * r.randint(1, 300),
    lambda r, good: b"\x0b" * r.randint(1, 300),
    lambda r, good: b"\x0a\xff\xff\xff\xff\x0f" + r.randbytes(10),
    lambda r, good: bytes((r.randrange(256), r.randrange(256))) + r.randbytes(r.randrange(60)),
    lambda r, good: b"\x12\x02\xff\xfe",
    lambda r, good: bytes(5_000_000) if r.random() < 0.02 else b"\x08" * 11,
)
PATHS = (
    "/lf.a2a.v1.A2AService/Nope", "/lf.a2a.v1.A2AService/sendMessage", "/lf.a2a.v1.A2AService/", "/x", "/",
    "//", "/a/b/c",
    "/a2a.v1.A2AService/SendMessage", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Nope", "/" + "x" * 2000,
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/lf.a2a.v1.A2AService/SendMessage/",
    "/%00/%ff", "/ /",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/../../etc/passwd",
    "/lf.a2a.v1.a2aservice/GetTask",
)  # fmt: skip
METADATA: tuple[tuple[str, str | bytes], ...] = (
    ("a2a-version", "99.0"), ("a2a-version", "abc"), ("a2a-version", ""), ("a2a-version", "1" * 3000),
    ("a2a-version", "-1.0"),
    ("a2a-extensions", "," * 500), ("a2a-extensions", "urn:x," * 200), ("a2a-extensions", "x" * 3000),
    ("x-bin", b"\x00\xff" * 100), ("a2a-version-bin", b"\xff"), ("authorization", "Bearer " + "x" * 3000),
    ("x", "y" * 6000),
    ("x-huge", "z" * 30_000), ("content-type", "text/plain"), ("te", "odd"), ("user-agent", ""), ("host",
    "evil.example"),
)  # fmt: skip


def _holds_a_message(body: bytes) -> bool:
    """A call without a message is not answered by grpc.aio: it waits for the caller to go."""
    return len(body) >= 5 and len(body) - 5 >= int.from_bytes(body[1:5], "big")


HEAD = (
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/lf.a2a.v1.A2AService/GetTask"), (b":authority", b"x"),
    (b"te", b"trailers"), (b"content-type", b"application/grpc"),
)  # fmt: skip
Head = list[tuple[bytes, bytes]]


def _set(name: bytes, value: bytes) -> Callable[[Random, Head], Head]:
    return lambda _, head: [(n, v) for n, v in head if n != name] + [(name, value)]


HEAD_CHANGES: tuple[Callable[[Random, Head], Head], ...] = (
    lambda r, h: h,
    lambda r, h: [pair for pair in h if r.random() < 0.8],
    lambda r, h: r.sample(h, len(h)),
    lambda r, h: [*h, h[2]],
    lambda r, h: [*h, (b"Upper-Case", b"x")],
    lambda r, h: [*h, (r.randbytes(5), r.randbytes(20))],
    lambda r, h: [*h, (b"", b"")],
    lambda r, h: [*h, (b"x-huge", b"z" * 70_000)],
    lambda r, h: [*h, *((b"x-%d" % i, b"1") for i in range(500))],
    lambda r, h: [*h, (b"x-odd-bin", b"not base64!")],
    lambda r, h: [*h, (b"connection", b"close"), (b"transfer-encoding", b"chunked")],
    *(
        _set(b"content-type", value)
        for value in (b"", b"text/plain", b"application/json", b"application/grpc+json", b"\xff")
    ),
    *(_set(b":method", value) for value in (b"GET", b"PUT", b"", b"BREW")),
    *(
        _set(b":path", value)
        for value in (b"", b"/", b"lf.a2a.v1.A2AService/GetTask", b"*", b"/%ff%00", b"/" + b"x" * 9000)
    ),
    *(_set(b"grpc-timeout", value) for value in (b"", b"abc", b"0n", b"-1S", b"999999999S", b"99999999H", b"1S1S")),
    *(_set(b"grpc-encoding", value) for value in (b"gzip", b"odd", b"", b"identity, gzip")),
    *(_set(b"a2a-version", value) for value in (b"9.0", b"\xff\xfe", b"1.0", b"x" * 5000)),
    _set(b"te", b"odd"),
    _set(b":scheme", b"ftp"),
)
MESSAGES: tuple[Callable[[Random], bytes], ...] = (
    lambda r: prefixed(GOOD),
    lambda r: prefixed(b"\x12\x02T1"),
    lambda r: b"",
    lambda r: prefixed(GOOD)[: r.randint(1, 10)],
    lambda r: prefixed(GOOD, flag=1),
    lambda r: prefixed(GOOD, flag=r.randrange(2, 256)),
    lambda r: prefixed(GOOD, size=2**32 - 1),
    lambda r: prefixed(GOOD, size=len(GOOD) + 100),
    lambda r: prefixed(GOOD, size=2),
    lambda r: prefixed(GOOD) * 3,
    lambda r: r.randbytes(100),
)
FLOODS: tuple[Callable[[Random], bytes], ...] = (
    lambda r: frame(SETTINGS) * 300,
    lambda r: frame(PING, bytes(8)) * 300,
    lambda r: frame(SETTINGS, b"\x00\x03" + b"\xff" * 4) + frame(SETTINGS, b"\x00\x05" + b"\x00" * 4),
    lambda r: frame(WINDOW_UPDATE, bytes(4)),
    lambda r: frame(WINDOW_UPDATE, b"\x7f\xff\xff\xff") * 3,
    lambda r: frame(GOAWAY, bytes(8)),
    lambda r: frame(CONTINUATION, b"x", 0, 1),
    lambda r: frame(HEADERS, hpack(HEAD), END_HEADERS, 2),
    lambda r: frame(HEADERS, b"\xff" * 100, END_HEADERS, 1),
    lambda r: frame(PUSH_PROMISE, bytes(4) + hpack(HEAD), END_HEADERS, 1),
    lambda r: frame(DATA, prefixed(GOOD), END_STREAM, 1),
    lambda r: frame(DATA, bytes(60_000), 0, 1),
    lambda r: _call(HEAD, prefixed(GOOD)) + frame(RST_STREAM, bytes(4), 0, 1),
    lambda r: b"".join(
        frame(HEADERS, hpack(HEAD), END_HEADERS, n) + frame(RST_STREAM, bytes(4), 0, n) for n in range(1, 17, 2)
    ),
    lambda r: b"".join(frame(HEADERS, hpack(HEAD), END_HEADERS, n) for n in range(1, 17, 2)),
    lambda r: frame(HEADERS, hpack(HEAD), 0, 1),
    lambda r: frame(PRIORITY, (1).to_bytes(4, "big") + b"\x10", 0, 1),
)
CALL_FAMILIES = (messages, unknown, metadata, hurried)
FRAME_FAMILIES = (prefaces, frames, calls, floods)
