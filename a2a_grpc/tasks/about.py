"""What an agent says of itself, derived from its class."""

import inspect
import re
from typing import Any

from ..generated import a2a_pb2 as pb


def card(agent: Any) -> pb.AgentCard:
    """Name, description and one skill from the class; capabilities from what is wired."""
    kind = type(agent)
    name = agent.name or _words(kind.__name__)
    description = agent.description or inspect.getdoc(kind) or name
    capabilities = pb.AgentCapabilities(
        streaming=True,
        push_notifications=agent.push is not None,
        extended_agent_card=_has_extended_card(kind),
    )
    skill = pb.AgentSkill(id=_slug(name), name=name, description=description, tags=[_slug(name)])
    return pb.AgentCard(
        name=name,
        description=description,
        version=agent.version,
        capabilities=capabilities,
        default_input_modes=agent.input_modes,
        default_output_modes=agent.output_modes,
        skills=agent.skills or [skill],
    )


def check_methods(kind: type[Any], engine: type[Any]) -> None:
    """Raises TypeError for what an author writes in another shape than the engine calls it, or over its own names."""
    for written in kind.__mro__[: kind.__mro__.index(engine)]:
        for name in vars(written).keys() & set(dir(engine)):
            if name.startswith("_") and not name.startswith("__"):
                raise TypeError(f"{written.__name__}.{name}: {engine.__name__} uses this name itself; choose another")
    for name in ("execute", "answer", "cancel", "extended_card"):
        method = getattr(kind, name)
        if inspect.isasyncgenfunction(method):
            raise TypeError(
                f"{kind.__name__}.{name} is an async generator, as it has a yield: await what the turn offers instead, "
                "such as `async with turn.artifact(...) as out: await out.write(...)`; or give the function to @agent"
            )
        if not inspect.iscoroutinefunction(method):
            raise TypeError(f"{kind.__name__}.{name} must be a coroutine: write `async def {name}(...)`")


def _has_extended_card(kind: type[Any]) -> bool:
    """Whether a class has an `extended_card` of its own, above the one that answers with none."""
    first = next(c for c in kind.__mro__ if "extended_card" in vars(c))
    return first.__name__ != "AgentServicer"


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
