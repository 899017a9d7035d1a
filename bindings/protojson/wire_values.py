"""The wire bytes of single values → JSON values: numbers, bytes, and the protobuf types with a JSON form of their own.

Of these, Struct and Value carry the metadata and data of every part, and are written out for speed.
"""

import binascii
import math
import struct
from collections.abc import Callable
from typing import Any

from .fields import read_varint, skipped
from .times import timestamp_text

Reader = Callable[[bytes, int, int], Any]
"""From the bytes between two positions to a JSON value."""

_LEAST, _MOST = -(2**53), 2**53  # between them, every whole number is exact as a double
_NOT_FINITE = "NaN and infinities cannot be written as JSON"
_double = struct.Struct("<d").unpack_from


class UnprintableError(Exception):
    """JSON has no way to write this value. The path grows, innermost first, on the way out."""

    def __init__(self, why: str, *steps: str) -> None:
        super().__init__(why)
        self.steps = list(steps)

    def inside(self, key: str, out: dict[str, Any]) -> None:
        """It came from the field `key`, of which `out` holds what was read before."""
        self.steps.append(f".{key}[{len(out[key])}]" if type(out.get(key)) is list else f".{key}")

    def __str__(self) -> str:
        return f"{''.join(reversed(self.steps)).lstrip('.')}: {self.args[0]}"


def read_struct(data: bytes, pos: int, end: int) -> dict[str, Any]:
    """Each entry is `0A size (0A size key) (12 size Value)`. Texts and numbers are read here, not by `read_value`."""
    out: dict[str, Any] = {}
    key = ""
    try:
        while pos < end:
            if data[pos] != 0x0A:  # not Struct.fields
                pos = _past(data, pos)
                continue
            size = data[pos + 1]
            start = pos + 2
            if size > 127:
                size, start = read_varint(data, pos + 1)
            pos = start + size
            if start < pos and data[start] == 0x0A:
                size = data[start + 1]
                start += 2
                if size > 127:
                    size, start = read_varint(data, start - 1)
                key = data[start : start + size].decode()
                start += size
            else:
                key = ""
            if start + 2 >= pos:  # a Value of no bytes
                out[key] = None
                continue
            start = start + 2 if data[start + 1] < 128 else read_varint(data, start + 1)[1]
            mark = data[start]
            size = data[start + 1]
            if mark == 0x1A and size < 128:  # string_value
                out[key] = data[start + 2 : start + 2 + size].decode()
            elif mark == 0x11:  # number_value
                number = _double(data, start + 1)[0]
                out[key] = whole if (whole := int(number)) == number and _LEAST <= whole <= _MOST else number
            else:
                out[key] = read_value(data, start, pos)
    except UnprintableError as error:
        error.steps.append(f".{key}")
        raise
    except (ValueError, OverflowError):  # of int()
        raise UnprintableError(_NOT_FINITE, f".{key}") from None
    return out


def read_list(data: bytes, pos: int, end: int) -> list[Any]:
    out: list[Any] = []
    try:
        while pos < end:
            if data[pos] != 0x0A:  # not ListValue.values
                pos = _past(data, pos)
                continue
            size = data[pos + 1]
            pos += 2
            if size > 127:
                size, pos = read_varint(data, pos - 1)
            out.append(read_value(data, pos, pos + size))
            pos += size
    except UnprintableError as error:
        error.steps.append(f"[{len(out)}]")
        raise
    return out


def read_value(data: bytes, pos: int, end: int) -> Any:
    """A Value in which nothing is set is printed as null."""
    while pos < end:
        mark = data[pos]
        if mark == 0x11:  # number_value
            return _number(data, pos + 1)
        size = data[pos + 1]
        start = pos + 2
        if size > 127:
            size, start = read_varint(data, pos + 1)
        if mark == 0x1A:  # string_value
            return data[start : start + size].decode()
        if mark == 0x2A:  # struct_value
            return read_struct(data, start, start + size)
        if mark == 0x32:  # list_value
            return read_list(data, start, start + size)
        if mark == 0x20:  # bool_value
            return size != 0
        if mark == 0x08:  # null_value
            return None
        pos = _past(data, pos)
    return None


def _past(data: bytes, pos: int) -> int:
    """Where the unknown field that starts at `pos` ends."""
    mark, pos = read_varint(data, pos)
    return skipped(data, pos, mark)


def _number(data: bytes, pos: int) -> float | int:
    """Whole values as integers, up to where a double is exact."""
    number: float = _double(data, pos)[0]
    if not math.isfinite(number):
        raise UnprintableError(_NOT_FINITE)
    whole = int(number)
    return whole if whole == number and _LEAST <= whole <= _MOST else number


def _timestamp(data: bytes, pos: int, end: int) -> str:
    """A message of seconds (1) and nanos (2)."""
    found = {0x08: 0, 0x10: 0}
    while pos < end:
        mark, pos = read_varint(data, pos)
        if mark in found:
            found[mark], pos = read_varint(data, pos)
        else:
            pos = skipped(data, pos, mark)
    try:
        return timestamp_text(_int64(found[0x08]), int32(found[0x10]))
    except ValueError as error:
        raise UnprintableError(str(error)) from None


def read_bytes(data: bytes, pos: int, end: int) -> str:
    return binascii.b2a_base64(data[pos:end], newline=False).decode()


def int32(number: int) -> int:
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def _int64(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


class Names(dict[int, Any]):
    """The names of an enum; an unknown number is printed as the number."""

    def __missing__(self, number: int) -> int:
        return int32(number)


SPECIAL: dict[str, Reader] = {
    "google.protobuf.ListValue": read_list,
    "google.protobuf.Struct": read_struct,
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Value": read_value,
}
"""By message type."""
