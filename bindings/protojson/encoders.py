"""JSON value of one field → wire bytes.

Each encoder takes whatever ProtoJSON takes and raises RefusedError otherwise, with words for the sender: what was read
and what to send. An encoder of a length-delimited type gives the payload; one of a number gives the tag and the number.
"""

import binascii
import math
import re
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from ...errors import LONGEST_QUOTE, nearest, quote
from .fields import enum_type, tag, varint
from .times import read_duration, read_timestamp

Encoder = Callable[[Any], bytes]

_DIGITS = re.compile(r"-?[0-9]{1,20}")
_LARGE = 2.0**64  # numbers within are written without a closer look
_double = struct.Struct("<d").pack


class RefusedError(ValueError):
    """This is not a value of the field."""


def refusal(item: Any, wanted: str) -> RefusedError:
    return RefusedError(f"read {shown(item)}; send {wanted}")


def shown(item: Any) -> str:
    """What was read, for an error text; short, whatever it is."""
    if type(item) is str:
        return quote(item[: LONGEST_QUOTE + 1].encode(errors="replace").decode())
    if type(item) is int:
        return f"the number {item}" if abs(item) < 2**64 else "a very large number"
    return _SHOWN.get(type(item), "no JSON value").format(item).lower()


_SHOWN = {type(None): "null", bool: "{}", float: "the number {}", list: "an array", dict: "an object"}


def framed(mark: int, encode: Encoder) -> Encoder:
    """Puts the tag and the length before a payload."""
    short, long = _heads(mark), varint(mark)

    def write(item: Any) -> bytes:
        payload = encode(item)
        size = len(payload)
        return short[size] + payload if size < 128 else long + varint(size) + payload

    return write


def text_framed(mark: int) -> Encoder:
    """`framed` for a string; most fields are strings."""
    short, long = _heads(mark), varint(mark)

    def write(item: Any) -> bytes:
        if type(item) is not str:
            raise RefusedError
        payload = item.encode()
        size = len(payload)
        return short[size] + payload if size < 128 else long + varint(size) + payload

    return write


@cache
def _heads(mark: int) -> tuple[bytes, ...]:
    """A tag and a length, for each length of one byte."""
    return tuple(varint(mark) + varint(size) for size in range(128))


_KEY, _VALUE, _STRING, _STRUCT, _LIST = _heads(0x0A), _heads(0x12), _heads(0x1A), _heads(0x2A), _heads(0x32)


def encode_value(item: Any) -> bytes:
    """The payload of a google.protobuf.Value. Its numbers are doubles."""
    kind = type(item)
    if kind is str:
        text: bytes = item.encode()
        size = len(text)
        return _STRING[size] + text if size < 128 else b"\x1a" + varint(size) + text
    if kind is int or kind is float:
        return b"\x11" + (_double(item) if -_LARGE < item < _LARGE else _finite(item))
    if kind is bool:
        return b"\x20\x01" if item else b"\x20\x00"
    if item is None:
        return b"\x08\x00"
    if kind is dict:
        payload = encode_struct(item)
        size = len(payload)
        return _STRUCT[size] + payload if size < 128 else b"\x2a" + varint(size) + payload
    if kind is not list:
        raise refusal(item, "a JSON value")
    payload = encode_list(item)
    size = len(payload)
    return _LIST[size] + payload if size < 128 else b"\x32" + varint(size) + payload


def encode_struct(item: Any) -> bytes:
    if type(item) is not dict:
        raise refusal(item, "an object")
    out: list[bytes] = []
    for name, member in item.items():
        key, value = name.encode(), encode_value(member)
        key_size, size = len(key), len(value)
        if key_size + size < 124:  # then the length of the whole entry is one byte
            out += (_KEY[key_size + size + 4], _KEY[key_size], key, _VALUE[size], value)
        else:
            entry = b"".join((b"\x0a", varint(key_size), key, b"\x12", varint(size), value))
            out += (b"\x0a", varint(len(entry)), entry)
    return b"".join(out)


def encode_list(item: Any) -> bytes:
    if type(item) is not list:
        raise refusal(item, "an array")
    out: list[bytes] = []
    for value in map(encode_value, item):
        size = len(value)
        out += (_KEY[size], value) if size < 128 else (b"\x0a", varint(size), value)
    return b"".join(out)


def _finite(item: float) -> bytes:
    try:
        if math.isfinite(item):
            return _double(item)
    except OverflowError:
        pass
    raise refusal(item, "a number that a double can hold")


def _encode_string(item: Any) -> bytes:
    if type(item) is not str:
        raise refusal(item, "a string")
    return item.encode()


def _encode_bytes(item: Any) -> bytes:
    """Base64, standard or URL-safe, with or without padding."""
    wanted = "bytes as base64 text"
    if type(item) is not str:
        raise refusal(item, wanted)
    try:
        return binascii.a2b_base64(item, strict_mode=True)
    except ValueError:
        text = item.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError:
        raise refusal(item, wanted) from None


def _timed(read: Callable[[str], tuple[int, int]], wanted: str) -> Encoder:
    """The payload of a message of seconds (1) and nanos (2)."""

    def encode(item: Any) -> bytes:
        if type(item) is not str:
            raise refusal(item, wanted)
        try:
            seconds, nanos = read(item)
        except ValueError:
            raise refusal(item, wanted) from None
        return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)

    return encode


SPECIAL: dict[str, Encoder] = {
    "google.protobuf.Duration": _timed(read_duration, 'a duration such as "1.5s"'),
    "google.protobuf.ListValue": encode_list,
    "google.protobuf.Struct": encode_struct,
    "google.protobuf.Timestamp": _timed(read_timestamp, 'a timestamp such as "2026-01-02T03:04:05.678Z"'),
    "google.protobuf.Value": encode_value,
}
"""By message type."""

PAYLOADS: dict[int, Encoder] = {
    FieldDescriptor.TYPE_STRING: _encode_string,
    FieldDescriptor.TYPE_BYTES: _encode_bytes,
}
"""By field type."""


def number_encoder(field: FieldDescriptor) -> Encoder:
    mark = varint(tag(field))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _enum_encoder(enum_type(field), mark)
    return _bool_encoder(mark) if field.type == FieldDescriptor.TYPE_BOOL else _int32_encoder(mark)


def _enum_encoder(kind: EnumDescriptor, mark: bytes) -> Encoder:
    names = {value.name: mark + varint(value.number) for value in kind.values}
    numbers = {value.number: mark + varint(value.number) for value in kind.values}

    def encode(item: Any) -> bytes:
        found = names.get(item) if type(item) is str else None
        if found is None:
            whole = _whole(item)
            found = None if whole is None else numbers.get(whole)
        if found is None:
            raise RefusedError(f"unknown value {shown(item).removeprefix('the number ')}; {_meant(item, names)}")
        return found

    return encode


def _meant(item: Any, names: Iterable[str]) -> str:
    """The nearest name, by its own words first: those that all names begin with are left out."""
    all_names = list(names)
    common = _common_prefix(all_names)
    own = {name[len(common) :]: name for name in all_names}
    near = nearest(item, all_names) or own.get(nearest(item, own) or "") if type(item) is str else None
    return f"did you mean {near}?" if near else f"send one of {', '.join(all_names[1:] or all_names)}"


def _common_prefix(names: list[str]) -> str:
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind("_", 0, length) + 1]


def _bool_encoder(mark: bytes) -> Encoder:
    values = (mark + b"\x00", mark + b"\x01")

    def encode(item: Any) -> bytes:
        if type(item) is not bool:
            raise refusal(item, "true or false")
        return values[item]

    return encode


def _int32_encoder(mark: bytes) -> Encoder:
    """A whole number also as a string of digits or with an empty fraction."""

    def encode(item: Any) -> bytes:
        whole = item if type(item) is int else _whole(item)
        if whole is None or not -(2**31) <= whole < 2**31:
            raise refusal(item, f"a whole number from {-(2**31)} to {2**31 - 1}")
        return mark + varint(whole)

    return encode


def _whole(item: Any) -> int | None:
    if type(item) is int:
        return item
    if type(item) is str and _DIGITS.fullmatch(item):
        return int(item)
    return int(item) if type(item) is float and item.is_integer() else None
