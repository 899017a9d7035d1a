"""WWW-Authenticate: what a caller without credentials is told to send, from the card's security schemes."""

import re
from collections.abc import Mapping

from .generated.a2a_pb2 import AgentCard, SecurityScheme


def challenges(card: AgentCard) -> str:
    """The value of WWW-Authenticate that the card's security schemes ask for; "" where there is none to tell."""
    made = (_challenge(scheme, card.name) for _, scheme in sorted(card.security_schemes.items()))
    return ", ".join(dict.fromkeys(filter(None, made)))


def _challenge(scheme: SecurityScheme, realm: str) -> str:
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            key = scheme.api_key_security_scheme
            return _auth("ApiKey", {"realm": realm, "in": key.location, "name": key.name})
        case "http_auth_security_scheme" if scheme.http_auth_security_scheme.scheme.lower() != "bearer":
            return _auth(scheme.http_auth_security_scheme.scheme, {"realm": realm})
        case None | "mtls_security_scheme":
            return ""  # TLS asks for certificates, not HTTP
    return _auth("Bearer", {"realm": realm})


def _auth(scheme: str, parameters: Mapping[str, str]) -> str:
    if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", scheme, re.ASCII):
        return ""
    told = ", ".join(f'{name}="{_quotable(value)}"' for name, value in parameters.items())
    return f"{scheme[0].upper()}{scheme[1:]} {told}"


def _quotable(text: str) -> str:
    """What may stand in a quoted string of a header and of gRPC metadata, which is ASCII."""
    return re.sub(r'(["\\])', r"\\\1", re.sub(r"[^\x20-\x7e]", "?", text))
