"""A status for one who writes JSON: fields by their JSON names, with near misses, and details in ProtoJSON."""

import base64
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status

from ..errors import LONGEST_QUOTE, detail, nearest, quote
from .protojson.fields import fields_by_name

MOST_UNKNOWN = 32  # unknown names that are looked at; a hostile object must not cost more than a misspelt one

_STEP = re.compile(r"(\w+)(?:\[(\d{1,9})\])?", re.ASCII)
_SNAKE = re.compile(r'"[^"]*"|_([a-z0-9])')  # what is quoted is the key of a map


def in_json(status: Status, request: Descriptor | None = None, value: Any = None, hint: str = "") -> Status:
    """The status with its `BadRequest` in JSON names, in the details and in the message.

    Of a field that is missing in `value`, from which `request` was read, it tells what is there under a similar name.
    The hint is added to the message of what has a `BadRequest` only.
    """
    bad = detail(status, BadRequest)
    if bad is None:
        return status
    told = Status(code=status.code, message=status.message, details=status.details)
    for violation in bad.field_violations:
        before = f"{violation.field}: {violation.description}"
        violation.description += _near_miss(request, value, violation.field)
        violation.field = _SNAKE.sub(lambda m: m[1].upper() if m[1] else m[0], violation.field)
        told.message = told.message.replace(before, f"{violation.field}: {violation.description}", 1)
    told.message += hint and f"; {hint}"
    for packed in told.details:
        if packed.Is(BadRequest.DESCRIPTOR):
            packed.Pack(bad)
    return told


def details(status: Status) -> list[Any]:
    """Its details as JSON objects with an `@type`. Of what this program cannot read, the bytes as `value`."""
    return [_detail(packed) for packed in status.details]


def _detail(packed: AnyMessage) -> Any:
    try:
        return json_format.MessageToDict(packed)
    except (json_format.Error, DecodeError, TypeError, ValueError, RecursionError):
        return {"@type": packed.type_url, "value": base64.b64encode(packed.value).decode()}


def _near_miss(request: Descriptor | None, value: Any, path: str) -> str:
    """Names the unknown member that stands where the field of a path is missing; "" where there is none."""
    try:
        kind, members, missing = _place(request, value, path)
    except (AttributeError, LookupError, TypeError):  # no path in this message, or nothing in this JSON
        return ""
    known = fields_by_name(kind)
    unknown = list(islice((name for name in members if name not in known and len(name) <= LONGEST_QUOTE), MOST_UNKNOWN))
    for field in missing:
        if near := nearest(field.json_name, unknown):
            return f"; did you mean {field.json_name}? the request has {quote(near)}"
    return ""


def _place(kind: Any, value: Any, path: str) -> tuple[Descriptor, Iterable[str], list[FieldDescriptor]]:
    """An object, its members and the fields it misses: one on the path, or else all those of which it needs one."""
    for step in path.split("."):
        name, index = _STEP.fullmatch(step).groups()  # type: ignore[union-attr]
        field = kind.fields_by_name[name]
        found = value.get(field.json_name, value.get(name))
        if found is None:
            return kind, value.keys(), [field]
        value = found[int(index)] if index else found
        kind = field.message_type
    choices = [oneof.fields for oneof in kind.oneofs if len(oneof.fields) > 1]
    members = value.keys()
    return kind, members, [f for fields in choices if not members & {f.json_name for f in fields} for f in fields]
