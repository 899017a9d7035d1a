"""What gRPC says of a TLS peer, said of one that came over HTTP."""

import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

INSECURE: Mapping[str, list[bytes]] = {"transport_security_type": [b"insecure"]}


def auth_context(connection: Any) -> Mapping[str, list[bytes]]:
    """The authentication context of an `ssl.SSLObject`, in gRPC's keys; that of an insecure peer for None."""
    if connection is None:
        return INSECURE
    context = {"transport_security_type": [b"ssl"]}
    certificate = connection.getpeercert()
    if not certificate:
        return context
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    context["x509_common_name"] = [name.encode() for name in names[:1]] or [b""]
    context["x509_pem_cert"] = [ssl.DER_cert_to_PEM_cert(connection.getpeercert(True)).encode()]
    if alternatives := [_alternative(kind, value) for kind, value in certificate.get("subjectAltName", ())]:
        context["x509_subject_alternative_name"] = alternatives
    return context


def _alternative(kind: str, value: Any) -> bytes:
    """One subject alternative name, in the spelling of gRPC."""
    if kind not in ("DNS", "URI", "email", "IP Address"):
        return b"other types of SAN"
    return str(ip_address(value.strip()) if kind == "IP Address" else value).encode()
