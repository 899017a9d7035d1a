"""The agent card: what is filled in, what is refused, what callers and caches are told."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.card import CAPABILITIES, CardError, complete, extensions, missing_capability
from a2a_grpc.card_check import check
from a2a_grpc.card_document import CardDocument, rebased
from a2a_grpc.challenge import challenges
from a2a_grpc.errors import PushNotificationNotSupportedError, UnsupportedOperationError
from a2a_grpc.generated.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    MutualTlsSecurityScheme,
    OAuth2SecurityScheme,
    OpenIdConnectSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a_grpc.methods import methods

ALL = frozenset(methods())
PUSH = frozenset(rpc for rpc in ALL if "PushNotificationConfig" in rpc)


def interface(url: str, binding: str, version: str = "1.0", **more: Any) -> AgentInterface:
    return AgentInterface(url=url, protocol_binding=binding, protocol_version=version, **more)


SERVED = [
    interface("127.0.0.1:50051", "GRPC"),
    interface("http://127.0.0.1:8000/", "JSONRPC"),
    interface("http://127.0.0.1:8000", "HTTP+JSON"),
]


def card(**more: Any) -> AgentCard:
    skill = AgentSkill(id="define", name="Define", description="Defines a term.", tags=["glossary"])
    given: dict[str, Any] = {
        "name": "Glossary",
        "description": "Defines terms.",
        "version": "1.2.3",
        "default_input_modes": ["text/plain"],
        "default_output_modes": ["text/plain"],
        "skills": [skill],
    }
    return AgentCard(**{**given, **more})


def served(**more: Any) -> AgentCard:
    return complete(card(**more), SERVED, ALL)


def refused(broken: AgentCard, implemented: frozenset[str] = ALL, interfaces: Any = None) -> list[tuple[str, str]]:
    with pytest.raises(CardError) as caught:
        check(broken, implemented, interfaces)
    return [(field, description) for field, description in caught.value.violations]


# Completing

HTTPS = "https://agent.example/a2a"

INTERFACES: dict[str, tuple[list[AgentInterface], list[AgentInterface]]] = {
    "none declared": ([], SERVED),
    "public URL kept, first": (
        [interface(HTTPS, "JSONRPC", tenant="t")],
        [interface(HTTPS, "JSONRPC", tenant="t"), SERVED[0], SERVED[2]],
    ),
    "order alone": ([AgentInterface(protocol_binding="HTTP+JSON")], [SERVED[2], SERVED[0], SERVED[1]]),
    "URL alone": (
        [AgentInterface(protocol_binding="GRPC", url="agent.example:443")],
        [interface("agent.example:443", "GRPC"), SERVED[1], SERVED[2]],
    ),
    "one binding at two places": (
        [interface(HTTPS, "JSONRPC"), interface("https://eu.example", "JSONRPC")],
        [interface(HTTPS, "JSONRPC"), interface("https://eu.example", "JSONRPC"), SERVED[0], SERVED[2]],
    ),
    "another version": ([interface(HTTPS, "JSONRPC", "0.3")], [interface(HTTPS, "JSONRPC", "0.3"), *SERVED]),
    "custom binding": ([interface("amqp://q", "urn:amqp")], [interface("amqp://q", "urn:amqp"), *SERVED]),
}


@pytest.mark.parametrize("name", INTERFACES)
def test_interfaces(name: str) -> None:
    declared, expected = INTERFACES[name]
    assert list(complete(card(supported_interfaces=declared), SERVED, ALL).supported_interfaces) == expected


OPEN = AgentCapabilities()
DECLARED: dict[str, tuple[AgentCapabilities, frozenset[str], tuple[bool, bool, bool]]] = {
    "all": (OPEN, ALL, (True, True, True)),
    "none": (OPEN, frozenset({"SendMessage"}), (False, False, False)),
    "streaming without subscribing": (OPEN, frozenset({"SendStreamingMessage"}), (True, False, False)),
    "subscribing without streaming": (OPEN, frozenset({"SubscribeToTask"}), (False, False, False)),
    "push": (OPEN, PUSH, (False, True, False)),
    "half of push": (OPEN, PUSH - {"ListTaskPushNotificationConfigs"}, (False, False, False)),
    "extended card": (OPEN, frozenset({"GetExtendedAgentCard"}), (False, False, True)),
    "switched off": (
        AgentCapabilities(streaming=False, push_notifications=False, extended_agent_card=False),
        ALL,
        (False, False, False),
    ),
    "promised": (AgentCapabilities(streaming=True), frozenset(), (True, False, False)),
}


@pytest.mark.parametrize("name", DECLARED)
def test_capabilities(name: str) -> None:
    declared, implemented, expected = DECLARED[name]
    found = complete(card(capabilities=declared), SERVED, implemented).capabilities
    assert (found.streaming, found.push_notifications, found.extended_agent_card) == expected
    assert all(found.HasField(field) for field in CAPABILITIES)


def test_completing_leaves_the_authors_card_alone() -> None:
    given = card(supported_interfaces=[AgentInterface(protocol_binding="GRPC")])
    before = given.SerializeToString(deterministic=True)
    complete(given, SERVED, ALL)
    assert given.SerializeToString(deterministic=True) == before


# Checking

BEARER = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))


def key(location: str, name: str = "X-Key") -> SecurityScheme:
    return SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location=location, name=name))


def needs(*names: str) -> SecurityRequirement:
    return SecurityRequirement(schemes={name: StringList(list=["read"]) for name in names})


FIT: dict[str, AgentCard] = {
    "plain": served(),
    "same URL twice": served(supported_interfaces=[interface(HTTPS, "JSONRPC"), interface(HTTPS, "JSONRPC")]),
    "same URL for two bindings": served(
        supported_interfaces=[interface(HTTPS, "JSONRPC"), interface(HTTPS, "HTTP+JSON")]
    ),
    "IPv6": served(supported_interfaces=[interface("[2001:db8::1]:443", "GRPC")]),
    "IPv6 over HTTP": served(supported_interfaces=[interface("http://[::1]:8000/x", "JSONRPC")]),
    "capitals": served(supported_interfaces=[interface("HTTPS://Agent.example", "JSONRPC")]),
    "custom binding": served(supported_interfaces=[interface("amqp://0.0.0.0:0", "urn:amqp", "2")]),
    "secured": served(
        security_schemes={"a": BEARER, "b": key("cookie")}, security_requirements=[needs("a", "b"), needs("a")]
    ),
    "streams only": complete(card(), SERVED, frozenset({"SendStreamingMessage"})),
}


@pytest.mark.parametrize("name", FIT)
def test_a_fit_card_passes(name: str) -> None:
    check(FIT[name], ALL)


def test_an_empty_card_is_told_all_that_it_lacks() -> None:
    assert refused(AgentCard()) == [
        ("name", 'is required: the name people know the agent by, such as "Glossary"'),
        ("description", "is required: say in a sentence what the agent does"),
        ("supported_interfaces", "must not be empty; give at least one: say where the agent can be called"),
        ("version", 'is required: the version of the agent itself, such as "1.0.0"'),
        ("capabilities", "is required: add AgentCapabilities()"),
        (
            "default_input_modes",
            'must not be empty; give at least one: the media types that the agent reads, such as ["text/plain"]',
        ),
        (
            "default_output_modes",
            'must not be empty; give at least one: the media types that the agent writes, such as ["text/plain"]',
        ),
        ("skills", "must not be empty; give at least one: AgentSkill(id=…, name=…, description=…, tags=[…])"),
    ]


ABSOLUTE = 'must be an absolute URL, such as "https://agent.example.com"'
HOST_PORT = 'must be host:port, such as "agent.example.com:443"'
BARE = 'must be host:port without scheme or path, such as "agent.example.com:443"'
LISTEN = "is an address to listen on, not one to call: give the public URL"
PORT_0 = "has port 0, which nobody can call: give the public URL"

URLS = [
    ("JSONRPC", "http://0.0.0.0:8000/", LISTEN),
    ("HTTP+JSON", "https://[::]/", LISTEN),
    ("JSONRPC", "http://[0:0:0:0:0:0:0:0]:80", LISTEN),
    ("GRPC", "0.0.0.0:50051", LISTEN),
    ("GRPC", "[::]:50051", LISTEN),
    ("JSONRPC", "http://agent.example:0/", PORT_0),
    ("GRPC", "agent.example:0", PORT_0),
    ("GRPC", "0.0.0.0:0", PORT_0),
    ("JSONRPC", "agent.example/a2a", ABSOLUTE),
    ("JSONRPC", "/a2a", ABSOLUTE),
    ("JSONRPC", "ws://agent.example", ABSOLUTE),
    ("JSONRPC", "http://", ABSOLUTE),
    ("JSONRPC", "http://:8000", ABSOLUTE),
    ("JSONRPC", "http://[::1", ABSOLUTE),
    ("JSONRPC", "http://agent.example:port", ABSOLUTE),
    ("JSONRPC", "http://agent.example:99999", ABSOLUTE),
    ("JSONRPC", "http://agent example", ABSOLUTE),
    ("JSONRPC", "http://agent.example/\r\nX: y", ABSOLUTE),
    ("GRPC", "https://agent.example:443", BARE),
    ("GRPC", "agent.example:443/a2a", BARE),
    ("GRPC", "dns:///agent.example:443", BARE),
    ("GRPC", "agent.example", HOST_PORT),
    ("GRPC", "agent.example:grpc", HOST_PORT),
    ("GRPC", ":50051", HOST_PORT),
    ("GRPC", "::1:50051", HOST_PORT),
]


@pytest.mark.parametrize(("binding", "url", "fault"), URLS)
def test_an_address_that_nobody_can_call_is_refused(binding: str, url: str, fault: str) -> None:
    [(field, description)] = refused(served(supported_interfaces=[interface(url, binding)]))
    assert field == "supported_interfaces[0].url"
    assert description.endswith(fault)
    assert url[:10] in description


def capable(**more: Any) -> AgentCard:
    return served(capabilities=AgentCapabilities(**more))


AT = "supported_interfaces[0]"
BROKEN: dict[str, tuple[AgentCard, list[tuple[str, str]]]] = {
    "patch in version": (
        served(supported_interfaces=[interface(HTTPS, "JSONRPC", "1.0.0")]),
        [(f"{AT}.protocol_version", 'must be major.minor, such as "1.0", not "1.0.0"')],
    ),
    "word for version": (
        served(supported_interfaces=[interface(HTTPS, "JSONRPC", "v1")]),
        [(f"{AT}.protocol_version", 'must be major.minor, such as "1.0", not "v1"')],
    ),
    "misspelt binding": (
        served(supported_interfaces=[interface(HTTPS, "json-rpc")]),
        [(f"{AT}.protocol_binding", 'unknown binding "json-rpc"; did you mean JSONRPC?')],
    ),
    "unknown binding": (
        served(supported_interfaces=[interface(HTTPS, "SOAP")]),
        [
            (
                f"{AT}.protocol_binding",
                'unknown binding "SOAP"; use GRPC, JSONRPC, HTTP+JSON or the URI of another binding',
            )
        ],
    ),
    "empty interface": (
        served(supported_interfaces=[AgentInterface()]),
        [
            (f"{AT}.url", "is required"),
            (f"{AT}.protocol_binding", "is required: one of GRPC, JSONRPC, HTTP+JSON"),
            (f"{AT}.protocol_version", 'is required: "1.0"'),
        ],
    ),
    "no skills": (
        served(skills=[]),
        [("skills", "must not be empty; give at least one: AgentSkill(id=…, name=…, description=…, tags=[…])")],
    ),
    "skill without tags": (
        served(skills=[AgentSkill(id="a", name="A", description="Does a.")]),
        [("skills[0].tags", 'must not be empty; give at least one: words to find the skill by, such as ["glossary"]')],
    ),
    "half a provider": (
        served(provider=AgentProvider(organization="Example")),
        [("provider.url", "is required")],
    ),
    "nameless extension": (
        capable(extensions=[AgentExtension(uri="urn:a"), AgentExtension(required=True)]),
        [("capabilities.extensions[1].uri", "is required: callers name an extension by its URI")],
    ),
    "undefined scheme": (
        served(security_schemes={"b": BEARER, "a": BEARER}, security_requirements=[needs("a"), needs("b", "c")]),
        [('security_requirements[1].schemes["c"]', "is not defined in security_schemes; defined: a, b")],
    ),
    "undefined scheme of a skill": (
        served(
            skills=[
                AgentSkill(id="a", name="A", description="a", tags=["a"], security_requirements=[needs("oauth")]),
            ]
        ),
        [('skills[0].security_requirements[0].schemes["oauth"]', "is not defined in security_schemes; defined: none")],
    ),
    "key in the body": (
        served(security_schemes={"k": key("body")}),
        [
            (
                'security_schemes["k"].api_key_security_scheme.location',
                'must be header, query or cookie, not "body"',
            )
        ],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_card_is_refused(name: str) -> None:
    broken, expected = BROKEN[name]
    assert refused(broken) == expected


LACKING = [
    ("streaming", "SendStreamingMessage", "SendStreamingMessage"),
    ("push_notifications", "GetTaskPushNotificationConfig", "GetTaskPushNotificationConfig"),
    ("extended_agent_card", "GetExtendedAgentCard", "GetExtendedAgentCard"),
]


@pytest.mark.parametrize(("capability", "lacking", "named"), LACKING)
def test_a_capability_without_its_rpcs_is_refused(capability: str, lacking: str, named: str) -> None:
    text = f"is true, but the servicer does not implement {named}; implement it or leave the capability unset"
    assert refused(served(), ALL - {lacking}) == [(f"capabilities.{capability}", text)]


def test_streaming_without_subscribing_is_fine() -> None:
    check(served(), ALL - {"SubscribeToTask"})


MISSING = "JSONRPC 1.0 is declared but not served; served: "
NOT_SERVED = [
    (interface(HTTPS, "JSONRPC"), SERVED[:1], f"{MISSING}GRPC 1.0"),
    (interface(HTTPS, "JSONRPC", "0.3"), SERVED[:1], "JSONRPC 0.3 is declared but not served; served: GRPC 1.0"),
    (interface(HTTPS, "JSONRPC"), SERVED[::2], f"{MISSING}GRPC 1.0, HTTP+JSON 1.0"),
    (interface(HTTPS, "JSONRPC"), [], f"{MISSING}nothing"),
]


@pytest.mark.parametrize(("declared", "interfaces", "text"), NOT_SERVED)
def test_a_declared_binding_must_be_served(declared: AgentInterface, interfaces: list[Any], text: str) -> None:
    done = complete(card(supported_interfaces=[declared]), interfaces, ALL)
    assert refused(done, ALL, interfaces) == [(AT, text)]


def test_a_custom_binding_is_its_authors_affair() -> None:
    check(served(supported_interfaces=[interface("amqp://q", "urn:amqp")]), ALL, SERVED)


def test_the_error_reads_well() -> None:
    with pytest.raises(
        ValueError, match=r"^The agent card cannot be served:\n  version: is required: the version"
    ) as e:
        check(served(version="", capabilities=AgentCapabilities(push_notifications=True)), ALL - PUSH)
    assert str(e.value).count("\n") == 2


# Reading


def test_every_gated_rpc_exists_and_every_capability_is_known() -> None:
    rpcs = [rpc for capability in CAPABILITIES.values() for rpc in capability.needed | capability.optional]
    assert set(rpcs) < ALL
    assert len(set(rpcs)) == len(rpcs)
    assert set(CAPABILITIES) == {f.name for f in AgentCapabilities.DESCRIPTOR.fields} - {"extensions"}
    streaming = CAPABILITIES["streaming"]
    assert {rpc for rpc, m in methods().items() if m.streaming} == streaming.needed | streaming.optional


def test_refusals() -> None:
    assert {name: capability.refusal for name, capability in CAPABILITIES.items()} == {
        "streaming": UnsupportedOperationError,
        "push_notifications": PushNotificationNotSupportedError,
        "extended_agent_card": UnsupportedOperationError,
    }


@pytest.mark.parametrize("name", CAPABILITIES)
def test_the_capability_that_is_missing_for_an_rpc(name: str) -> None:
    capability, others = CAPABILITIES[name], complete(card(), SERVED, ALL)
    setattr(others.capabilities, name, False)
    refused = capability.needed | capability.optional
    assert {rpc: missing_capability(others, rpc) for rpc in ALL} == {
        rpc: name if rpc in refused else None for rpc in ALL
    }


def test_extensions() -> None:
    found = capable(extensions=[AgentExtension(uri="b"), AgentExtension(uri="a", required=True)])
    assert extensions(found) == {"b": False, "a": True}


def http_auth(scheme: str) -> SecurityScheme:
    return SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme=scheme))


OAUTH = SecurityScheme(oauth2_security_scheme=OAuth2SecurityScheme())
OIDC = SecurityScheme(open_id_connect_security_scheme=OpenIdConnectSecurityScheme(open_id_connect_url="u"))
MTLS = SecurityScheme(mtls_security_scheme=MutualTlsSecurityScheme())

CHALLENGES: list[tuple[dict[str, SecurityScheme], str]] = [
    ({}, ""),
    ({"m": MTLS}, ""),
    ({"x": SecurityScheme()}, ""),
    ({"b": http_auth("bearer")}, 'Bearer realm="Glossary"'),
    ({"b": http_auth("Bearer")}, 'Bearer realm="Glossary"'),
    ({"b": http_auth("BEARER")}, 'Bearer realm="Glossary"'),
    ({"b": http_auth("basic")}, 'Basic realm="Glossary"'),
    ({"b": http_auth("DPoP")}, 'DPoP realm="Glossary"'),
    ({"b": http_auth("not a token\r\nX: y")}, ""),
    ({"b": http_auth("")}, ""),
    ({"o": OAUTH}, 'Bearer realm="Glossary"'),
    ({"o": OIDC}, 'Bearer realm="Glossary"'),
    ({"k": key("header")}, 'ApiKey realm="Glossary", in="header", name="X-Key"'),
    ({"k": key("query", "key")}, 'ApiKey realm="Glossary", in="query", name="key"'),
    (
        {"o": OAUTH, "i": OIDC, "z": http_auth("basic"), "b": BEARER, "m": MTLS},
        'Bearer realm="Glossary", Basic realm="Glossary"',
    ),
]


@pytest.mark.parametrize(("schemes", "expected"), CHALLENGES)
def test_challenges(schemes: dict[str, SecurityScheme], expected: str) -> None:
    assert challenges(card(security_schemes=schemes)) == expected


def test_a_realm_is_safe_in_a_header() -> None:
    found = challenges(card(name='Caf\u00e9 "\\"\r\n', security_schemes={"b": BEARER}))
    assert found == r'Bearer realm="Caf? \"\\\"??"'


# Serving

STARTED = 1_767_323_045.678  # 2026-01-02 03:04:05.678
LAST = "Fri, 02 Jan 2026 03:04:05 GMT"
DOCUMENT = CardDocument(served(), started=STARTED)
TAG = DOCUMENT.etag
CACHED = {"ETag": TAG, "Last-Modified": LAST, "Cache-Control": "public, max-age=300"}


def test_a_plain_get() -> None:
    status, headers, body = DOCUMENT.respond("GET", {})
    assert (status, body) == (200, DOCUMENT.body)
    assert headers == {"Content-Type": "application/json", "Content-Length": str(len(body)), **CACHED}
    assert Parse(body, AgentCard()) == served()
    assert json.loads(body)["supportedInterfaces"][0]["url"] == "127.0.0.1:50051"


def test_head_is_get_without_the_body() -> None:
    status, headers, body = DOCUMENT.respond("HEAD", {})
    assert (status, headers, body) == (*DOCUMENT.respond("GET", {})[:2], b"")


CONDITIONS: list[tuple[Mapping[str, str], int]] = [
    ({"If-None-Match": TAG}, 304),
    ({"if-none-match": TAG}, 304),
    ({"IF-NONE-MATCH": f"W/{TAG}"}, 304),
    ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": " * "}, 304),
    ({"If-None-Match": f'"a", W/"b,c" ,{TAG}'}, 304),
    ({"If-None-Match": f'"a",W/{TAG}'}, 304),
    ({"If-None-Match": '"a"', "if-none-match": TAG}, 304),
    ({"If-None-Match": '"a"'}, 200),
    ({"If-None-Match": TAG.strip('"')}, 200),
    ({"If-None-Match": ""}, 200),
    ({"If-None-Match": '"'}, 200),
    ({"If-Modified-Since": LAST}, 304),
    ({"If-Modified-Since": "Fri, 02 Jan 2026 03:04:06 GMT"}, 304),
    ({"If-Modified-Since": "Fri, 02 Jan 2026 03:04:04 GMT"}, 200),
    ({"If-Modified-Since": "Friday, 02-Jan-26 03:04:05 GMT"}, 304),
    ({"If-Modified-Since": "Fri Jan  2 03:04:05 2026"}, 304),
    ({"If-Modified-Since": "Fri Jan  2 03:04:04 2026"}, 200),
    ({"If-Modified-Since": "Fri, 02 Jan 2026 04:04:05 +0100"}, 304),
    ({"If-Modified-Since": "Fri, 02 Jan 2026 03:04:05 +0100"}, 200),
    ({"If-Modified-Since": "yesterday"}, 200),
    ({"If-Modified-Since": "Fri, 32 Jan 2026 03:04:05 GMT"}, 200),
    ({"If-Modified-Since": ""}, 200),
    ({"If-None-Match": '"a"', "If-Modified-Since": LAST}, 200),
    ({"If-None-Match": "", "If-Modified-Since": LAST}, 200),
    ({"If-None-Match": TAG, "If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 304),
    ({"If-Match": '"a"', "Accept": "text/html"}, 200),
]


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
@pytest.mark.parametrize(("headers", "status"), CONDITIONS)
def test_conditional_requests(verb: str, headers: Mapping[str, str], status: int) -> None:
    found = DOCUMENT.respond(verb, headers)
    assert found == ((304, CACHED, b"") if status == 304 else DOCUMENT.respond(verb, {}))
    assert found[0] == status


@given(st.text(), st.text())
def test_any_condition_gets_an_answer(none_match: str, since: str) -> None:
    assert DOCUMENT.respond("GET", {"If-None-Match": none_match})[0] in (200, 304)
    assert DOCUMENT.respond("GET", {"If-Modified-Since": since})[0] in (200, 304)


DATE_WORDS = [
    "Fri,",
    "Jan",
    "02",
    "2026",
    "03:04:05",
    "GMT",
    "+9999",
    "-0000",
    "99999999999999",
    "0",
    ":",
    "a:b:c",
    ".",
]


@given(st.lists(st.sampled_from(DATE_WORDS)).map(" ".join))
def test_any_date_gets_an_answer(since: str) -> None:
    assert DOCUMENT.respond("GET", {"If-Modified-Since": since})[0] in (200, 304)


def test_the_tag_follows_the_content() -> None:
    assert CardDocument(served(), started=0).etag == TAG
    assert CardDocument(served(version="2"), started=STARTED).etag != TAG


def test_the_order_in_which_a_map_was_filled_does_not_matter() -> None:
    names = [f"scheme {i}" for i in range(20)]
    one, other = card(), card()
    for name in names:
        one.security_schemes[name].CopyFrom(BEARER)
    for name in reversed(names):
        other.security_schemes[name].CopyFrom(BEARER)
    assert CardDocument(one, started=0).body == CardDocument(other, started=0).body


# Behind a proxy

BASES = [
    ("https://agent.example", ["https://agent.example/", "https://agent.example"]),
    ("https://agent.example/", ["https://agent.example/", "https://agent.example"]),
    (
        "https://agent.example:8443/agents/a",
        ["https://agent.example:8443/agents/a/", "https://agent.example:8443/agents/a"],
    ),
]


@pytest.mark.parametrize(("base", "urls"), BASES)
def test_rebased(base: str, urls: list[str]) -> None:
    moved = rebased(served(), base)
    assert [i.url for i in moved.supported_interfaces] == ["127.0.0.1:50051", *urls]


def test_rebased_keeps_the_path_and_what_it_is_told_to_keep() -> None:
    here = served(
        supported_interfaces=[
            interface("http://127.0.0.1:8000/rpc", "JSONRPC"),
            interface(HTTPS, "HTTP+JSON"),
            interface("http://q", "urn:custom"),
        ]
    )
    moved = rebased(here, "https://public.example/p", keep={HTTPS})
    assert [i.url for i in moved.supported_interfaces] == [
        "https://public.example/p/rpc",
        HTTPS,
        "http://q",
        "127.0.0.1:50051",
    ]


def test_rebased_changes_a_copy_and_drops_signatures() -> None:
    signed = served(signatures=[AgentCardSignature(protected="p", signature="s")])
    moved = rebased(signed, "https://public.example")
    assert list(moved.signatures) == []
    assert len(signed.signatures) == 1
    assert signed.supported_interfaces[1].url == "http://127.0.0.1:8000/"


@pytest.mark.parametrize(
    "base", ["", "agent.example", "ftp://a", "http://", "http://a:0", "http://a\r\nb", "http://0.0.0.0"]
)
def test_a_base_that_is_no_url_is_refused(base: str) -> None:
    with pytest.raises(ValueError, match="base URL"):
        rebased(served(), base)
