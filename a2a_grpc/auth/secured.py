"""What the card says of the authenticators that guard an agent."""

from collections.abc import Iterable
from itertools import product

from ..card import CardError
from ..errors import Violation, quote
from ..generated.a2a_pb2 import AgentCard, SecurityRequirement, SecurityScheme, StringList
from .guard import Authenticator, Guard


def secured(card: AgentCard, interceptors: Iterable[object]) -> AgentCard:
    """A copy of the card with the schemes of the authenticators among the interceptors, and what they require.

    A scheme keeps what its author adds under its name, such as a description; requirements that an author gives stay.
    Raises CardError where two different schemes have one name.
    """
    done = AgentCard()
    done.CopyFrom(card)
    guards = [guard for guard in interceptors if isinstance(guard, Guard)]
    for name, scheme in _schemes(guards).items():
        done.security_schemes[name].MergeFrom(scheme)
    if guards and not card.security_requirements:
        done.security_requirements.extend(_requirement(every) for every in product(*(g.alternatives for g in guards)))
    return done


def _schemes(guards: Iterable[Guard]) -> dict[str, SecurityScheme]:
    found: dict[str, SecurityScheme] = {}
    for authenticator in (a for guard in guards for a in guard.alternatives):
        name, scheme = authenticator.scheme_name, authenticator.scheme()
        if found.setdefault(name, scheme) != scheme:
            advice = "is the name of two different authenticators: give one of them another scheme_name"
            raise CardError([Violation(f"security_schemes[{quote(name)}]", advice)])
    return found


def _requirement(authenticators: Iterable[Authenticator]) -> SecurityRequirement:
    return SecurityRequirement(schemes={a.scheme_name: StringList() for a in authenticators})
