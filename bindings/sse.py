"""Server-Sent Events: framing and parsing, with no I/O. https://html.spec.whatwg.org/multipage/server-sent-events.html"""

import re
from collections.abc import Iterator
from typing import NamedTuple

COMMENT = b": keep-alive\n\n"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    data: bytes
    name: str = ""
    id: str = ""


def frame(data: bytes) -> bytes:
    """One event. JSON text has no line ends, so it is always a single `data` line."""
    return b"data: " + data + b"\n\n"


def error_frame(data: bytes) -> bytes:
    return b"event: error\ndata: " + data + b"\n\n"


class Parser:
    """Bytes in, events out, however the bytes are cut. `largest` bounds one event in bytes; ValueError above it."""

    def __init__(self, largest: int = 16 * 1024 * 1024) -> None:
        self._largest = largest
        self._line: list[bytes] = []  # the pieces of one that has no end yet
        self._is_half = False  # a CR at the end of what has arrived may be half of a CRLF
        self._size = self._line_size = 0
        self._fields: dict[str, str] = {}
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        if self._is_half:
            chunk = b"\r" + chunk
        self._is_half = chunk.endswith(b"\r")
        piece, *pieces = _LINE_END.split(chunk.removesuffix(b"\r"))
        self._add(piece)
        for piece in pieces:
            yield from self._end_line()
            self._add(piece)
        if self._size + self._line_size > self._largest:
            raise ValueError(f"an event is larger than {self._largest} bytes")

    def close(self) -> Iterator[Event]:
        """The last event, if its blank line is missing."""
        yield from self._end_line()
        yield from self._end_line()

    def _add(self, piece: bytes) -> None:
        self._line.append(piece)
        self._line_size += len(piece)

    def _end_line(self) -> Iterator[Event]:
        line = b"".join(self._line)
        self._line, self._line_size = [], 0
        yield from self._read(line)

    def _read(self, line: bytes) -> Iterator[Event]:
        if not line:
            yield from self._dispatch()
            return
        self._size += len(line)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name in (b"event", b"id"):
            self._fields[name.decode()] = value.decode("utf-8", "replace")

    def _dispatch(self) -> Iterator[Event]:
        if self._data:
            yield Event(b"\n".join(self._data), self._fields.get("event", ""), self._fields.get("id", ""))
        self._data, self._fields, self._size = [], {}, 0
