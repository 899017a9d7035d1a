"""Agent2Agent (A2A) agents as gRPC servicers: one servicer, three bindings, one process."""

__version__ = "0.1.0"
