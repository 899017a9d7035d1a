"""A first call of an agent, as a command line for grpcurl and for curl."""

import json
from typing import Any
from urllib.parse import quote

from ..options import TLS

VERSION = "A2A-Version: 1.0"
JSON = "Content-Type: application/json"
SERVICE = "lf.a2a.v1.A2AService"


def request(text: str, tenant: str = "") -> dict[str, Any]:
    """A SendMessageRequest as JSON."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    return ({"tenant": tenant} if tenant else {}) | {"message": message}


def grpcurl(address: str, method: str, body: Any, tls: TLS | None = None, *, reflection: bool = True) -> list[str]:
    trust = _trust("-", tls) or ["-plaintext"]
    proto = [] if reflection else ["-proto", "a2a.proto"]
    return ["grpcurl", *trust, *proto, "-H", VERSION, "-d", json.dumps(body), address, f"{SERVICE}/{method}"]


def curl(url: str, body: Any = None, tls: TLS | None = None) -> list[str]:
    """GET without a body, POST with one."""
    data = [] if body is None else ["-H", VERSION, "-H", JSON, "-d", json.dumps(body)]
    return ["curl", "-sS", *_trust("--", tls), url, *data]


def rest_url(base: str, verb: str, tenant: str = "") -> str:
    return base + (f"/{quote(tenant, safe='')}" if tenant else "") + f"/message:{verb}"


def _trust(dash: str, tls: TLS | None) -> list[str]:
    """How a caller trusts a server with TLS, and is trusted by it; both programs name their options alike."""
    if tls is None:
        return []
    own = [f"{dash}cert", "client.pem", f"{dash}key", "client.key"] if tls.client_ca else []
    return [f"{dash}cacert", str(tls.certificate), *own]
