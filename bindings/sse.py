"""Server-Sent Events: framing and parsing, with no I/O. https://html.spec.whatwg.org/multipage/server-sent-events.html"""

import re
from collections.abc import Iterator
from typing import NamedTuple

COMMENT = b": keep-alive\n\n"
_LINE_END = re.compile(rb"\r\n|\n|\r(?!$)")  # a CR at the end of what has arrived may be half of a CRLF


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
        self._rest = b""
        self._size = 0
        self._fields: dict[str, str] = {}
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            yield from self._line(line)
        if self._size + len(self._rest) > self._largest:
            raise ValueError(f"an event is larger than {self._largest} bytes")

    def close(self) -> Iterator[Event]:
        """The last event, if its blank line is missing."""
        line, self._rest = self._rest.removesuffix(b"\r"), b""
        yield from self._line(line)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[Event]:
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
