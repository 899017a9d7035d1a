"""The path template that was probably meant by a path that none matches."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from .http_binding import Binding
from .http_template import ONE, REST, Template

ENOUGH = 0.6  # likeness from which a suggestion helps more than it misleads
LONGEST = 80  # a hostile path must not cost more than a misspelt one


def nearest_template(verb: str, segments: Sequence[str], bindings: Iterable[Binding]) -> str | None:
    """`did you mean GET /tasks/{id}?` for `["task", "x"]`."""
    written = "/".join(segments)[:LONGEST]
    scores = [(_likeness(written, segments, b.template), b.verb == verb, b) for b in bindings]
    best = max(scores, key=lambda s: (s[0], s[1], -len(s[2].template.variables)), default=None)
    return f"did you mean {best[2]}?".replace("=*}", "}") if best and best[0] >= ENOUGH else None


def _likeness(written: str, segments: Sequence[str], template: Template) -> float:
    """By the literals alone where the lengths agree, as ids say nothing; else by the whole texts."""
    if len(segments) != len(template.segments):
        return _ratio(written, template.text)
    pairs = [(s, w) for s, w in zip(segments, template.segments, strict=True) if w not in (ONE, REST)]
    found, wanted = ("/".join(side) for side in zip(*pairs, strict=True)) if pairs else ("", "")
    if template.verb and template.segments[-1] in (ONE, REST):
        found += ":" + segments[-1].rpartition(":")[2]
    return _ratio(found, wanted + (":" + template.verb if template.verb else ""))


def _ratio(a: str, b: str) -> float:
    return SequenceMatcher(None, a[:LONGEST].lower(), b.lower()).ratio()
