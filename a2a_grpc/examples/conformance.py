"""The agent that the official conformance kit expects: the beginning of a message's id tells what to do.

    python -m a2a_grpc.examples.conformance --profile open --http-port 9999 --grpc-port 10000

No single card reaches every test of the kit, so there are three: `open` declares every capability, `closed` none, and
`extension` requires one that the kit does not send.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from a2a_grpc import run
from a2a_grpc.caller import Caller
from a2a_grpc.errors import MediaTypeError
from a2a_grpc.generated.a2a_pb2 import AgentCapabilities, AgentCard, AgentExtension, Message, Part
from a2a_grpc.tasks import AgentServicer, PushPolicy, Turn
from a2a_grpc.tasks.turn import Content

REQUIRED = AgentExtension(uri="urn:a2a:tck:required-extension", description="Refuses whoever is without", required=True)
PROFILES: Mapping[str, AgentCapabilities] = {
    "open": AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
    "closed": AgentCapabilities(streaming=False, push_notifications=False, extended_agent_card=False),
    "extension": AgentCapabilities(
        streaming=True, push_notifications=False, extended_agent_card=False, extensions=[REQUIRED]
    ),
}
ON_THIS_MACHINE = PushPolicy(allow_http=True, allow_private=True)  # where the kit receives notifications

FILE = Part(raw=b"Generated file content", filename="output.txt", media_type="text/plain")
LINK = Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
DATA = {"key": "value", "count": 42}
DIRECT = "Direct message response"
HELLO = "Hello from TCK"
SLOW = 4.0  # seconds: twice as long as the kit waits on a stream

Reaction = Callable[[Turn], Awaitable[object]]


def artifact(content: Content) -> Reaction:
    """The turn completes by itself after it."""
    return lambda turn: turn.add_artifact("output", content)


async def chunked(turn: Turn) -> None:
    async with turn.artifact("output") as out:
        await out.write("chunk-1 ")
        await out.write("chunk-2")


async def slow(turn: Turn) -> None:
    await turn.status()
    await asyncio.sleep(SLOW)
    await turn.complete(HELLO)


REACTIONS: Mapping[str, Reaction] = {
    "tck-input-required": lambda turn: turn.ask("What else?"),
    "tck-artifact-text": artifact("Generated text content"),
    "tck-artifact-file": artifact(FILE),
    "tck-artifact-file-url": artifact(LINK),
    "tck-artifact-data": artifact(DATA),
    "tck-stream-001": artifact("Stream hello from TCK"),
    "tck-stream-003": artifact("Stream task lifecycle"),
    "tck-stream-ordering-001": artifact("Ordered output"),
    "tck-stream-artifact-text": artifact("Streamed text content"),
    "tck-stream-artifact-file": artifact(FILE),
    "tck-stream-artifact-chunked": chunked,
    "tck-reject-task": lambda turn: turn.reject("rejected"),
    "test-resubscribe-message-id": slow,
    "": lambda turn: turn.complete(HELLO),
}
REPLIES: Mapping[str, str | None] = {"tck-message-response": DIRECT, "tck-stream-002": DIRECT, "": None}


class Conformance(AgentServicer):
    """Reacts to the message ids of the A2A conformance kit."""

    anonymous_extended_card = True  # the kit sends no credentials

    def __init__(self, profile: str, input_modes: Sequence[str] = ("*/*",)) -> None:
        self.capabilities = PROFILES[profile]
        self.input_modes = input_modes
        self.push = ON_THIS_MACHINE if self.capabilities.push_notifications else None
        super().__init__()

    @property
    def card(self) -> AgentCard:
        card = super().card
        card.capabilities.CopyFrom(self.capabilities)
        return card

    async def extended_card(self, caller: Caller) -> AgentCard | None:
        card = self.card
        card.description += " This is the extended card."
        return card

    async def answer(self, turn: Turn) -> Message | str | None:
        return REPLIES[longest_prefix(turn.message.message_id, REPLIES)]

    async def execute(self, turn: Turn) -> None:
        await REACTIONS[longest_prefix(turn.message.message_id, REACTIONS)](turn)


def longest_prefix(text: str, prefixes: Collection[str]) -> str:
    """Of those that the text begins with; one of them is ""."""
    return max(filter(text.startswith, prefixes), key=len)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m a2a_grpc.examples.conformance", description="The kit's agent")
    parser.add_argument("--profile", choices=PROFILES, default="open")
    parser.add_argument("--http-port", type=int, default=9999)
    parser.add_argument("--grpc-port", type=int, default=10000)
    parser.add_argument("--input-modes", nargs="+", default=["*/*"], help="refuse parts of any other media type")
    parser.add_argument("--media-type-status", type=int, help="what a wrong Content-Type is answered with over REST")
    given = parser.parse_args()
    if given.media_type_status:
        MediaTypeError.http_status = given.media_type_status
    run(Conformance(given.profile, given.input_modes), http_port=given.http_port, grpc_port=given.grpc_port)


if __name__ == "__main__":
    main()
