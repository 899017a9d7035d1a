"""Reading what servers say: what a newer server knows and this client does not, is passed over. Requirements A-15."""

from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ...bindings.protojson import from_json
from ...bindings.protojson.fields import is_repeated
from ...errors import InvalidAgentResponseError, InvalidParamsError

M = TypeVar("M", bound=Message)
_UNKNOWN = object()


def read(kind: type[M], value: Any) -> M:
    """A message of JSON. Unknown fields are ignored, unknown enum values are unset (UNSPECIFIED).

    Raises InvalidAgentResponseError for what is not such a message at all.
    """
    try:
        return from_json(kind, value)
    except InvalidParamsError:
        pass
    try:
        return from_json(kind, known(cast("Descriptor", kind.DESCRIPTOR), value))
    except InvalidParamsError as error:
        name = kind.DESCRIPTOR.name
        raise InvalidAgentResponseError(f"The agent answered with what is no {name}: {error}") from None


def known(kind: Descriptor, value: Any) -> Any:
    """The value without enum values that this client does not know."""
    if not isinstance(value, dict) or kind.file.package == "google.protobuf":
        return value
    fields = {f.name: f for f in kind.fields} | {f.json_name: f for f in kind.fields}
    cleaned = {k: _known(fields[k], v) if k in fields else v for k, v in value.items()}
    return {k: v for k, v in cleaned.items() if v is not _UNKNOWN}


def _known(field: FieldDescriptor, value: Any) -> Any:
    held = field.message_type
    if held is not None and held.GetOptions().map_entry and isinstance(value, dict):
        pairs = ((k, _one(held.fields_by_name["value"], v)) for k, v in value.items())
        return {k: v for k, v in pairs if v is not _UNKNOWN}
    if is_repeated(field) and isinstance(value, list):
        return [v for v in (_one(field, v) for v in value) if v is not _UNKNOWN]
    return _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return known(field.message_type, value)
    if field.enum_type is None or isinstance(value, bool):
        return value
    names, numbers = field.enum_type.values_by_name, field.enum_type.values_by_number
    strange = (isinstance(value, str) and value not in names) or (isinstance(value, int) and value not in numbers)
    return _UNKNOWN if strange else value
