"""A hostile client: malformed requests in a fixed order, sent to both ports, and what is wrong with the answers."""

import asyncio
import contextlib
import gc
import itertools
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import grpc
import grpc.aio
import hostile_grpc
import hostile_http
from hostile_grpc import Call, Frames
from hostile_http import Http
from lab import SECRET, send
from wires import All

ROOT = Path(__file__).parent.parent
FAMILIES = (*hostile_http.FAMILIES, *hostile_grpc.CALL_FAMILIES, *hostile_grpc.FRAME_FAMILIES)
QUIET = tuple(map(int, aiohttp.__version__.split(".")[:2])) >= (3, 14)  # before, aiohttp logs what is no HTTP as errors
AT_ONCE = 24
PATIENCE = 0.15  # seconds for bytes that need no answer
LONGEST = 15.0  # seconds until a request hangs

OURS = re.compile("(WARNING|ERROR|CRITICAL) (a2a_grpc|asyncio" + ("|aiohttp" if QUIET else "") + ")")
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}  # memory in use is measured, not how threads spread it

STATUSES = {200, 400, 404, 405, 408, 413, 415, 503, 504}
CODES = {
    "OK", "INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED",
    "DEADLINE_EXCEEDED", "CANCELLED",
}  # fmt: skip
LEAK = re.compile(
    rb'Traceback|File "|site-packages|\.py\b|object at 0x|\b[A-Z]\w*(?:Error|Exception)\b|' + re.escape(SECRET.encode())
)

Attack = Http | Call | Frames


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Finding(NamedTuple):
    number: int
    family: str
    why: str
    sent: str


def attacks(seed: int, count: int) -> Iterator[tuple[int, str, Attack]]:
    """The requests of a seed: the families in turn, each request from a generator of its own."""
    for index, family in zip(range(count), itertools.cycle(FAMILIES), strict=False):
        yield index, family.__name__, family(Random(f"{seed}/{index}"))


# Judging


def http_fault(attack: Http, answer: Answer) -> str | None:
    """What is wrong with an answer; None where it is as it must be."""
    raw = repr(answer.headers).encode() + answer.body
    if leak := LEAK.search(raw):
        return f"tells {leak[0]!r}"
    if answer.status not in STATUSES:
        return f"status {answer.status}"
    if answer.status == 200 or attack.verb == "HEAD":
        return _success_fault(attack, answer)
    try:
        return _error_fault(attack.form, answer.status, json.loads(answer.body))
    except ValueError:
        return "an error that is no JSON"


def _success_fault(attack: Http, answer: Answer) -> str | None:
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind in ("text/event-stream", "text/plain") or attack.verb == "HEAD":
        return None
    try:
        value = json.loads(answer.body)
    except ValueError:
        return f"{kind} that is no JSON"
    return _envelope_fault(value) if attack.form == "jsonrpc" or "jsonrpc" in value else None


def _error_fault(form: str, status: int, value: Any) -> str | None:
    if form == "jsonrpc" or "jsonrpc" in value:
        return _envelope_fault(value)
    error = value.get("error")
    if set(value) != {"error"} or set(error) != {"code", "status", "message", "details"}:
        return "not the shape of an error of HTTP+JSON"
    if error["code"] != status or not error["message"] or not error["details"]:
        return "an error of HTTP+JSON that says too little"
    return None


def _envelope_fault(value: Any) -> str | None:
    if value.get("jsonrpc") != "2.0" or "id" not in value or len(value) != 3:
        return "not a JSON-RPC answer"
    error = value.get("error")
    if error is None:
        return None if "result" in value else "neither result nor error"
    if set(error) != {"code", "message", "data"} or not error["message"] or not error["data"]:
        return "an error of JSON-RPC that says too little"
    return "an internal error" if error["code"] == -32603 and "deadline" not in error["message"] else None


def grpc_fault(call: Call, error: grpc.aio.AioRpcError) -> str | None:
    told = f"{error.details()} {error.trailing_metadata()}".encode()
    if leak := LEAK.search(told):
        return f"tells {leak[0]!r}"
    return None if error.code().name in CODES else f"status {error.code().name}: {error.details()}"


# Sending


@dataclass
class Target:
    """A server in its own process, its log, and what it says of itself."""

    process: asyncio.subprocess.Process
    http_port: int
    grpc_port: int
    log: list[str] = field(default_factory=list)

    async def state(self) -> dict[str, int]:
        gc.collect()  # calls of ours that are garbage hold their connections open
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        return await self._line()

    async def _line(self) -> dict[str, int]:
        assert self.process.stdout
        async with asyncio.timeout(LONGEST):
            line: dict[str, int] = json.loads(await self.process.stdout.readline())
        return line

    async def idle(self) -> dict[str, int]:
        """The state once nothing has changed for half a second: what earlier calls used is closed."""
        state, unchanged = await self.state(), 0
        while unchanged < 5:
            await asyncio.sleep(0.1)
            before, state = state, await self.state()
            unchanged = 0 if _counts(state) != _counts(before) else unchanged + 1
        return state

    async def settled(self, start: Mapping[str, int]) -> dict[str, int]:
        """The state once tasks and descriptors are back to those of `start`, or as it is after a while."""
        for _ in range(100):
            state = await self.state()
            if _counts(state) == _counts(start):
                return state
            await asyncio.sleep(0.1)
        return state

    async def answers(self) -> list[Any]:
        """A good call on each binding."""
        where: Any = SimpleNamespace(
            grpc_address=f"127.0.0.1:{self.grpc_port}", http_url=f"http://127.0.0.1:{self.http_port}"
        )
        async with All(where) as every:
            return [outcome.only.message.parts[0].text for outcome in await every.call("SendMessage", send("hi"))]


def _counts(state: Mapping[str, int]) -> tuple[int, int]:
    return state["tasks"], state["descriptors"]


@contextlib.asynccontextmanager
async def target() -> AsyncIterator[Target]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.hostile_server",
        cwd=ROOT, env={**os.environ, **ONE_ARENA}, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 20,
    )  # fmt: skip
    started = Target(process, 0, 0)
    reading = asyncio.create_task(_read_log(process, started.log))
    try:
        ports = await started._line()
        started.http_port, started.grpc_port = ports["http_port"], ports["grpc_port"]
        yield started
        assert process.stdin
        process.stdin.close()
        await asyncio.wait_for(process.wait(), LONGEST)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reading


async def _read_log(process: asyncio.subprocess.Process, log: list[str]) -> None:
    assert process.stderr
    async for line in process.stderr:
        log.append(line.decode("utf-8", "replace").rstrip())  # noqa: PERF401 - it is read meanwhile


class Siege(NamedTuple):
    """The same requests sent twice to one server: what was wrong, and how the server was before and after each time."""

    findings: list[Finding]
    answered: list[list[str]]
    states: list[dict[str, int]]
    log: list[str]


async def siege(seed: int, count: int) -> Siege:
    async with target() as where:
        answered = [await where.answers()]
        states = [await where.idle()]
        findings = []
        for _ in range(2):
            findings += await run(where, seed, count)
            states.append(await where.settled(states[0]))
            answered.append(await where.answers())
    return Siege(findings, answered, states, [line for line in where.log if OURS.match(line)])


async def run(where: Target, seed: int, count: int) -> list[Finding]:
    """Sends `count` requests, some at once; what was wrong with the answers."""
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{where.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)])
    left, found = attacks(seed, count), list[Finding]()

    async def work() -> None:
        for index, family, attack in left:
            if why := await _judged(where, channel, attack):
                found.append(Finding(index, family, why, repr(attack)[:2000]))

    async with channel:
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return sorted(found)


async def _judged(where: Target, channel: grpc.aio.Channel, attack: Attack) -> str | None:
    try:
        async with asyncio.timeout(LONGEST):
            if isinstance(attack, Http):
                return await _http(where.http_port, attack)
            if isinstance(attack, Frames):
                return await _frames(where.grpc_port, attack)
            return await _call(channel, attack)
    except TimeoutError:
        return "hangs"
    except OSError as error:
        return f"the port is closed: {error}"


async def _http(port: int, attack: Http) -> str | None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    sending = asyncio.ensure_future(_sent(writer, attack.data))
    try:
        async with asyncio.timeout(None if attack.whole else PATIENCE):
            answer = await _answer(reader, attack.verb)
        return http_fault(attack, answer)
    except TimeoutError:
        return None
    except (ConnectionError, asyncio.IncompleteReadError):
        return "not answered" if attack.whole else None
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        writer.transport.abort()


async def _sent(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()


async def _answer(reader: asyncio.StreamReader, verb: str) -> Answer:
    """Reads one response: by its length, its chunks or its end."""
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(start.split()[1])
    if status == 100:
        return await _answer(reader, verb)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Answer(status, headers, b"" if verb == "HEAD" else await _body(reader, headers))


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    if headers.get("transfer-encoding") != "chunked":
        return await reader.read()
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    return body


async def _frames(port: int, attack: Frames) -> str | None:
    """Reads until the server ends the stream or the connection; answers are searched as bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.ensure_future(_sent(writer, attack.data))
    received = b""
    try:
        async with asyncio.timeout(None if attack.whole else PATIENCE):
            while (chunk := await reader.read(65536)) and not _ended(received := received + chunk):
                pass
    except (TimeoutError, ConnectionError):
        pass
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        writer.transport.abort()
    leak = LEAK.search(received)
    return f"tells {leak[0]!r}" if leak else None


def _ended(received: bytes) -> bool:
    """Whether the frames hold the end of stream 1, or of the connection."""
    while len(received) >= 9:
        size, kind, flags = int.from_bytes(received[:3], "big"), received[3], received[4]
        ends = kind in (hostile_grpc.DATA, hostile_grpc.HEADERS) and flags & hostile_grpc.END_STREAM
        if ends or kind in (hostile_grpc.RST_STREAM, hostile_grpc.GOAWAY):
            return True
        received = received[9 + size :]
    return False


async def _call(channel: grpc.aio.Channel, attack: Call) -> str | None:
    shape: Any = channel.unary_stream if attack.streaming else channel.unary_unary
    call = shape(attack.path)(attack.data, metadata=attack.metadata, timeout=attack.timeout)
    if attack.cancel:
        call.cancel()
    try:
        if attack.streaming:
            async for _ in call:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return grpc_fault(attack, error)
    except asyncio.CancelledError:
        if not attack.cancel:
            raise
    return None
