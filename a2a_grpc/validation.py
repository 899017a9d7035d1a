"""What a message must hold, compiled once per message type from its descriptor.

A valid message costs one boolean expression per message; only an invalid one is looked at field by field. REQUIRED
comes from `google.api.field_behavior`; what descriptors cannot say stands in the small tables below.
"""

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from .errors import LONGEST_QUOTE, Violation, quote

MOST_COLLECTED = 100  # a message with a million faults must not cost more to refuse
INT32_MAX = 2**31 - 1

RANGES: Mapping[str, tuple[int, int]] = {
    "history_length": (0, INT32_MAX),
    "lf.a2a.v1.ListTasksRequest.page_size": (1, 100),
    "lf.a2a.v1.ListTaskPushNotificationConfigsRequest.page_size": (0, INT32_MAX),
}
"""Legal values, both ends included, by full name or by bare name of a field."""

REQUIRED_AT_ROOT = frozenset({"lf.a2a.v1.TaskPushNotificationConfig.task_id"})
"""Needed where the message is the whole request, not where it rides in another one."""

MAY_BE_EMPTY = frozenset(
    {
        "lf.a2a.v1.ListTasksResponse.tasks",
        "lf.a2a.v1.ListTasksResponse.next_page_token",
        "lf.a2a.v1.AuthorizationCodeOAuthFlow.scopes",
        "lf.a2a.v1.ClientCredentialsOAuthFlow.scopes",
        "lf.a2a.v1.DeviceCodeOAuthFlow.scopes",
    }
)
"""REQUIRED means here that the field is shown, not that it holds something."""


class _Value(NamedTuple):
    """How one value is tested, and what is wrong with it at a path. A failed test is a doubt; `faults` decides."""

    ok: Callable[[Any], bool]
    faults: Callable[[Any, str], Iterator[Violation]]


class _Check(NamedTuple):
    """One condition of a message type: an expression over `m`, its free names, and what is wrong where it is false."""

    source: str
    names: Mapping[str, Callable[[Any], bool]]
    faults: Callable[[Any, str], Iterator[Violation]]


def validator(message_type: type[Message]) -> Callable[[Message], list[Violation]]:
    """A function that names all faults of a message in field order, at most 100; `[]` means valid. It never raises."""
    return _validator(message_type.DESCRIPTOR)


@cache
def _validator(descriptor: Descriptor) -> Callable[[Message], list[Violation]]:
    rules = _rules(descriptor, root=True)
    if rules is None:
        return lambda message: []
    ok, faults = rules
    return lambda message: [] if ok(message) else list(islice(faults(message, ""), MOST_COLLECTED))


@cache
def _rules(descriptor: Descriptor, root: bool = False) -> _Value | None:
    """The checks of a message type as one value; None where it has nothing to check, however deep one looks."""
    checks = list(_checks(descriptor, root))
    if not checks:
        return None
    tests = [_compiled([check]) for check in checks]

    def faults(message: Message, path: str) -> Iterator[Violation]:
        for check, ok in zip(checks, tests, strict=True):
            if not ok(message):
                yield from check.faults(message, path)

    return _Value(_compiled(checks), faults)


def _compiled(checks: Iterable[_Check]) -> Callable[[Message], bool]:
    """One expression instead of a loop over closures: it runs for every request."""
    names: dict[str, Any] = {}
    for check in checks:
        names |= check.names
    source = " and ".join(f"({check.source})" for check in checks)
    return eval(f"lambda m: {source}", names)  # type: ignore[no-any-return]


def _checks(descriptor: Descriptor, root: bool) -> Iterator[_Check]:
    oneofs = {oneof.fields[0].name: oneof for oneof in _real_oneofs(descriptor)}
    for field in descriptor.fields:
        if field.name in oneofs:
            yield _one_of(oneofs[field.name])
        check = _field(field, _required(field, root))
        if check is not None:
            yield check


def _one_of(oneof: OneofDescriptor) -> _Check:
    text = f"holds nothing; set one of {', '.join(f.name for f in oneof.fields)}"
    return _Check(f"m.HasField({oneof.name!r})", {}, lambda _, path: iter([Violation(path, text)]))


def _field(field: FieldDescriptor, required: bool) -> _Check | None:
    given = _given(field) if required else ""
    value = _value(field)
    conditions = [given] if given else []
    if value is not None:
        conditions.append(_tested(field, bool(given)))
    if not conditions:
        return None
    names = {} if value is None else {_name(field): value.ok}
    return _Check(" and ".join(conditions), names, _field_faults(field, given, value))


def _given(field: FieldDescriptor) -> str:
    """The expression that tells whether a field is given; "" for numbers, where 0 is a value like any other."""
    if _repeated(field) or field.type in _TEXTS or (field.type == field.TYPE_ENUM and not field.has_presence):
        return _get(field)
    return f"m.HasField({field.name!r})" if field.has_presence else ""


def _tested(field: FieldDescriptor, given: bool) -> str:
    get, ok = _get(field), _name(field)
    if _repeated(field):
        return f"all(map({ok}, {get}{'.values()' if _is_map(field) else ''}))"
    if field.has_presence and not given:
        return f"(not m.HasField({field.name!r}) or {ok}({get}))"
    return f"{ok}({get})"


def _field_faults(
    field: FieldDescriptor, given: str, value: _Value | None
) -> Callable[[Any, str], Iterator[Violation]]:
    is_given = eval(f"lambda m: {given or True}")

    def faults(message: Message, path: str) -> Iterator[Violation]:
        here = f"{path}.{field.name}" if path else field.name
        if not is_given(message):
            yield Violation(here, _required_text(field))
        elif value is not None:
            for place, found in _values(field, getattr(message, field.name)):
                if not value.ok(found):
                    yield from value.faults(found, here + place)

    return faults


def _values(field: FieldDescriptor, found: Any) -> Iterator[tuple[str, Any]]:
    if _is_map(field):
        yield from ((f"[{quote(key)}]", value) for key, value in found.items())
    elif _repeated(field):
        yield from ((f"[{index}]", value) for index, value in enumerate(found))
    else:
        yield "", found


def _required_text(field: FieldDescriptor) -> str:
    if _repeated(field):
        return "must not be empty; give at least one"
    if field.enum_type is not None:
        return f"is required; one of {_known(field.enum_type)}"
    return "is required"


def _value(field: FieldDescriptor) -> _Value | None:
    """How one value of a field is tested: an element where it is repeated, a value where it is a map."""
    held = field.message_type
    if held is not None and held.GetOptions().map_entry:
        return _value(held.fields_by_name["value"])
    if held is not None:
        return _SHOWABLE.get(held.full_name) or _rules(held)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    limits = RANGES.get(field.full_name) or RANGES.get(field.name)
    return _range(*limits) if limits else None


def _enum(enum: EnumDescriptor) -> _Value:
    text = f"known: {_known(enum)}"
    known = frozenset(enum.values_by_number)
    return _Value(known.__contains__, lambda value, path: iter([Violation(path, f"unknown value {value}; {text}")]))


def _known(enum: EnumDescriptor) -> str:
    return ", ".join(value.name for value in enum.values if value.number)


def _range(low: int, high: int) -> _Value:
    text = f"must be {low} or more" if high == INT32_MAX else f"must be between {low} and {high}"
    return _Value(
        lambda value: low <= value <= high,
        lambda value, path: iter([Violation(path, f"{text}, not {value}")]),
    )


# Values that a protobuf message can hold and JSON cannot show.

_NON_FINITE = re.compile(rb"\x11.{6}[\xf0-\xff][\x7f\xff]", re.DOTALL)
"""Value.number_value on the wire, all bits of its exponent set. Other bytes may look alike, so a hit proves nothing."""


def _finite(value: Message) -> bool:
    """Whether all numbers of a Struct, Value or ListValue are surely finite, found out in C."""
    return not _NON_FINITE.search(value.SerializeToString())


def _finite_faults(value: Message, path: str) -> Iterator[Violation]:
    for number, place in islice(_not_finite(value), 1):
        yield Violation(path, f"holds {number}{place}, which JSON cannot show; use a finite number")


def _not_finite(root: Any) -> Iterator[tuple[float, str]]:
    """The numbers that are not finite, each with where it stands. Trails are links, not texts, as a key may be long."""
    stack: list[tuple[Any, Any]] = [(root, None)]
    while stack:
        node, trail = stack.pop()
        if node.DESCRIPTOR.name == "Value":
            node = getattr(node, node.WhichOneof("kind") or "null_value")
        if isinstance(node, float) and not isfinite(node):
            yield node, _place(trail)
        elif isinstance(node, Message):
            stack.extend((child, (trail, key)) for key, child in reversed(list(_children(node))))


def _children(node: Any) -> Iterable[tuple[object, Any]]:
    if node.DESCRIPTOR.name == "Struct":
        return node.fields.items()  # type: ignore[no-any-return]
    return enumerate(node.values)


def _place(trail: Any) -> str:
    keys: list[str] = []
    while trail is not None:
        trail, key = trail
        keys.append(str(key)[:LONGEST_QUOTE])
    return f" at {quote('.'.join(reversed(keys)))}" if keys else ""


def _in_calendar(timestamp: Timestamp) -> bool:
    in_years = -62_135_596_800 <= timestamp.seconds < 253_402_300_800
    return in_years and 0 <= timestamp.nanos < 1_000_000_000


def _calendar_faults(_: Message, path: str) -> Iterator[Violation]:
    yield Violation(path, "must be between year 1 and year 9999, with 0 to 999999999 nanos")


_JSON = _Value(_finite, _finite_faults)
_SHOWABLE: Mapping[str, _Value] = {
    "google.protobuf.Struct": _JSON,
    "google.protobuf.Value": _JSON,
    "google.protobuf.ListValue": _JSON,
    "google.protobuf.Timestamp": _Value(_in_calendar, _calendar_faults),
}


# Descriptors, read in ways that protobuf 5 and 7 share.

_TEXTS = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})


def _required(field: FieldDescriptor, root: bool) -> bool:
    if field.full_name in MAY_BE_EMPTY:
        return False
    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behaviors or (root and field.full_name in REQUIRED_AT_ROOT)


def _real_oneofs(descriptor: Descriptor) -> list[OneofDescriptor]:
    """Without those that `optional` makes behind the scenes."""
    proto = DescriptorProto()
    descriptor.CopyToProto(proto)
    synthetic = {field.oneof_index for field in proto.field if field.proto3_optional}
    return [oneof for index, oneof in enumerate(descriptor.oneofs) if index not in synthetic]


def _repeated(field: FieldDescriptor) -> bool:
    return isinstance(field.default_value, list)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _name(field: FieldDescriptor) -> str:
    return f"ok_{field.number}"


def _get(field: FieldDescriptor) -> str:
    return f"getattr(m, {field.name!r})" if keyword.iskeyword(field.name) else f"m.{field.name}"
