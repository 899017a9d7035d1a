"""What an agent says, as protobuf: parts, messages and events. Pure.

An event is made by one call of a constructor, of nested mappings: built of messages, each part would be copied once
for each level above it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from ..generated import a2a_pb2 as pb
from .lifecycle import new_id, now

Content = str | bytes | pb.Part | Mapping[str, Any] | Sequence[Any]
"""What parts are made of: text, a file's bytes, a Part, or JSON data."""

Said = Content | pb.Message
"""What the agent says with a status: a part, or a message of its own."""

Metadata = Mapping[str, Any] | None
Ids = Mapping[str, str]
"""Of a task and its context, by the names of the fields that hold them."""

NO_IDS: Ids = {}
NO_PARTS = "an artifact update needs at least one part"


def part(content: Content) -> pb.Part:
    """A part of text, bytes, JSON data, or as it is."""
    made = loose_part(content)
    return made if isinstance(made, pb.Part) else pb.Part(**made)


def loose_part(content: Content) -> pb.Part | dict[str, Any]:
    """A part, or its fields: what becomes a part of something else."""
    if isinstance(content, str):
        return {"text": content}
    if isinstance(content, bytes):
        return {"raw": content}
    if not isinstance(content, pb.Part):
        data = ParseDict(json.loads(json.dumps(content)), Value())
        return {"data": data, "media_type": "application/json"}
    if content.WhichOneof("content") is None:
        raise ValueError("a part holds nothing; set one of text, raw, url, data")
    return content


def agent_message(content: Said, ids: Ids = NO_IDS) -> pb.Message:
    """A message of the agent; what its author left empty is filled in."""
    made = pb.Message()
    if isinstance(content, pb.Message):
        made.CopyFrom(content)
    else:
        made.parts.append(part(content))
    return _of_agent(made, ids)


def struct(metadata: Metadata) -> Struct | None:
    return None if metadata is None else ParseDict(dict(metadata), Struct())


def status_event(ids: Ids, state: int, content: Said | None = None, metadata: Metadata = None) -> pb.StreamResponse:
    status: dict[str, Any] = {"state": state, "timestamp": now()}
    if content is not None:
        status["message"] = agent_message(content, ids)
    return pb.StreamResponse(status_update={**ids, "status": status, "metadata": struct(metadata)})


def artifact_event(ids: Ids, artifact: Mapping[str, Any]) -> pb.StreamResponse:
    """An update with an artifact of these fields."""
    return pb.StreamResponse(artifact_update={**ids, "artifact": artifact})


def raw_event(
    ids: Ids, event: pb.StreamResponse | pb.TaskStatusUpdateEvent | pb.TaskArtifactUpdateEvent
) -> pb.StreamResponse:
    """An event as its author made it, with what is empty filled in. Raises TypeError for what a turn cannot emit."""
    made = _wrapped(event)
    if made.HasField("artifact_update"):
        _complete_artifact(made.artifact_update, ids)
    else:
        _complete_status(made.status_update, ids)
    return made


def _wrapped(event: Any) -> pb.StreamResponse:
    if isinstance(event, pb.TaskStatusUpdateEvent):
        return pb.StreamResponse(status_update=event)
    if isinstance(event, pb.TaskArtifactUpdateEvent):
        return pb.StreamResponse(artifact_update=event)
    if isinstance(event, pb.StreamResponse) and event.WhichOneof("payload") in ("status_update", "artifact_update"):
        return event
    raise TypeError("a turn emits status and artifact updates: the server makes the task, `answer` a message")


def _complete_artifact(update: pb.TaskArtifactUpdateEvent, ids: Ids) -> None:
    if not update.artifact.parts:
        raise ValueError(NO_PARTS)
    _set(update, ids)
    update.artifact.artifact_id = update.artifact.artifact_id or new_id()


def _complete_status(update: pb.TaskStatusUpdateEvent, ids: Ids) -> None:
    _set(update, ids)
    if not update.status.HasField("timestamp"):
        update.status.timestamp.CopyFrom(Timestamp(**now()))
    if update.status.HasField("message"):
        _of_agent(update.status.message, ids)


def _of_agent(message: pb.Message, ids: Ids) -> pb.Message:
    _set(message, ids)
    message.role = pb.ROLE_AGENT
    message.message_id = message.message_id or new_id()
    return message


def _set(message: Any, ids: Ids) -> None:
    for name, id in ids.items():
        setattr(message, name, id)
