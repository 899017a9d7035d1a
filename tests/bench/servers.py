"""The contestants as processes: `python -m tests.bench.servers NAME BINDING PORT` serves one until it is ended.

A contestant is a module of this folder with `http(port)` and `grpc_(port)`, coroutines that listen on 127.0.0.1.
"""

import asyncio
import importlib
import os
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Self

LONGEST_START = 30.0  # seconds


class Process:
    """`with Process("ours", "http", cpu=0) as server`: a contestant, pinned to one core."""

    def __init__(self, name: str, binding: str, cpu: int) -> None:
        self.name, self.port = name, _free_port()
        command = [sys.executable, "-m", "tests.bench.servers", name, binding, str(self.port)]
        pin(cpu)  # a child inherits it
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def wait_until_listening(self) -> None:
        until = time.monotonic() + LONGEST_START
        while not _listens(self.port):
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"the contestant {self.name} did not start")
            time.sleep(0.05)

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far, from the scheduler's own nanoseconds."""
        threads = f"/proc/{self._process.pid}/task"
        return sum(_nanoseconds(f"{threads}/{thread}/schedstat") for thread in os.listdir(threads)) / 1e9


def pin(cpu: int) -> None:
    """This process, and those it starts from now on, to one core."""
    os.sched_setaffinity(0, {cpu})


def _nanoseconds(path: str) -> int:
    with open(path) as file:
        return int(file.read().split()[0])


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


async def _serve(module: Any, binding: str, port: int) -> None:
    kept = await getattr(module, binding)(port)
    await asyncio.Event().wait()
    del kept


def main() -> None:
    name, binding, port = sys.argv[1:]
    module = importlib.import_module(f".{name}", __package__)
    with asyncio.Runner(loop_factory=getattr(module, "LOOPS", {}).get(binding)) as runner:
        runner.run(_serve(module, binding, int(port)))


if __name__ == "__main__":
    main()
