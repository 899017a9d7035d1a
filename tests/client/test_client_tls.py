"""TLS and certificates of clients, on every binding. AUTH-SERVER-001."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from a2a_grpc import TLS, Server
from a2a_grpc.client import ClientTLS, ConnectError, connect
from a2a_grpc.generated import a2a_pb2 as pb
from tests.client.scripted import BINDINGS
from tests.lab import Lab
from tests.test_tls import Authority

LOCAL = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]


class Doorman(Lab):
    """Notes who comes."""

    def __init__(self) -> None:
        super().__init__()
        self.guests: list[Any] = []

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.Task:
        self.guests.append(list(context.auth_context()["x509_common_name"]))
        return await super().GetTask(request, context)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_certificate_is_checked_and_shown(binding: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served, own = authority.sign("server", LOCAL), authority.sign("ann", [])
    ca = authority.pair.certificate
    tls = TLS(served.certificate, served.key, client_ca=ca)
    agent = Doorman()
    async with Server(agent, http_port=0, grpc_port=0, tls=tls, shutdown_deadline=1) as server:
        card = server.agents[0].card
        if binding == "GRPC":  # a bare address of this machine would be called without TLS
            for interface in card.supported_interfaces:
                interface.url = interface.url if "://" in interface.url else f"grpcs://{interface.url}"
        mutual = ClientTLS(ca, own.certificate, own.key)
        async with connect(card, bindings=[binding], tls=mutual) as client:
            await client.get_task("T1")
        for wrong in (None, ClientTLS(ca)):
            async with connect(card, bindings=[binding], tls=wrong, attempts=1, connect_timeout=1) as client:
                with pytest.raises(ConnectError):
                    await client.get_task("T1")
    assert agent.guests == [[b"ann"]]
