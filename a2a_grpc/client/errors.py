"""What a client raises besides the errors of the protocol, and which of them may pass."""

from typing import NamedTuple

from google.protobuf.message import Message
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo

from ..errors import A2AError, InvalidAgentResponseError, UnavailableError, code_name

INTERNAL = -32603  # the JSON-RPC code of an error that has none of its own


class ClientError(Exception):
    """What a client finds out by itself."""


class ConnectError(ClientError):
    """There is no connection, or it broke. `sent` is False where the request certainly never left."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class StreamBrokenError(ClientError):
    """A stream ended before its task did, and what became of the task could not be found out. "" is no known task."""

    def __init__(self, task_id: str, message: str = "the stream ended early") -> None:
        super().__init__(f"{message} (task {task_id})" if task_id else message)
        self.task_id = task_id


class RemoteError(A2AError):
    """An error that has no class here. `domain` is that of its ErrorInfo, "" where it has none.

    `code` is the gRPC code; `http_status` that of the response, where there was one.
    """

    received = True

    def __init__(self, fault: "Fault") -> None:
        super().__init__(fault.message, metadata=dict(fault.info.metadata) if fault.info else {}, details=fault.details)
        self.domain: str = fault.info.domain if fault.info else ""
        self.__dict__.update(
            code=fault.code,
            reason=fault.info.reason if fault.info else code_name(fault.code),
            jsonrpc_code=fault.jsonrpc_code or INTERNAL,
            http_status=fault.http_status,
        )

    def __str__(self) -> str:
        return f"{self.message} ({self.reason})"


class Fault(NamedTuple):
    """An error as it came, from any transport. `details` are those after ErrorInfo."""

    code: int
    message: str
    info: ErrorInfo | None = None
    details: tuple[Message, ...] = ()
    jsonrpc_code: int | None = None
    http_status: int | None = None


_DEFINITE = (404, 405, *range(300, 400))  # HTTP statuses that are the same next time


def is_broken(failed: Exception) -> bool:
    """Whether what came is no answer of the agent's, or none that can be read, so that a read may be tried again."""
    if isinstance(failed, RemoteError):
        answered = failed.domain or failed.jsonrpc_code != INTERNAL or failed.http_status in _DEFINITE
        return not answered and failed.code in (code_pb2.UNKNOWN, code_pb2.INTERNAL)
    return isinstance(failed, ConnectError | UnavailableError | InvalidAgentResponseError)


def retry_delay(failed: Exception) -> float:
    """Seconds that the server asks to wait; 0 where it does not say."""
    details = failed.details if isinstance(failed, A2AError) else ()
    found = next((d.retry_delay for d in details if isinstance(d, RetryInfo)), None)
    return found.seconds + found.nanos / 1e9 if found else 0.0
