from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf import empty_pb2

from . import a2a_pb2

class A2AServiceStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    SendMessage: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.SendMessageRequest, a2a_pb2.SendMessageResponse]
    SendStreamingMessage: grpc.aio.UnaryStreamMultiCallable[a2a_pb2.SendMessageRequest, a2a_pb2.StreamResponse]
    GetTask: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.GetTaskRequest, a2a_pb2.Task]
    ListTasks: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.ListTasksRequest, a2a_pb2.ListTasksResponse]
    CancelTask: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.CancelTaskRequest, a2a_pb2.Task]
    SubscribeToTask: grpc.aio.UnaryStreamMultiCallable[a2a_pb2.SubscribeToTaskRequest, a2a_pb2.StreamResponse]
    CreateTaskPushNotificationConfig: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.TaskPushNotificationConfig, a2a_pb2.TaskPushNotificationConfig]
    GetTaskPushNotificationConfig: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.GetTaskPushNotificationConfigRequest, a2a_pb2.TaskPushNotificationConfig]
    ListTaskPushNotificationConfigs: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.ListTaskPushNotificationConfigsRequest, a2a_pb2.ListTaskPushNotificationConfigsResponse]
    GetExtendedAgentCard: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.GetExtendedAgentCardRequest, a2a_pb2.AgentCard]
    DeleteTaskPushNotificationConfig: grpc.aio.UnaryUnaryMultiCallable[a2a_pb2.DeleteTaskPushNotificationConfigRequest, empty_pb2.Empty]

class A2AServiceServicer:
    def SendMessage(
        self, request: a2a_pb2.SendMessageRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.SendMessageResponse] | a2a_pb2.SendMessageResponse: ...
    def SendStreamingMessage(
        self, request: a2a_pb2.SendMessageRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[a2a_pb2.StreamResponse] | Iterator[a2a_pb2.StreamResponse] | Awaitable[None]: ...
    def GetTask(
        self, request: a2a_pb2.GetTaskRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.Task] | a2a_pb2.Task: ...
    def ListTasks(
        self, request: a2a_pb2.ListTasksRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.ListTasksResponse] | a2a_pb2.ListTasksResponse: ...
    def CancelTask(
        self, request: a2a_pb2.CancelTaskRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.Task] | a2a_pb2.Task: ...
    def SubscribeToTask(
        self, request: a2a_pb2.SubscribeToTaskRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[a2a_pb2.StreamResponse] | Iterator[a2a_pb2.StreamResponse] | Awaitable[None]: ...
    def CreateTaskPushNotificationConfig(
        self, request: a2a_pb2.TaskPushNotificationConfig, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.TaskPushNotificationConfig] | a2a_pb2.TaskPushNotificationConfig: ...
    def GetTaskPushNotificationConfig(
        self, request: a2a_pb2.GetTaskPushNotificationConfigRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.TaskPushNotificationConfig] | a2a_pb2.TaskPushNotificationConfig: ...
    def ListTaskPushNotificationConfigs(
        self, request: a2a_pb2.ListTaskPushNotificationConfigsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.ListTaskPushNotificationConfigsResponse] | a2a_pb2.ListTaskPushNotificationConfigsResponse: ...
    def GetExtendedAgentCard(
        self, request: a2a_pb2.GetExtendedAgentCardRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[a2a_pb2.AgentCard] | a2a_pb2.AgentCard: ...
    def DeleteTaskPushNotificationConfig(
        self, request: a2a_pb2.DeleteTaskPushNotificationConfigRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> Awaitable[empty_pb2.Empty] | empty_pb2.Empty: ...

def add_A2AServiceServicer_to_server(
    servicer: A2AServiceServicer, server: grpc.Server | grpc.aio.Server
) -> None: ...
