"""The path templates of `google.api.http`, as far as A2A uses them: read once, matched by tables, expanded by clients.

    Template = "/" Segment { "/" Segment } [ ":" LITERAL ]
    Segment  = LITERAL | "{" FIELD [ "=" Inner { "/" Inner } ] "}"
    Inner    = "*" | LITERAL

https://github.com/googleapis/googleapis/blob/master/google/api/http.proto
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

ONE = "*"  # any one segment

_SEGMENT = r"\{[^{}]*\}|[^/{}:]+"
_TEMPLATE = re.compile(rf"((?:/(?:{_SEGMENT}))+)(?::([^/{{}}:*]+))?")
_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)(?:=(.+))?\}", re.ASCII)
_LITERAL = re.compile(r"(?:[A-Za-z0-9._~!$&'()+,;=@-]|%[0-9A-Fa-f]{2})+")
_NOT_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Variable(NamedTuple):
    """A field of the request, and where the segments that it takes start and stop."""

    field: str
    start: int
    stop: int

    def value(self, segments: Sequence[str]) -> str:
        """The value in a decoded path. In a variable of several segments `%2F` stays encoded, as http.proto says."""
        taken = segments[self.start : self.stop]
        return taken[0] if len(taken) == 1 else "/".join([s.replace("/", "%2F") for s in taken])

    def segments(self, value: str) -> list[str]:
        """The segments, percent-encoded, that carry a value."""
        return [quote(value, safe="")] if self.stop - self.start == 1 else quote(value, safe="/").split("/")


class Template(NamedTuple):
    """`segments` are decoded literals and ONE; `verb` is the custom one after the colon, "" without one."""

    text: str
    segments: tuple[str, ...]
    variables: tuple[Variable, ...]
    verb: str

    def expand(self, values: Mapping[str, str]) -> str:
        """The path that carries these values, by field. Raises ValueError for a value that does not fit."""
        parts = [quote(s, safe="") for s in self.segments]
        for variable in self.variables:
            parts[variable.start : variable.stop] = self._filled(variable, values[variable.field])
        return "/" + "/".join(parts) + (":" + quote(self.verb, safe="") if self.verb else "")

    def _filled(self, variable: Variable, value: str) -> list[str]:
        found, wanted = variable.segments(value), self.segments[variable.start : variable.stop]
        fits = len(found) == len(wanted) and all(w in (ONE, unquote(f)) for f, w in zip(found, wanted, strict=True))
        if not all(found) or not fits:
            raise ValueError(f'{variable.field}: "{value}" does not fit {"/".join(wanted)} in {self.text}')
        return found


def parse(text: str) -> Template:
    """Reads a template. Raises ValueError, saying what is wrong with it."""
    whole = _TEMPLATE.fullmatch(text)
    if whole is None:
        raise ValueError("is not a path template: want /literal/{field}/{field=a/*} and, at the end, :verb")
    segments: list[str] = []
    variables: list[Variable] = []
    for part in re.findall(rf"/({_SEGMENT})", whole[1]):
        start = len(segments)
        if not part.startswith("{"):
            segments.append(_literal(part))
            continue
        variable = _VARIABLE.fullmatch(part)
        if variable is None:
            raise ValueError(f"has a malformed variable {part}: want {{field}} or {{field=a/*}}")
        segments += [s if s == ONE else _literal(s) for s in (variable[2] or ONE).split("/")]
        variables.append(Variable(variable[1], start, len(segments)))
    return Template(text, tuple(segments), tuple(variables), _literal(whole[2]) if whole[2] else "")


def _literal(text: str) -> str:
    if not _LITERAL.fullmatch(text):
        raise ValueError(f'has a malformed segment "{text}": want a literal, percent-encoded where needed')
    literal = unquote(text, errors="strict")
    if literal == ONE:
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
