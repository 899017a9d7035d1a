"""The agent card: completed from what is served, checked before the first call, served as the well-known document."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_tz
from ipaddress import ip_address
from math import inf
from urllib.parse import urlsplit

from .bindings.protojson import to_json
from .errors import A2AError, PushNotificationNotSupportedError, UnsupportedOperationError, Violation, nearest, quote
from .generated.a2a_pb2 import AgentCard, AgentInterface, SecurityRequirement, SecurityScheme
from .validation import validator

WELL_KNOWN_PATH = "/.well-known/agent-card.json"
GRPC, JSONRPC, HTTP_JSON = "GRPC", "JSONRPC", "HTTP+JSON"

CAPABILITY: Mapping[str, str] = {
    "SendStreamingMessage": "streaming",
    "SubscribeToTask": "streaming",
    "CreateTaskPushNotificationConfig": "push_notifications",
    "GetTaskPushNotificationConfig": "push_notifications",
    "ListTaskPushNotificationConfigs": "push_notifications",
    "DeleteTaskPushNotificationConfig": "push_notifications",
    "GetExtendedAgentCard": "extended_agent_card",
}
"""The field of AgentCapabilities that an RPC needs; RPCs that are not listed need none."""

REFUSAL: Mapping[str, type[A2AError]] = {
    "streaming": UnsupportedOperationError,
    "push_notifications": PushNotificationNotSupportedError,
    "extended_agent_card": UnsupportedOperationError,
}
"""What a caller is told where the card does not declare a capability. Spec section 3.3.4."""

_OPTIONAL = {"SubscribeToTask"}  # an agent can stream without keeping tasks that one could come back to
_NEEDED = {
    capability: {rpc for rpc, needs in CAPABILITY.items() if needs == capability} - _OPTIONAL for capability in REFUSAL
}


class CardError(ValueError):
    """The card is not fit to be served. `violations` holds every reason, with paths of proto names."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        lines = "".join(f"\n  {v.field}: {v.description}" for v in self.violations)
        super().__init__(f"The agent card cannot be served:{lines}")


# Completing


def complete(card: AgentCard, interfaces: Sequence[AgentInterface], implemented: AbstractSet[str]) -> AgentCard:
    """A copy of the card with the served interfaces and the capabilities that its author left open.

    Declared interfaces come first and keep what they say; what they leave empty is taken from the served interface of
    the same binding. `implemented` holds the names of the RPCs that the servicer really has.
    """
    done = AgentCard()
    done.CopyFrom(card)
    del done.supported_interfaces[:]
    done.supported_interfaces.extend(_interfaces(card.supported_interfaces, interfaces))
    for capability, needed in _NEEDED.items():
        if not card.capabilities.HasField(capability):
            setattr(done.capabilities, capability, needed <= implemented)
    return done


def _interfaces(declared: Collection[AgentInterface], served: Sequence[AgentInterface]) -> Iterator[AgentInterface]:
    yield from (_overlaid(wanted, served) for wanted in declared)
    yield from (s for s in served if not any(_same(wanted, s) for wanted in declared))


def _overlaid(wanted: AgentInterface, served: Sequence[AgentInterface]) -> AgentInterface:
    made = AgentInterface()
    for interface in (*[s for s in served if _same(wanted, s)][:1], wanted):
        made.MergeFrom(interface)
    return made


def _same(declared: AgentInterface, served: AgentInterface) -> bool:
    same_version = declared.protocol_version in ("", served.protocol_version)
    return same_version and declared.protocol_binding == served.protocol_binding


def rebased(card: AgentCard, base_url: str, keep: Collection[str] = ()) -> AgentCard:
    """A copy whose HTTP interfaces stand under another `scheme://host[:port][/prefix]`, as a trusted proxy tells.

    URLs in `keep` (those an author chose) and gRPC interfaces stay. Signatures go, as they cover the URLs.
    Raises ValueError if `base_url` is not an absolute http or https URL.
    """
    for fault in _http_faults(base_url):
        raise ValueError(f"base URL {quote(base_url)} {fault}")
    moved = AgentCard()
    moved.CopyFrom(card)
    del moved.signatures[:]
    for interface in moved.supported_interfaces:
        if interface.protocol_binding in (JSONRPC, HTTP_JSON) and interface.url not in keep:
            interface.url = base_url.rstrip("/") + urlsplit(interface.url).path
    return moved


# Checking


def check(card: AgentCard, implemented: AbstractSet[str], interfaces: Sequence[AgentInterface] | None = None) -> None:
    """Raises CardError with all that a complete card lacks or contradicts.

    Where the served `interfaces` are given, a declared interface of a standard binding must be one of them.
    """
    violations = [
        *(_taught(v) for v in validator(AgentCard)(card)),
        *_interface_violations(card),
        *_served_violations(card, interfaces),
        *_capability_violations(card, implemented),
        *_extension_violations(card),
        *_security_violations(card),
    ]
    if violations:
        raise CardError(violations)


_HINTS: Mapping[str, str] = {
    "name": 'the name people know the agent by, such as "Glossary"',
    "description": "say in a sentence what the agent does",
    "version": 'the version of the agent itself, such as "1.0.0"',
    "supported_interfaces": "say where the agent can be called",
    "supported_interfaces.protocol_binding": f"one of {GRPC}, {JSONRPC}, {HTTP_JSON}",
    "supported_interfaces.protocol_version": '"1.0"',
    "capabilities": "add AgentCapabilities()",
    "default_input_modes": 'the media types that the agent reads, such as ["text/plain"]',
    "default_output_modes": 'the media types that the agent writes, such as ["text/plain"]',
    "skills": "AgentSkill(id=…, name=…, description=…, tags=[…])",
    "skills.id": 'a short name for programs, such as "define"',
    "skills.tags": 'words to find the skill by, such as ["glossary"]',
}


def _taught(violation: Violation) -> Violation:
    hint = _HINTS.get(re.sub(r"\[[^]]*\]", "", violation.field))
    return violation._replace(description=f"{violation.description}: {hint}") if hint else violation


def _interface_violations(card: AgentCard) -> Iterator[Violation]:
    for index, interface in enumerate(card.supported_interfaces):
        at = f"supported_interfaces[{index}]"
        url_faults = _URL_FAULTS.get(interface.protocol_binding)
        if url_faults is None:
            yield from _custom_binding(at, interface.protocol_binding)
            continue
        if interface.url:
            yield from (
                Violation(f"{at}.url", f"{quote(interface.url)} {fault}") for fault in url_faults(interface.url)
            )
        version = interface.protocol_version
        if version and not re.fullmatch(r"[0-9]+\.[0-9]+", version):
            yield Violation(f"{at}.protocol_version", f'must be major.minor, such as "1.0", not {quote(version)}')


def _custom_binding(at: str, binding: str) -> Iterator[Violation]:
    if binding and ":" not in binding:
        near = nearest(binding, _URL_FAULTS)
        advice = f"did you mean {near}?" if near else f"use {', '.join(_URL_FAULTS)} or the URI of another binding"
        yield Violation(f"{at}.protocol_binding", f"unknown binding {quote(binding)}; {advice}")


def _grpc_faults(url: str) -> Iterator[str]:
    if re.search("[/?#@]", url):
        yield 'must be host:port without scheme or path, such as "agent.example.com:443"'
    else:
        yield from _address_faults(f"//{url}", 'must be host:port, such as "agent.example.com:443"', needs_port=True)


def _http_faults(url: str) -> Iterator[str]:
    shape = 'must be an absolute URL, such as "https://agent.example.com"'
    if url.lower().startswith(("http://", "https://")):
        yield from _address_faults(url, shape, needs_port=False)
    else:
        yield shape


_URL_FAULTS = {GRPC: _grpc_faults, JSONRPC: _http_faults, HTTP_JSON: _http_faults}


def _address_faults(url: str, shape: str, *, needs_port: bool) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        yield shape
        return
    if not host or re.search(r"[\x00-\x20\x7f]", url) or (needs_port and port is None):
        yield shape
    elif port == 0:
        yield "has port 0, which nobody can call: give the public URL"
    elif _unspecified(host):
        yield "is an address to listen on, not one to call: give the public URL"


def _unspecified(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _served_violations(card: AgentCard, served: Sequence[AgentInterface] | None) -> Iterator[Violation]:
    if served is None:
        return
    known = ", ".join(dict.fromkeys(f"{s.protocol_binding} {s.protocol_version}" for s in served)) or "nothing"
    for index, wanted in enumerate(card.supported_interfaces):
        if wanted.protocol_binding in _URL_FAULTS and not any(_same(wanted, s) for s in served):
            what = f"{wanted.protocol_binding} {wanted.protocol_version}"
            yield Violation(f"supported_interfaces[{index}]", f"{what} is declared but not served; served: {known}")


def _capability_violations(card: AgentCard, implemented: AbstractSet[str]) -> Iterator[Violation]:
    for capability, needed in _NEEDED.items():
        missing = ", ".join(rpc for rpc in CAPABILITY if rpc in needed - implemented)
        if missing and getattr(card.capabilities, capability):
            advice = f"the servicer does not implement {missing}; implement it or leave the capability unset"
            yield Violation(f"capabilities.{capability}", f"is true, but {advice}")


def _extension_violations(card: AgentCard) -> Iterator[Violation]:
    for index, extension in enumerate(card.capabilities.extensions):
        if not extension.uri:
            yield Violation(
                f"capabilities.extensions[{index}].uri", "is required: callers name an extension by its URI"
            )


def _security_violations(card: AgentCard) -> Iterator[Violation]:
    yield from _undefined_schemes(card, "", card.security_requirements)
    for index, skill in enumerate(card.skills):
        yield from _undefined_schemes(card, f"skills[{index}].", skill.security_requirements)
    for name, scheme in sorted(card.security_schemes.items()):
        location = scheme.api_key_security_scheme.location
        if location and location not in ("header", "query", "cookie"):
            at = f"security_schemes[{quote(name)}].api_key_security_scheme.location"
            yield Violation(at, f"must be header, query or cookie, not {quote(location)}")


def _undefined_schemes(card: AgentCard, at: str, requirements: Iterable[SecurityRequirement]) -> Iterator[Violation]:
    known = ", ".join(sorted(card.security_schemes)) or "none"
    for index, requirement in enumerate(requirements):
        for name in sorted(requirement.schemes):
            if name not in card.security_schemes:
                field = f"{at}security_requirements[{index}].schemes[{quote(name)}]"
                yield Violation(field, f"is not defined in security_schemes; defined: {known}")


# Reading


def offers(card: AgentCard, rpc: str) -> bool:
    """Whether the card declares the capability that an RPC needs, if it needs one."""
    return rpc not in CAPABILITY or bool(getattr(card.capabilities, CAPABILITY[rpc]))


def declared_extensions(card: AgentCard) -> tuple[str, ...]:
    return tuple(dict.fromkeys(extension.uri for extension in card.capabilities.extensions))


def required_extensions(card: AgentCard) -> tuple[str, ...]:
    return tuple(dict.fromkeys(extension.uri for extension in card.capabilities.extensions if extension.required))


def challenges(card: AgentCard, **bearer: str) -> str:
    """The value of WWW-Authenticate that the card's security schemes ask for; "" where there is none to tell.

    `bearer` is added to Bearer challenges, such as `error="insufficient_scope", scope="read"` (RFC 6750).
    """
    made = (_challenge(scheme, card.name, bearer) for _, scheme in sorted(card.security_schemes.items()))
    return ", ".join(dict.fromkeys(filter(None, made)))


def _challenge(scheme: SecurityScheme, realm: str, bearer: Mapping[str, str]) -> str:
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            key = scheme.api_key_security_scheme
            return _auth("ApiKey", {"realm": realm, "in": key.location, "name": key.name})
        case "http_auth_security_scheme" if scheme.http_auth_security_scheme.scheme.lower() != "bearer":
            return _auth(scheme.http_auth_security_scheme.scheme, {"realm": realm})
        case None | "mtls_security_scheme":
            return ""  # TLS asks for certificates, not HTTP
    return _auth("Bearer", {"realm": realm, **bearer})


def _auth(scheme: str, parameters: Mapping[str, str]) -> str:
    if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", scheme, re.ASCII):
        return ""
    told = ", ".join(f'{name}="{_quotable(value)}"' for name, value in parameters.items())
    return f"{scheme[0].upper()}{scheme[1:]} {told}"


def _quotable(text: str) -> str:
    """What may stand in a quoted string of a header and of gRPC metadata, which is ASCII."""
    return re.sub(r'(["\\])', r"\\\1", re.sub(r"[^\x20-\x7e]", "?", text))


# Serving


class CardDocument:
    """A card as bytes, made once, with the HTTP headers that let caches keep it. `started` is in Unix seconds."""

    def __init__(self, card: AgentCard, *, started: float, cache_control: str = "public, max-age=300") -> None:
        same_order = AgentCard.FromString(card.SerializeToString(deterministic=True))  # of maps, on every replica
        self.body = to_json(same_order)
        self.started = int(started)
        self.etag = f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'
        self.last_modified = formatdate(self.started, usegmt=True)
        self.cache_control = cache_control

    def respond(self, verb: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a GET or HEAD, conditional or not (RFC 9110, section 13.2.2); 405 for others."""
        if verb not in ("GET", "HEAD"):
            return 405, {"Allow": "GET, HEAD"}, b""
        cached = {"ETag": self.etag, "Last-Modified": self.last_modified, "Cache-Control": self.cache_control}
        if self._unchanged(_header(headers, "if-none-match"), _header(headers, "if-modified-since")):
            return 304, cached, b""
        described = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **cached}
        return 200, described, self.body if verb == "GET" else b""

    def _unchanged(self, none_match: str | None, modified_since: str | None) -> bool:
        if none_match is not None:
            return none_match.strip() == "*" or self.etag in re.findall(r'"[^"]*"', none_match)
        return modified_since is not None and self.started <= _seconds(modified_since)


def _header(headers: Mapping[str, str], name: str) -> str | None:
    found = [value for key, value in headers.items() if key.lower() == name]
    return ", ".join(found) if found else None


def _seconds(date: str) -> float:
    """A moment in Unix seconds; minus infinity for what is not an HTTP date, which RFC 9110 says to ignore."""
    try:
        parsed = parsedate_tz(date)
        return datetime(*parsed[:6], tzinfo=UTC).timestamp() - (parsed[9] or 0) if parsed else -inf
    except (ValueError, OverflowError):
        return -inf
