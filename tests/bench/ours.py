"""Ours: a raw servicer that builds each of its answers, and keeps one task for GetTask."""

from collections.abc import AsyncIterator
from typing import Any

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

from . import messages

KEPT = messages.task(messages.question(messages.QUESTION).message)


class Servicer(a2a_pb2_grpc.A2AServiceServicer):
    async def SendMessage(self, request: a2a_pb2.SendMessageRequest, context: Any) -> a2a_pb2.SendMessageResponse:
        return a2a_pb2.SendMessageResponse(task=messages.task(request.message))

    async def GetTask(self, request: a2a_pb2.GetTaskRequest, context: Any) -> a2a_pb2.Task:
        return KEPT

    async def SendStreamingMessage(
        self, request: a2a_pb2.SendMessageRequest, context: Any
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        for event in messages.events(request.message):
            yield event


async def http(port: int) -> Server:
    return await _started(Server(Servicer(), messages.card(), http_port=port, grpc_port=None))


async def grpc_(port: int) -> Server:
    return await _started(Server(Servicer(), messages.card(), http_port=None, grpc_port=port))


async def _started(server: Server) -> Server:
    await server.start()
    return server
