"""Message → JSON value.

To read a field of a message in Python is to make a wrapper object for each submessage, and that is where the time would
go. So a message is serialized, and its wire bytes are walked: for each message type one function
`(data, start, end) → dict` is written and compiled when the type is first printed. It asks for the fields in the order
of their numbers, which is the order they come in. For a message of a string `id` and repeated messages `parts`:

    def read(data, pos, end):
        out = {}
        ...                                             # return if empty, else take the first tag
        while True:
            if tag == 10:
                ...                                     # size and stop, from the bytes at pos
                out["id"] = data[start:pos].decode()
                ...                                     # return at the end, else take the next tag
            if tag == 18:
                items = out.setdefault("parts", [])
                while tag == 18:
                    ...
                    items.append(of_2(data, start, pos))
                    ...
            if tag not in keys:
                ...                                     # skip an unknown field

The bytes are those that `SerializeToString` has just written. So a singular field occurs once, at most one member of a
oneof is there, and a field without presence is there only where it is not the default, which is just ProtoJSON's rule
of what to print.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from textwrap import indent
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ...errors import InvalidAgentResponseError
from .fields import (
    LENGTH,
    VARINT,
    descriptor,
    enum_type,
    is_map,
    is_repeated,
    late,
    message_type,
    read_varint,
    require_form,
    skipped,
    tag,
    varint,
    wire_type,
)
from .wire_values import SPECIAL, Names, Reader, UnprintableError, int32, read_bytes

ALWAYS: dict[str, Callable[[], dict[str, Any]]] = {
    "lf.a2a.v1.ListTasksResponse": lambda: {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0},
}
"""What is printed even when it is empty (spec section 3.1.4), by message type."""


def to_dict(message: Message) -> dict[str, Any]:
    """The JSON object of a message: lowerCamelCase names, enums by name, whole numbers without a fraction.

    Raises InvalidAgentResponseError, with the path, for what JSON cannot say: NaN in a Struct, a time out of range.
    """
    read = _reader(descriptor(message))
    try:
        data = message.SerializeToString()
        return read(data, 0, len(data))  # type: ignore[no-any-return]
    except UnprintableError as error:
        raise InvalidAgentResponseError(str(error)) from None
    except RecursionError:
        raise InvalidAgentResponseError("The response is nested too deeply") from None


@cache
def _reader(kind: Descriptor) -> Reader:
    return SPECIAL.get(kind.full_name) or _compiled(kind)


_READ = """
def read(data, pos, end):
    out = {fresh}
    if pos >= end:
        return out
    {next}
    try:
        while True:
            {fields}
            if tag not in keys:
                {whole_tag}
                pos = skipped(data, pos, tag)
                if pos >= end:
                    return out
                {next}
    except UnprintableError as error:
        error.inside(keys[tag], out)
        raise
"""

_SINGLE = """
if tag == {tag}:
    {take}
    out[{key}] = {value}
    if pos >= end:
        return out
    {next}
"""

_REPEATED = """
if tag == {tag}:
    items = out.setdefault({key}, {empty})
    while tag == {tag}:
        {take}
        items.{add}({value})
        if pos >= end:
            return out
        {next}
"""

# Where all tags of a type are one byte, `pos` stays on the tag; else it is past the tag.
_NARROW = {"next": "tag = data[pos]", "whole_tag": "tag, pos = read_varint(data, pos)", "past": "1"}
_WIDE = {"next": "tag, pos = read_varint(data, pos)", "whole_tag": "", "past": "0"}

_TAKE = {
    LENGTH: """
size = data[pos + {past}]
start = pos + {past} + 1
if size > 127:
    size, start = read_varint(data, pos + {past})
pos = start + size
""",
    VARINT: """
number = data[pos + {past}]
start = pos + {past}
pos = start + 1
if number > 127:
    number, pos = read_varint(data, start)
""",
}

_VALUE = {LENGTH: "{of}(data, start, pos)", VARINT: "{of}(number)"}
_VALUE_OF_TYPE = {
    FieldDescriptor.TYPE_STRING: "data[start:pos].decode()",
    FieldDescriptor.TYPE_ENUM: "{of}[number]",
}
_OF_TYPE = {FieldDescriptor.TYPE_BYTES: read_bytes, FieldDescriptor.TYPE_BOOL: bool, FieldDescriptor.TYPE_INT32: int32}


def _compiled(kind: Descriptor) -> Reader:
    require_form(kind)
    names: dict[str, Any] = {"keys": {}, "always": ALWAYS.get(kind.full_name)}
    names |= {"read_varint": read_varint, "skipped": skipped, "UnprintableError": UnprintableError}
    for field in kind.fields:
        names["keys"][tag(field)] = field.json_name
        names[f"of_{field.number}"] = _of(field, names)
    exec(_text(kind), names)
    read: Reader = names["read"]
    return read


def _text(kind: Descriptor) -> str:
    layout = _WIDE if any(field.number > 15 for field in kind.fields) else _NARROW
    fields = sorted(kind.fields, key=lambda field: field.number)
    blocks = "".join(_block(field, layout) for field in fields)
    fresh = "always()" if kind.full_name in ALWAYS else "{}"
    return _filled(_READ, fields=blocks, fresh=fresh, **layout)


def _block(field: FieldDescriptor, layout: Mapping[str, str]) -> str:
    parts = {"tag": str(tag(field)), "key": repr(field.json_name), "of": f"of_{field.number}", **layout}
    parts["take"] = _filled(_TAKE[wire_type(field)], **parts)
    parts["value"] = _filled(_VALUE_OF_TYPE.get(field.type, _VALUE[wire_type(field)]), **parts)
    if is_map(field):
        return _filled(_REPEATED, empty="{}", add="update", **parts)
    return _filled(_REPEATED, empty="[]", add="append", **parts) if is_repeated(field) else _filled(_SINGLE, **parts)


def _filled(template: str, **parts: str) -> str:
    """A part that starts a line keeps the indentation of its place."""
    return re.sub(r"(?m)(^ *)?\{(\w+)\}", lambda m: indent(parts[m[2]].strip("\n"), m[1] or ""), template)


def _of(field: FieldDescriptor, names: dict[str, Any]) -> Any:
    """What the text calls `of_1`, of whatever the wire holds of one value."""
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        make = _map_entry if is_map(field) else _reader
        return late(names, f"of_{field.number}", partial(make, message_type(field)))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return Names({value.number: value.name for value in enum_type(field).values})
    return _OF_TYPE.get(field.type)


def _map_entry(entry: Descriptor) -> Reader:
    """An entry is a message of a key and a value; an absent one has its default, which is a zero on the wire."""
    read = _reader(entry)
    zeros = b"".join(varint(tag(field)) + b"\0" for field in entry.fields)
    default = read(zeros, 0, len(zeros))

    def pair(data: bytes, pos: int, end: int) -> dict[str, Any]:
        found = {**default, **read(data, pos, end)}
        return {found["key"]: found["value"]}

    return pair
