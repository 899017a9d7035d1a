"""A second annotated service, which has nothing of A2A's: `library.v1.Library`, built without protoc."""

import re

from google.api import annotations_pb2, field_behavior_pb2, http_pb2
from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

MESSAGES = {
    "Author": "string name, string country_code, repeated string pen_names",
    "Book": (
        "string name, required string title, .library.v1.Genre genre, .library.v1.Author author, "
        ".google.protobuf.Timestamp published, bytes cover, int32 copies, bool lent"
    ),
    "BookRequest": "string name, string view_mode",
    "SaveBook": "required .library.v1.Book book, string shelf, repeated string update_paths, bool validate_only",
    "Search": (
        ".library.v1.Author author, repeated string words, .google.protobuf.Timestamp since, optional bool lent, "
        "int32 limit, .library.v1.Genre genre, repeated .library.v1.Book like, string tenant"
    ),
    "Books": "repeated .library.v1.Book books, string next_page",
}

RPCS = """
GetBook     BookRequest Book     get:/v1/{name=shelves/*/books/*}, get:/v1/archive/{name}
SaveBook    SaveBook    Book     patch:/v1/{shelf=shelves/*}/books body:book, put:/v1/books body:book
Search      Search      Books    get:/v1/books, post:/v1/books:search body:*
LendBook    BookRequest Book     post:/v1/{name=shelves/*/books/*}:lend body:*, get:/v1/{name=shelves/*/books/*}:peek
"""


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="library/v1/library.proto", package="library.v1", syntax="proto3")
    used = (annotations_pb2, field_behavior_pb2, timestamp_pb2)
    file.dependency.extend(module.DESCRIPTOR.name for module in used)
    genres = file.enum_type.add(name="Genre")
    for number, name in enumerate(("GENRE_UNSPECIFIED", "GENRE_NOVEL", "GENRE_POETRY", "GENRE_ESSAY")):
        genres.value.add(name=name, number=number)
    for name, fields in MESSAGES.items():
        _message(file, name, fields.split(", "))
    service = file.service.add(name="Library")
    for line in RPCS.strip().splitlines():
        name, request, response, rules = line.split(maxsplit=3)
        method = service.method.add(
            name=name, input_type=f".library.v1.{request}", output_type=f".library.v1.{response}"
        )
        first, *others = map(rule, rules.split(", "))
        first.additional_bindings.extend(others)
        method.options.Extensions[annotations_pb2.http].CopyFrom(first)
    return file


def _message(file: FileDescriptorProto, name: str, fields: list[str]) -> None:
    message = file.message_type.add(name=name)
    for number, text in enumerate(fields, 1):
        *words, kind, field_name = text.split()
        field = message.field.add(name=field_name, number=number, label=3 if "repeated" in words else 1)
        if "required" in words:
            field.options.Extensions[field_behavior_pb2.field_behavior].append(field_behavior_pb2.REQUIRED)
        if "optional" in words:
            message.oneof_decl.add(name=f"_{field_name}")
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl) - 1
        if kind.startswith("."):
            field.type_name = kind
            field.type = FieldDescriptorProto.TYPE_ENUM if kind.endswith("Genre") else FieldDescriptorProto.TYPE_MESSAGE
        else:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")


def rule(text: str) -> http_pb2.HttpRule:
    """An HttpRule from `get:/path/{field} body:x`; verbs in capitals are `custom` ones."""
    pattern, *rest = text.split()
    verb, path = pattern.split(":", 1)
    made = http_pb2.HttpRule(**dict(option.split(":", 1) for option in rest))
    if re.fullmatch("get|put|post|delete|patch", verb):
        setattr(made, verb, path)
    else:
        made.custom.kind, made.custom.path = verb, path
    return made


_pool = descriptor_pool.Default()
_pool.AddSerializedFile(_file().SerializeToString())

SERVICE: ServiceDescriptor = _pool.FindServiceByName("library.v1.Library")


def message_type(name: str) -> type[Message]:
    return GetMessageClass(_pool.FindMessageTypeByName(f"library.v1.{name}"))
