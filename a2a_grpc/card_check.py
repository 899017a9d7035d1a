"""What makes an agent card unfit to be served, all of it told before the first call."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from ipaddress import ip_address
from urllib.parse import urlsplit

from .card import CAPABILITIES, GRPC, HTTP_JSON, JSONRPC, CardError, is_same
from .errors import Violation, did_you_mean, quote
from .generated.a2a_pb2 import AgentCard, AgentInterface, SecurityRequirement
from .validation import validator


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
        for field, fault in _interface_faults(interface):
            yield Violation(f"supported_interfaces[{index}].{field}", fault)


def _interface_faults(interface: AgentInterface) -> Iterator[tuple[str, str]]:
    binding, version, url = interface.protocol_binding, interface.protocol_version, interface.url
    if binding not in _URL_FAULT:
        if binding and ":" not in binding:
            known = ", ".join(_URL_FAULT)
            advice = did_you_mean(binding, _URL_FAULT, f"use {known} or the URI of another binding")
            yield "protocol_binding", f"unknown binding {quote(binding)}; {advice}"
        return
    if url and (fault := _URL_FAULT[binding](url)):
        yield "url", f"{quote(url)} {fault}"
    if version and not re.fullmatch(r"[0-9]+\.[0-9]+", version):
        yield "protocol_version", f'must be major.minor, such as "1.0", not {quote(version)}'


def _grpc_fault(url: str) -> str | None:
    if re.search("[/?#@]", url):
        return 'must be host:port without scheme or path, such as "agent.example.com:443"'
    return _address_fault(f"//{url}", 'must be host:port, such as "agent.example.com:443"', needs_port=True)


def http_fault(url: str) -> str | None:
    """Why nobody can call an HTTP URL; None where it can be called."""
    shape = 'must be an absolute URL, such as "https://agent.example.com"'
    return _address_fault(url, shape) if url.lower().startswith(("http://", "https://")) else shape


_URL_FAULT = {GRPC: _grpc_fault, JSONRPC: http_fault, HTTP_JSON: http_fault}


def _address_fault(url: str, shape: str, *, needs_port: bool = False) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return shape
    if not host or re.search(r"[\x00-\x20\x7f]", url) or (needs_port and port is None):
        return shape
    if port == 0:
        return "has port 0, which nobody can call: give the public URL"
    return "is an address to listen on, not one to call: give the public URL" if _unspecified(host) else None


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
        if wanted.protocol_binding in _URL_FAULT and not any(is_same(wanted, s) for s in served):
            what = f"{wanted.protocol_binding} {wanted.protocol_version}"
            yield Violation(f"supported_interfaces[{index}]", f"{what} is declared but not served; served: {known}")


def _capability_violations(card: AgentCard, implemented: AbstractSet[str]) -> Iterator[Violation]:
    for name, capability in CAPABILITIES.items():
        missing = ", ".join(sorted(capability.needed - implemented))
        if missing and getattr(card.capabilities, name):
            advice = f"the servicer does not implement {missing}; implement it or leave the capability unset"
            yield Violation(f"capabilities.{name}", f"is true, but {advice}")


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
