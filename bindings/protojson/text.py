"""JSON text ↔ plain Python values, the same language whichever reader is installed.

The language is that of RFC 8259 in UTF-8, made unambiguous (I-JSON): no duplicate names, no lone surrogates, no NaN or
infinities, no byte order mark, at most 100 levels. A whole number that does not fit 64 bits is read as a float.

The standard library's reader with strict hooks decides what is accepted. orjson is the fast way through it: whatever
orjson refuses, or accepts only because it is laxer, is given to the strict reader, whose verdict and words then hold.
What orjson is laxer about is told apart cheaply. A duplicate name is dropped with its colon, so printing the value
again shows fewer colons than the text had; and depth is looked at only in a text that has more than 100 brackets.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from ...errors import ParseError

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

MOST_LEVELS = 100
_CONTAINERS = frozenset((dict, list))
EXCERPT = 20  # characters shown on either side of a fault

_WORDS = {
    "Expecting value": "expected a value",
    "Expecting property name enclosed in double quotes": "expected a name in double quotes",
    "Expecting ':' delimiter": 'expected ":"',
    "Expecting ',' delimiter": 'expected "," or a closing bracket',
    "Extra data": "expected the end of the text",
    "Unterminated string starting at": "a string starts here and does not end",
    "Invalid control character at": "a control character in a string must be escaped",
    "Invalid \\escape": "there is no such escape in JSON",
    "Invalid \\uXXXX escape": "\\u must be followed by four hexadecimal digits",
    "Illegal trailing comma before end of object": "a comma must be followed by another member",
    "Illegal trailing comma before end of array": "a comma must be followed by another element",
}


class JsonSyntaxError(ParseError):
    """Not JSON, or JSON that two readers could understand differently. The message says where and shows the place."""


class _RefusedError(Exception):
    """Well-formed for the standard library, and yet refused; `_faults` finds where."""


def loads(data: bytes | str) -> Any:
    """Raises JsonSyntaxError, never anything else."""
    raw = _utf8(data) if isinstance(data, str) else data
    if orjson is not None:
        try:
            value = orjson.loads(raw)
            if _has_all_names(raw, orjson.dumps(value)) and not _is_deep(raw, value):
                return value
        except (ValueError, TypeError):  # not JSON; too deep for orjson to print again
            pass
    return _strict(raw)


def _has_all_names(raw: bytes, printed: bytes) -> bool:
    if raw == printed:
        return True
    if b"\\" in raw and b"\\u003" in raw:  # an escaped colon, perhaps, which would be printed as one more
        return False
    return raw.count(b":") == printed.count(b":")


def dumps(value: Any) -> bytes:
    """Compact JSON of plain values: strings, finite numbers of at most 64 bits, booleans, None, lists, dicts."""
    if orjson is not None:
        return orjson.dumps(value)
    return _ENCODER.encode(value).encode()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _fault(text, error.start, "half of a surrogate pair") from None


def _strict(raw: bytes) -> Any:
    text = _text(raw)
    try:
        value = _DECODER.decode(text)
        if not _is_deep(raw, value) and not _has_surrogate(text, value):
            return value
    except json.JSONDecodeError as error:
        raise _fault(text, error.pos, _WORDS.get(error.msg, "not JSON")) from None
    except (_RefusedError, RecursionError):
        pass
    raise _fault(text, *next(_faults(text), (0, "not JSON")))


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        around = raw[max(0, error.start - EXCERPT) : error.start + EXCERPT].decode(errors="replace")
        raise JsonSyntaxError(f"byte {error.start + 1}: not UTF-8, near {_shown(around)}") from None
    if text.startswith("\ufeff"):
        raise JsonSyntaxError("line 1, column 1: the text starts with a byte order mark; send UTF-8 without one")
    if not text.strip():
        raise JsonSyntaxError("line 1, column 1: the text is empty; send a JSON value")
    return text


def _is_deep(raw: bytes, value: Any) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= MOST_LEVELS:
        return False
    level = [value]
    for _ in range(MOST_LEVELS):
        items: list[Any] = []
        for node in level:
            items += node.values() if type(node) is dict else node
        level = [item for item in items if type(item) in _CONTAINERS]
        if not level:
            return False
    return True


def _has_surrogate(text: str, value: Any) -> bool:
    """The reader joins the pairs, so a surrogate that is left has no other half."""
    if re.search(r"\\u[dD]", text) is None:
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RefusedError
    return members


def _whole(digits: str) -> int | float:
    if len(digits) > 20:  # longer than any number of 64 bits
        return _finite(digits)
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(number)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _RefusedError
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]+|\\.)*+")(?P<name>\s*:)?|(?P<open>[\[{])|(?P<close>[\]}])|(?P<word>[-+.\w]+)'
)


def _faults(text: str) -> Iterator[tuple[int, str]]:
    """Where a well-formed text is refused, and why; slow, and only for telling."""
    names: list[set[str]] = []  # of each open bracket
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            names.append(set())
            if len(names) > MOST_LEVELS:
                yield token.start(), f"nested deeper than {MOST_LEVELS} levels"
        elif kind == "close" and names:
            names.pop()
        elif kind == "word" and _is_unbounded(token[0]):
            yield token.start(), "NaN, infinities and numbers that a double cannot hold are not JSON numbers"
        elif kind in ("string", "name"):
            yield from _string_faults(token, names[-1] if names and kind == "name" else None)


def _string_faults(token: re.Match[str], names: set[str] | None) -> Iterator[tuple[int, str]]:
    string = token["string"]
    if "\\" in string:
        try:
            string = json.dumps(json.loads(string), ensure_ascii=False)
        except ValueError:  # no string: the text is no JSON, which is told besides
            return
        if any("\ud800" <= c <= "\udfff" for c in string):
            yield token.start(), "half of a surrogate pair"
    if names is None:
        return
    if string in names:
        yield token.start(), "this name occurs twice in one object"
    names.add(string)


def _is_unbounded(word: str) -> bool:
    try:
        return not math.isfinite(float(word))
    except ValueError:  # true, false, null
        return False


def _fault(text: str, pos: int, why: str) -> JsonSyntaxError:
    line = text.count("\n", 0, pos) + 1
    column = pos - text.rfind("\n", 0, pos)
    around = text[max(0, pos - EXCERPT) : pos + EXCERPT]
    return JsonSyntaxError(f"line {line}, column {column}: {why}, near {_shown(around)}")


def _shown(around: str) -> str:
    return "".join(c if c.isprintable() else " " for c in around).strip() or "the end"
