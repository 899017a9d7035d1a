"""The agent of ours: a raw servicer. Its messages are made beforehand, so that what is measured is their way out,
which every message goes anew.
"""

from collections.abc import AsyncIterator
from typing import Any

from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

from . import messages

KEPT = messages.task(messages.question(messages.QUESTION).message)
SENT = a2a_pb2.SendMessageResponse(task=KEPT)
EVENTS = list(messages.events(messages.question(messages.IN_PIECES).message))


class Servicer(a2a_pb2_grpc.A2AServiceServicer):
    async def SendMessage(self, request: a2a_pb2.SendMessageRequest, context: Any) -> a2a_pb2.SendMessageResponse:
        return SENT

    async def GetTask(self, request: a2a_pb2.GetTaskRequest, context: Any) -> a2a_pb2.Task:
        return KEPT

    async def SendStreamingMessage(
        self, request: a2a_pb2.SendMessageRequest, context: Any
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        for event in EVENTS:
            yield event
