"""The other way round, for clients: a request message → verb, path, query and body."""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from ..protojson.fields import is_repeated
from .binding import ANY, Binding, Chain, fields_within


class Call(NamedTuple):
    """An HTTP request. `body` is what to print as JSON: a message or the value of one field; None for no body."""

    verb: str
    path: str
    query: list[tuple[str, str]]
    body: Any


def expand(bindings: Iterable[Binding], message: Message) -> Call:
    """The call that carries a message, by the rule that takes most set fields into the path.

    Raises ValueError where every rule has a variable that is unset, or a field fits neither path nor query.
    """
    usable = [b for b in bindings if all(_get(message, chain) for chain in b.fields)]
    if not usable:
        raise ValueError(f"{message.DESCRIPTOR.full_name}: a field that the path needs is not set")
    binding = max(usable, key=lambda b: len(b.fields))
    path = binding.template.expand({_name(c): _text(c[-1], _get(message, c)) for c in binding.fields})
    rest = type(message)()
    rest.CopyFrom(message)
    for chain in binding.fields:
        _get(rest, chain[:-1]).ClearField(chain[-1].name)
    return Call(binding.verb, path, *_query_and_body(binding, rest))


def _query_and_body(binding: Binding, rest: Message) -> tuple[list[tuple[str, str]], Any]:
    if binding.body == ANY:
        return [], rest
    if not isinstance(binding.body, FieldDescriptor):
        return list(_query(rest)), None
    return list(_query(rest, binding.body.number)), getattr(rest, binding.body.name)


def _query(message: Message, without: int = 0, prefix: str = "") -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        name = prefix + field.json_name
        if field.number == without:
            continue
        if fields_within(field):
            yield from _query(value, prefix=name + ".")
        else:
            yield from ((name, _text(field, item)) for item in (value if is_repeated(field) else [value]))


def _text(field: FieldDescriptor, value: Any) -> str:
    held = field.message_type
    if held is None:
        return _TEXTS[field.type](field, value) if field.type in _TEXTS else str(value)
    if isinstance(value, Timestamp | Duration):
        return value.ToJsonString()
    raise ValueError(f"{field.full_name}: {held.full_name} cannot be sent in a URL")


def _enum(field: FieldDescriptor, value: int) -> str:
    known = field.enum_type and field.enum_type.values_by_number.get(value)
    return known.name if known else str(value)


_TEXTS: dict[int, Callable[[FieldDescriptor, Any], str]] = {
    FieldDescriptor.TYPE_BOOL: lambda field, value: "true" if value else "false",
    FieldDescriptor.TYPE_BYTES: lambda field, value: base64.b64encode(value).decode(),
    FieldDescriptor.TYPE_ENUM: _enum,
}


def _get(message: Any, chain: Chain) -> Any:
    for field in chain:
        message = getattr(message, field.name)
    return message


def _name(chain: Chain) -> str:
    return ".".join(field.name for field in chain)
