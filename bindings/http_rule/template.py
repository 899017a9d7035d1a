"""The path templates of `google.api.http`: read once, matched by tables, expanded by clients.

    Template = "/" Segments [ ":" LITERAL ]
    Segments = Segment { "/" Segment }
    Segment  = "*" | "**" | LITERAL | "{" FieldPath [ "=" Segments ] "}"

https://github.com/googleapis/googleapis/blob/master/google/api/http.proto
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

ONE = "*"
REST = "**"

_SEGMENT = r"\{[^{}]*\}|[^/{}:]+"
_TEMPLATE = re.compile(rf"((?:/(?:{_SEGMENT}))+)(?::([^/{{}}:*]+))?")
_VARIABLE = re.compile(r"\{([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:=(.+))?\}", re.ASCII)
_LITERAL = re.compile(r"(?:[A-Za-z0-9._~!$&'()+,;=@-]|%[0-9A-Fa-f]{2})+")
_NOT_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Variable(NamedTuple):
    """A field path, such as `a.b`, and the segments that it takes; `stop` is None where it ends in `**`."""

    path: str
    start: int
    stop: int | None
    multiple: bool

    def value(self, segments: Sequence[str]) -> str:
        """The value in a decoded path. In a variable of several segments `%2F` stays encoded, as http.proto says."""
        if not self.multiple:
            return segments[self.start]
        return "/".join([s.replace("/", "%2F") for s in segments[self.start : self.stop]])

    def segments(self, value: str) -> list[str]:
        """The segments, percent-encoded, that carry a value."""
        if not self.multiple:
            return [quote(value, safe="")]
        return quote(value, safe="/").split("/") if value else []


class Template(NamedTuple):
    """`segments` are decoded literals, ONE and REST; `verb` is the custom one after the colon, "" without one."""

    text: str
    segments: tuple[str, ...]
    variables: tuple[Variable, ...]
    verb: str

    def expand(self, values: Mapping[str, str]) -> str:
        """The path that carries these values, by field path. Raises ValueError for a value that does not fit."""
        parts = [quote(s, safe="") for s in self.segments if s != REST]
        for variable in self.variables:
            parts[variable.start : variable.stop] = self._filled(variable, values[variable.path])
        return "/" + "/".join(parts) + (":" + quote(self.verb, safe="") if self.verb else "")

    def _filled(self, variable: Variable, value: str) -> list[str]:
        found, wanted = variable.segments(value), self.segments[variable.start : variable.stop]
        if not all(found) or not _fits([unquote(f) for f in found], wanted):
            raise ValueError(f'{variable.path}: "{value}" does not fit {"/".join(wanted)} in {self.text}')
        return found


def _fits(found: list[str], wanted: tuple[str, ...]) -> bool:
    if wanted[-1] == REST:
        wanted, found = wanted[:-1], found[: len(wanted) - 1]
    return len(found) == len(wanted) and all(w in (ONE, f) for f, w in zip(found, wanted, strict=True))


def parse(text: str) -> Template:
    """Reads a template. Raises ValueError, saying what is wrong with it."""
    whole = _TEMPLATE.fullmatch(text)
    if whole is None:
        raise ValueError("is not a path template: want /literal/{field}/{field=a/*}/** and, at the end, :verb")
    segments: list[str] = []
    variables: list[Variable] = []
    for part in re.findall(rf"/({_SEGMENT})", whole[1]):
        _add(part, segments, variables)
    if REST in segments[:-1]:
        raise ValueError("has ** before its end: it must be the last segment")
    return Template(text, tuple(segments), tuple(variables), _literal(whole[2]) if whole[2] else "")


def _add(part: str, segments: list[str], variables: list[Variable]) -> None:
    if not part.startswith("{"):
        segments.append(_segment(part))
        return
    variable = _VARIABLE.fullmatch(part)
    if variable is None:
        raise ValueError(f"has a malformed variable {part}: want {{field}} or {{field=a/*}}")
    inner = [_segment(s) for s in (variable[2] or ONE).split("/")]
    start, stop = len(segments), len(segments) + len(inner)
    several = len(inner) > 1 or inner[0] == REST
    variables.append(Variable(variable[1], start, None if inner[-1] == REST else stop, several))
    segments.extend(inner)


def _segment(text: str) -> str:
    return text if text in (ONE, REST) else _literal(text)


def _literal(text: str) -> str:
    if not _LITERAL.fullmatch(text):
        raise ValueError(f'has a malformed segment "{text}": want *, ** or a literal, percent-encoded where needed')
    literal = unquote(text, errors="strict")
    if literal in (ONE, REST):
        raise ValueError(f'has the literal "{text}", which reads as a wildcard once decoded')
    return literal


def decode(raw_path: str) -> list[str] | None:
    """The segments of a path, split first and percent-decoded then; None where it is not percent-encoded UTF-8."""
    segments = raw_path[1:].split("/")
    if "%" not in raw_path and raw_path.isascii():
        return segments
    if _NOT_PERCENT.search(raw_path):
        return None
    try:
        raw_path.encode()  # refuses lone surrogates
        return [unquote(s, errors="strict") for s in segments]
    except UnicodeError:
        return None
