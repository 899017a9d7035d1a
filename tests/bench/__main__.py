"""`python -m tests.bench`: server CPU per request against bare aiohttp and grpc.aio, and against the official SDK.

A server and the load have a core each. In every repetition each contestant of a scenario has its turn, so that a ratio
compares runs that are seconds apart. Read the ratios; the microseconds are those of this machine.
"""

import argparse
import importlib.util
import json
import os
import sys
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple

from google.protobuf.json_format import MessageToDict

from a2a_grpc.generated import a2a_pb2
from a2a_grpc.methods import methods

from . import messages
from .load import Request, load, own_load, probe
from .servers import Process, pin

UNARY_FLIGHT, STREAM_FLIGHT = 32, 8
WARM_UP = 0.3  # seconds
TOLERANCE = 0.02  # of the bytes of all answers, whose texts may differ in length by a digit


class Scenario(NamedTuple):
    """One operation on one binding. Goals: our CPU at most 1 / `of_limit` of the bare server's, and so many times less
    than the peer's, on Python 3.11 and from 3.12 on (where the peer needs no backport of a queue)."""

    binding: str
    operation: str
    of_limit: float
    of_peer: tuple[float, float]


SCENARIOS = {
    "jsonrpc-send": Scenario("jsonrpc", "SendMessage", 0.45, (10, 6)),
    "rest-send": Scenario("rest", "SendMessage", 0.45, (10, 6)),
    "rest-get": Scenario("rest", "GetTask", 0.45, (2.5, 2.5)),
    "grpc-send": Scenario("grpc", "SendMessage", 0.90, (4.5, 3)),
    "grpc-get": Scenario("grpc", "GetTask", 0.90, (1.35, 1.35)),
    "jsonrpc-stream": Scenario("jsonrpc", "SendStreamingMessage", 0.45, (10, 7)),
    "rest-stream": Scenario("rest", "SendStreamingMessage", 0.45, (10, 7)),
    "grpc-stream": Scenario("grpc", "SendStreamingMessage", 0.90, (4.5, 3.2)),
}


def main() -> None:
    given = _arguments()
    cores = sorted(os.sched_getaffinity(0))
    names = ["ours", "bare"] + (["peer"] if _has_peer() else [])
    print(f"Python {sys.version.split()[0]}, CPU time in µs per request, of streams per event: median (min–max)\n")
    print(_row("", *names, *(f"{name} ÷ ours (goal)" for name in names[1:])))
    missed = 0
    for title in given.only or SCENARIOS:
        times = _measured(SCENARIOS[title], names, given, (cores[0], cores[-1]))
        missed += _report(title, times)
    if "peer" not in names:
        print("\nThe official SDK is not installed (a2a-sdk[all], uvloop), so it is not measured.")
    print(f"\n{missed} below their goal" if missed else "\nAll goals are met")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="The benchmark of the servers.")
    parser.add_argument("--reps", type=int, default=5, help="runs of each contestant (default 5)")
    parser.add_argument("--seconds", type=int, default=1, help="length of a run (default 1)")
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), metavar="SCENARIO", help=", ".join(SCENARIOS))
    return parser.parse_args()


def _has_peer() -> bool:
    return all(importlib.util.find_spec(name) for name in ("a2a", "uvicorn", "uvloop", "starlette"))


def _measured(
    scenario: Scenario, names: list[str], given: argparse.Namespace, cores: tuple[int, int]
) -> dict[str, list[float]]:
    """The CPU times of each contestant, in the order of the repetitions."""
    server_core, load_core = cores
    with ExitStack() as stack:
        kind = "grpc_" if scenario.binding == "grpc" else "http"
        servers = [stack.enter_context(Process(name, kind, server_core)) for name in names]
        pin(load_core)
        runs = [_Run(scenario, server) for server in servers]
        for _ in range(given.reps):
            for run in runs:
                run.again(given.seconds)
    return {run.server.name: run.times for run in runs}


class _Run:
    """One contestant in one scenario. Its answer is looked at once, and its size watched from then on."""

    def __init__(self, scenario: Scenario, server: Process) -> None:
        server.wait_until_listening()
        self.server, self.times = server, list[float]()
        streaming = scenario.operation == "SendStreamingMessage"
        self._flight = STREAM_FLIGHT if streaming else UNARY_FLIGHT
        self._events = messages.EVENTS if streaming else 1
        self._request = _request(scenario, _id_of_a_task(scenario.binding, server.port))
        self._size = len(_checked(probe(server.port, self._request), streaming))
        own_load(server.port, self._request, self._flight, WARM_UP)

    def again(self, seconds: int) -> None:
        before = self.server.cpu_seconds()
        done = load(self.server.port, self._request, self._flight, seconds)
        spent = self.server.cpu_seconds() - before
        uncounted = done.size - done.requests * self._size  # what is cut off at the end of a run
        unsure = done.size * TOLERANCE
        if done.errors or not done.requests or not -unsure <= uncounted <= self._flight * self._size + unsure:
            raise RuntimeError(f"{self.server.name}: not the answers of before: {done}, {self._size} bytes each")
        self.times.append(spent / done.requests / self._events * 1e6)


def _request(scenario: Scenario, task_id: str) -> Request:
    method = methods()[scenario.operation]
    text = messages.IN_PIECES if method.streaming else messages.QUESTION
    message = a2a_pb2.GetTaskRequest(id=task_id) if method.name == "GetTask" else messages.question(text)
    params = MessageToDict(message)
    if scenario.binding == "grpc":
        return Request("", method.path, message.SerializeToString(), method.streaming)
    if scenario.binding == "jsonrpc":
        return Request("POST", "/", _json({"jsonrpc": "2.0", "id": 1, "method": method.name, "params": params}))
    if method.name == "GetTask":
        return Request("GET", f"/tasks/{task_id}", b"")
    return Request("POST", "/message:stream" if method.streaming else "/message:send", _json(params))


def _id_of_a_task(binding: str, port: int) -> str:
    """The id of a task that the server has, for GetTask."""
    answer = probe(port, _request(Scenario(binding, "SendMessage", 0, (0, 0)), ""))
    if binding == "grpc":
        return a2a_pb2.SendMessageResponse.FromString(answer[5:]).task.id
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    task_id: str = body.get("result", body)["task"]["id"]
    return task_id


def _checked(answer: bytes, streaming: bool) -> bytes:
    expected = f"piece {messages.CHUNKS - 1:03d}" if streaming else messages.ANSWER
    if answer.count(expected.encode()) != 1:
        raise RuntimeError(f"not the answer that was expected: {answer[-1000:]!r}")
    return answer


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# The table


def _report(title: str, times: dict[str, list[float]]) -> int:
    """Prints a row; the number of goals that are missed."""
    scenario = SCENARIOS[title]
    goals = {"bare": scenario.of_limit, "peer": scenario.of_peer[sys.version_info >= (3, 12)]}
    cells = [f"{median(t):.1f} ({min(t):.1f}–{max(t):.1f})" for t in times.values()]
    missed = 0
    for name in list(times)[1:]:
        ratio = median(theirs / ours for theirs, ours in zip(times[name], times["ours"], strict=True))
        missed += ratio < goals[name]
        cells.append(f"{ratio:.2f} ({goals[name]:g}){'  below' if ratio < goals[name] else ''}")
    print(_row(title, *cells), flush=True)
    return missed


def _row(title: str, *cells: str) -> str:
    return f"{title:15s}" + "".join(f"{cell:>25s}" for cell in cells)


if __name__ == "__main__":
    main()
