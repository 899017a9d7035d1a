"""A client that has nothing but what reflection told: code that protoc generates from it, in a process without us."""

import json
import sys
from pathlib import Path

import pytest

from a2a_grpc import Server
from tests.interop.agent import SERVICE
from tests.interop.peer import program, run, succeeded

CLIENT = """
import json, os, sys

sys.modules["a2a_grpc"] = sys.modules["a2a"] = None  # importing them fails
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import grpc
import a2a_pb2 as a2a
import a2a_pb2_grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = a2a_pb2_grpc.A2AServiceStub(channel)
    message = a2a.Message(message_id="m1", role=a2a.ROLE_USER, parts=[a2a.Part(text="hello")])
    request = a2a.SendMessageRequest(message=message)
    sent = stub.SendMessage(request, timeout=10)
    streamed = list(stub.SendStreamingMessage(request, timeout=10))
    try:
        stub.GetTask(a2a.GetTaskRequest(id="t9"), timeout=10)
        code = None
    except grpc.RpcError as error:
        code = error.code().name

json.dump(
    {
        "reply": sent.message.parts[0].text,
        "payloads": [event.WhichOneof("payload") for event in streamed],
        "last": a2a.TaskState.Name(streamed[-1].status_update.status.state),
        "code": code,
        "generated": a2a.__file__,
        "ours": sorted(name for name, module in sys.modules.items() if module and name.startswith("a2a")),
    },
    sys.stdout,
)
"""


async def test_client_from_reflection(server: Server, tmp_path: Path) -> None:
    """It sends no metadata at all."""
    await _generate(server, tmp_path)
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    told = json.loads(succeeded(await run(sys.executable, "-I", str(client), server.grpc_address, cwd=tmp_path)))
    assert told == {
        "reply": "HELLO",
        "payloads": ["task", "artifact_update", "artifact_update", "status_update"],
        "last": "TASK_STATE_COMPLETED",
        "code": "NOT_FOUND",
        "generated": str(tmp_path / "a2a_pb2.py"),
        "ours": ["a2a_pb2", "a2a_pb2_grpc"],
    }


async def _generate(server: Server, folder: Path) -> None:
    """Descriptors by grpcurl, Python by protoc."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    descriptors = str(folder / "a2a.protoset")
    asked = ("-plaintext", "-protoset-out", descriptors, server.grpc_address, "describe", SERVICE)
    succeeded(await run(program("grpcurl"), *asked))
    protoc = (sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={descriptors}")
    succeeded(await run(*protoc, "--python_out=.", "--grpc_python_out=.", "a2a.proto", cwd=folder))
