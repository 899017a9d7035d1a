"""JSON that the tests send and read."""

import json
from typing import Any


def message(text: str) -> dict[str, Any]:
    """The params of SendMessage and SendStreamingMessage."""
    return {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}}


def values(text: str) -> list[Any]:
    """The JSON values that follow one another in a text."""
    found, decoder, text = [], json.JSONDecoder(), text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].lstrip()
    return found
