"""Joker: a raw servicer. It answers with a Message, streams one word at a time, and shows errors.

python -m a2a_grpc.examples.joker
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import grpc.aio

from a2a_grpc import InvalidParamsError, TaskNotFoundError, Violation, run
from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

JOKES = {
    "bug": "Why do programmers prefer dark mode? Because light attracts bugs.",
    "udp": "I would tell you a joke about UDP, but you might not get it.",
    "types": "A string walks into a bar. The bartender says: sorry, integers only.",
}


class Joker(a2a_pb2_grpc.A2AServiceServicer):
    """Send a topic, or nothing in particular. `list` names the topics; `crash` shows what a bug looks like."""

    card = a2a_pb2.AgentCard(
        name="Joker",
        description="Tells a joke about a topic.",
        version="1.0.0",
        capabilities=a2a_pb2.AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            a2a_pb2.AgentSkill(
                id="joke",
                name="Tell a joke",
                description="Tells a joke about bugs, UDP or types.",
                tags=["fun"],
                examples=["Tell me a joke about UDP"],
            )
        ],
    )

    async def SendMessage(
        self, request: a2a_pb2.SendMessageRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> a2a_pb2.SendMessageResponse:
        return a2a_pb2.SendMessageResponse(message=_reply(request.message, _joke(request.message)))

    async def SendStreamingMessage(
        self, request: a2a_pb2.SendMessageRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        """One Task, its words as chunks of an artifact, and its end."""
        words = _joke(request.message).split(" ")
        task = a2a_pb2.Task(id=str(uuid4()), context_id=request.message.context_id or str(uuid4()))
        task.status.state = a2a_pb2.TASK_STATE_WORKING
        yield a2a_pb2.StreamResponse(task=task)
        for index, word in enumerate(words):
            await asyncio.sleep(0.05)
            yield a2a_pb2.StreamResponse(artifact_update=_chunk(task, word, index, last=index == len(words) - 1))
        done = a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_COMPLETED)
        end = a2a_pb2.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=done)
        yield a2a_pb2.StreamResponse(status_update=end)

    async def GetTask(
        self, request: a2a_pb2.GetTaskRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> a2a_pb2.Task:
        raise TaskNotFoundError("The joker keeps no tasks", metadata={"taskId": request.id})


def _joke(message: a2a_pb2.Message) -> str:
    text = " ".join(part.text for part in message.parts).lower()
    if not text.strip():
        raise InvalidParamsError([Violation("message.parts", "say what the joke should be about, as text")])
    if text == "crash":
        raise RuntimeError("this text stays in the log; the caller gets a reference id")
    if text == "list":
        return ", ".join(JOKES)
    return next((joke for topic, joke in JOKES.items() if topic in text), JOKES["bug"])


def _reply(message: a2a_pb2.Message, text: str) -> a2a_pb2.Message:
    return a2a_pb2.Message(
        message_id=str(uuid4()),
        context_id=message.context_id or str(uuid4()),
        role=a2a_pb2.ROLE_AGENT,
        parts=[a2a_pb2.Part(text=text)],
    )


def _chunk(task: a2a_pb2.Task, word: str, index: int, *, last: bool) -> a2a_pb2.TaskArtifactUpdateEvent:
    return a2a_pb2.TaskArtifactUpdateEvent(
        task_id=task.id,
        context_id=task.context_id,
        artifact=a2a_pb2.Artifact(artifact_id="joke", parts=[a2a_pb2.Part(text=word if last else f"{word} ")]),
        append=index > 0,
        last_chunk=last,
    )


if __name__ == "__main__":
    run(Joker())
