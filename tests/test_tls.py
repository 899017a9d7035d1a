"""TLS on both ports, and what a servicer learns of its caller: the same on every binding."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from lab import card, reply, send

from a2a_grpc import TLS, Server
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.generated.a2a_pb2_grpc import A2AServiceServicer, A2AServiceStub

BODY = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "x"}]}}


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates, and writes them as PEM files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        builder = self._builder(self._name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pair = self._written("ca", builder.add_extension(_SIGNS_CERTIFICATES, critical=True), self._key)

    def sign(self, name: str, alternatives: list[x509.GeneralName]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
                *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []),
            ]
        )
        builder = self._builder(subject, key)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return self._written(name, builder, key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def _written(self, name: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> Pair:
        pair = Pair(self._folder / f"{name}-.pem", self._folder / f"{name}-.key")
        signed = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


CLIENTS: Mapping[str, list[x509.GeneralName]] = {
    "plain": [],
    "": [x509.UniformResourceIdentifier("spiffe://example.com/nameless")],
    "named": [
        x509.DNSName("client.example.com"),
        x509.UniformResourceIdentifier("spiffe://example.com/client"),
        x509.RFC822Name("client@example.com"),
        x509.IPAddress(ipaddress.ip_address("192.0.2.1")),
        x509.IPAddress(ipaddress.ip_address("2001:db8::1")),
        x509.RegisteredID(x509.ObjectIdentifier("1.2.3.4")),
        x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "directory")])),
    ],
}


@dataclass(frozen=True)
class Certificates:
    ca: Pair
    server: Pair
    clients: Mapping[str, Pair]

    def tls(self, *, mutual: bool) -> TLS:
        return TLS(self.server.certificate, self.server.key, self.ca.certificate if mutual else None)

    def channel(self, address: str, client: str | None = None) -> grpc.aio.Channel:
        own = self.clients[client] if client is not None else None
        credentials = grpc.ssl_channel_credentials(
            self.ca.certificate.read_bytes(),
            own and own.key.read_bytes(),
            own and own.certificate.read_bytes(),
        )
        return grpc.aio.secure_channel(address, credentials)

    def context(self, client: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca.certificate)
        if client is not None:
            context.load_cert_chain(self.clients[client].certificate, self.clients[client].key)
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    host = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    clients = {name: authority.sign(name, alternatives) for name, alternatives in CLIENTS.items()}
    return Certificates(authority.pair, authority.sign("server", host), clients)


class Callers(A2AServiceServicer):
    """Keeps what each call says of its caller."""

    card = card()

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, list[bytes]], str | None, list[bytes] | None]] = []

    async def SendMessage(self, request: pb.SendMessageRequest, context: Any) -> pb.SendMessageResponse:
        auth = {key: list(values) for key, values in context.auth_context().items()}
        identities = context.peer_identities()
        self.seen.append((auth, context.peer_identity_key(), identities and list(identities)))
        return pb.SendMessageResponse(message=reply("hello"))


async def call_all(server: Server, certificates: Certificates, client: str | None) -> None:
    """The same call on gRPC, JSON-RPC and HTTP+JSON."""
    async with certificates.channel(server.grpc_address, client) as channel:
        await A2AServiceStub(channel).SendMessage(send("x"), timeout=5)
    connector = aiohttp.TCPConnector(ssl=certificates.context(client))
    async with aiohttp.ClientSession(connector=connector) as http:
        envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": BODY}
        async with http.post(server.http_url + "/", json=envelope) as response:
            assert "result" in await response.json()
        async with http.post(server.http_url + "/message:send", json=BODY) as response:
            assert response.status == 200


async def test_the_card_names_https(certificates: Certificates) -> None:
    async with Server(Callers(), http_port=0, grpc_port=0, tls=certificates.tls(mutual=False)) as server:
        assert server.http_url.startswith("https://")
        urls = [i.url for i in server.card.supported_interfaces]
        assert urls == [server.grpc_address, server.http_url + "/", server.http_url]


@pytest.mark.parametrize("client", [None, *CLIENTS], ids=["anonymous", "plain", "nameless", "named"])
async def test_the_caller_is_the_same_on_every_binding(client: str | None, certificates: Certificates) -> None:
    servicer = Callers()
    tls = certificates.tls(mutual=client is not None)
    async with Server(servicer, http_port=0, grpc_port=0, tls=tls) as server:
        await call_all(server, certificates, client)
    over_grpc, over_jsonrpc, over_rest = servicer.seen
    assert over_grpc == over_jsonrpc == over_rest


async def test_a_caller_is_known_by_its_certificate(certificates: Certificates) -> None:
    servicer = Callers()
    async with Server(servicer, http_port=0, grpc_port=0, tls=certificates.tls(mutual=True)) as server:
        await call_all(server, certificates, "plain")
        await call_all(server, certificates, "named")
    pem = certificates.clients["plain"].certificate.read_bytes()
    for auth, key, identities in servicer.seen[:3]:
        assert auth["transport_security_type"] == [b"ssl"]
        assert auth["x509_common_name"] == [b"plain"]
        assert auth["x509_pem_cert"] == [pem]
        assert (key, identities) == ("x509_common_name", [b"plain"])
    for _, key, identities in servicer.seen[3:]:
        assert key == "x509_subject_alternative_name"
        assert identities is not None
        assert set(identities) >= {b"client.example.com", b"spiffe://example.com/client", b"192.0.2.1"}


async def test_an_anonymous_caller_over_tls_and_over_plaintext(certificates: Certificates) -> None:
    servicer = Callers()
    async with Server(servicer, http_port=0, grpc_port=0, tls=certificates.tls(mutual=False)) as server:
        await call_all(server, certificates, None)
    for auth, key, identities in servicer.seen:
        assert auth["transport_security_type"] == [b"ssl"]
        assert not any(name.startswith("x509") for name in auth)
        assert (key, identities) == (None, None)
    servicer.seen.clear()
    async with Server(servicer, http_port=0, grpc_port=0) as server, aiohttp.ClientSession() as http:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            await A2AServiceStub(channel).SendMessage(send("x"), timeout=5)
        async with http.post(server.http_url + "/message:send", json=BODY) as response:
            assert response.status == 200
    over_grpc, over_rest = servicer.seen
    assert over_grpc == over_rest


async def test_mtls_refuses_a_caller_without_certificate(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    servicer = Callers()
    async with Server(servicer, http_port=0, grpc_port=0, tls=certificates.tls(mutual=True)) as server:
        async with certificates.channel(server.grpc_address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await A2AServiceStub(channel).SendMessage(send("x"), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        connector = aiohttp.TCPConnector(ssl=certificates.context())
        async with aiohttp.ClientSession(connector=connector) as http:
            with pytest.raises(aiohttp.ClientError):
                await http.get(server.http_url + "/healthz")
    assert not servicer.seen
    assert not caplog.records


async def test_plaintext_to_a_tls_port_fails_cleanly(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async with Server(Callers(), http_port=0, grpc_port=0, tls=certificates.tls(mutual=False)) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await A2AServiceStub(channel).SendMessage(send("x"), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http_port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(asyncio.IncompleteReadError):
            await asyncio.wait_for(reader.readuntil(b"HTTP/1.1"), 5)
        writer.close()
        await call_all(server, certificates, None)
    assert not caplog.records


async def test_stop_does_not_wait_for_a_tls_client_that_does_not_close(certificates: Certificates) -> None:
    server = Server(Callers(), http_port=0, grpc_port=None, tls=certificates.tls(mutual=False))
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.http_port, ssl=certificates.context())
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    started = asyncio.get_running_loop().time()
    await server.stop(5)
    assert asyncio.get_running_loop().time() - started < 1
    writer.transport.abort()


@pytest.mark.parametrize("old", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_old_tls_is_refused(old: ssl.TLSVersion, certificates: Certificates) -> None:
    context = certificates.context()
    context.minimum_version = context.maximum_version = old
    context.set_ciphers("ALL:@SECLEVEL=0")
    async with Server(Callers(), http_port=0, grpc_port=0, tls=certificates.tls(mutual=False)) as server:
        for port in (server.http_port, server.grpc_port):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def test_a_key_of_another_certificate_is_refused_at_start(certificates: Certificates) -> None:
    wrong = TLS(certificates.server.certificate, certificates.ca.key)
    for ports in ({"http_port": 0, "grpc_port": None}, {"http_port": None, "grpc_port": 0}):
        with pytest.raises(ssl.SSLError):
            await Server(Callers(), tls=wrong, **ports).start()
