"""Brief: an agent that asks another one. It explains several Java terms with the help of the glossary.

python -m a2a_grpc.examples.glossary
python -m a2a_grpc.examples.brief http://localhost:8000
"""

import sys

from a2a_grpc import AgentServicer, Turn, run
from a2a_grpc.client import CardCache, CardReadError, Client, ConnectError, TaskFailedError, connect, fan_out, text_of
from a2a_grpc.errors import A2AError

AT_ONCE = 4


class Brief(AgentServicer):
    """Explains Java terms, given with commas between them."""

    def __init__(self, glossary: str = "http://localhost:8000") -> None:
        super().__init__()
        self.glossary, self.cards = glossary, CardCache()

    async def execute(self, turn: Turn) -> None:
        terms = [term.strip() for term in turn.text.split(",") if term.strip()]
        if not terms:
            await turn.ask("Which terms should I explain? Put commas between them.")
            return
        try:
            async with connect(self.glossary, cards=self.cards) as glossary:
                lines = await fan_out((line(glossary, term) for term in terms), limit=AT_ONCE)
        except TaskFailedError as error:
            reason = error.answer.task and text_of(error.answer.task.status.message)
            await turn.fail(f"The glossary did not help: {reason or error.answer.state}")
        except (ConnectError, CardReadError) as error:
            await turn.fail(f"The glossary cannot be reached: {error}")
        except A2AError as error:
            await turn.fail(f"The glossary refused: {error.message}")
        else:
            await turn.add_artifact("brief", "\n".join(lines))


async def line(glossary: Client, term: str) -> str:
    return f"- {term}: {(await glossary.ask(term)).text}"


if __name__ == "__main__":
    run(Brief(*sys.argv[1:]), http_port=8001, grpc_port=50052)
