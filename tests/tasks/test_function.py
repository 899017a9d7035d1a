"""`@agent`: functions of every kind as agents."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from engine import cancel, kinds, nothing_left, result_of, say, send, state, status_of, streamed, until

from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks import AgentServicer, Turn, agent

if TYPE_CHECKING:
    from a2a_grpc.tasks.turn import Turn as Renamed

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


async def spell(text: str) -> AsyncIterator[str]:
    for letter in text:
        yield letter


def plain(text: str) -> str:
    return f"{text} by {who.get()} in {threading.current_thread() is threading.main_thread()}"


async def no_argument() -> str:
    return "nothing needed"


async def with_turn(turn: Turn) -> None:
    await turn.complete(f"done with {turn.message.message_id}")


async def with_quoted_turn(t: "Turn") -> str:
    return t.message.message_id


async def with_hidden_turn(t: "Turn", /) -> str:
    return t.message.message_id


async def data(text: str) -> dict[str, Any]:
    return {"said": [text]}


async def file() -> bytes:
    return b"\x00"


RESULTS = {
    "coroutine": (shout, ["HI"]), "generator": (spell, ["hi"]), "plain function": (plain, ["hi by ann in False"]),
    "no argument": (no_argument, ["nothing needed"]), "quoted": (with_quoted_turn, ["m-hi"]),
    "positional": (with_hidden_turn, ["m-hi"]),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
async def test_what_a_function_returns_is_the_result(name: str) -> None:
    function, expected = RESULTS[name]
    who.set("ann")
    served = agent(function)
    task = await send(served, say("hi"))
    assert (status_of(task), result_of(task)) == ("COMPLETED", expected)
    assert task.artifacts[0].name == "result"
    await nothing_left(served)


async def test_each_yield_is_a_chunk() -> None:
    assert kinds(await streamed(agent(spell), say("hey"))) == ["[SUBMITTED]", "WORKING", "h", "e", "y", "COMPLETED"]


async def test_a_turn_for_who_asks_for_it() -> None:
    task = await send(agent(with_turn), say("hi"))
    assert task.status.message.parts[0].text == "done with m-hi"


async def test_an_annotation_that_only_a_type_checker_can_find() -> None:
    async def hidden(turn: "Renamed") -> str:
        return type(turn).__name__

    async def missing(turn: "a2a_grpc.tasks.Turn") -> str:  # type: ignore[name-defined]  # noqa: F821
        return type(turn).__name__

    assert result_of(await send(agent(hidden), say("hi"))) == ["str"]
    assert result_of(await send(agent(missing), say("hi"))) == ["Turn"]


async def test_data_and_bytes() -> None:
    [found] = (await send(agent(data), say("hi"))).artifacts
    assert found.parts[0].data.struct_value["said"][0] == "hi"
    [found] = (await send(agent(file), say("hi"))).artifacts
    assert found.parts[0].raw == b"\x00"


async def returns_nothing(text: str) -> None: ...


async def yields_nothing(text: str) -> AsyncIterator[str]:
    for letter in "":
        yield letter


@pytest.mark.parametrize("function", [returns_nothing, yields_nothing, lambda: None])
async def test_no_result(function: Any) -> None:
    task = await send(agent(function), say("hi"))
    assert status_of(task) == "FAILED"
    assert task.status.message.parts[0].text == "The agent returned without a result"


async def raises(text: str) -> str:
    raise ValueError("a secret")


async def yields_and_raises(text: str) -> AsyncIterator[str]:
    yield "one"
    raise ValueError("a secret")


def raises_in_a_thread(text: str) -> str:
    raise ValueError("a secret")


def exits(text: str) -> str:
    raise SystemExit(3)


@pytest.mark.parametrize("function", [raises, yields_and_raises, raises_in_a_thread, exits])
async def test_an_exception_fails_the_task(function: Any) -> None:
    served = agent(function)
    task = await send(served, say("hi"))
    assert status_of(task) == "FAILED"
    assert "secret" not in str(task)
    assert "The agent failed. Reference: " in task.status.message.parts[0].text
    assert result_of(task) == (["one"] if function is yields_and_raises else [])
    await nothing_left(served)


async def test_a_generator_is_closed_when_its_task_is_canceled() -> None:
    closed = asyncio.Event()

    async def endless(text: str) -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
                await asyncio.sleep(0)
        finally:
            closed.set()

    served = agent(endless)
    request = say("hi", return_immediately=True)
    task = await send(served, request)
    await until(lambda: served._lives)
    assert status_of(await cancel(served, task.id)) == "CANCELED"
    assert closed.is_set()
    await nothing_left(served)
    assert await state(served, task.id) == "CANCELED"


def test_the_card_comes_from_name_and_docstring() -> None:
    async def tell_a_joke(text: str) -> str:
        """Tells a joke.

        At length.
        """
        return text

    card = agent(tell_a_joke).card
    assert (card.name, card.description) == ("Tell a joke", "Tells a joke.\n\nAt length.")
    assert [(s.id, s.name, list(s.tags)) for s in card.skills] == [("tell-a-joke", "Tell a joke", ["tell-a-joke"])]
    assert list(card.default_input_modes) == ["text/plain"]
    assert (card.capabilities.streaming, card.capabilities.push_notifications) == (True, False)


def test_a_card_without_a_docstring() -> None:
    assert agent(spell).card.description == "Spell"
    assert agent(lambda text: text).card.skills[0].id == "lambda"


def two(a: str, b: str) -> str:
    return a + b


def keyword(*, text: str) -> str:
    return text


def generator(text: str) -> Any:
    yield text


NO_AGENTS = {
    "two arguments": (two, "@agent: two must take at most one argument, the text or the Turn"),
    "a keyword": (keyword, "@agent: keyword must take at most one argument"),
    "a generator": (generator, "@agent: generator yields; make it an `async def`"),
    "no function": (partial(shout), "@agent takes a function, not functools.partial"),
    "a class": (AgentServicer, "@agent takes a function, not <class"),
    "nothing": (None, "@agent takes a function, not None"),
}


@pytest.mark.parametrize("name", NO_AGENTS)
def test_what_is_no_agent_is_refused_at_once(name: str) -> None:
    function, text = NO_AGENTS[name]
    with pytest.raises(TypeError) as caught:
        agent(function)
    assert text in str(caught.value)


# Classes that are no agents


async def _generator(self: Any, turn: Turn) -> AsyncIterator[str]:
    yield "x"


def _function(self: Any, turn: Turn) -> None: ...


async def _right(self: Any, turn: Turn) -> None: ...


NO_CLASSES = {
    "generator": ({"execute": _generator}, "Odd.execute is an async generator, as it has a yield: await what the turn"),
    "function": ({"execute": _function}, "Odd.execute must be a coroutine: write `async def execute(...)`"),
    "answer": ({"answer": _function}, "Odd.answer must be a coroutine"),
    "cancel": ({"cancel": _generator}, "Odd.cancel is an async generator"),
    "card": ({"extended_card": _function}, "Odd.extended_card must be a coroutine"),
    "taken": ({"_turn": _right}, "Odd._turn: AgentServicer uses this name itself; choose another"),
}


@pytest.mark.parametrize("name", NO_CLASSES)
def test_what_is_written_in_the_wrong_shape_is_refused_at_once(name: str) -> None:
    methods, text = NO_CLASSES[name]
    with pytest.raises(TypeError) as caught:
        type("Odd", (AgentServicer,), methods)()
    assert text in str(caught.value)


def test_a_class_may_have_names_of_its_own() -> None:
    made: Any = type("Fine", (AgentServicer,), {"execute": _right, "_mine": _right, "__init_subclass__": None})()
    assert made.card.name == "Fine"
    assert isinstance(made.card, pb.AgentCard)
