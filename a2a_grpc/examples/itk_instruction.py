"""The instructions of the integration test kit: protobuf messages (package itk) made from a table, and how to find one
in a message.

They live in a descriptor pool of their own, so that another program's copy of them may be loaded beside.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from a2a_grpc.generated.a2a_pb2 import Message, Part

MEDIA_TYPE = "application/x-protobuf"
FILENAME = "instruction.bin"


class InstructionError(Exception):
    """There is no instruction, or it is not carried out; the caller reads why."""


MESSAGES: Mapping[str, Mapping[str, str]] = {
    # the fields of each message and their types, in the order of their numbers, which begin with 1
    "Instruction": {"call_agent": "CallAgent", "return_response": "ReturnResponse", "steps": "SeriesOfSteps"},
    "CallAgent": {"transport": "string", "agent_card_uri": "string", "instruction": "Instruction"},  # and how to call
    "ReturnResponse": {"response": "string", "hold_task": "bool"},
    "SeriesOfSteps": {"instructions": "Instruction"},  # and an enum, of which every value means the same
}
ONEOFS = {"Instruction": "step"}  # of all its fields
REPEATED = frozenset({"instructions"})


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


def _classes() -> dict[str, Any]:
    file = FileDescriptorProto(name="itk/instruction.proto", package="itk", syntax="proto3")
    for name in MESSAGES:
        _fill(file.message_type.add(name=name))
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"itk.{name}")) for name in MESSAGES}


def _fill(message: DescriptorProto) -> None:
    if message.name in ONEOFS:
        message.oneof_decl.add(name=ONEOFS[message.name])
    for number, (name, kind) in enumerate(MESSAGES[message.name].items(), 1):
        field = message.field.add(name=name, number=number)
        field.label = field.LABEL_REPEATED if name in REPEATED else field.LABEL_OPTIONAL
        if kind in MESSAGES:
            field.type, field.type_name = field.TYPE_MESSAGE, f".itk.{kind}"
        else:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        if message.name in ONEOFS:
            field.oneof_index = 0


_CLASSES = _classes()
Instruction: Any = _CLASSES["Instruction"]
CallAgent: Any = _CLASSES["CallAgent"]
ReturnResponse: Any = _CLASSES["ReturnResponse"]
SeriesOfSteps: Any = _CLASSES["SeriesOfSteps"]
