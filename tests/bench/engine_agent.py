"""Ours in the load harness: an agent on the task engine that behaves as the harness' own agents do.

    python tests/bench/engine_agent.py --http PORT | --grpc PORT

By the text of the message: `direct` and `updater` answer with one artifact, `stream` with 50 chunks of one, `hold`
works until a `poke` (one more artifact) or a `release` (the end) comes. JSON-RPC is at /rpc, HTTP+JSON at /rest.
"""

import argparse
import asyncio
import os

from a2a_grpc import AgentServicer, Mount, Turn, run

TEXT = "Hello from the benchmark agent: a short, plain answer of about eighty characters."
CHUNKS = int(os.environ.get("BENCH_EVENTS", "50"))


class Bench(AgentServicer):
    """Answers the benchmark."""

    def __init__(self) -> None:
        super().__init__()
        self.pokes: asyncio.Queue[str] = asyncio.Queue()

    async def execute(self, turn: Turn) -> None:
        text = turn.text
        if text == "stream":
            async with turn.artifact("response") as out:
                for index in range(CHUNKS):
                    await out.write(f"chunk {index:03d}: twenty-odd characters")
        elif text == "hold":
            await self._hold(turn)
        elif text in ("poke", "release"):
            self.pokes.put_nowait(text)
            await turn.complete()
        else:
            await turn.add_artifact("response", TEXT)

    async def _hold(self, turn: Turn) -> None:
        await turn.status()
        index = 0
        while await self.pokes.get() == "poke":
            await turn.add_artifact("response", f"chunk {index:03d}: twenty-odd characters")
            index += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", type=int)
    parser.add_argument("--grpc", type=int)

    given = parser.parse_args()
    bench = Bench()
    if given.grpc:
        run(bench, http_port=None, grpc_port=given.grpc)
    else:
        run([Mount(bench, prefix="/rpc"), Mount(bench, prefix="/rest")], grpc_port=None, http_port=given.http)


if __name__ == "__main__":
    main()
