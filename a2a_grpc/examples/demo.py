"""Demo: starts an agent on free ports, calls it on each binding, and shows each call with its answer.

    python -m a2a_grpc.examples.demo

It calls by grpcurl and curl where they are installed, else by the generated stub and the standard library. Exit code 1
where an answer is not the expected one.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import grpc.aio
from google.protobuf import json_format

from a2a_grpc import Server
from a2a_grpc.cli.calls import JSON, VERSION, curl, grpcurl, request, rest_url, shown
from a2a_grpc.examples.shout import shout
from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

LONGEST_CALL = 20.0  # seconds
ASKED = "hello world"
EXPECTED = "WORLD! "


class Step(NamedTuple):
    title: str
    command: list[str]
    instead: Callable[[], Awaitable[str]]  # the same call, where the command's program is not installed
    expected: str


def steps(server: Server) -> list[Step]:
    url, address = server.http_url, server.grpc_address
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": request(ASKED)}
    return [
        _http("The agent card", url + "/.well-known/agent-card.json", None, "supportedInterfaces"),
        Step("gRPC", grpcurl(address, "SendMessage", request(ASKED)), lambda: _stub(address), EXPECTED),
        Step(
            "gRPC, streaming",
            grpcurl(address, "SendStreamingMessage", request(ASKED)),
            lambda: _stub_stream(address),
            "TASK_STATE_COMPLETED",
        ),
        _http("JSON-RPC", url + "/", rpc, EXPECTED),
        _http("HTTP+JSON", rest_url(url, "send"), request(ASKED), EXPECTED),
        _http("HTTP+JSON, streaming", rest_url(url, "stream"), request(ASKED), "TASK_STATE_COMPLETED"),
    ]


async def demo() -> int:
    """How many of the calls were not answered as expected."""
    async with Server(shout, http_port=0, grpc_port=0) as server:
        failed = [step.title async for step, answer in _answers(steps(server)) if step.expected not in answer]
    print(f"Not as expected: {', '.join(failed)}" if failed else "All bindings answered.")
    return len(failed)


async def _answers(todo: Sequence[Step]) -> AsyncIterator[tuple[Step, str]]:
    for step in todo:
        print(f"── {step.title}\n$ {shown(step.command)}", flush=True)
        answer = await _answer(step)
        print(f"{answer.strip()}\n", flush=True)
        yield step, answer


async def _answer(step: Step) -> str:
    program = _program(step.command[0])
    try:
        async with asyncio.timeout(LONGEST_CALL):
            if program:
                return await _run([program, *step.command[1:]])
            print(f"({step.command[0]} is not installed; the same call from Python)")
            return await step.instead()
    except (TimeoutError, OSError, grpc.aio.AioRpcError) as error:
        return f"{type(error).__name__}: {error}"


def _program(name: str) -> str | None:
    """From the PATH, or from the folder of this Python (its virtual environment)."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


async def _run(command: list[str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        return (await process.communicate())[0].decode()
    except BaseException:
        process.kill()
        await process.wait()
        raise


async def _stub(address: str) -> str:
    asked = json_format.ParseDict(request(ASKED), a2a_pb2.SendMessageRequest())
    async with grpc.aio.insecure_channel(address) as channel:
        answer = await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(asked, metadata=[("a2a-version", "1.0")])
    return json_format.MessageToJson(answer)


async def _stub_stream(address: str) -> str:
    asked = json_format.ParseDict(request(ASKED), a2a_pb2.SendMessageRequest())
    async with grpc.aio.insecure_channel(address) as channel:
        stream = a2a_pb2_grpc.A2AServiceStub(channel).SendStreamingMessage(asked, metadata=[("a2a-version", "1.0")])
        return "\n".join([json_format.MessageToJson(event) async for event in stream])


def _http(title: str, url: str, body: Any, expected: str) -> Step:
    return Step(title, curl(url, body), lambda: asyncio.to_thread(_fetch, url, body), expected)


def _fetch(url: str, body: Any) -> str:
    headers = dict(header.split(": ") for header in (VERSION, JSON))
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, headers), timeout=LONGEST_CALL) as response:
        answer: str = response.read().decode()
    return answer


def main() -> None:
    os.environ |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}  # nothing of this leaves the machine
    sys.exit(1 if asyncio.run(demo()) else 0)


if __name__ == "__main__":
    main()
