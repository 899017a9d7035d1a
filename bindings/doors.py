"""Where one agent is called over HTTP, for those who knock at the wrong door."""

from collections.abc import Mapping
from typing import Any

from ..card import WELL_KNOWN_PATH

JSONRPC, HTTP_JSON = "JSON-RPC", "HTTP+JSON"
PLACES: Mapping[str, str] = {JSONRPC: "POST {base}/", HTTP_JSON: "POST {base}/message:send"}

_CARD = "GET {base}" + WELL_KNOWN_PATH
INSTEAD: Mapping[str, str] = {  # paths that clients try, below the agent's URL, and what to say there
    "/.well-known/agent.json": f"An agent card of 0.3 would be here; the card of this agent is {_CARD}",
    "/.well-known/agent-card": f"The agent card is {_CARD}",
    "/agent-card.json": f"The agent card is {_CARD}",
    "/agent.json": f"The agent card is {_CARD}",
}
_MEMBERS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {  # what a body of a binding has, and what it lacks
    JSONRPC: (frozenset({"jsonrpc", "method"}), frozenset()),
    HTTP_JSON: (frozenset({"message"}), frozenset({"jsonrpc", "method"})),
}


class Doors:
    """The bindings that an agent is served on, which each adds itself. Texts name paths below `base`, the path of the
    agent's URL."""

    def __init__(self) -> None:
        self.served: list[str] = []

    def guide(self, path: str, base: str) -> str:
        """What there is instead, for one who asks for a path at which there is nothing."""
        bindings = [f"{name} is {PLACES[name]}" for name in self.served]
        everything = "; ".join([f"This is an A2A agent: its card is {_CARD}", *bindings])
        return INSTEAD.get(path, everything).replace("{base}", base)

    def of(self, body: Any, base: str, here: str) -> str:
        """Where a body that is a request of another binding belongs; "" for other bodies."""
        for name, (has, lacks) in _MEMBERS.items():
            if name != here and isinstance(body, dict) and has <= body.keys() and not lacks & body.keys():
                place = PLACES[name].replace("{base}", base) if name in self.served else "not served by this agent"
                return f"{here} is served here, and the body is a request of {name}, which is {place}"
        return ""
