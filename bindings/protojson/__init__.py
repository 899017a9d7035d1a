"""ProtoJSON: one set of rules for JSON ↔ messages in the whole project (spec section 5.5).

Reading is lenient where two writings mean the same, strict where a value would be lost; printing has one way.
Whole numbers beyond 2^53 inside Struct and Value lose precision: their numbers are doubles.
"""

from google.protobuf.message import Message

from .printing import to_dict
from .reading import from_json
from .text import JsonSyntaxError, dumps, loads

__all__ = ["JsonSyntaxError", "dumps", "from_json", "loads", "to_dict", "to_json"]


def to_json(message: Message) -> bytes:
    """Compact JSON text. Raises InvalidAgentResponseError as `to_dict` does."""
    return dumps(to_dict(message))
