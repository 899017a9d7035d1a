"""The instructions of the integration test kit: protobuf messages (package itk) made from a table, and how to find one
in a message.

They live in a descriptor pool of their own, so that another program's copy of them may be loaded beside.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    OneofDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from a2a_grpc.generated.a2a_pb2 import Message, Part

MEDIA_TYPE = "application/x-protobuf"
FILENAME = "instruction.bin"


class InstructionError(Exception):
    """There is no instruction, or it is not carried out; the caller reads why."""


class Field(NamedTuple):
    kind: str
    oneof: str = ""
    repeated: bool = False


MESSAGES: Mapping[str, Mapping[str, Field]] = {
    # the fields of each message, in the order of their numbers, which begin with 1
    "Instruction": {
        "call_agent": Field("CallAgent", "step"),
        "return_response": Field("ReturnResponse", "step"),
        "steps": Field("SeriesOfSteps", "step"),
    },
    "CallAgent": {
        "transport": Field("string"),
        "agent_card_uri": Field("string"),
        "instruction": Field("Instruction"),
        "streaming": Field("bool"),
        "send_message": Field("SendMessageBehavior", "behavior"),
        "push_notification": Field("PushNotificationBehavior", "behavior"),
        "resubscribe": Field("ResubscribeBehavior", "behavior"),
    },
    "ReturnResponse": {"response": Field("string"), "hold_task": Field("bool")},
    "SeriesOfSteps": {
        "instructions": Field("Instruction", repeated=True),
        "response_generator": Field("int32"),  # an enum, of which every value means the same
    },
    "SendMessageBehavior": {},
    "PushNotificationBehavior": {"url": Field("string")},
    "ResubscribeBehavior": {},
}


def instruction_of(message: Message) -> Any:
    """The Instruction that a message carries: in a part with its media type or file name, else in any text part, as
    base64. InstructionError where there is none."""
    for data in _candidates(message):
        try:
            found = Instruction.FromString(data)
        except DecodeError:
            continue
        if found.WhichOneof("step"):
            return found
    raise InstructionError(f"no part of the message is an instruction: send one as {MEDIA_TYPE}")


def instruction_part(instruction: Any) -> Part:
    return Part(raw=instruction.SerializeToString(), media_type=MEDIA_TYPE, filename=FILENAME)


def _candidates(message: Message) -> Iterator[bytes]:
    labelled = [part for part in message.parts if part.media_type == MEDIA_TYPE or part.filename == FILENAME]
    for part in [*labelled, *(part for part in message.parts if part.HasField("text"))]:
        try:
            yield part.raw or base64.b64decode(part.text, validate=True)
        except (binascii.Error, ValueError):
            continue


def _file() -> FileDescriptorProto:
    types = [_message(name, fields) for name, fields in MESSAGES.items()]
    return FileDescriptorProto(name="itk/instruction.proto", package="itk", syntax="proto3", message_type=types)


def _message(name: str, fields: Mapping[str, Field]) -> DescriptorProto:
    oneofs = list(dict.fromkeys(field.oneof for field in fields.values() if field.oneof))
    made = DescriptorProto(name=name, oneof_decl=[OneofDescriptorProto(name=oneof) for oneof in oneofs])
    for number, (label, field) in enumerate(fields.items(), 1):
        made.field.append(_field(label, number, field))
        if field.oneof:
            made.field[-1].oneof_index = oneofs.index(field.oneof)
    return made


def _field(name: str, number: int, field: Field) -> FieldDescriptorProto:
    label = FieldDescriptorProto.LABEL_REPEATED if field.repeated else FieldDescriptorProto.LABEL_OPTIONAL
    made = FieldDescriptorProto(name=name, number=number, label=label)
    if field.kind in MESSAGES:
        made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".itk.{field.kind}"
    else:
        made.type = FieldDescriptorProto.Type.Value(f"TYPE_{field.kind.upper()}")
    return made


def _classes() -> dict[str, Any]:
    pool = DescriptorPool()
    pool.Add(_file())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"itk.{name}")) for name in MESSAGES}


_CLASSES = _classes()
Instruction: Any = _CLASSES["Instruction"]
CallAgent: Any = _CLASSES["CallAgent"]
ReturnResponse: Any = _CLASSES["ReturnResponse"]
SeriesOfSteps: Any = _CLASSES["SeriesOfSteps"]
