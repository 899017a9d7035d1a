"""JSON value → message.

A message type is compiled into a writer, a function `value → wire bytes`, when it is first read; protobuf then parses
the bytes. That makes one object of protobuf's where keyword arguments or attributes would make many, and it works alike
in all versions of protobuf. Writers take the plain form only: lowerCamelCase names and no nulls. They say nothing of
what they refuse.

A value that a writer refuses is gone through again with care: `_Care` collects every violation with its path, or else
gives the plain form of the value, which is then written. So the rules of names, nulls and oneofs stand there alone, and
the rules of single values in the encoders that both use.
"""

from functools import cache, partial
from typing import Any, NoReturn, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from ...errors import InvalidParamsError, Violation
from .encoders import PAYLOADS, SPECIAL, Encoder, RefusedError, framed, number_encoder, shown, text_framed
from .fields import (
    LENGTH,
    descriptor,
    fields_by_name,
    is_map,
    is_repeated,
    late,
    require_form,
    tag,
    varint,
    wire_type,
)
from .fields import message_type as held

M = TypeVar("M", bound=Message)

MOST_LEVELS = 100  # of messages in messages: protobuf readers refuse more
_TOO_DEEP = f"nested too deep; protobuf has at most {MOST_LEVELS} levels"
MOST_COLLECTED = 100  # a value with a million faults must not cost more to refuse

_VALUE = "google.protobuf.Value"
_STEPS_TO_VALUE = {_VALUE: 0, "google.protobuf.Struct": -1, "google.protobuf.ListValue": -1}


def from_json(message_type: type[M], value: Any) -> M:
    """A message of what `loads` gave. Unknown fields are ignored.

    Raises InvalidParamsError that names all violations (at most 100) by paths of proto names.
    """
    kind = descriptor(message_type)
    write = _writer(kind)
    try:
        return message_type.FromString(write(value))
    except (ValueError, DecodeError, RecursionError):
        pass
    try:
        return message_type.FromString(write(_plain(kind, value)))
    except DecodeError:
        raise InvalidParamsError([Violation("", _TOO_DEEP)]) from None


def _plain(kind: Descriptor, value: Any) -> Any:
    care = _Care()
    plain = care.message(kind, value, "", 0)
    if care.faults:
        raise InvalidParamsError(care.faults)
    return plain


@cache
def _writer(kind: Descriptor) -> Encoder:
    return SPECIAL.get(kind.full_name) or _compiled(kind)


def _compiled(kind: Descriptor) -> Encoder:
    require_form(kind)
    ways: dict[str, Encoder] = {field.name: _refuse for field in kind.fields}
    ways |= {field.json_name: late(ways, field.json_name, partial(_way, field)) for field in kind.fields}
    oneofs = [{field.json_name for field in oneof.fields} for oneof in kind.oneofs if len(oneof.fields) > 1]

    def write(value: Any) -> bytes:
        if type(value) is not dict:
            raise RefusedError
        try:
            out = [ways[name](item) for name, item in value.items()]
        except KeyError:  # an unknown field
            out = [ways[name](item) for name, item in value.items() if name in ways]
        for names in oneofs:
            if len(names & value.keys()) > 1:
                raise RefusedError
        return b"".join(out)

    return write


def _refuse(item: Any) -> NoReturn:
    raise RefusedError


def _way(field: FieldDescriptor) -> Encoder:
    """Writes a field: tags, lengths and payloads."""
    encode, mark = _encoder(field), tag(field)
    if wire_type(field) != LENGTH or is_map(field):
        return encode
    if field.type == FieldDescriptor.TYPE_STRING and not is_repeated(field):
        return text_framed(mark)
    return _each(framed(mark, encode)) if is_repeated(field) else framed(mark, encode)


def _each(way: Encoder) -> Encoder:
    def write(items: Any) -> bytes:
        if type(items) is not list:
            raise RefusedError
        return b"".join(map(way, items))

    return write


@cache
def _encoder(field: FieldDescriptor) -> Encoder:
    """Of one value, or of a whole map."""
    if is_map(field):
        return _map_encoder(field)
    if wire_type(field) != LENGTH:
        return number_encoder(field)
    return PAYLOADS.get(field.type) or _writer(held(field))


def _map_encoder(field: FieldDescriptor) -> Encoder:
    """An entry is a message of a key and a value."""
    write, mark = _writer(held(field)), varint(tag(field))

    def encode(item: Any) -> bytes:
        if type(item) is not dict:
            raise RefusedError
        entries = [write({"key": key, "value": value}) for key, value in item.items()]
        return b"".join(mark + varint(len(entry)) + entry for entry in entries)

    return encode


class _Care:
    """Goes through a value, giving its plain form and collecting what is wrong with it."""

    def __init__(self) -> None:
        self.faults: list[Violation] = []

    def fault(self, path: str, description: str) -> None:
        self.faults.append(Violation(path, description))
        if len(self.faults) == MOST_COLLECTED:
            raise InvalidParamsError(self.faults)

    def message(self, kind: Descriptor, value: Any, path: str, level: int) -> Any:
        if kind.full_name in SPECIAL:
            return self.special(kind, value, path, level)
        if type(value) is not dict:
            return self.fault(path, f"read {shown(value)}; send an object")
        plain: dict[str, Any] = {}
        for key, item in value.items():
            field = fields_by_name(kind).get(key)
            if field is None or (item is None and not _takes_null(field)):
                continue
            at = f"{path}.{field.name}" if path else field.name
            if field.json_name in plain:
                self.fault(at, f"{field.json_name} and {field.name} are both given; send one of them")
            plain[field.json_name] = self.field(field, item, at, level + 1)
        for oneof in kind.oneofs:
            self.oneof([field.json_name for field in oneof.fields if field.json_name in plain], path)
        return plain

    def oneof(self, given: list[str], path: str) -> None:
        if len(given) > 1:
            number = "both" if len(given) == 2 else "all"
            self.fault(path, f"{', '.join(given[:-1])} and {given[-1]} are {number} set; set exactly one")

    def field(self, field: FieldDescriptor, item: Any, path: str, level: int) -> Any:
        if is_map(field):
            return self.map(field, item, path, level)
        if not is_repeated(field):
            return self.one(field, item, path, level)
        if type(item) is not list:
            return self.fault(path, f"read {shown(item)}; send an array")
        return [self.one(field, one, f"{path}[{i}]", level) for i, one in enumerate(item)]

    def map(self, field: FieldDescriptor, item: Any, path: str, level: int) -> Any:
        if type(item) is not dict:
            return self.fault(path, f"read {shown(item)}; send an object")
        key_field, value_field = held(field).fields
        plain = {}
        for key, value in item.items():
            at = f"{path}[{shown(key)}]"
            self.one(key_field, key, at, level)
            plain[key] = self.one(value_field, value, at, level + 1)
        return plain

    def one(self, field: FieldDescriptor, item: Any, path: str, level: int) -> Any:
        if field.message_type is not None:
            return self.message(field.message_type, item, path, level)
        return self.encoded(_encoder(field), item, path)

    def special(self, kind: Descriptor, item: Any, path: str, level: int) -> Any:
        steps = _STEPS_TO_VALUE.get(kind.full_name)
        if steps is not None and level + steps + _levels(item) > MOST_LEVELS:
            return self.fault(path, _TOO_DEEP)
        return self.encoded(SPECIAL[kind.full_name], item, path)

    def encoded(self, encode: Encoder, item: Any, path: str) -> Any:
        try:
            encode(item)
        except UnicodeEncodeError:
            self.fault(path, f"read {shown(item)}; send Unicode text")
        except RefusedError as error:
            self.fault(path, str(error))
        return item


def _takes_null(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == _VALUE and not is_repeated(field)


def _levels(item: Any) -> int:
    """How many messages a Value holds one in another: three for an object (Struct, entry, Value), two for an array."""
    deepest, left = 0, [(item, 0)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        if type(node) is dict and level <= MOST_LEVELS:
            deepest = max(deepest, level + 1)
            left += [(child, level + 3) for child in node.values()]
        elif type(node) is list and level <= MOST_LEVELS:
            deepest = max(deepest, level + 1)
            left += [(child, level + 2) for child in node]
    return deepest
