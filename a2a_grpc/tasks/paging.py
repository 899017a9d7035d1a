"""The pages of a list of tasks: what a request asks for, and the tokens between pages. Pure."""

import base64
import binascii

from ..errors import InvalidParamsError, Violation
from ..generated import a2a_pb2 as pb
from .store import Position, Query

DEFAULT_PAGE = 50


def query(request: pb.ListTasksRequest) -> Query:
    """Raises InvalidParamsError where the token is none."""
    size = request.page_size if request.HasField("page_size") else DEFAULT_PAGE
    since = request.status_timestamp_after.ToNanoseconds() if request.HasField("status_timestamp_after") else 0
    return Query(size, request.context_id, request.status, since, _position(request.page_token))


def token(position: Position | None) -> str:
    if position is None:
        return ""
    return base64.urlsafe_b64encode(f"{position.timestamp}:{position.id}".encode()).decode().rstrip("=")


def _position(token: str) -> Position | None:
    """Where a page begins. The token holds what the list is ordered by, so it survives changes (X-LIST-5)."""
    if not token:
        return None
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode()
        timestamp, id = text.split(":", 1)
        return Position(int(timestamp), id)
    except (binascii.Error, ValueError):
        wrong = Violation("page_token", "is not a nextPageToken of an earlier page")
        raise InvalidParamsError([wrong]) from None
