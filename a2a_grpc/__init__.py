"""Agent2Agent (A2A) agents as gRPC servicers: one servicer, three bindings, one process."""

from .aiohttp_mount import mount
from .auth import AnyOf, ApiKey, Basic, Bearer
from .caller import Caller
from .card import CardError
from .encoded import Encoded
from .errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InvalidAgentResponseError,
    InvalidParamsError,
    PermissionDeniedError,
    PushNotificationNotSupportedError,
    ResourceExhaustedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
    VersionNotSupportedError,
    Violation,
)
from .mounts import Mount
from .options import TLS, Options
from .ports import PortError
from .running import run, serve
from .server import Server
from .tasks import AgentServicer, Turn, agent

__version__ = "0.1.0"

__all__ = [
    "TLS",
    "A2AError",
    "AgentServicer",
    "AnyOf",
    "ApiKey",
    "Basic",
    "Bearer",
    "Caller",
    "CardError",
    "ContentTypeNotSupportedError",
    "Encoded",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "InvalidAgentResponseError",
    "InvalidParamsError",
    "Mount",
    "Options",
    "PermissionDeniedError",
    "PortError",
    "PushNotificationNotSupportedError",
    "ResourceExhaustedError",
    "Server",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "Turn",
    "UnauthenticatedError",
    "UnsupportedOperationError",
    "VersionNotSupportedError",
    "Violation",
    "agent",
    "mount",
    "run",
    "serve",
]
