"""Path variables, query and body → the request message, as `google.api.http` divides them.

All three are laid into one JSON-like tree, which is read once: one set of rules, one set of error texts, and every
fault of a request told at once. Spec sections 5.5 and 11.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ...errors import InvalidParamsError, Violation
from ..protojson import from_json
from .binding import ANY, Binding
from .parameter import LONGEST_NAME, Parameter, parameter

BESIDE_BODY = frozenset({"tenant"})
"""Fields that a query may give where the body is the whole message, if neither path nor body gives them."""

Query = Iterable[tuple[str, str]]
Tree = dict[str, Any]


def bind(binding: Binding, variables: Mapping[str, str], query: Query = (), body: Any = None) -> Message:
    """The request message. `variables` and `query` are percent-decoded; `body` is parsed JSON, None for none.

    The path wins over the body. Unknown parameters and a body that the rule does not take are ignored. Enums are given
    by name or number, and repeated numbers and enums also as a comma list; an empty parameter is unset; of a single
    field given twice, the last counts. Raises InvalidParamsError with all violations.
    """
    request = binding.method.request
    if body is None and binding.missing:
        raise _empty_body(binding)
    if not query and binding.plain and (body is None or binding.body is None):
        return request(**variables)
    return from_json(request, _tree(binding, variables, query, body))


def _tree(binding: Binding, variables: Mapping[str, str], query: Query, body: Any) -> Any:
    tree = _body(binding, body)
    if not isinstance(tree, dict):
        return tree
    for field, texts in _given(binding.request, query):
        if _is_free(binding, field, tree):
            _put(tree, field, field.value(texts))
    for name, text in variables.items():
        found = parameter(binding.request, name)
        if found:
            _put(tree, found, found.read(text))
    return tree


def _body(binding: Binding, body: Any) -> Any:
    """A tree that may be changed; not an object where the body is not the object that it must be."""
    if body is None or binding.body is None:
        return {}
    if isinstance(binding.body, FieldDescriptor):
        return {binding.body.json_name: body}
    return dict(body) if isinstance(body, dict) else body


def _empty_body(binding: Binding) -> InvalidParamsError:
    names = ", ".join(field.json_name for field in binding.missing)
    violations = [Violation(field.name, "is required") for field in binding.missing]
    what = f"a JSON object with {names}" if binding.body == ANY else f"{names} as JSON"
    return InvalidParamsError(violations, f"The body is empty; send {what}")


def _given(request: Descriptor, query: Query) -> Iterable[tuple[Parameter, list[str]]]:
    """The known fields of a query with their texts, in order, without the empty ones."""
    found: dict[str, tuple[Parameter, list[str]]] = {}
    for name, text in query:
        field = parameter(request, name) if text and len(name) <= LONGEST_NAME else None
        if field:
            found.setdefault(field.path, (field, []))[1].append(text)
    return found.values()


def _is_free(binding: Binding, field: Parameter, tree: Tree) -> bool:
    """Whether the query may give this field."""
    name, json_name = field.steps[0]
    if binding.body == ANY:
        return name in BESIDE_BODY and not (tree.get(json_name) or tree.get(name))
    return not isinstance(binding.body, FieldDescriptor) or name != binding.body.name


def _put(tree: Tree, field: Parameter, value: Any) -> None:
    """Sets one field, however the body spelt it. Where the body has no object on the way, the parser will refuse it."""
    *outer, last = field.steps
    for step in outer:
        inner = _taken(tree, step)
        if inner is not None and not isinstance(inner, dict):
            tree[step[1]] = inner
            return
        tree[step[1]] = tree = dict(inner or {})
    _taken(tree, last)
    tree[last[1]] = value


def _taken(tree: Tree, step: tuple[str, str]) -> Any:
    by_proto_name, by_json_name = tree.pop(step[0], None), tree.pop(step[1], None)
    return by_proto_name if by_json_name is None else by_json_name
