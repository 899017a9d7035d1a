"""Glossary: an agent on the task engine. It asks, fails, and streams a definition in two chunks.

python -m a2a_grpc.examples.glossary
"""

from a2a_grpc import AgentServicer, Turn, run
from a2a_grpc.generated.a2a_pb2 import AgentSkill

TERMS = {
    "record": ("A record is a class for plain data: ", "its fields are final, and equals and toString come with it."),
    "sealed class": (
        "A sealed class names the classes that may extend it, ",
        "so that a switch over them is complete.",
    ),
    "interface": ("An interface says what a class can do, ", "and leaves open how."),
}


class Glossary(AgentServicer):
    """Defines Java terms."""

    skills = (AgentSkill(id="define", name="Define", description="Defines a term.", tags=["java"], examples=[*TERMS]),)

    async def execute(self, turn: Turn) -> None:
        term = turn.text.strip().lower()
        if not term:
            await turn.ask("Which term should I define?")
        elif term not in TERMS:
            await turn.fail(f"I do not know the term '{term}'.")
        else:
            async with turn.artifact("definition") as out:
                for piece in TERMS[term]:
                    await out.write(piece)


if __name__ == "__main__":
    run(Glossary())
