"""Load on 127.0.0.1: wrk and h2load where they are installed, else generators of our own; always bounded in time."""

import asyncio
import json
import re
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc.aio

VERSION = "1.0"
CHANNELS = 4
LARGEST = 1 << 20  # bytes of one answer

Once = Callable[[], Awaitable[bytes]]
"""Sends the request once; the bytes of its answer. Raises RuntimeError for a bad one."""


class Request(NamedTuple):
    """One request, sent again and again. `verb` is "" for gRPC, where `body` is a message without its frame."""

    verb: str
    path: str
    body: bytes
    streaming: bool = False


class Outcome(NamedTuple):
    """`size` is that of all answers in bytes: of HTTP everything, of gRPC the framed messages."""

    requests: int
    errors: int
    size: int


def load(port: int, request: Request, flight: int, seconds: int) -> Outcome:
    """Keeps `flight` requests in flight for `seconds`."""
    if not request.verb and shutil.which("h2load"):
        return _h2load(port, request, flight, seconds)
    if request.verb and shutil.which("wrk"):
        return _wrk(port, request, flight, seconds)
    return own_load(port, request, flight, seconds)


def own_load(port: int, request: Request, flight: int, seconds: float) -> Outcome:
    return asyncio.run(_own_load(port, request, flight, seconds))


def probe(port: int, request: Request) -> bytes:
    """The whole answer to one request."""
    return asyncio.run(_probe(port, request))


# wrk, h2load


def _wrk(port: int, request: Request, flight: int, seconds: int) -> Outcome:
    with _file(_lua(request).encode()) as script:
        text = _run(
            ["wrk", "-t1", f"-c{flight}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}{request.path}"],
            seconds,
        )
    done = json.loads(text.rpartition("DONE ")[2])
    return Outcome(done["requests"], done["errors"], done["bytes"])


def _lua(request: Request) -> str:
    headers = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in _headers(request).items())
    body = f"wrk.body = [====[{request.body.decode()}]====]\n" if request.body else ""
    return f'wrk.method = "{request.verb}"\n{headers}{body}{_LUA_DONE}'


_LUA_DONE = """
done = function(summary, latency, requests)
  local e = summary.errors
  local errors = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format('\\nDONE {"requests":%d,"bytes":%d,"errors":%d}', summary.requests, summary.bytes, errors))
end
"""


def _h2load(port: int, request: Request, flight: int, seconds: int) -> Outcome:
    headers = ["content-type: application/grpc", "te: trailers", f"a2a-version: {VERSION}"]
    with _file(struct.pack(">BI", 0, len(request.body)) + request.body) as body:
        command = ["h2load", "-t1", f"-c{CHANNELS}", f"-m{flight // CHANNELS}", "-D", str(seconds), "-d", body]
        command += [part for header in headers for part in ("-H", header)]
        text = _run([*command, f"http://127.0.0.1:{port}{request.path}"], seconds)
    found = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
    data = re.search(r"\((\d+)\) data", text)
    if not found or not data:
        raise RuntimeError(f"h2load said nothing that is understood: {text[-500:]}")
    requests, *bad = (int(number) for number in found.groups())
    return Outcome(requests, sum(bad), int(data[1]))


def _run(command: list[str], seconds: float) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=True).stdout


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


# Our own


async def _own_load(port: int, request: Request, flight: int, seconds: float) -> Outcome:
    until = time.monotonic() + seconds
    sizes: list[int] = []

    async def repeat(connection: "_Http | _Grpc") -> None:
        while time.monotonic() < until:
            sizes.append(len(await connection.once(request)))

    connections = [await _connected(port, request) for _ in range(flight if request.verb else CHANNELS)]
    each = flight // len(connections)
    try:
        await asyncio.gather(*(repeat(connection) for connection in connections for _ in range(each)))
    finally:
        for connection in connections:
            await connection.close()
    return Outcome(len(sizes), 0, sum(sizes))


async def _probe(port: int, request: Request) -> bytes:
    connection = await _connected(port, request)
    try:
        return await asyncio.wait_for(connection.once(request), 10)
    finally:
        await connection.close()


async def _connected(port: int, request: Request) -> "_Http | _Grpc":
    if not request.verb:
        return _Grpc(grpc.aio.insecure_channel(f"127.0.0.1:{port}", (("grpc.use_local_subchannel_pool", 1),)))
    return _Http(*await asyncio.open_connection("127.0.0.1", port, limit=LARGEST))


class _Http:
    """One kept-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def once(self, request: Request) -> bytes:
        self._writer.write(_http_bytes(request))
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"an answer that is not 200: {head!r}")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if length:
            return head + await self._reader.readexactly(int(length[1]))
        return head + await self._reader.readuntil(b"\r\n0\r\n\r\n")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class _Grpc:
    """One channel. Messages stay bytes."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def once(self, request: Request) -> bytes:
        metadata = (("a2a-version", VERSION),)
        if not request.streaming:
            return _framed(
                await self._channel.unary_unary(request.path)(request.body, metadata=metadata, wait_for_ready=True)
            )
        call = self._channel.unary_stream(request.path)(request.body, metadata=metadata, wait_for_ready=True)
        return b"".join([_framed(message) async for message in call])

    async def close(self) -> None:
        await self._channel.close()


def _framed(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def _http_bytes(request: Request) -> bytes:
    headers = {"Host": "127.0.0.1", **_headers(request)}
    if request.body:
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{request.verb} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + request.body


def _headers(request: Request) -> dict[str, str]:
    content = {"Content-Type": "application/json"} if request.body else {}
    return {"A2A-Version": VERSION, **content}
