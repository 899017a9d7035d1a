"""Path variables, query and body → the request message, as `google.api.http` divides them.

All three are laid into one JSON-like tree, which is read once: one set of rules, one set of error texts, and every
fault of a request told at once. Spec sections 5.5 and 11.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ...errors import InvalidParamsError, Violation
from ..protojson import from_json
from .binding import ANY, Binding
from .parameter import parameter, value

BESIDE_BODY = frozenset({"tenant"})
"""Fields that a query may give where the body is the whole message, if neither path nor body gives them."""

Query = Iterable[tuple[str, str]]


def bind(binding: Binding, variables: Mapping[str, str], query: Query = (), body: Any = None) -> Message:
    """The request message. `variables` and `query` are percent-decoded; `body` is parsed JSON, None for none.

    The path wins over the body. Unknown parameters and a body that the rule does not take are ignored. Enums are given
    by name or number; an empty parameter is unset; of a field given twice, the last counts. Raises InvalidParamsError
    with all violations.
    """
    if body is None and binding.missing:
        raise _empty_body(binding)
    if not query and (body is None or binding.body is None):
        return binding.method.request(**variables)
    tree = _body(binding, body)
    if (query or variables) and isinstance(tree, dict):
        _lay(binding, variables, query, tree)
    return from_json(binding.method.request, tree)


def _lay(binding: Binding, variables: Mapping[str, str], query: Query, tree: dict[str, Any]) -> None:
    """Query and path into the tree."""
    given = {field: text for name, text in query if text and (field := parameter(binding.request, name))}
    free = {field: value(field, text) for field, text in given.items() if _is_free(binding, field, tree)}
    bound = {binding.request.fields_by_name[name]: text for name, text in variables.items()}
    for field, item in {**free, **bound}.items():
        tree.pop(field.name, None)  # however the body spelt it
        tree[field.json_name] = item


def _body(binding: Binding, body: Any) -> Any:
    """A tree that may be changed; not an object where the body is not the object that it must be."""
    if body is None or binding.body is None:
        return {}
    if isinstance(binding.body, str):
        return dict(body) if isinstance(body, dict) else body
    return {binding.body.json_name: body}


def _is_free(binding: Binding, field: FieldDescriptor, tree: Mapping[str, Any]) -> bool:
    """Whether the query may give this field."""
    if binding.body == ANY:
        return field.name in BESIDE_BODY and not (tree.get(field.json_name) or tree.get(field.name))
    return field != binding.body


def _empty_body(binding: Binding) -> InvalidParamsError:
    names = ", ".join(field.json_name for field in binding.missing)
    violations = [Violation(field.name, "is required") for field in binding.missing]
    what = f"a JSON object with {names}" if binding.body == ANY else f"{names} as JSON"
    return InvalidParamsError(violations, f"The body is empty; send {what}")
