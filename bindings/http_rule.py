"""Routes of `google.api.http` rules: a verb and a path to a rule and its variables, by tables made once at start-up.

A path is one of three things: a `Match` to bind and call; `Allowed`, the verbs that it takes instead (405); or None
(404), where `hint` tells what was probably meant.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import unquote

from google.protobuf.message import Message

from ..methods import Method
from .http_binding import ANY, Binding, bindings
from .http_hint import LONGEST, nearest_template
from .http_request import bind
from .http_template import ONE, REST, decode

RESERVED = frozenset({"v1", ".well-known"})
"""First segments that no variable takes: the path of protocol 0.3, and RFC 8615. Only literals match them."""

_OPENNESS = {ONE: 1, REST: 2}  # a literal is 0: the lower, the earlier it is tried

Rules = dict[str, Binding]  # by HTTP verb
Ends = dict[str, Rules]  # by custom verb; "" is none


class Match(NamedTuple):
    """The rule that serves a request, and its path variables by field path, decoded. Not to be changed."""

    binding: Binding
    variables: Mapping[str, str]


class Allowed(NamedTuple):
    """The path is known, the HTTP verb is not one of its `verbs` (sorted, as for the header Allow)."""

    verbs: tuple[str, ...]


class _Path(NamedTuple):
    """A decoded path, whole and with the custom verb taken off its last segment (`cut` is None without a colon)."""

    whole: list[str]
    cut: list[str] | None
    custom: str


class _Shape:
    """The templates that have their literals at the same positions, found by those literals in one lookup."""

    def __init__(self, segments: tuple[str, ...]) -> None:
        literals = [i for i, s in enumerate(segments) if s not in (ONE, REST)]
        self.open = segments[-1] == REST
        self.length = len(segments) - self.open
        self.order = tuple(_OPENNESS.get(s, 0) for s in segments)
        self.key: Any = itemgetter(*literals) if literals else lambda segments: ()
        self.ends: dict[Any, Ends] = {}

    def takes(self, count: int) -> bool:
        return count == self.length or (self.open and count > self.length)

    def find(self, path: _Path) -> tuple[Ends, str, list[str]] | None:
        """Only a verb that these templates know is one, and it hides the template without: `x:cancel` is no id."""
        if path.cut is not None:
            ends = self.ends.get(self.key(path.cut))
            if ends and path.custom in ends:
                return (ends, path.custom, path.cut) if path.cut[-1] else None
        ends = self.ends.get(self.key(path.whole))
        return (ends, "", path.whole) if ends and "" in ends else None


class Router:
    """All routes of some RPCs. Literals win over variables, so un-prefixed paths win over `/{tenant}/…`.

    Raises ValueError for a rule that cannot be served, and for two that match the same requests.
    """

    def __init__(self, methods: Iterable[Method]) -> None:
        shapes: dict[tuple[int, ...], _Shape] = {}
        self.bindings = tuple(b for m in methods for b in bindings(m))
        for binding in self.bindings:
            self._add(shapes, binding)
        self._shapes = sorted(shapes.values(), key=lambda shape: shape.order)
        _serve_actions_on_post(shapes.values())
        self._by_count = [self._taking(count) for count in range(2 + max((s.length for s in self._shapes), default=0))]
        self._literal = dict(_literal_paths(shapes.values()))

    def match(self, verb: str, raw_path: str) -> Match | Allowed | None:
        """What serves a request; the verbs that would (405); or None (404). `raw_path` is still percent-encoded.

        Segments are split first and decoded then, so `%2F` stays inside a variable and `%3A` starts no custom verb. An
        empty segment, or one that is not percent-encoded UTF-8, matches nothing.
        """
        found = self._literal.get(raw_path)
        if found and verb in found:
            return found[verb]
        path = _split(raw_path)
        return self._search(verb, path) if path else None

    def hint(self, verb: str, raw_path: str) -> str | None:
        """What was probably meant by a path that matches nothing, for the text of a 404."""
        for other, why in _corrected(raw_path):
            found = self.match(verb, other)
            if found is not None:
                verbs = verb if isinstance(found, Match) else " or ".join(found.verbs)
                return f"did you mean {verbs} {other[:LONGEST]}? ({why})"
        path = _split(raw_path)
        if path is None:
            return _why_unreadable(raw_path)
        return self._unknown_action(verb, path) or self._nearest(verb, path)

    @staticmethod
    def bind(match: Match, query: Iterable[tuple[str, str]] = (), body: Any = None) -> Message:
        """The request message of a match; see `http_request.bind`. Raises InvalidParamsError with all violations."""
        return bind(match.binding, match.variables, query, body)

    @staticmethod
    def _add(shapes: dict[tuple[int, ...], _Shape], binding: Binding) -> None:
        template = binding.template
        shape = _Shape(template.segments)
        shape = shapes.setdefault(shape.order, shape)
        rules = shape.ends.setdefault(shape.key(template.segments), {}).setdefault(template.verb, {})
        other = rules.setdefault(binding.verb, binding)
        if other is not binding:
            raise ValueError(
                f"{binding.method.path}: {binding} matches the same requests as {other.method.path}: {other}"
            )

    def _taking(self, count: int) -> tuple[list[_Shape], list[_Shape]]:
        """The shapes for paths of so many segments, and those among them that begin with a literal."""
        taking = [s for s in self._shapes if s.takes(count)]
        return taking, [s for s in taking if s.order[0] == 0]

    def _search(self, verb: str, path: _Path) -> Match | Allowed | None:
        allowed: set[str] = set()
        for ends, custom, segments in self._candidates(path):
            rules = ends[custom]
            binding = rules.get(verb) or rules.get(ANY)
            if binding:
                return Match(binding, {v.path: v.value(segments) for v in binding.template.variables})
            if not _asks_for_an_action(path, custom, ends, verb):
                allowed.update(rules)
        return Allowed(tuple(sorted(allowed))) if allowed else None

    def _candidates(self, path: _Path) -> Iterator[tuple[Ends, str, list[str]]]:
        shapes, literal_first = self._by_count[min(len(path.whole), len(self._by_count) - 1)]
        reserved = path.whole[0] in RESERVED or (path.cut is not None and path.cut[0] in RESERVED)
        for shape in literal_first if reserved else shapes:
            found = shape.find(path)
            if found:
                yield found

    def _unknown_action(self, verb: str, path: _Path) -> str | None:
        """`POST /tasks/x:stop`: the actions that there are."""
        for ends, custom, _ in self._candidates(path):
            if _asks_for_an_action(path, custom, ends, verb):
                known = sorted(f":{c}" for c, rules in ends.items() if c and verb in rules)
                return f"{verb} takes {' or '.join(known)} here, not :{path.custom[:LONGEST]}"
        return None

    def _nearest(self, verb: str, path: _Path) -> str | None:
        literal_only = path.whole[0] in RESERVED
        known = [b for b in self.bindings if not literal_only or b.template.segments[0] not in _OPENNESS]
        return nearest_template(verb, path.whole, known)


def _split(raw_path: str) -> _Path | None:
    segments = decode(raw_path) if raw_path[:1] == "/" else None
    if segments is None or "" in segments:
        return None
    if ":" not in raw_path:
        return _Path(segments, None, "")
    stem, _, custom = raw_path.rpartition("/")[2].rpartition(":")
    return _Path(segments, [*segments[:-1], unquote(stem)] if custom else None, unquote(custom))


def _asks_for_an_action(path: _Path, custom: str, ends: Ends, verb: str) -> bool:
    """`POST /tasks/x:stop` is an unknown action (404), not the task `x:stop` that only GET may have (405)."""
    return path.cut is not None and not custom and any(verb in rules for c, rules in ends.items() if c)


def _serve_actions_on_post(shapes: Iterable[_Shape]) -> None:
    """A custom verb names an action, and clients POST actions: one annotated GET is served on POST as well."""
    for shape in shapes:
        for ends in shape.ends.values():
            for rules in [rules for custom, rules in ends.items() if custom and "GET" in rules]:
                rules.setdefault("POST", replace(rules["GET"], verb="POST", body=ANY))


def _literal_paths(shapes: Iterable[_Shape]) -> Iterator[tuple[str, dict[str, Match]]]:
    for shape in shapes:
        if not any(shape.order):
            for ends in shape.ends.values():
                for rules in ends.values():
                    yield next(iter(rules.values())).template.text, {v: Match(b, {}) for v, b in rules.items()}


def _corrected(raw_path: str) -> Iterator[tuple[str, str]]:
    """Paths that are often meant, and what to know about them."""
    if raw_path.startswith("/v1/"):
        yield raw_path.removeprefix("/v1"), "/v1 is the 0.3 path"
    if raw_path.endswith("/"):
        yield raw_path.rstrip("/"), "no path ends in a slash"


def _why_unreadable(raw_path: str) -> str | None:
    if decode(raw_path) is None:
        return "the path is not percent-encoded UTF-8"
    return "a segment of the path is empty" if raw_path.strip("/") else None
