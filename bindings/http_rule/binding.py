"""`google.api.http` rules, compiled: every template, variable and body resolved to descriptors once, at start-up."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from google.api import field_behavior_pb2
from google.api.http_pb2 import HttpRule
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ...errors import nearest
from ...methods import Method
from ..protojson.fields import descriptor, is_repeated
from .template import Template, parse

Chain = tuple[FieldDescriptor, ...]
"""The fields that a dotted name goes through."""

ANY = "*"  # as a body: the whole message; as a verb of a `custom` rule: every verb


@dataclass(frozen=True)
class Binding:
    """One compiled rule of one RPC. `fields` holds the field chain of each path variable, in the template's order."""

    method: Method
    verb: str
    template: Template
    fields: tuple[Chain, ...]
    body: FieldDescriptor | str | None

    @cached_property
    def plain(self) -> bool:
        """The path variables are strings of the request itself: they need no conversion."""
        return all(len(chain) == 1 and chain[0].type == FieldDescriptor.TYPE_STRING for chain in self.fields)

    @cached_property
    def missing(self) -> tuple[FieldDescriptor, ...]:
        """The REQUIRED fields that only the body can give."""
        bound = {chain[0].name for chain in self.fields}
        taken = [self.body] if isinstance(self.body, FieldDescriptor) else self.request.fields if self.body else []
        return tuple(f for f in taken if _is_required(f) and f.name not in bound)

    @property
    def request(self) -> Descriptor:
        return descriptor(self.method.request)

    def __str__(self) -> str:
        return f"{self.verb} {self.template.text}"


def bindings(method: Method) -> Iterator[Binding]:
    """The compiled rules of an RPC, the primary one first.

    Raises ValueError, naming the RPC and the template, for a rule that cannot be served.
    """
    for index, rule in enumerate(method.rules):
        verb, text = _pattern(rule)
        try:
            if index and rule.additional_bindings:
                raise ValueError("additional_bindings cannot be nested")
            yield _binding(method, rule, verb, text)
        except ValueError as error:
            raise ValueError(f'{method.path}: {verb} "{text}": {error}') from None


def _pattern(rule: HttpRule) -> tuple[str, str]:
    kind = rule.WhichOneof("pattern")
    if kind == "custom":
        return rule.custom.kind, rule.custom.path
    return (kind.upper(), getattr(rule, kind)) if kind else ("", "")


def _binding(method: Method, rule: HttpRule, verb: str, text: str) -> Binding:
    if not verb:
        raise ValueError("the rule has no HTTP verb: set get, put, post, delete, patch or custom")
    if verb == "GET" and rule.body:
        raise ValueError("GET takes no body")
    if rule.response_body:
        raise ValueError("response_body is not served: every answer is the whole response")
    template, request = parse(text), descriptor(method.request)
    fields = tuple(_chain(request, v.path) for v in template.variables)
    paths = [v.path for v in template.variables]
    if len(set(paths)) < len(paths):
        raise ValueError("a variable appears twice")
    return Binding(method, verb, template, fields, _body(request, rule.body, paths))


def _body(request: Descriptor, name: str, paths: list[str]) -> FieldDescriptor | str | None:
    if name in ("", ANY):
        return name or None
    if name in paths:
        raise ValueError(f'body "{name}" is already a path variable')
    return _field(request, name, "body")


def _chain(message: Descriptor, path: str) -> Chain:
    """The fields of a dotted path: messages, and a single scalar at the end."""
    what = f"variable {{{path}}}"
    chain: list[FieldDescriptor] = []
    *outer, last = path.split(".")
    for name in outer:
        chain.append(_field(message, name, what))
        held = fields_within(chain[-1])
        if held is None:
            raise ValueError(f'{what}: "{name}" is not a single message with fields in its JSON')
        message = held
    leaf = _field(message, last, what)
    if leaf.message_type is not None or is_repeated(leaf):
        raise ValueError(f"{what} must be a single scalar, not a message, map or repeated field")
    return (*chain, leaf)


def _field(message: Descriptor, name: str, what: str) -> FieldDescriptor:
    field = message.fields_by_name.get(name)
    if field is None:
        near = nearest(name, message.fields_by_name)
        hint = f', did you mean "{near}"?' if near else ""
        raise ValueError(f'{what}: {message.full_name} has no field "{name}"{hint}')
    return field


def fields_within(field: FieldDescriptor) -> Descriptor | None:
    """The message type that a dotted name goes on into: not a repeated one, nor one with a JSON form of its own."""
    held = field.message_type
    if held is None or is_repeated(field) or held.file.package == "google.protobuf":
        return None
    return held


def _is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
