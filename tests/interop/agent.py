"""An agent for foreign clients to call: all 11 operations, with answers that never change.

Task "t1" exists and has ended, "t2" waits for input; every other id is unknown. What a message says decides what
happens: see `Catalogue.SendMessage`.
"""

from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InvalidAgentResponseError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from a2a_grpc.generated import a2a_pb2 as a2a
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer

SERVICE = "lf.a2a.v1.A2AService"
ENTERED = Timestamp(seconds=1_767_225_600, nanos=250_000_000)  # 2026-01-01T00:00:00.25Z
WEBHOOK = "https://hooks.example.com/a?b=c&d=%2F"
FAULTS: dict[str, type[A2AError]] = {
    kind.reason: kind
    for kind in (
        TaskNotFoundError,
        TaskNotCancelableError,
        PushNotificationNotSupportedError,
        UnsupportedOperationError,
        ContentTypeNotSupportedError,
        InvalidAgentResponseError,
        ExtendedAgentCardNotConfiguredError,
        ExtensionSupportRequiredError,
        VersionNotSupportedError,
    )
}

CARD = a2a.AgentCard(
    name="Catalogue",
    description="Answers every operation, always in the same way.",
    version="1.0.0",
    capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[a2a.AgentSkill(id="answer", name="Answer", description="Answers.", tags=["test"])],
)


def task(id_: str, context_id: str = "c1") -> a2a.Task:
    """A task with a part of every kind, with numbers and letters that a careless codec would lose."""
    state = a2a.TASK_STATE_COMPLETED if id_ == "t1" else a2a.TASK_STATE_INPUT_REQUIRED
    made = a2a.Task(id=id_, context_id=context_id, status=a2a.TaskStatus(state=state, timestamp=ENTERED))
    parts = [
        a2a.Part(text="héllo ☃ 𝄞 \u2028\n", media_type="text/plain"),
        a2a.Part(raw=b"\x00\xff\xfe?>", filename="a.bin", media_type="application/octet-stream"),
        a2a.Part(url="https://example.com/a.png", metadata={"width": 3, "ratio": 0.1}),
        ParseDict({"data": {"n": None, "list": [1, -0.5, True, ""], "deep": {"empty": {}}}}, a2a.Part()),
    ]
    made.artifacts.add(artifact_id="a1", name="All kinds", parts=parts)
    made.history.add(message_id="m1", role=a2a.ROLE_USER, parts=[a2a.Part(text="go")])
    made.metadata.update({"count": 9007199254740991})
    return made


def webhook(id_: str = "w1", task_id: str = "t1") -> a2a.TaskPushNotificationConfig:
    authentication = a2a.AuthenticationInfo(scheme="Bearer", credentials="abc")
    return a2a.TaskPushNotificationConfig(
        id=id_, task_id=task_id, url=WEBHOOK, token="s3cret", authentication=authentication
    )


def events(id_: str, text: str) -> list[a2a.StreamResponse]:
    """What a stream of task `id_` holds: the task, an artifact in two chunks, the end."""
    working = a2a.Task(id=id_, context_id="c1", status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING, timestamp=ENTERED))
    done = a2a.TaskStatus(state=a2a.TASK_STATE_COMPLETED, timestamp=ENTERED)
    end = a2a.TaskStatusUpdateEvent(task_id=id_, context_id="c1", status=done)
    return [
        a2a.StreamResponse(task=working),
        *(a2a.StreamResponse(artifact_update=_chunk(id_, text, last=last)) for last in (False, True)),
        a2a.StreamResponse(status_update=end),
    ]


def _chunk(id_: str, text: str, *, last: bool) -> a2a.TaskArtifactUpdateEvent:
    artifact = a2a.Artifact(artifact_id="a1", parts=[a2a.Part(text=text)])
    return a2a.TaskArtifactUpdateEvent(task_id=id_, context_id="c1", artifact=artifact, append=last, last_chunk=last)


def text_of(message: a2a.Message) -> str:
    return message.parts[0].text


def reply(message: a2a.Message) -> a2a.Message:
    """The answer to a message: its text in capitals."""
    parts = [a2a.Part(text=text_of(message).upper())]
    return a2a.Message(message_id="r1", context_id="c1", role=a2a.ROLE_AGENT, parts=parts)


def fail(text: str) -> None:
    """Raises the error whose reason the text is."""
    if text == "crash":
        raise RuntimeError("a secret")
    if text in FAULTS:
        raise FAULTS[text]


def known(id_: str) -> str:
    if id_ not in ("t1", "t2"):
        raise TaskNotFoundError(f"No task {id_}", metadata={"taskId": id_})
    return id_


class Catalogue(A2AServiceServicer):
    """The agent."""

    card = CARD

    async def SendMessage(self, request: a2a.SendMessageRequest, context: Any) -> a2a.SendMessageResponse:
        """The text is the reason of an error, `crash`, `task`, or anything, which comes back in capitals."""
        text = text_of(request.message)
        fail(text)
        if text == "task":
            return a2a.SendMessageResponse(task=task("t1"))
        return a2a.SendMessageResponse(message=reply(request.message))

    async def SendStreamingMessage(
        self, request: a2a.SendMessageRequest, context: Any
    ) -> AsyncIterator[a2a.StreamResponse]:
        """As SendMessage; `message` streams one Message, `break REASON` an error after two events."""
        text = text_of(request.message)
        fail(text)
        if text == "message":
            yield a2a.StreamResponse(message=reply(request.message))
            return
        for index, event in enumerate(events("t1", text)):
            if index == 2:
                fail(text.removeprefix("break "))
            yield event

    async def GetTask(self, request: a2a.GetTaskRequest, context: Any) -> a2a.Task:
        found = task(known(request.id))
        if request.HasField("history_length"):
            del found.history[request.history_length :]
        return found

    async def ListTasks(self, request: a2a.ListTasksRequest, context: Any) -> a2a.ListTasksResponse:
        """Tells in ids what was asked for, so that a client sees whether its request arrived whole."""
        after = request.status_timestamp_after.ToJsonString() if request.HasField("status_timestamp_after") else ""
        asked = f"{request.context_id}|{a2a.TaskState.Name(request.status)}|{after}|{request.include_artifacts}"
        tasks = [task("t1"), task("t2")]
        return a2a.ListTasksResponse(
            tasks=tasks, next_page_token=asked, page_size=request.page_size or 50, total_size=2
        )

    async def CancelTask(self, request: a2a.CancelTaskRequest, context: Any) -> a2a.Task:
        if known(request.id) == "t1":
            raise TaskNotCancelableError("Task t1 has ended")
        canceled = task(request.id)
        canceled.status.state = a2a.TASK_STATE_CANCELED
        canceled.metadata.CopyFrom(request.metadata)
        return canceled

    async def SubscribeToTask(
        self, request: a2a.SubscribeToTaskRequest, context: Any
    ) -> AsyncIterator[a2a.StreamResponse]:
        if known(request.id) == "t1":
            raise UnsupportedOperationError("Task t1 has ended")
        for event in events(request.id, "subscribed"):
            yield event

    async def CreateTaskPushNotificationConfig(
        self, request: a2a.TaskPushNotificationConfig, context: Any
    ) -> a2a.TaskPushNotificationConfig:
        known(request.task_id)
        created = a2a.TaskPushNotificationConfig()
        created.CopyFrom(request)
        created.id = request.id or "w1"
        return created

    async def GetTaskPushNotificationConfig(
        self, request: a2a.GetTaskPushNotificationConfigRequest, context: Any
    ) -> a2a.TaskPushNotificationConfig:
        return webhook(request.id, known(request.task_id))

    async def ListTaskPushNotificationConfigs(
        self, request: a2a.ListTaskPushNotificationConfigsRequest, context: Any
    ) -> a2a.ListTaskPushNotificationConfigsResponse:
        configs = [webhook("w1", known(request.task_id)), webhook("w2", request.task_id)]
        return a2a.ListTaskPushNotificationConfigsResponse(configs=configs, next_page_token=request.page_token)

    async def DeleteTaskPushNotificationConfig(
        self, request: a2a.DeleteTaskPushNotificationConfigRequest, context: Any
    ) -> Empty:
        known(request.task_id)
        return Empty()

    async def GetExtendedAgentCard(self, request: a2a.GetExtendedAgentCardRequest, context: Any) -> a2a.AgentCard:
        extended = a2a.AgentCard()
        extended.CopyFrom(CARD)
        extended.name = "Catalogue, extended"
        extended.supported_interfaces.add(url="127.0.0.1:1", protocol_binding="GRPC", protocol_version="1.0")
        return extended
