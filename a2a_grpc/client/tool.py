"""A remote agent as a tool for a language model, whatever the framework."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from .client import Client


class Tool(NamedTuple):
    """`function` takes one text, `message`, and returns one; `schema` describes it in JSON Schema."""

    function: Callable[[str], Awaitable[str]]
    schema: dict[str, Any]


def as_tool(agent: Client, name: str, description: str = "", *, deadline: float | None = None) -> Tool:
    """A tool that asks the agent. Each call is a message of its own.

    `name` is letters, digits, "_" and "-", at most 64 of them: what models take. The card describes the tool where
    `description` is empty. An agent that asks back returns its question. The function raises what `ask` raises.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError(f'a tool cannot be called "{name}": use 1 to 64 letters, digits, "_" and "-"')
    told = description or _described(agent)

    async def function(message: str) -> str:
        return (await agent.ask(message, deadline=deadline)).text

    function.__name__ = function.__qualname__ = name
    function.__doc__ = told
    return Tool(function, _schema(name, told))


def _described(agent: Client) -> str:
    skills = "".join(f"\n- {skill.name}: {skill.description}" for skill in agent.card.skills)
    return f"{agent.card.name}: {agent.card.description}{skills}"


def _schema(name: str, description: str) -> dict[str, Any]:
    message = {"type": "string", "description": "What to tell or ask the agent, in full."}
    return {
        "name": name,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {"message": message},
            "required": ["message"],
            "additionalProperties": False,
        },
    }
