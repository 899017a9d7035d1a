"""Server reflection, v1alpha and v1, from one servicer: the two protocols differ in their package name only."""

from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio

V1ALPHA = "grpc.reflection.v1alpha.ServerReflection"
V1 = "grpc.reflection.v1.ServerReflection"
METHOD = "ServerReflectionInfo"


class _Pool:
    """The default pool, with methods found through their service, and with v1's own file kept apart from it."""

    def __init__(self) -> None:
        self._default = descriptor_pool.Default()
        self._own = descriptor_pool.DescriptorPool()
        self._own.AddSerializedFile(_v1_file().SerializeToString())

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:
        for name in (symbol, symbol.rpartition(".")[0]):
            for pool in (self._default, self._own):
                try:
                    found: FileDescriptor = pool.FindFileContainingSymbol(name)
                except KeyError:
                    continue
                return found
        raise KeyError(symbol)

    def FindFileByName(self, name: str) -> FileDescriptor:
        try:
            found: FileDescriptor = self._default.FindFileByName(name)
        except KeyError:
            found = self._own.FindFileByName(name)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._default, name)


def add_reflection(server: grpc.aio.Server, service_names: Sequence[str]) -> None:
    servicer = aio.ReflectionServicer([*service_names, V1ALPHA, V1], _Pool())
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        _decoded,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in (V1ALPHA, V1):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {METHOD: handler}),))


def _decoded(data: bytes) -> reflection_pb2.ServerReflectionRequest:
    """What does not parse becomes a request for nothing, which is answered as an invalid argument."""
    try:
        return reflection_pb2.ServerReflectionRequest.FromString(data)
    except DecodeError:
        return reflection_pb2.ServerReflectionRequest()


def _v1_file() -> FileDescriptorProto:
    """The file of v1alpha, with its version changed wherever it is named."""
    alpha = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
    text = text_format.MessageToString(alpha).replace("v1alpha", "v1").replace("grpc_reflection/", "grpc/reflection/")
    return text_format.Parse(text, FileDescriptorProto())
