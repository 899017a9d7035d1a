"""How much an agent takes on."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times are in seconds. A caller who is over a limit is told RESOURCE_EXHAUSTED, or INVALID_PARAMS."""

    turns: int = 1000  # running or queued at once
    turns_per_owner: int = 1000
    queued_messages: int = 16  # of one task, while it is busy
    inactivity: float = 600.0  # of a turn: without an event for so long, its task fails
    cancel_grace: float = 5.0  # for a cancelled turn to end by itself
    parts: int = 1000  # of one message
    history: int = 100  # messages that a task keeps
    artifact_parts: int = 100_000  # of one task
    events_waiting: int = 10_000  # of one subscriber, before it is cut off
    subscribers: int = 1000  # of one task
    webhooks: int = 32  # of one task

    def __post_init__(self) -> None:
        for name in ("inactivity", "events_waiting"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)!r}")
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} must be 0 or more, not {getattr(self, field.name)!r}")
