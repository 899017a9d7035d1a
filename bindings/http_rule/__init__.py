"""The transcoder: verb, path, query and body ↔ request message, by the `google.api.http` rules of a service.

Nothing is A2A's own here, but it knows as much of these rules as A2A uses, and refuses others at start-up. Spec
sections 5.3 and 11.
"""

from .binding import ANY, Binding, bindings
from .expand import Call, expand
from .hint import hint
from .request import bind
from .router import RESERVED, Allowed, Match, Router

__all__ = ["ANY", "RESERVED", "Allowed", "Binding", "Call", "Match", "Router", "bind", "bindings", "expand", "hint"]
