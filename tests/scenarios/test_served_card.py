"""The card that is served decides which media types a message may have, also where it is not the agent's own."""

import pytest
from engine import Told, say
from lab import card
from wires import All, wire

from a2a_grpc import Mount, Server

IMAGE = say("done")
IMAGE.message.parts.add(raw=b"x", media_type="image/png")


class Seeing(Told):
    input_modes = ("text/plain", "image/*")


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_card_of_the_users_own_that_declares_less(method: str) -> None:
    async with Server(Seeing(), card(), http_port=0, grpc_port=0) as server, All(server) as wires:
        for outcome in await wires.call(method, IMAGE):
            assert outcome.fault
            assert outcome.fault.reason == "CONTENT_TYPE_NOT_SUPPORTED"
            assert outcome.fault.message.endswith('media type "image/png" is not supported; accepted: text/plain')


async def test_one_agent_at_two_places_with_two_cards() -> None:
    agent = Seeing()
    mounts = [Mount(agent, card(), "/reads", "reads"), Mount(agent, None, "/sees", "sees")]
    async with Server(mounts, http_port=0, grpc_port=0) as server:
        for name in ("jsonrpc", "rest"):
            for prefix, refused in (("/reads", True), ("/sees", False)):
                client = await wire(name, server, prefix=prefix)
                assert bool((await client.call("SendMessage", IMAGE)).fault) == refused
                await client.close()


async def test_a_card_of_the_users_own_that_declares_more() -> None:
    wide = card(default_input_modes=["text/plain", "image/png"])
    async with Server(Told(), wide, http_port=0, grpc_port=0) as server, All(server) as wires:
        assert [outcome.fault for outcome in await wires.call("SendMessage", IMAGE)] == [None] * 3
