"""The generated code: its descriptors, its life beside the official SDK, and what its types catch."""

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor

from a2a_grpc.generated import a2a_pb2, a2a_v0_3_pb2

ROOT = Path(__file__).parents[1]
OURS = {"1.0": "a2a_grpc.generated.a2a_pb2", "0.3": "a2a_grpc.generated.a2a_v0_3_pb2"}
THEIRS = {"1.0": "a2a.types.a2a_pb2", "0.3": "a2a.compat.v0_3.a2a_v0_3_pb2"}

BOTH = """
import importlib, sys
first, second = (importlib.import_module(name) for name in sys.argv[1:])
assert first.DESCRIPTOR.serialized_pb == second.DESCRIPTOR.serialized_pb
made = first.Message(message_id="1", role=first.ROLE_USER)
copied = second.Message()
copied.CopyFrom(made)
assert copied == made and second.Message.FromString(made.SerializeToString()) == made
task = second.Task(id="t", history=[made])
assert first.Task.FromString(task.SerializeToString()).history[0] == made
"""

SERVICER = """
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]
Request = a2a_pb2.SendMessageRequest


class Agent(a2a_pb2_grpc.A2AServiceServicer):
    async def SendMessage(self, request: Request, context: Context) -> a2a_pb2.{answer}:
        return a2a_pb2.{answer}()

    def SendStreamingMessage(self, request: Request, context: Context) -> AsyncIterator[a2a_pb2.{item}]:
        return self._stream()

    async def _stream(self) -> AsyncIterator[a2a_pb2.{item}]:
        yield a2a_pb2.{item}()
"""


@pytest.mark.parametrize(
    ("file", "size", "digest"),
    [
        (a2a_pb2.DESCRIPTOR, 12005, "2e6ebfecf20eb1004cb76f3029e3cd93761447cf80aebf99fc1b76794f1b1cfb"),
        (a2a_v0_3_pb2.DESCRIPTOR, 9842, "b98d9d2041614df28a7d015abffcc3573a9ab45ca077fc079f060935b6a8eb84"),
    ],
    ids=["1.0", "0.3"],
)
def test_descriptor_is_byte_equal_to_the_one_that_others_register(file: FileDescriptor, size: int, digest: str) -> None:
    assert (len(file.serialized_pb), hashlib.sha256(file.serialized_pb).hexdigest()) == (size, digest)


@pytest.mark.parametrize("version", OURS)
@pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])
def test_lives_in_one_process_with_the_official_sdk(version: str, ours_first: bool) -> None:
    pytest.importorskip("a2a")
    names = [OURS[version], THEIRS[version]]
    _python("-c", BOTH, *(names if ours_first else names[::-1]))


def test_both_versions_live_in_one_process() -> None:
    _python("-W", "error", "-c", f"import {OURS['1.0']}, {OURS['0.3']}")


def test_mypy_accepts_a_servicer_and_refuses_wrong_answers(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(SERVICER.format(answer="SendMessageResponse", item="StreamResponse"))
    wrong.write_text(SERVICER.format(answer="Task", item="Message"))
    checked = _run("-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", str(right), str(wrong))
    errors = [line for line in checked.stdout.splitlines() if " error: " in line]
    assert {line.partition(":")[0].rpartition("/")[2] for line in errors} == {"wrong.py"}, (
        checked.stdout + checked.stderr
    )
    assert [line.count("[override]") for line in errors] == [1, 1], checked.stdout


def _python(*arguments: str) -> None:
    ended = _run(*arguments)
    assert ended.returncode == 0, ended.stderr


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_messages_can_be_pickled() -> None:
    task = a2a_pb2.Task(id="T1")
    assert a2a_pb2.Task.__module__ == "a2a_grpc.generated.a2a_pb2"
    assert pickle.loads(pickle.dumps(task)) == task
