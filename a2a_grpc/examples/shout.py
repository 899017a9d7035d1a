"""Shout: the smallest agent, a function. Each `yield` is streamed.

python -m a2a_grpc.examples.shout
"""

from collections.abc import AsyncIterator

from a2a_grpc import agent, run


@agent
async def shout(text: str) -> AsyncIterator[str]:
    """Says it louder, word by word."""
    for word in text.split():
        yield f"{word.upper()}! "


if __name__ == "__main__":
    run(shout)
