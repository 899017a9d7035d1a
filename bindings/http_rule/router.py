"""Routes: a verb and a path to a rule and its variables, by tables made once at start-up.

A path is one of three things: a `Match` to bind and call; `Allowed`, the verbs that it takes instead (405); or None
(404), where `hint` tells what was probably meant.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from ...methods import Method
from .binding import ANY, Binding, bindings
from .template import ONE, decode

RESERVED = frozenset({"v1", ".well-known"})
"""First segments that no variable takes: the path of protocol 0.3, and RFC 8615. Only literals match them."""

Rules = dict[str, Binding]  # by HTTP verb
Ends = dict[str, Rules]  # by custom verb; "" is none


class Match(NamedTuple):
    """The rule that serves a request, and its path variables by field, decoded. Not to be changed."""

    binding: Binding
    variables: Mapping[str, str]


class Allowed(NamedTuple):
    """The path is known, the HTTP verb is not one of its `verbs` (sorted, as for the header Allow)."""

    verbs: tuple[str, ...]


class Path(NamedTuple):
    """A decoded path, whole and with the custom verb taken off its last segment (`cut` is None without a colon)."""

    whole: list[str]
    cut: list[str] | None
    custom: str


class Router:
    """All routes of some RPCs. Literals win over variables, so un-prefixed paths win over `/{tenant}/…`.

    Raises ValueError for a rule that cannot be served, and for two that match the same requests.
    """

    def __init__(self, methods: Iterable[Method]) -> None:
        self.bindings = tuple(b for m in methods for b in bindings(m))
        self._ends: dict[tuple[str, ...], Ends] = {}
        for binding in self.bindings:
            self._add(binding)
        _serve_actions_on_post(self._ends.values())
        self._by_count: dict[int, list[tuple[tuple[str, ...], Ends]]] = {}
        for segments in sorted(self._ends, key=lambda segments: [segment == ONE for segment in segments]):
            self._by_count.setdefault(len(segments), []).append((segments, self._ends[segments]))
        self._literal = {
            b.template.text: {verb: Match(rule, {}) for verb, rule in self._rules(b).items()}
            for b in self.bindings
            if ONE not in b.template.segments
        }

    def match(self, verb: str, raw_path: str) -> Match | Allowed | None:
        """What serves a request; the verbs that would (405); or None (404). `raw_path` is still percent-encoded.

        Segments are split first and decoded then, so `%2F` stays inside a variable and `%3A` starts no custom verb. An
        empty segment, or one that is not percent-encoded UTF-8, matches nothing.
        """
        found = self._literal.get(raw_path)
        if found and verb in found:
            return found[verb]
        path = split(raw_path)
        return self._search(verb, path) if path else None

    def unknown_action(self, verb: str, path: Path) -> list[str] | None:
        """The actions that a verb takes where a path asks for one that there is not; None where it asks for none."""
        for ends, custom, _ in self._candidates(path):
            if _asks_for_an_action(path, custom, ends, verb):
                return sorted(c for c, rules in ends.items() if c and verb in rules)
        return None

    def _add(self, binding: Binding) -> None:
        other = self._rules(binding).setdefault(binding.verb, binding)
        if other is not binding:
            raise ValueError(
                f"{binding.method.path}: {binding} matches the same requests as {other.method.path}: {other}"
            )

    def _rules(self, binding: Binding) -> Rules:
        """The rules that match the same paths as this one."""
        template = binding.template
        return self._ends.setdefault(template.segments, {}).setdefault(template.verb, {})

    def _search(self, verb: str, path: Path) -> Match | Allowed | None:
        allowed: set[str] = set()
        for ends, custom, segments in self._candidates(path):
            rules = ends[custom]
            if binding := rules.get(verb):
                return Match(binding, {v.field: v.value(segments) for v in binding.template.variables})
            if not _asks_for_an_action(path, custom, ends, verb):
                allowed.update(rules)
        return Allowed(tuple(sorted(allowed))) if allowed else None

    def _candidates(self, path: Path) -> Iterator[tuple[Ends, str, list[str]]]:
        """What may serve a path, the custom verb that it then has, and its segments then.

        Only a verb that a template knows is one, and it hides the template without: `x:cancel` is no id.
        """
        whole, cut, custom = path
        reserved = whole[0] in RESERVED or (cut is not None and cut[0] in RESERVED)
        for wanted, ends in self._by_count.get(len(whole), ()):
            if reserved and wanted[0] == ONE:
                continue
            if cut is not None and custom in ends and _fits(cut, wanted):
                if cut[-1]:
                    yield ends, custom, cut
            elif "" in ends and _fits(whole, wanted):
                yield ends, "", whole


def split(raw_path: str) -> Path | None:
    """None for what matches nothing; see `Router.match`."""
    segments = decode(raw_path) if raw_path[:1] == "/" else None
    if segments is None or "" in segments:
        return None
    if ":" not in raw_path:
        return Path(segments, None, "")
    stem, _, custom = raw_path.rpartition("/")[2].rpartition(":")
    return Path(segments, [*segments[:-1], unquote(stem)] if custom else None, unquote(custom))


def _fits(segments: list[str], wanted: tuple[str, ...]) -> bool:
    for segment, want in zip(segments, wanted, strict=True):  # noqa: SIM110 (all() takes three times as long)
        if want != segment and want != ONE:
            return False
    return True


def _asks_for_an_action(path: Path, custom: str, ends: Ends, verb: str) -> bool:
    """`POST /tasks/x:stop` is an unknown action (404), not the task `x:stop` that only GET may have (405)."""
    return path.cut is not None and not custom and any(verb in rules for c, rules in ends.items() if c)


def _serve_actions_on_post(all_ends: Iterable[Ends]) -> None:
    """A custom verb names an action, and clients POST actions: one annotated GET is served on POST as well."""
    for rules in [rules for ends in all_ends for custom, rules in ends.items() if custom and "GET" in rules]:
        rules.setdefault("POST", replace(rules["GET"], verb="POST", body=ANY))
