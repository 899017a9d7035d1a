"""A first call of an agent, as a command line for grpcurl and for curl."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

VERSION = "A2A-Version: 1.0"
JSON = "Content-Type: application/json"
SERVICE = "lf.a2a.v1.A2AService"


@dataclass(frozen=True)
class Trust:
    """How a caller trusts the server, and is trusted by it. `certificate` None stands for a plain connection."""

    certificate: Path | None = None
    mutual: bool = False


def request(text: str, tenant: str = "") -> dict[str, Any]:
    """A SendMessageRequest as JSON."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    return ({"tenant": tenant} if tenant else {}) | {"message": message}


def grpcurl(address: str, method: str, body: Any, trust: Trust = Trust(), *, reflection: bool = True) -> list[str]:
    security = ["-cacert", str(trust.certificate)] if trust.certificate else ["-plaintext"]
    own = ["-cert", "client.pem", "-key", "client.key"] if trust.mutual else []
    proto = [] if reflection else ["-proto", "a2a.proto"]
    return ["grpcurl", *security, *own, *proto, "-H", VERSION, "-d", json.dumps(body), address, f"{SERVICE}/{method}"]


def curl(url: str, body: Any = None, trust: Trust = Trust()) -> list[str]:
    """GET without a body, POST with one."""
    security = ["--cacert", str(trust.certificate)] if trust.certificate else []
    own = ["--cert", "client.pem", "--key", "client.key"] if trust.mutual else []
    data = [] if body is None else ["-H", VERSION, "-H", JSON, "-d", json.dumps(body)]
    return ["curl", "-sS", *security, *own, url, *data]


def rest_url(base: str, verb: str, tenant: str = "") -> str:
    return base + (f"/{quote(tenant, safe='')}" if tenant else "") + f"/message:{verb}"


def shown(command: list[str]) -> str:
    return shlex.join(command)
