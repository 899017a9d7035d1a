"""Which webhooks a policy refuses, as tables, and that it does so without looking up any name."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.generated.a2a_pb2 import AuthenticationInfo, TaskPushNotificationConfig
from a2a_grpc.tasks.push_policy import LONGEST, PushPolicy

DEFAULT = PushPolicy()
OPEN = PushPolicy(allow_http=True, allow_private=True)

PUBLIC = [
    "https://example.com",
    "https://example.com/",
    "HTTPS://EXAMPLE.com:8443/hook?sig=a+b%2F|#part",
    "https://example.com./hook",
    "https://under_score.example/",
    "https://xn--mnchen-3ya.de/",
    "https://8.8.8.8/",
    "https://[2001:4860:4860::8888]/",
    "https://[2001:4860:4860:0:0::8888]/",
    "https://1e100.net/",
    "https://localhost.example.com/",
    "https://notlocalhost/",
]

PRIVATE = [  # host as it stands in the URL, and a word of the refusal
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("127.0.0.1.", "loopback"),
    ("2130706433", "loopback"),
    ("0x7f.1", "loopback"),
    ("0x7f000001", "loopback"),
    ("0X7F000001", "loopback"),
    ("017700000001", "loopback"),
    ("0177.0.0.1", "loopback"),
    ("127.1", "loopback"),
    ("0.0.0.0", "unspecified"),
    ("0", "unspecified"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("169.254.169.254", "link-local"),
    ("0xa9fea9fe", "link-local"),
    ("100.64.0.1", "shared"),
    ("192.0.0.8", "reserved"),
    ("192.0.2.1", "documentation"),
    ("198.51.100.1", "documentation"),
    ("203.0.113.1", "documentation"),
    ("198.18.0.1", "benchmarking"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("[::]", "unspecified"),
    ("[::1]", "loopback"),
    ("[0:0:0:0:0:0:0:1]", "loopback"),
    ("[::ffff:127.0.0.1]", "IPv4-mapped"),
    ("[::ffff:7f00:1]", "IPv4-mapped"),
    ("[::ffff:8.8.8.8]", "IPv4-mapped"),
    ("[::127.0.0.1]", "reserved"),
    ("[64:ff9b::7f00:1]", "NAT64"),
    ("[64:ff9b::8.8.8.8]", "NAT64"),
    ("[64:ff9b:1::1]", "NAT64"),
    ("[2002:7f00:1::]", "6to4"),
    ("[2001::1]", "reserved"),
    ("[2001:2::1]", "benchmarking"),
    ("[2001:db8::1]", "documentation"),
    ("[3fff::1]", "documentation"),
    ("[fc00::1]", "private"),
    ("[fd12:3456::1]", "private"),
    ("[fe80::1]", "link-local"),
    ("[fe80::1%25eth0]", "link-local"),
    ("[fec0::1]", "site-local"),
    ("[ff02::1]", "multicast"),
    ("[4000::1]", "reserved"),
    ("localhost", "name of this machine"),
    ("LOCALHOST", "name of this machine"),
    ("localhost.", "name of this machine"),
    ("db.localhost", "name of this machine"),
]

WRONG = [  # refused by any policy, with a word of the refusal
    ("", "required"),
    ("example.com/hook", "https://"),
    ("//example.com/hook", "https://"),
    ("file:///etc/passwd", "file"),
    ("gopher://example.com/", "gopher"),
    ("ftp://example.com/", "ftp"),
    ("unix:///var/run/x.sock", "unix"),
    ("https://", "no host"),
    ("https:///hook", "no host"),
    ("https:example.com", "no host"),
    ("https://:443/", "no host"),
    ("https://[v1.example]/", "no host"),
    ("https://user:secret@example.com/", "authentication"),
    ("https://secret@example.com/", "authentication"),
    ("https://@example.com/", "authentication"),
    ("https://example.com:0/", "port 0"),
    ("https://example.com:99999/", "not a URL"),
    ("https://example.com:secret/", "not a URL"),
    ("https://[::1/", "not a URL"),
    ("https://1.2.3.4.5/", "neither a host name nor an IP address"),
    ("https://999.1.1.1/", "neither a host name nor an IP address"),
    ("https://0x100000000/", "neither a host name nor an IP address"),
    ("https://%31%32%37.0.0.1/", "neither a host name nor an IP address"),
    ("https://a..example/", "neither a host name nor an IP address"),
    (f"https://{'a' * 64}.example/", "neither a host name nor an IP address"),
    (f"https://{'a.' * 126}example/", "neither a host name nor an IP address"),
    ("https://0x08080808/", "8.8.8.8"),
    ("https://example.com\\@127.0.0.1/", "character"),
    ("https://example.com/a b", "character"),
    ("https://example.com/\r\nX: y", "character"),
    ("https://exam\tple.com/", "character"),
    (" https://example.com/", "character"),
    ("https://ⓛocalhost/", "character"),
    (f"https://example.com/{'a' * LONGEST}", "at most"),
]


def config(url: str = "https://example.com/", **fields: object) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(url=url, **fields)  # type: ignore[arg-type]


def url_fault(policy: PushPolicy, url: str) -> str:
    violations = policy.violations(config(url))
    assert [v.field for v in violations] in ([], ["url"])
    return violations[0].description if violations else ""


@pytest.mark.parametrize("url", PUBLIC)
def test_public_urls_are_taken(url: str) -> None:
    assert url_fault(DEFAULT, url) == ""


@pytest.mark.parametrize(("host", "word"), PRIVATE)
def test_hosts_that_are_not_public(host: str, word: str) -> None:
    fault = url_fault(DEFAULT, f"https://{host}/")
    assert word in fault
    assert "public" in fault


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "localhost", "169.254.169.254", "[fc00::1]"])
def test_private_hosts_may_be_permitted(host: str) -> None:
    assert url_fault(PushPolicy(allow_private=True), f"https://{host}:8000/hook") == ""


@pytest.mark.parametrize("policy", [DEFAULT, OPEN])
@pytest.mark.parametrize(("url", "word"), WRONG)
def test_urls_that_no_policy_permits(policy: PushPolicy, url: str, word: str) -> None:
    fault = url_fault(policy, url)
    assert word in fault
    assert "secret" not in fault


def test_http_is_refused_unless_permitted() -> None:
    assert "not permitted" in url_fault(DEFAULT, "http://example.com/")
    assert url_fault(PushPolicy(allow_http=True), "http://example.com/") == ""


@pytest.mark.parametrize("allow", [{"hooks.example"}, ["hooks.example"], lambda host: host == "hooks.example"])
def test_only_allowed_hosts(allow: object) -> None:
    policy = PushPolicy(allow=allow)  # type: ignore[arg-type]
    assert url_fault(policy, "https://Hooks.Example.:8443/x") == ""
    assert "not one that webhooks may be at" in url_fault(policy, "https://example.com/")


def test_an_allowed_host_may_still_be_private() -> None:
    assert "loopback" in url_fault(PushPolicy(allow={"127.0.0.1"}), "https://127.0.0.1/")
    assert url_fault(PushPolicy(allow={"127.0.0.1"}, allow_private=True), "https://127.0.0.1/") == ""


def test_a_text_is_not_a_collection_of_hosts() -> None:
    with pytest.raises(TypeError, match="collection of hosts"):
        PushPolicy(allow="hooks.example")


HEADERS = [  # scheme, credentials, token → the fields that are refused
    ("Bearer", "abc", "tok", []),
    ("Basic", "dXNlcjpwdw==", "", []),
    ("", "", "", []),
    ("", "abc", "", []),
    ("Bearer", "", "", []),
    ("Digest", 'username="a", uri="/"', "", []),
    ("Bearer", "ключ", "ключ", []),
    ("Bear er", "abc", "", ["authentication.scheme"]),
    ("Bearer:", "abc", "", ["authentication.scheme"]),
    ("Bearer\r\nX: y", "abc", "", ["authentication.scheme"]),
    ("Bearer\n", "abc", "", ["authentication.scheme"]),
    ("Bearer", "a\r\nX: y", "", ["authentication.credentials"]),
    ("Bearer", "a\n", "", ["authentication.credentials"]),
    ("Bearer", "a\x00b", "", ["authentication.credentials"]),
    ("Bearer", " abc", "", ["authentication.credentials"]),
    ("Bearer", "a" * (LONGEST + 1), "", ["authentication.credentials"]),
    ("Bearer", "abc", "t\r\nX: y", ["token"]),
    ("Bearer", "abc", "t\x7f", ["token"]),
    ("Bearer", "abc", "t ", ["token"]),
    ("B r", "a\n", "t\n", ["token", "authentication.scheme", "authentication.credentials"]),
]


@pytest.mark.parametrize(("scheme", "credentials", "token", "fields"), HEADERS)
def test_what_headers_can_carry(scheme: str, credentials: str, token: str, fields: list[str]) -> None:
    authentication = AuthenticationInfo(scheme=scheme, credentials=credentials)
    violations = DEFAULT.violations(config(token=token, authentication=authentication))
    assert [v.field for v in violations] == fields


def test_faults_are_named_below_a_path_and_tell_no_secret() -> None:
    authentication = AuthenticationInfo(scheme="Bearer", credentials="hush\n")
    wrong = config("https://hush:hush@127.0.0.1/hush", token="hush\n", authentication=authentication)
    violations = DEFAULT.violations(wrong, "configuration.task_push_notification_config.")
    assert [v.field.removeprefix("configuration.task_push_notification_config.") for v in violations] == [
        "url",
        "token",
        "authentication.credentials",
    ]
    assert "hush" not in str(violations)


DIALLED = [  # address → whether it is public
    ("8.8.8.8", True),
    ("2001:4860:4860::8888", True),
    ("::ffff:8.8.8.8", True),
    ("64:ff9b::808:808", True),
    ("127.0.0.1", False),
    ("10.1.2.3", False),
    ("169.254.169.254", False),
    ("100.100.100.200", False),
    ("::1", False),
    ("::", False),
    ("::ffff:127.0.0.1", False),
    ("::ffff:169.254.169.254", False),
    ("64:ff9b::7f00:1", False),
    ("64:ff9b::a9fe:a9fe", False),
    ("64:ff9b:1::808:808", False),
    ("2002:7f00:1::", False),
    ("fe80::1%eth0", False),
    ("fd00::1", False),
    ("example.com", False),
    ("", False),
]


@pytest.mark.parametrize(("address", "public"), DIALLED)
def test_addresses_that_may_be_dialled(address: str, public: bool) -> None:
    assert DEFAULT.allows_address(address) is public
    assert OPEN.allows_address(address)


@given(st.ip_addresses())
def test_no_address_that_the_standard_library_calls_private_is_dialled(address: ipaddress.IPv4Address) -> None:
    inner = getattr(address, "ipv4_mapped", None) or address
    if DEFAULT.allows_address(str(address)):
        assert not inner.is_private
        assert not inner.is_multicast


@given(st.text())
def test_no_text_raises(text: str) -> None:
    for url in (text, f"https://{text}", f"https://[{text}]/", f"https://{text}/", f"https://a:{text}/"):
        DEFAULT.violations(config(url))
        OPEN.violations(config(url))
    DEFAULT.violations(config(token=text, authentication=AuthenticationInfo(scheme=text, credentials=text)))
    DEFAULT.allows_address(text)


def test_names_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("looked up")

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        monkeypatch.setattr(socket, name, refuse)
    assert url_fault(DEFAULT, "https://does-not-resolve.invalid/") == ""
