"""Which interface is used. X-CARD-2, X-VER-3."""

import pytest

from a2a_grpc.client.cards.choose import NoInterfaceError, choose
from a2a_grpc.generated.a2a_pb2 import AgentCard, AgentInterface

G, J, R = "GRPC", "JSONRPC", "HTTP+JSON"
URLS = {G: "a.example:1", J: "https://a.example/", R: "https://a.example"}


def card(*offers: tuple[str, str]) -> AgentCard:
    interfaces = [AgentInterface(url=URLS.get(b, "x:1"), protocol_binding=b, protocol_version=v) for b, v in offers]
    return AgentCard(name="A", supported_interfaces=interfaces)


@pytest.mark.parametrize(
    ("offers", "bindings", "chosen"),
    [
        ([(J, "1.0"), (G, "1.0"), (R, "1.0")], (), [J, G, R]),
        ([(J, "1.0"), (G, "1.0"), (R, "1.0")], (R, G), [R, G]),
        ([(J, "0.3"), (R, "1.0.7")], (), [R]),
        ([(J, "1.1"), (J, "1"), (J, ""), (J, "10.0"), (G, "1.0")], (), [G]),
        ([("https://x.example/b", "1.0"), ("grpc", "1.0"), (J, "1.0")], (), [J]),
    ],
)
def test_choosing(offers: list[tuple[str, str]], bindings: tuple[str, ...], chosen: list[str]) -> None:
    assert [i.protocol_binding for i in choose(card(*offers), bindings)] == chosen


@pytest.mark.parametrize(
    ("offers", "bindings", "says"),
    [
        ([(J, "0.3")], (), "JSONRPC 0.3 at https://a.example/: version 0.3 is not 1.0"),
        ([(J, "")], (), "version none is not 1.0"),
        ([(J, "1.0")], (G,), "JSONRPC was not asked for"),
        ([("Grpc", "1.0")], (), '"Grpc" is not a binding that this client speaks; is GRPC meant'),
        ([], (), 'The card of "A" names no interface; this client speaks GRPC, JSONRPC, HTTP.JSON in version 1.0'),
    ],
)
def test_what_cannot_be_used_is_told(offers: list[tuple[str, str]], bindings: tuple[str, ...], says: str) -> None:
    with pytest.raises(NoInterfaceError, match=says):
        choose(card(*offers), bindings)


def test_urls_that_nobody_can_call_are_passed_over() -> None:
    made = card((J, "1.0"), (G, "1.0"), (R, "1.0"))
    made.supported_interfaces[0].url = "a.example:1"
    made.supported_interfaces[1].url = "a.example:0"
    assert [i.protocol_binding for i in choose(made)] == [R]


def test_an_objection_is_heard() -> None:
    made = card((J, "1.0"), (G, "1.0"))
    assert choose(made, objection=lambda i: "no" if i.protocol_binding == J else None)[0].protocol_binding == G
    with pytest.raises(NoInterfaceError, match="never"):
        choose(made, objection=lambda i: "never")
