"""The other way round, for clients: a request message → verb, path, query and body."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from .binding import ANY, Binding


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
    usable = [b for b in bindings if all(getattr(message, v.field) for v in b.template.variables)]
    if not usable:
        raise ValueError(f"{message.DESCRIPTOR.full_name}: a field that the path needs is not set")
    binding = max(usable, key=lambda b: len(b.template.variables))
    taken = {v.field: getattr(message, v.field) for v in binding.template.variables}
    rest = type(message)()
    rest.CopyFrom(message)
    for field in taken:
        rest.ClearField(field)
    return Call(binding.verb, binding.template.expand(taken), *_query_and_body(binding, rest))


def _query_and_body(binding: Binding, rest: Message) -> tuple[list[tuple[str, str]], Any]:
    if binding.body == ANY:
        return [], rest
    if isinstance(binding.body, FieldDescriptor):
        return list(_query(rest, without=binding.body)), getattr(rest, binding.body.name)
    return list(_query(rest)), None


def _query(message: Message, without: FieldDescriptor | None = None) -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        if field != without:
            yield field.json_name, _text(field, value)


def _text(field: FieldDescriptor, value: Any) -> str:
    if isinstance(value, Timestamp):
        return value.ToJsonString()
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if isinstance(value, int | str):
        return str(value)
    raise ValueError(f"{field.full_name} cannot be sent in a URL")
