"""The task engine: optional, behind AgentServicer. You write one turn of an agent and get the whole protocol."""

from .function import agent
from .lifecycle import IllegalTransitionError
from .limits import Limits
from .push_policy import PushPolicy
from .servicer import AgentServicer
from .store import MemoryStore, TaskStore
from .turn import Turn

__all__ = [
    "AgentServicer",
    "IllegalTransitionError",
    "Limits",
    "MemoryStore",
    "PushPolicy",
    "TaskStore",
    "Turn",
    "agent",
]
