"""A server in a process of its own, so that its memory, its descriptors and its log mean something.

    python -m tests.hostile_server

Prints one JSON line with its ports. For each line on its standard input, prints one JSON line: tasks, descriptors,
resident KiB. Ends with its standard input. Logs to its standard error.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb

sys.path.insert(0, str(Path(__file__).parent))

from lab import SECRET, Lab, artifact, card, reply

CARD = card(capabilities=pb.AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True))
SHORT = {"read_timeout": 0.5, "write_timeout": 5.0, "keepalive": 0.2, "shutdown_deadline": 2.0}


class Target(Lab):
    """Answers whatever it is asked and remembers nothing; nothing that it does is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = deque(maxlen=0)  # type: ignore[assignment]
        self.secret = SECRET

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        return pb.SendMessageResponse(message=reply(request.message.parts[0].text))

    async def SendStreamingMessage(self, request: pb.SendMessageRequest, context: Any) -> AsyncIterator[Any]:
        for index in range(3):
            yield artifact(index)


async def main() -> None:
    async with Server(Target(), CARD, http_port=0, grpc_port=0, **SHORT) as server:
        _print({"http_port": server.http_port, "grpc_port": server.grpc_port})
        asked = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
        while await asked.readline():
            _print(_state())


def _state() -> dict[str, int]:
    """Memory without what malloc keeps for later."""
    gc.collect()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "tasks": len(asyncio.all_tasks()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "resident": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }


def _print(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(main())
