"""Demo: starts an agent on free ports, calls it on each binding, and shows each call with its answer.

    python -m a2a_grpc.examples.demo

It calls by grpcurl and curl where they are installed, else by the client of this package. Exit code 1 where an answer
is not the expected one.
"""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from google.protobuf.json_format import MessageToJson

from a2a_grpc import A2AError, Server
from a2a_grpc.card import GRPC, HTTP_JSON, JSONRPC, WELL_KNOWN_PATH
from a2a_grpc.cli.calls import curl, grpcurl, request, rest_url
from a2a_grpc.client import Client, ClientError, connect
from a2a_grpc.examples.shout import shout

LONGEST_CALL = 20.0  # seconds
ASKED = "hello world"
EXPECTED, COMPLETED = "WORLD! ", "TASK_STATE_COMPLETED"


class Step(NamedTuple):
    title: str
    command: list[str]
    binding: str
    instead: Callable[[Client], Awaitable[str]]  # the same call, where the command's program is not installed
    expected: str


def steps(server: Server) -> list[Step]:
    url, address, said = server.http_url, server.grpc_address, request(ASKED)
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said}
    return [
        Step("The agent card", curl(url + WELL_KNOWN_PATH), HTTP_JSON, _card, "supportedInterfaces"),
        Step("gRPC", grpcurl(address, "SendMessage", said), GRPC, _send, EXPECTED),
        Step("gRPC, streaming", grpcurl(address, "SendStreamingMessage", said), GRPC, _stream, COMPLETED),
        Step("JSON-RPC", curl(url + "/", rpc), JSONRPC, _send, EXPECTED),
        Step("HTTP+JSON", curl(rest_url(url, "send"), said), HTTP_JSON, _send, EXPECTED),
        Step("HTTP+JSON, streaming", curl(rest_url(url, "stream"), said), HTTP_JSON, _stream, COMPLETED),
    ]


async def _card(agent: Client) -> str:
    return MessageToJson(agent.card)


async def _send(agent: Client) -> str:
    return MessageToJson(await agent.send(ASKED))


async def _stream(agent: Client) -> str:
    return "\n".join([MessageToJson(event) async for event in agent.stream(ASKED)])


async def demo() -> int:
    """How many of the calls were not answered as expected."""
    async with Server(shout, http_port=0, grpc_port=0) as server:
        failed = [step.title async for step, answer in _answers(server, steps(server)) if step.expected not in answer]
    print(f"Not as expected: {', '.join(failed)}" if failed else "All bindings answered.")
    return len(failed)


async def _answers(server: Server, todo: Sequence[Step]) -> AsyncIterator[tuple[Step, str]]:
    for step in todo:
        print(f"── {step.title}\n$ {shlex.join(step.command)}", flush=True)
        answer = await _answer(server, step)
        print(f"{answer.strip()}\n", flush=True)
        yield step, answer


async def _answer(server: Server, step: Step) -> str:
    program = _program(step.command[0])
    try:
        async with asyncio.timeout(LONGEST_CALL):
            if program:
                return await _run([program, *step.command[1:]])
            print(f"({step.command[0]} is not installed; the same call from Python)")
            async with connect(server.card, bindings=[step.binding]) as agent:
                return await step.instead(agent)
    except (TimeoutError, OSError, A2AError, ClientError) as error:
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


def main() -> None:
    os.environ |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}  # nothing of this leaves the machine
    sys.exit(1 if asyncio.run(demo()) else 0)


if __name__ == "__main__":
    main()
