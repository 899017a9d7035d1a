"""The ProtoJSON codec against google.protobuf.json_format, on a small and on a medium Task.

    python tests/bench/protojson_bench.py              with orjson, if it is installed
    python tests/bench/protojson_bench.py --no-orjson  with the standard library's json

Contestants take turns, and the least CPU time of many turns counts, so that other work on the machine does not.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

if "--no-orjson" in sys.argv:
    sys.modules["orjson"] = None  # type: ignore[assignment]
sys.path.insert(0, str(Path(__file__).parents[2]))

from google.protobuf import json_format

from a2a_grpc.bindings.protojson import from_json, loads, to_json
from a2a_grpc.bindings.protojson import text as json_text
from a2a_grpc.generated import a2a_pb2

ROUNDS = 40
TURN = 0.01  # seconds
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
TEXT = "Hello from the benchmark agent: a short, plain answer of about eighty characters."
GOALS = {"parse": 4.0, "print": 3.0 if json_text.orjson else 2.2}


def small_task() -> a2a_pb2.Task:
    """One artifact, one message, a timestamp."""
    task = a2a_pb2.Task(
        id=UUID,
        context_id=UUID,
        status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_COMPLETED),
        artifacts=[a2a_pb2.Artifact(artifact_id=UUID, name="response", parts=[a2a_pb2.Part(text=TEXT)])],
        history=[a2a_pb2.Message(message_id=UUID, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text="direct")])],
    )
    task.status.timestamp.FromJsonString("2026-01-02T03:04:05.678901Z")
    return task


def medium_task() -> a2a_pb2.Task:
    """Ten artifacts, each with metadata, a text and a data part; ten messages with metadata."""
    task = small_task()
    for n in range(9):
        artifact = task.artifacts.add(artifact_id=UUID, name=f"artifact {n}", parts=[a2a_pb2.Part(text=TEXT)])
        artifact.metadata.update({"n": n, "source": "unit", "tags": ["a", "b"], "final": True, "score": n / 7})
        rows = [{"id": row, "name": f"row {row}", "ratio": row / 7} for row in range(2)]
        artifact.parts.add(media_type="application/json").data.struct_value.update({"rows": rows, "total": 2})
        message = task.history.add(message_id=UUID, context_id=UUID, role=1 + n % 2, parts=[a2a_pb2.Part(text=TEXT)])
        message.metadata.update({"turn": n, "language": "en"})
    return task


def cpu_us(call: Callable[[], object], turns: int) -> float:
    started = time.thread_time()
    for _ in range(turns):
        call()
    return (time.thread_time() - started) / turns * 1e6


def fastest(*calls: Callable[[], object]) -> list[float]:
    turns = [max(1, int(TURN * 1e6 / cpu_us(call, 20))) for call in calls]
    rounds = [[cpu_us(call, n) for call, n in zip(calls, turns, strict=True)] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def contestants(task: a2a_pb2.Task, text: bytes) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    return {
        "parse": (lambda: json_format.Parse(text, a2a_pb2.Task()), lambda: from_json(a2a_pb2.Task, loads(text))),
        "print": (lambda: json_format.MessageToJson(task, indent=None), lambda: to_json(task)),
    }


def main() -> None:
    print(f"reader: {'orjson' if json_text.orjson else 'json'}")
    print(f"{'':14}{'bytes':>7}{'json_format us':>16}{'ours us':>10}{'ratio':>8}{'goal':>7}")
    for name, task in (("small", small_task()), ("medium", medium_task())):
        text = to_json(task)
        for what, pair in contestants(task, text).items():
            theirs, ours = fastest(*pair)
            row = f"{theirs:16.1f}{ours:10.1f}{theirs / ours:8.1f}{GOALS[what]:7.1f}"
            print(f"{name} {what:{13 - len(name)}}{len(text):7}{row}")


if __name__ == "__main__":
    main()
