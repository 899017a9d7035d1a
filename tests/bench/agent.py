"""The agent of ours and of the bare gRPC server: a raw servicer.

It builds the answer to each SendMessage. The task of GetTask and the events of a stream are kept, so that what is
measured is their way from the agent to the wire.
"""

from collections.abc import AsyncIterator
from typing import Any

from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

from . import messages

KEPT = messages.task(messages.question(messages.QUESTION).message)
EVENTS = list(messages.events(messages.question(messages.IN_PIECES).message))


class Servicer(a2a_pb2_grpc.A2AServiceServicer):
    async def SendMessage(self, request: a2a_pb2.SendMessageRequest, context: Any) -> a2a_pb2.SendMessageResponse:
        return a2a_pb2.SendMessageResponse(task=messages.task(request.message))

    async def GetTask(self, request: a2a_pb2.GetTaskRequest, context: Any) -> a2a_pb2.Task:
        return KEPT

    async def SendStreamingMessage(
        self, request: a2a_pb2.SendMessageRequest, context: Any
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        for event in EVENTS:
            yield event
