"""A status on its way to a gRPC client, cut to what a client with the usual limit on metadata receives."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote as percent_encoded

from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ..context import STATUS_DETAILS, Metadatum, grpc_code
from ..errors import error_info, with_error_info

# Clients accept 8 KiB of metadata. The message is in it twice: percent-encoded by itself, and in the status, as base64.
LARGEST_STATUS = 4000  # bytes
LONGEST_MESSAGE = 1500  # characters, once percent-encoded


async def abort(call: Any, status: Status, trailing: Iterable[Metadatum] = ()) -> None:
    """Ends a grpc.aio call with a status, its details beside it. Raises, as grpc.aio's own `abort` does."""
    fitted = _fitted(status)
    details = Metadatum(STATUS_DETAILS, fitted.SerializeToString())
    await call.abort(grpc_code(status), fitted.message, (*trailing, details))


def _fitted(status: Status) -> Status:
    cut = Status(code=status.code, message=_cut(status.message), details=status.details)
    if cut.ByteSize() <= LARGEST_STATUS:
        return cut
    info = error_info(status)
    short = Status(code=status.code, message=cut.message)
    if info:
        short.details.add().Pack(ErrorInfo(reason=info.reason[:100], domain=info.domain[:100]))
    return with_error_info(short)


def _cut(message: str) -> str:
    message = message[:LONGEST_MESSAGE]
    while len(percent_encoded(message)) > LONGEST_MESSAGE:
        message = message[: len(message) // 2] + "…"
    return message
