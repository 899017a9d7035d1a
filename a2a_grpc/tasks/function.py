"""`@agent`: a function as an agent, for the first five minutes."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, get_type_hints

from .content import Content
from .servicer import AgentServicer
from .turn import Turn

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


async def _stream(turn: Turn, results: AsyncGenerator[Content, None]) -> None:
    async with turn.artifact(RESULT) as out, aclosing(results) as chunks:
        async for chunk in chunks:
            await out.write(chunk)


def _arguments(function: Callable[..., Any]) -> Callable[[Turn], tuple[Any, ...]]:
    """How a turn becomes the arguments of a function. TypeError for what is no function of at most one argument."""
    if not inspect.isfunction(function):
        raise TypeError(f"@agent takes a function, not {function!r:.100}")
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"@agent: {function.__name__} yields; make it an `async def`, so that its chunks are streamed")
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) > 1 or any(p.kind is p.KEYWORD_ONLY for p in parameters):
        raise TypeError(f"@agent: {function.__name__} must take at most one argument, the text or the Turn")
    if not parameters:
        return lambda turn: ()
    if _is_turn(function, parameters[0]):
        return lambda turn: (turn,)
    return lambda turn: (turn.text,)


def _is_turn(function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    """Whether a parameter is annotated with Turn, also where that is a name that only a type checker can find."""
    try:
        return get_type_hints(function).get(parameter.name) is Turn
    except NameError:
        return str(parameter.annotation).rpartition(".")[2] == Turn.__name__
