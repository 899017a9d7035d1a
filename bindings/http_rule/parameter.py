"""One field of a request as text in a query, and what JSON would hold in its place."""

import re
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ..protojson.fields import fields_by_name

ALIASES = {"lastUpdatedAfter": "status_timestamp_after"}
"""Other names that clients send, for requests that have the field."""

BOOLS = {"true": True, "1": True, "false": False, "0": False}

_NUMBER = re.compile(r"-?[0-9]{1,10}")
_SPACE_FOR_PLUS = re.compile(r" (?=[0-9]{2}:?[0-9]{2}$)")


def parameter(request: Descriptor, name: str) -> FieldDescriptor | None:
    """The field of a name, in either spelling; None where there is no such field."""
    return _names(request).get(name)


@cache
def _names(request: Descriptor) -> dict[str, FieldDescriptor]:
    fields = fields_by_name(request)
    return {alias: fields[name] for alias, name in ALIASES.items() if name in fields} | fields


def value(field: FieldDescriptor, text: str) -> Any:
    """A text that fits nothing stays as it is, for the parser to refuse."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return BOOLS.get(text.lower(), text)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return int(text) if _NUMBER.fullmatch(text) else text
    if field.message_type is not None:  # a timestamp, with the plus of its offset, where that was read as a space
        return _SPACE_FOR_PLUS.sub("+", text)
    return text
