"""`@agent`: a function as an agent, for the first five minutes."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, get_type_hints

from .servicer import AgentServicer
from .turn import Content, Turn

RESULT = "result"


def agent(function: Callable[..., Any]) -> AgentServicer:
    """Makes a servicer of a function: serve it with `run`.

        @agent
        async def shout(text: str) -> str:
            '''Says it louder.'''
            return text.upper()

    The function takes nothing, the text of the message, or (annotated so) the Turn. What a coroutine or a plain
    function returns is the result; each `yield` of an async generator is a chunk of it, streamed. A plain function
    runs in a thread. An exception fails the task. Its name and docstring make the card.
    """
    return FunctionAgent(function)


class FunctionAgent(AgentServicer):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function, self._arguments = function, _arguments(function)
        self.name = function.__name__.replace("_", " ").strip().capitalize()
        self.description = inspect.getdoc(function) or self.name

    async def execute(self, turn: Turn) -> None:
        function, arguments = self._function, self._arguments(turn)
        if inspect.isasyncgenfunction(function):
            await _stream(turn, function(*arguments))
            return
        if inspect.iscoroutinefunction(function):
            said = await function(*arguments)
        else:
            said = await asyncio.to_thread(function, *arguments)
        if said is not None:
            await turn.add_artifact(RESULT, said)


async def _stream(turn: Turn, chunks: AsyncIterator[Content]) -> None:
    async with turn.artifact(RESULT) as out:
        async for chunk in chunks:
            await out.write(chunk)


def _arguments(function: Callable[..., Any]) -> Callable[[Turn], tuple[Any, ...]]:
    """How a turn becomes the arguments of a function; TypeError for a function that takes more than one."""
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) > 1:
        raise TypeError(f"@agent: {function.__name__} must take at most one parameter, the text or the Turn")
    if not parameters:
        return lambda turn: ()
    if get_type_hints(function).get(parameters[0].name) is Turn:
        return lambda turn: (turn,)
    return lambda turn: (turn.text,)
