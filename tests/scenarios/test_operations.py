"""The eleven operations, the same on every binding."""

from typing import Any

import aiohttp
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from lab import Lab, artifact, card, message, reply, send, task
from wires import All

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.methods import methods

CAPABLE = card(capabilities=pb.AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True))
HOOK = pb.TaskPushNotificationConfig(id="P1", task_id="T1", url="https://example.com/hook")

OPERATIONS = {
    "SendMessage": (send("hi"), [pb.SendMessageResponse(message=reply("hi"))]),
    "SendStreamingMessage": (send("2:"), [artifact(0), artifact(1)]),
    "GetTask": (pb.GetTaskRequest(id="T1", history_length=0), [task()]),
    "ListTasks": (
        pb.ListTasksRequest(context_id="C1", page_size=2, include_artifacts=False, status=pb.TASK_STATE_WORKING),
        [pb.ListTasksResponse(tasks=[task("T1"), task("T2")], page_size=2, total_size=2)],
    ),
    "CancelTask": (pb.CancelTaskRequest(id="T1"), [task("T1", pb.TASK_STATE_CANCELED)]),
    "SubscribeToTask": (
        pb.SubscribeToTaskRequest(id="T1"),
        [pb.StreamResponse(task=task("T1", pb.TASK_STATE_WORKING)), artifact(0)],
    ),
    "CreateTaskPushNotificationConfig": (pb.TaskPushNotificationConfig(task_id="T1", url=HOOK.url), [HOOK]),
    "GetTaskPushNotificationConfig": (pb.GetTaskPushNotificationConfigRequest(task_id="T1", id="P1"), [HOOK]),
    "ListTaskPushNotificationConfigs": (
        pb.ListTaskPushNotificationConfigsRequest(task_id="T1"),
        [pb.ListTaskPushNotificationConfigsResponse(configs=[HOOK])],
    ),
    "DeleteTaskPushNotificationConfig": (pb.DeleteTaskPushNotificationConfigRequest(task_id="T1", id="P1"), [Empty()]),
    "GetExtendedAgentCard": (pb.GetExtendedAgentCardRequest(), [card(name="Extended Lab")]),
}


def test_every_operation_is_here() -> None:
    assert OPERATIONS.keys() == methods().keys()


@pytest.mark.parametrize("method", OPERATIONS)
@pytest.mark.parametrize("tenant", ["", "acme", "a%2Fb"])
async def test_same_request_and_same_answer(method: str, tenant: str) -> None:
    request, expected = OPERATIONS[method]
    asked = type(request)()
    asked.CopyFrom(request)
    asked.tenant = tenant.replace("%2F", "/")
    lab = Lab()
    async with Server(lab, CAPABLE, http_port=0, grpc_port=0) as server, All(server) as every:
        for wire in every.wires:
            sent = {**MessageToDict(asked), "tenant": tenant} if wire.name == "rest" and tenant else asked
            outcome = await wire.call(method, sent)
            assert (outcome.fault, outcome.messages) == (None, _with_tenant(expected, asked)), wire.name
    assert [seen for seen, _ in lab.seen] == [asked] * 3


def _with_tenant(expected: list[Any], request: Any) -> list[Any]:
    """Creating a config answers with the request, tenant included."""
    if type(request) is not pb.TaskPushNotificationConfig:
        return expected
    return [pb.TaskPushNotificationConfig(id="P1", task_id="T1", url=HOOK.url, tenant=request.tenant)]


async def test_a_task_of_awkward_content_is_the_same_everywhere() -> None:
    """ids with colons, slashes and non-ASCII letters: BR-19."""
    lab = Lab()
    async with Server(lab, CAPABLE, http_port=0, grpc_port=0) as server, All(server) as every:
        for wire in every.wires:
            id_ = "urn:task:4%2F2" if wire.name == "rest" else "urn:task:4/2"
            assert (await wire.call("GetTask", {"id": id_})).only == task("urn:task:4/2"), wire.name
            assert (await wire.call("CancelTask", {"id": "näme:x"})).only.id == "näme:x", wire.name


async def test_lists_always_say_their_numbers() -> None:
    """X-LIST-2: tasks, nextPageToken, pageSize and totalSize are in the JSON even when empty."""
    async with Server(Lab(), http_port=0, grpc_port=None) as server, aiohttp.ClientSession() as session:
        async with session.get(f"{server.http_url}/tasks?contextId=empty") as response:
            assert await response.json() == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


async def test_history_length_zero_is_not_unset() -> None:
    """X-HIST-1, BR-21: presence survives every binding."""
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0) as server, All(server) as every:
        await every.call("GetTask", {"id": "T1", "historyLength": 0})
        await every.call("GetTask", {"id": "T1"})
    assert [seen.HasField("history_length") for seen, _ in lab.seen] == [True] * 3 + [False] * 3


async def test_message_with_everything_arrives_whole() -> None:
    lab = Lab()
    full = message("hi", context_id="C9", task_id="T9", extensions=["urn:x"], reference_task_ids=["T0"])
    full.metadata.update({"a": [1, {"b": None}], "ü": "😀"})
    full.parts.add().data.struct_value.update({"x": 1.5})
    full.parts.add().data.null_value = 0
    full.parts.add(raw=b"\x00\x01", media_type="text/plain", filename="f")
    request = pb.SendMessageRequest(message=full)
    request.configuration.accepted_output_modes.append("text/plain")
    request.configuration.return_immediately = True
    async with Server(lab, http_port=0, grpc_port=0) as server, All(server) as every:
        await every.call("SendMessage", request)
    assert [seen for seen, _ in lab.seen] == [request] * 3


async def test_what_a_caller_reads_is_kept_by_no_cache() -> None:
    """X-CARD-5: the extended card may differ from caller to caller; so may tasks."""
    async with Server(Lab(), CAPABLE, http_port=0, grpc_port=None) as server, aiohttp.ClientSession() as session:
        for path in ("/extendedAgentCard", "/tasks/T1"):
            async with session.get(server.http_url + path) as response:
                assert response.status == 200
                assert response.headers["Cache-Control"] == "private, no-store"
