"""Call A2A agents: one API over gRPC, JSON-RPC and HTTP+JSON, chosen from the agent's card."""

from . import parts
from .answer import Answer, TaskFailedError
from .artifacts import Assembly, data_of, text_of
from .cards.cache import CardCache, CardReadError
from .cards.choose import NoInterfaceError
from .client import Client
from .connect import connect
from .credentials.credential import ApiKey, Basic, Bearer, Credential, CredentialsError, Presented
from .credentials.oauth import OAuth2
from .errors import ClientError, ConnectError, RemoteError, StreamBrokenError
from .fan_out import fan_out
from .sending import Sending
from .settings import Call, ClientOptions, ClientTLS, Interceptor
from .sync import SyncClient, connect_sync
from .tool import Tool, as_tool

__all__ = [
    "Answer",
    "ApiKey",
    "Assembly",
    "Basic",
    "Bearer",
    "Call",
    "CardCache",
    "CardReadError",
    "Client",
    "ClientError",
    "ClientOptions",
    "ClientTLS",
    "ConnectError",
    "Credential",
    "CredentialsError",
    "Interceptor",
    "NoInterfaceError",
    "OAuth2",
    "Presented",
    "RemoteError",
    "Sending",
    "StreamBrokenError",
    "SyncClient",
    "TaskFailedError",
    "Tool",
    "as_tool",
    "connect",
    "connect_sync",
    "data_of",
    "fan_out",
    "parts",
    "text_of",
]
