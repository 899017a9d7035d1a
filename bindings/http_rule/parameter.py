"""One field of a request as text: named in a query or a path, and read into what JSON would hold in its place."""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ..protojson.fields import fields_by_name, is_repeated
from .binding import fields_within

ALIASES = {"lastUpdatedAfter": "status_timestamp_after"}
"""Other names that clients send, for requests that have the field."""

LONGEST_NAME = 128  # a longer one is no field's, and not worth remembering


class Parameter(NamedTuple):
    """`steps` are the names that lead to the field, each as in the .proto file and as in JSON, which `path` joins."""

    path: str
    steps: tuple[tuple[str, str], ...]
    repeated: bool
    listed: bool
    read: Callable[[str], Any]

    def value(self, texts: list[str]) -> Any:
        """The last text of a single field; all of a repeated one, and for numbers and enums comma lists too."""
        if not self.repeated:
            return self.read(texts[-1])
        if self.listed:
            texts = [part for text in texts for part in text.split(",") if part]
        return [self.read(text) for text in texts]


@lru_cache(512)
def parameter(request: Descriptor, name: str) -> Parameter | None:
    """The field of a dotted name, in either spelling; None where there is no such field.

    A name goes on only into single messages, and not into well-known types, which have a JSON form of their own.
    """
    message: Descriptor | None = request
    fields: list[FieldDescriptor] = []
    for part in name.split("."):
        field = _names(message).get(part) if message else None
        if field is None:
            return None
        fields.append(field)
        message = fields_within(field)
    steps = tuple((f.name, f.json_name) for f in fields)
    path = ".".join(f.json_name for f in fields)
    return Parameter(path, steps, is_repeated(fields[-1]), _may_be_listed(fields[-1]), _reader(fields[-1]))


@cache
def _names(message: Descriptor) -> dict[str, FieldDescriptor]:
    fields = fields_by_name(message)
    return {alias: fields[name] for alias, name in ALIASES.items() if name in fields} | fields


BOOLS = {"true": True, "1": True, "false": False, "0": False}

_NUMBER = re.compile(r"-?[0-9]{1,10}")
_SPACE_FOR_PLUS = re.compile(r" (?=[0-9]{2}:?[0-9]{2}$)")
_MAY_HOLD_COMMAS = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_BOOL})


def _may_be_listed(field: FieldDescriptor) -> bool:
    return field.message_type is None and field.type not in _MAY_HOLD_COMMAS


def _reader(field: FieldDescriptor) -> Callable[[str], Any]:
    """A text that fits nothing stays as it is, for the parser to refuse."""
    held = field.message_type
    if held is None:
        return _READERS.get(field.type, str)
    return _timestamp if held.full_name == "google.protobuf.Timestamp" else str


def _timestamp(text: str) -> str:
    """With the plus of its offset, where that was read as a space."""
    return _SPACE_FOR_PLUS.sub("+", text)


_READERS: dict[int, Callable[[str], Any]] = {
    FieldDescriptor.TYPE_BOOL: lambda text: BOOLS.get(text.lower(), text),
    FieldDescriptor.TYPE_ENUM: lambda text: int(text) if _NUMBER.fullmatch(text) else text,
    FieldDescriptor.TYPE_BYTES: lambda text: text.replace(" ", "+"),
}
