"""The method table: what the service descriptor says of each RPC, read once."""

from dataclasses import dataclass

from google.api import annotations_pb2
from google.api.http_pb2 import HttpRule
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from .generated import a2a_pb2

A2A_SERVICE: ServiceDescriptor = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]


@dataclass(frozen=True)
class Method:
    """One RPC. `path` is its gRPC path, `rules` its `google.api.http` bindings, the primary one first."""

    name: str
    path: str
    request: type[Message]
    response: type[Message]
    streaming: bool
    rules: tuple[HttpRule, ...]


def methods(service: ServiceDescriptor = A2A_SERVICE) -> dict[str, Method]:
    """The RPCs of a service by name, in the order of the .proto file.

    Raises TypeError for an RPC whose client streams: no HTTP binding can carry one.
    """
    return {m.name: _method(service, m) for m in service.methods}


def _method(service: ServiceDescriptor, m: MethodDescriptor) -> Method:
    if m.client_streaming:
        raise TypeError(f"{m.full_name}: client streaming cannot be served over HTTP")
    return Method(
        name=m.name,
        path=f"/{service.full_name}/{m.name}",
        request=GetMessageClass(m.input_type),
        response=GetMessageClass(m.output_type),
        streaming=m.server_streaming,
        rules=_rules(m),
    )


def _rules(m: MethodDescriptor) -> tuple[HttpRule, ...]:
    options = m.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return ()
    rule = options.Extensions[annotations_pb2.http]
    return (rule, *rule.additional_bindings)
