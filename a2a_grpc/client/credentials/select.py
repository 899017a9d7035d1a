"""Which credentials go with a call: chosen by the security schemes of a card."""

from collections.abc import Iterator, Mapping, Sequence

from ...errors import quote
from ...generated.a2a_pb2 import AgentCard, SecurityScheme
from .credential import CERTIFICATE, NO_SCHEME, Credential, CredentialsError

Given = Credential | Sequence[Credential] | Mapping[str, Credential]
Chosen = tuple[Credential, SecurityScheme]


def select(card: AgentCard, given: Given, *, certificate: bool = False) -> list[Chosen]:
    """Which credentials go with a call: those of the first of the card's alternatives that they satisfy.

    A `certificate` of the client's is one more, whatever the scheme is called. A card that asks for nothing gets the
    first one, in its usual place. Raises CredentialsError where credentials were given and satisfy none of the
    alternatives.
    """
    if not several(given):
        return []
    given = given if isinstance(given, Mapping) else several(given)
    for requirement in card.security_requirements:
        names = sorted(requirement.schemes)
        found = [_for_scheme(name, card, given) or (certificate and _mtls(name, card)) for name in names]
        if all(found):
            return [chosen for chosen in found if chosen]
    if card.security_requirements:
        raise CredentialsError(_unsatisfied(card))
    return list(_unasked(card, given))


def several(given: Given) -> Sequence[Credential]:
    """Those that were given, one or several."""
    if isinstance(given, Mapping):
        return [*given.values()]
    return given if isinstance(given, Sequence) else (given,)


def is_credential(value: object) -> bool:
    return not isinstance(value, type) and hasattr(value, "fits") and hasattr(value, "present")


def _for_scheme(name: str, card: AgentCard, given: Mapping[str, Credential] | Sequence[Credential]) -> Chosen | None:
    scheme = card.security_schemes.get(name, NO_SCHEME)
    candidates = [c for n, c in given.items() if n == name] if isinstance(given, Mapping) else given
    return next(((c, scheme) for c in candidates if c.fits(scheme)), None)


def _mtls(name: str, card: AgentCard) -> Chosen | None:
    scheme = card.security_schemes.get(name, NO_SCHEME)
    return (CERTIFICATE, scheme) if CERTIFICATE.fits(scheme) else None


def _unasked(card: AgentCard, given: Mapping[str, Credential] | Sequence[Credential]) -> Iterator[Chosen]:
    """One for a scheme that the card defines without requiring it, or for none at all."""
    for name in sorted(card.security_schemes):
        if chosen := _for_scheme(name, card, given):
            yield chosen
            return
    candidates = list(given.values()) if isinstance(given, Mapping) else given
    if not card.security_schemes:
        yield from ((c, NO_SCHEME) for c in candidates[:1] if c.fits(NO_SCHEME))


def _unsatisfied(card: AgentCard) -> str:
    ways = " or ".join(" and ".join(sorted(r.schemes)) for r in card.security_requirements)
    kinds = "".join(f"\n  {name}: {_kind(card.security_schemes[name])}" for name in sorted(card.security_schemes))
    return f"The card of {quote(card.name)} asks for {ways}, and the credentials given do not fit; it defines{kinds}"


def _kind(scheme: SecurityScheme) -> str:
    kind = scheme.WhichOneof("scheme") or "an unknown scheme"
    if kind == "api_key_security_scheme":
        return f"API key in {scheme.api_key_security_scheme.location} {scheme.api_key_security_scheme.name}"
    if kind == "http_auth_security_scheme":
        return f"HTTP {scheme.http_auth_security_scheme.scheme}"
    return kind.removesuffix("_security_scheme").replace("_", " ")
