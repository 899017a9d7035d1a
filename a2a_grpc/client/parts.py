"""What a message is made of: text, files, data."""

import json
from collections.abc import Mapping, Sequence
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from uuid import uuid4

from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.struct_pb2 import Struct, Value

from ..bindings.protojson import from_json
from ..generated.a2a_pb2 import ROLE_USER, Message, Part

Content = str | bytes | Path | Part | Message | Mapping[str, Any] | Sequence[Any]
"""A message, or what its parts are made of: text, a file's bytes or path, a Part, JSON data, or a list with Parts."""


def text(content: str, *, media_type: str = "") -> Part:
    return Part(text=content, media_type=media_type)


def file(content: bytes | Path | str, *, media_type: str = "", filename: str = "") -> Part:
    """A file by its bytes, or by its path (read at once); what is not given is guessed from its name."""
    if not isinstance(content, bytes):
        path = Path(content)
        content, filename = path.read_bytes(), filename or path.name
    media_type = media_type or guess_type(filename)[0] or "application/octet-stream"
    return Part(raw=content, media_type=media_type, filename=filename)


def file_url(url: str, *, media_type: str = "", filename: str = "") -> Part:
    """A file that the agent fetches by itself."""
    return Part(url=url, media_type=media_type or guess_type(url)[0] or "", filename=filename)


def data(value: Any) -> Part:
    """Any JSON value. Raises TypeError or ValueError for what is none."""
    plain = json.loads(json.dumps(value, allow_nan=False))
    return Part(data=from_json(Value, plain), media_type="application/json")


def part(content: Content) -> Part:
    if isinstance(content, Part):
        return content
    if isinstance(content, ProtobufMessage):
        raise TypeError(f"a {type(content).__name__} is not a part of a message; give its parts, or its message")
    if content is None:
        raise TypeError("None is no content; for JSON's null give parts.data(None)")
    if isinstance(content, Path):
        return file(content)
    if isinstance(content, str):
        return text(content)
    return file(content) if isinstance(content, bytes) else data(content)


def message(
    *content: Content,
    task_id: str = "",
    context_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    reference_task_ids: Sequence[str] = (),
) -> Message:
    """A message of the user, with an id of its own. A list that holds Parts gives several parts, else it is data."""
    made = Message(
        message_id=str(uuid4()),
        role=ROLE_USER,
        task_id=task_id,
        context_id=context_id,
        reference_task_ids=reference_task_ids,
        parts=[part(each) for one in content for each in _spread(one)],
    )
    if metadata is not None:
        made.metadata.CopyFrom(struct(metadata))
    return made


def struct(values: Mapping[str, Any]) -> Struct:
    return from_json(Struct, json.loads(json.dumps(dict(values), allow_nan=False)))


def _spread(content: Content) -> Sequence[Any]:
    if isinstance(content, list | tuple) and any(isinstance(each, Part) for each in content):
        return content
    return [content]
