"""Every form of address that a card may hold. X-GRPC-7, A-22."""

import pytest

from a2a_grpc.client.addresses import address, origin


@pytest.mark.parametrize(
    ("url", "target", "tls", "host", "port"),
    [
        ("agent.example:50051", "agent.example:50051", True, "agent.example", 50051),
        ("agent.example", "agent.example:443", True, "agent.example", 443),
        ("localhost:50051", "localhost:50051", False, "localhost", 50051),
        ("127.0.0.1:50051", "127.0.0.1:50051", False, "127.0.0.1", 50051),
        ("[::1]:50051", "[::1]:50051", False, "::1", 50051),
        ("[2001:db8::1]", "[2001:db8::1]:443", True, "2001:db8::1", 443),
        ("https://agent.example", "agent.example:443", True, "agent.example", 443),
        ("https://Agent.Example:8443/a/b?c#d", "agent.example:8443", True, "agent.example", 8443),
        ("https://localhost:1", "localhost:1", True, "localhost", 1),
        ("http://agent.example", "agent.example:80", False, "agent.example", 80),
        ("http://agent.example:8080/x", "agent.example:8080", False, "agent.example", 8080),
        ("grpc://agent.example:50051", "agent.example:50051", False, "agent.example", 50051),
        ("grpcs://agent.example", "agent.example:443", True, "agent.example", 443),
        ("GRPCS://[::1]:1/x", "[::1]:1", True, "::1", 1),
        ("dns:///agent.example:50051", "dns:///agent.example:50051", True, "agent.example", 50051),
        ("dns:///agent.example", "dns:///agent.example:443", True, "agent.example", 443),
        ("dns://8.8.8.8/agent.example:1", "dns://8.8.8.8/agent.example:1", True, "agent.example", 1),
        ("dns:///localhost:1", "dns:///localhost:1", False, "localhost", 1),
        ("unix:/run/agent.sock", "unix:/run/agent.sock", False, "unix:/run/agent.sock", 0),
    ],
)
def test_addresses(url: str, target: str, tls: bool, host: str, port: int) -> None:
    found = address(url)
    assert (found.target, found.tls) == (target, tls)
    assert found.origin == (tls, host, port)


def test_insecure_counts_where_no_scheme_says_so() -> None:
    assert not address("agent.example:1", insecure=True).tls
    assert not address("dns:///agent.example:1", insecure=True).tls
    assert address("https://agent.example", insecure=True).tls
    assert address("grpcs://agent.example", insecure=True).tls


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "names no host"),
        ("https://", "names no host"),
        ("http://a..b/", "names a host that cannot be"),
        ("dns:///.example:1", "names a host that cannot be"),
        (f"https://{'a' * 64}.example", "names a host that cannot be"),
        (":50051", "names no host"),
        ("ftp://agent.example", 'unknown scheme "ftp"'),
        ("dns://agent.example", "two slashes where a name follows three"),
        ("::1:50051", "needs brackets"),
        ("[::1:50051", "malformed IPv6"),
        ("[gg::1]:1", "malformed IPv6"),
        ("agent.example:port", "a port that is no number"),
        ("agent.example:70000", "a port that is no number"),
        ("agent.example:0", "port 0"),
        ("https://user:secret@agent.example", "holds a user name"),
        ("agent example:1", "spaces or control characters"),
        ("agent.example\n:1", "spaces or control characters"),
    ],
)
def test_addresses_that_are_none_say_why(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        address(url)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example", "a.example:443", True),
        ("https://a.example/x", "grpcs://A.example:443/y", True),
        ("https://a.example", "http://a.example:443", False),
        ("https://a.example", "https://a.example:8443", False),
        ("https://a.example", "https://a.example.evil.com", False),
        ("https://a.example", "https://b.example", False),
    ],
)
def test_origins(one: str, other: str, same: bool) -> None:
    assert (origin(one) == origin(other)) is same
