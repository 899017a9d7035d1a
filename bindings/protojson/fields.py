"""What the ProtoJSON codec asks of a descriptor, and the few facts of the wire format that both directions need."""

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)  # wire types
WIDTHS = {FIXED64: 8, FIXED32: 4}

_WIRE_TYPES = {  # the kinds of fields that A2A has; its numbers are never repeated, nor keys of maps
    FieldDescriptor.TYPE_STRING: LENGTH,
    FieldDescriptor.TYPE_BYTES: LENGTH,
    FieldDescriptor.TYPE_MESSAGE: LENGTH,
    FieldDescriptor.TYPE_BOOL: VARINT,
    FieldDescriptor.TYPE_ENUM: VARINT,
    FieldDescriptor.TYPE_INT32: VARINT,
}


def require_form(kind: Descriptor) -> None:
    """Raises TypeError for a type whose JSON form A2A has no use for; it must not be taken for an ordinary one."""
    if kind.file.package == "google.protobuf" and kind.name != "Empty":
        raise TypeError(f"the JSON form of {kind.full_name} is not known here")
    for field in kind.fields:
        number = _WIRE_TYPES.get(field.type) != LENGTH
        is_key = field.name == "key" and kind.GetOptions().map_entry
        if field.type not in _WIRE_TYPES or (number and (is_key or is_repeated(field))):
            raise TypeError(f"the JSON form of {field.full_name} is not known here")


def descriptor(message: Message | type[Message]) -> Descriptor:
    return cast("Descriptor", message.DESCRIPTOR)


@cache
def fields_by_name(kind: Descriptor) -> dict[str, FieldDescriptor]:
    """In both spellings: that of the .proto file and that of JSON."""
    return {field.name: field for field in kind.fields} | {field.json_name: field for field in kind.fields}


def late(table: dict[str, Any], key: str, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A function that makes itself when it is first called, and stands in the table from then on: a message type may
    contain itself."""

    def first(*arguments: Any) -> Any:
        table[key] = made = make()
        return made(*arguments)

    return first


def is_repeated(field: FieldDescriptor) -> bool:
    """A list or a map. Every protobuf tells it by the default; 5 lacks `is_repeated` and 7 lacks `label`."""
    return isinstance(field.default_value, list)


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def message_type(field: FieldDescriptor) -> Descriptor:
    """Of a field that holds messages."""
    return cast("Descriptor", field.message_type)


def enum_type(field: FieldDescriptor) -> EnumDescriptor:
    """Of a field that holds enums."""
    return cast("EnumDescriptor", field.enum_type)


def wire_type(field: FieldDescriptor) -> int:
    return _WIRE_TYPES[field.type]


def tag(field: FieldDescriptor) -> int:
    return field.number << 3 | wire_type(field)


_BYTES = tuple(bytes((byte,)) for byte in range(128))


def varint(number: int) -> bytes:
    """A negative number is written as 64 bits, as protobuf does."""
    if 0 <= number < 128:
        return _BYTES[number]
    if 128 <= number < 16384:
        return bytes((number & 127 | 128, number >> 7))
    rest = number & 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """The number that starts at `pos`, and where it ends."""
    number = shift = 0
    while (byte := data[pos]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        pos += 1
    return number | byte << shift, pos + 1


def skipped(data: bytes, pos: int, mark: int) -> int:
    """Where a value ends that starts at `pos` and whose tag is `mark`."""
    wire = mark & 7
    if wire == START_GROUP:
        while (inner := read_varint(data, pos))[0] & 7 != END_GROUP:
            pos = skipped(data, inner[1], inner[0])
        return inner[1]
    if wire in WIDTHS:
        return pos + WIDTHS[wire]
    number, pos = read_varint(data, pos)
    return pos + number if wire == LENGTH else pos
