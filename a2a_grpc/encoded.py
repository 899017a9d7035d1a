"""Encoded: a message whose wire forms are made once and shared by everyone who is sent it."""

from typing import Any

from google.protobuf.message import Message

from .bindings.protojson import to_json


class Encoded:
    """A response that may be yielded or returned in place of its message, to many callers and on any binding.

    Each wire form is made when it is first asked for, and kept. Fields are read through to the message, which must not
    be changed any more.
    """

    __slots__ = ("_json", "_wire", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._wire: bytes | None = None
        self._json: bytes | None = None

    @property
    def wire(self) -> bytes:
        if self._wire is None:
            self._wire = self.message.SerializeToString()
        return self._wire

    @property
    def json(self) -> bytes:
        if self._json is None:
            self._json = to_json(self.message)
        return self._json

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)


def wire(response: Any) -> bytes:
    """The protobuf bytes of a response."""
    encoded: bytes = response.wire if type(response) is Encoded else response.SerializeToString()
    return encoded


def json(response: Any) -> bytes:
    """The ProtoJSON text of a response."""
    return response.json if type(response) is Encoded else to_json(response)
