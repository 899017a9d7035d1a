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

ANY = "*"  # as a body: the whole message


@dataclass(frozen=True)
class Binding:
    """One compiled rule of one RPC."""

    method: Method
    verb: str
    template: Template
    body: FieldDescriptor | str | None

    @cached_property
    def missing(self) -> tuple[FieldDescriptor, ...]:
        """The REQUIRED fields that only the body can give."""
        bound = {variable.field for variable in self.template.variables}
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
        kind = rule.WhichOneof("pattern") or ""
        verb, text = kind.upper(), getattr(rule, kind, "")
        try:
            if index and rule.additional_bindings:
                raise ValueError("additional_bindings cannot be nested")
            yield _binding(method, rule, verb, text)
        except ValueError as error:
            raise ValueError(f'{method.path}: {verb} "{text}": {error}') from None


def _binding(method: Method, rule: HttpRule, verb: str, text: str) -> Binding:
    if verb in ("", "CUSTOM"):
        raise ValueError("the rule has no HTTP verb: set get, put, post, delete or patch")
    if verb == "GET" and rule.body:
        raise ValueError("GET takes no body")
    if rule.response_body:
        raise ValueError("response_body is not served: every answer is the whole response")
    template = parse(text)
    taken = [variable.field for variable in template.variables]
    for name in taken:
        _check_variable(descriptor(method.request), name)
    if len(set(taken)) < len(taken):
        raise ValueError("a variable appears twice")
    return Binding(method, verb, template, _body(descriptor(method.request), rule.body, taken))


def _check_variable(request: Descriptor, name: str) -> None:
    field = _field(request, name, f"variable {{{name}}}")
    if field.type != FieldDescriptor.TYPE_STRING or is_repeated(field):
        raise ValueError(f"variable {{{name}}} must be a single string")


def _body(request: Descriptor, name: str, taken: list[str]) -> FieldDescriptor | str | None:
    if name in ("", ANY):
        return name or None
    if name in taken:
        raise ValueError(f'body "{name}" is already a path variable')
    return _field(request, name, "body")


def _field(message: Descriptor, name: str, what: str) -> FieldDescriptor:
    field = message.fields_by_name.get(name)
    if field is None:
        near = nearest(name, message.fields_by_name)
        hint = f', did you mean "{near}"?' if near else ""
        raise ValueError(f'{what}: {message.full_name} has no field "{name}"{hint}')
    return field


def _is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
