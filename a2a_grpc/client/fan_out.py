"""Several calls at a time, and not too many."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import TypeVar

T = TypeVar("T")


async def fan_out(calls: Iterable[Awaitable[T]], limit: int = 8) -> list[T]:
    """Awaits calls, at most `limit` at a time, and returns their results in order.

    The first failure cancels the others, and is raised. `fan_out(agent.ask(term) for term in terms)` makes each call
    when its time comes.
    """
    if limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit}")
    waiting, begun, results = enumerate(calls), list[int](), dict[int, T]()

    async def work() -> None:
        for index, call in waiting:
            begun.append(index)
            results[index] = await call

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(limit):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        _close(calls)
    if len(results) < len(begun):
        raise asyncio.CancelledError("a call was cancelled")
    return [results[index] for index in begun]


def _close(calls: Iterable[object]) -> None:
    """Coroutines of a list that were never begun."""
    for call in calls if isinstance(calls, Collection) else ():
        if asyncio.iscoroutine(call):
            call.close()
