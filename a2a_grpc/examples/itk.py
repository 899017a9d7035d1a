"""The agent that the official integration test kit expects: it carries out the instruction in a message.

    python -m a2a_grpc.examples.itk --httpPort 10102 --grpcPort 11002

It answers for itself; it does not call other agents.
"""

import argparse
import asyncio
import logging
import os
from typing import Any

from a2a_grpc import Mount, run
from a2a_grpc.examples.itk_instruction import MEDIA_TYPE, InstructionError, instruction_of
from a2a_grpc.generated.a2a_pb2 import AgentCard, AgentInterface
from a2a_grpc.tasks import AgentServicer, PushPolicy, Turn

FINISHED = "task-finished"  # tells a caller who follows the task that all has been said
PULSES = 5


class Itk(AgentServicer):
    """Carries out the instructions of the A2A integration test kit."""

    name = "ITK"
    input_modes = (MEDIA_TYPE, "text/plain")
    check_input_modes = False  # an instruction may be labelled by its file name alone
    push = PushPolicy(allow_http=True, allow_private=True)
    push_before_reply = 5.0  # the kit reads the notifications of a task as soon as the answer is there
    pulse = 2.0  # seconds between updates while a task is held

    async def execute(self, turn: Turn) -> None:
        await turn.status()  # without text, which would become part of the answer
        try:
            instruction = instruction_of(turn.message)
            text = "\n".join(carry_out(instruction))
        except InstructionError as error:
            await turn.fail(str(error))
            return
        if holds(instruction):
            text = f"{text}\n{FINISHED}"
            await self._hold(turn, text)
        await turn.complete(text)

    async def _hold(self, turn: Turn, text: str) -> None:
        await turn.status(text)
        for _ in range(PULSES):
            await asyncio.sleep(self.pulse)
            await turn.status()


def holds(instruction: Any) -> bool:
    """Whether the task is to be held open. What another agent is told to do does not count."""
    steps = instruction.steps.instructions
    return bool(instruction.return_response.hold_task) or any(holds(step) for step in steps)


def carry_out(instruction: Any) -> list[str]:
    """What is to be answered. InstructionError where that is not to be had."""
    match instruction.WhichOneof("step"):
        case "return_response":
            return [instruction.return_response.response]
        case "steps":
            return [text for step in instruction.steps.instructions for text in carry_out(step)]
        case "call_agent":
            address = instruction.call_agent.agent_card_uri[:200]
            raise InstructionError(f"this agent does not call others: {address} was not called")
    raise InstructionError("an instruction is empty: it needs call_agent, return_response or steps")


def mounts(agent: Itk, http_port: int) -> tuple[Mount, ...]:
    """One agent at three places, as the kit asks for a path for each binding. Its card, at the root, names them."""
    base = f"http://127.0.0.1:{http_port}"
    card = AgentCard(
        supported_interfaces=[
            AgentInterface(url=f"{base}/jsonrpc", protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url=f"{base}/rest", protocol_binding="HTTP+JSON", protocol_version="1.0"),
        ]
    )
    card.MergeFrom(agent.card)
    below = (Mount(agent, prefix=f"/{name}", tenant=name) for name in ("jsonrpc", "rest"))
    return (Mount(agent, card), *below)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m a2a_grpc.examples.itk", description="The kit's agent")
    parser.add_argument("--httpPort", type=int, default=10102)
    parser.add_argument("--grpcPort", type=int, default=11002)
    given = parser.parse_args()
    logging.basicConfig(level=os.environ.get("ITK_LOG_LEVEL", "INFO").upper())
    run(mounts(Itk(), given.httpPort), http_port=given.httpPort, grpc_port=given.grpcPort)


if __name__ == "__main__":
    main()
