"""Lab: a raw servicer whose answers are told by the request, so that one scenario can run over every binding."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.empty_pb2 import Empty
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from a2a_grpc import errors
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer

SECRET = "postgres://user:password@db/prod"
caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


def card(**changes: Any) -> pb.AgentCard:
    made = pb.AgentCard(
        name="Lab",
        description="Answers as it is told.",
        version="1.0.0",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[pb.AgentSkill(id="lab", name="Lab", description="Answers as it is told.", tags=["test"])],
    )
    made.capabilities.SetInParent()
    made.MergeFrom(pb.AgentCard(**changes))
    return made


def task(id_: str = "T1", state: int = pb.TASK_STATE_COMPLETED) -> pb.Task:
    made = pb.Task(
        id=id_,
        context_id="C1",
        status=pb.TaskStatus(state=state),
        artifacts=[
            pb.Artifact(artifact_id="A1", name="answer", parts=[pb.Part(text="ä 😀"), pb.Part(raw=b"\x00\xff")])
        ],
    )
    made.status.timestamp.FromJsonString("2026-01-02T03:04:05.678Z")
    made.metadata["count"] = 42
    return made


def message(text: str, **fields: Any) -> pb.Message:
    return pb.Message(message_id="m1", role=pb.ROLE_USER, parts=[pb.Part(text=text)], **fields)


def send(text: str, **fields: Any) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=message(text), **fields)


def reply(text: str) -> pb.Message:
    return pb.Message(message_id="r1", context_id="C1", role=pb.ROLE_AGENT, parts=[pb.Part(text=text)])


def artifact(index: int) -> pb.StreamResponse:
    event = pb.TaskArtifactUpdateEvent(
        task_id="T1", context_id="C1", artifact=pb.Artifact(artifact_id="A1", parts=[pb.Part(text=f"chunk {index}")])
    )
    return pb.StreamResponse(artifact_update=event)


class Lab(A2AServiceServicer):
    """`echo TEXT`, `raise NAME`, `abort CODE`, `crash`, … see `_act`. Keeps what it saw in `seen`."""

    card = card()

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.calls: list[str] = []
        self.closed = asyncio.Event()

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> Any:
        self.seen.append((request, context))
        text = request.message.parts[0].text
        outcome = await _act(text, context)
        return pb.SendMessageResponse(message=reply(text)) if outcome is None else outcome

    async def SendStreamingMessage(self, request: pb.SendMessageRequest, context: Any) -> AsyncIterator[Any]:
        self.seen.append((request, context))
        before, _, text = request.message.parts[0].text.partition(":")
        try:
            for index in range(int(before or 0)):
                yield artifact(index)
            if text == "hold":
                await asyncio.Event().wait()
            if (outcome := await _act(text, context)) is not None:
                yield outcome
        finally:
            self.closed.set()

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        self.seen.append((request, context))
        if request.id == "nope":
            raise errors.TaskNotFoundError(metadata={"taskId": request.id})
        return task(request.id)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        self.seen.append((request, context))
        found = [] if request.context_id == "empty" else [task("T1"), task("T2")]
        return pb.ListTasksResponse(tasks=found, page_size=request.page_size or 50, total_size=len(found))

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Any) -> pb.Task:
        self.seen.append((request, context))
        if request.id == "done":
            raise errors.TaskNotCancelableError(metadata={"taskId": request.id})
        return task(request.id, pb.TASK_STATE_CANCELED)

    async def SubscribeToTask(
        self, request: pb.SubscribeToTaskRequest, context: Any
    ) -> AsyncIterator[pb.StreamResponse]:
        self.seen.append((request, context))
        yield pb.StreamResponse(task=task(request.id, pb.TASK_STATE_WORKING))
        yield artifact(0)

    async def CreateTaskPushNotificationConfig(self, request: Any, context: Any) -> pb.TaskPushNotificationConfig:
        self.seen.append((request, context))
        made = pb.TaskPushNotificationConfig()
        made.CopyFrom(request)
        made.id = request.id or "P1"
        return made

    async def GetTaskPushNotificationConfig(self, request: Any, context: Any) -> pb.TaskPushNotificationConfig:
        self.seen.append((request, context))
        return pb.TaskPushNotificationConfig(id=request.id, task_id=request.task_id, url="https://example.com/hook")

    async def ListTaskPushNotificationConfigs(
        self, request: Any, context: Any
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        self.seen.append((request, context))
        made = pb.TaskPushNotificationConfig(id="P1", task_id=request.task_id, url="https://example.com/hook")
        return pb.ListTaskPushNotificationConfigsResponse(configs=[made])

    async def DeleteTaskPushNotificationConfig(self, request: Any, context: Any) -> Empty:
        self.seen.append((request, context))
        return Empty()

    async def GetExtendedAgentCard(self, request: Any, context: Any) -> pb.AgentCard:
        self.seen.append((request, context))
        return card(name="Extended Lab")


class SyncLab(A2AServiceServicer):
    """Synchronous methods, which run in threads."""

    card = card()

    def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        text = request.message.parts[0].text
        if text == "abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "aborted in a thread")
        return pb.SendMessageResponse(message=reply(caller.get()))

    def SendStreamingMessage(self, request: pb.SendMessageRequest, context: Any) -> Iterator[pb.StreamResponse]:
        yield artifact(0)
        yield pb.StreamResponse(message=reply(caller.get()))


class WritingLab(A2AServiceServicer):
    """A streaming method written as a coroutine."""

    card = card()

    async def SendStreamingMessage(self, request: pb.SendMessageRequest, context: Any) -> None:
        await context.write(artifact(0))
        await context.write(pb.StreamResponse(message=reply(caller.get())))


async def _act(text: str, context: Any) -> Any:
    what, _, argument = text.partition(" ")
    action = _ACTIONS.get(what)
    return await action(argument, context) if action else None


async def _raise(name: str, _: Any) -> None:
    kind = getattr(errors, name)
    raise kind([errors.Violation("message.parts[0].media_type", "is odd")]) if name == "InvalidParamsError" else kind()


async def _crash(_: str, __: Any) -> None:
    raise RuntimeError(SECRET)


async def _abort(name: str, context: Any) -> None:
    await context.abort(grpc.StatusCode[name], f"aborted with {name}")


async def _abort_with_status(reason: str, context: Any) -> None:
    status = Status(code=Code.FAILED_PRECONDITION, message="by hand")
    status.details.add().Pack(ErrorInfo(reason=reason, domain="example.com", metadata={"k": "v"}))
    await context.abort_with_status(_RpcStatus(status))


class _RpcStatus(grpc.Status):
    def __init__(self, status: Status) -> None:
        self.code, self.details = grpc.StatusCode.FAILED_PRECONDITION, status.message
        self.trailing_metadata = (("grpc-status-details-bin", status.SerializeToString()),)


async def _set_code(name: str, context: Any) -> Any:
    context.set_code(grpc.StatusCode[name])
    context.set_details(f"set to {name}")


async def _swallowed_abort(name: str, context: Any) -> Any:
    try:
        await _abort(name, context)
    except Exception:
        return pb.SendMessageResponse(message=reply("swallowed"))


async def _wrong_type(_: str, __: Any) -> Any:
    return task()


async def _none(_: str, context: Any) -> Any:
    raise NotImplementedError


async def _metadata(_: str, context: Any) -> Any:
    await context.send_initial_metadata((("x-initial", "1"),))
    context.set_trailing_metadata((("x-trailing", "2"), ("x-bytes-bin", b"\x00")))


async def _caller(_: str, __: Any) -> Any:
    return pb.SendMessageResponse(message=reply(caller.get()))


async def _caller_event(_: str, __: Any) -> Any:
    return pb.StreamResponse(message=reply(caller.get()))


_ACTIONS = {
    "raise": _raise,
    "crash": _crash,
    "abort": _abort,
    "abort_with_status": _abort_with_status,
    "set_code": _set_code,
    "swallowed_abort": _swallowed_abort,
    "wrong_type": _wrong_type,
    "not_implemented": _none,
    "metadata": _metadata,
    "caller": _caller,
    "caller_event": _caller_event,
}
