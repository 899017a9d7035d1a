"""Options as keyword arguments: a wrong name is told the nearest right one, a wrong value what it must be."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

from .errors import did_you_mean

T = TypeVar("T")


class Rule(NamedTuple):
    """What some options must be: a test, and its words. A value that the test cannot take is wrong too."""

    names: Sequence[str]
    is_right: Callable[[Any], object]
    words: str


def from_keywords(kind: type[T], given: Mapping[str, Any]) -> T:
    """A dataclass of options from keyword arguments; TypeError names the nearest right name."""
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        if name not in names:
            advice = did_you_mean(name, names, f"there are {', '.join(names)}")
            raise TypeError(f"unknown option {name}; {advice}")
    return kind(**given)


def check(options: object, rules: Sequence[Rule]) -> None:
    """Raises ValueError for the first option that breaks a rule."""
    for rule in rules:
        for name in rule.names:
            value = getattr(options, name)
            if not _holds(rule, value):
                raise ValueError(f"{name} must be {rule.words}, not {value!r}")


def _holds(rule: Rule, value: Any) -> bool:
    try:
        return bool(rule.is_right(value))
    except (TypeError, ValueError):
        return False


def is_list(value: Any) -> bool:
    """Whether a value is several ones; a text is a single one."""
    return isinstance(value, Collection) and not isinstance(value, str)
