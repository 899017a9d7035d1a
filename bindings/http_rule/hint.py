"""What was probably meant by a path that matches nothing."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from .binding import Binding
from .router import RESERVED, Match, Path, Router, split
from .template import ONE, Template, decode

ENOUGH = 0.6  # likeness from which a suggestion helps more than it misleads
LONGEST = 80  # a hostile path must not cost more than a misspelt one


def hint(router: Router, verb: str, raw_path: str) -> str | None:
    """`did you mean GET /tasks/{id}?`, for the text of a 404."""
    for other, why in _corrected(raw_path):
        found = router.match(verb, other)
        if found is not None:
            verbs = verb if isinstance(found, Match) else " or ".join(found.verbs)
            return f"did you mean {verbs} {other[:LONGEST]}? ({why})"
    path = split(raw_path)
    if path is None:
        return _why_unreadable(raw_path)
    if known := router.unknown_action(verb, path):
        return f"{verb} takes {' or '.join(f':{action}' for action in known)} here, not :{path.custom[:LONGEST]}"
    return _nearest(verb, path, router.bindings)


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


def _nearest(verb: str, path: Path, bindings: Iterable[Binding]) -> str | None:
    literal_only, written = path.whole[0] in RESERVED, "/".join(path.whole)[:LONGEST]
    known = [b for b in bindings if not literal_only or b.template.segments[0] != ONE]
    scores = [(_likeness(written, path.whole, b.template), b.verb == verb, b) for b in known]
    best = max(scores, key=lambda s: (s[0], s[1], -len(s[2].template.variables)), default=None)
    return f"did you mean {best[2]}?".replace("=*}", "}") if best and best[0] >= ENOUGH else None


def _likeness(written: str, segments: Sequence[str], template: Template) -> float:
    """By the literals alone where the lengths agree, as ids say nothing; else by the whole texts."""
    if len(segments) != len(template.segments):
        return _ratio(written, template.text)
    pairs = [(s, w) for s, w in zip(segments, template.segments, strict=True) if w != ONE]
    found, wanted = ("/".join(side) for side in zip(*pairs, strict=True)) if pairs else ("", "")
    if template.verb and template.segments[-1] == ONE:
        found += ":" + segments[-1].rpartition(":")[2]
    return _ratio(found, wanted + (":" + template.verb if template.verb else ""))


def _ratio(a: str, b: str) -> float:
    return SequenceMatcher(None, a[:LONGEST].lower(), b.lower()).ratio()
