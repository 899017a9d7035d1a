"""What is sent: a message made of its content, and how it is to be answered."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from ..errors import did_you_mean
from ..generated.a2a_pb2 import Message, SendMessageConfiguration, SendMessageRequest, TaskPushNotificationConfig
from .parts import Content, message, struct

_OF_THE_MESSAGE = ("task_id", "context_id", "reference_task_ids")
_SETTINGS = SendMessageConfiguration.DESCRIPTOR.fields_by_name


class Sending(TypedDict, total=False):
    """What may go with a message. `deadline` is in seconds from the call; `metadata` is that of the request."""

    deadline: float | None
    task_id: str
    context_id: str
    reference_task_ids: Sequence[str]
    metadata: Mapping[str, Any] | None
    # the fields of SendMessageConfiguration
    accepted_output_modes: Sequence[str]
    task_push_notification_config: TaskPushNotificationConfig
    history_length: int
    return_immediately: bool


def request_of(content: Content, **sending: Unpack[Sending]) -> SendMessageRequest:
    """Raises TypeError, which names the nearest right name, for what may not go with a message."""
    given: dict[str, Any] = {**sending}
    given.pop("deadline", None)
    metadata = given.pop("metadata", None)
    made = Message()
    made.CopyFrom(content if isinstance(content, Message) else message(content))
    made.MergeFrom(Message(**{name: given.pop(name) for name in _OF_THE_MESSAGE if name in given}))
    if given:
        _check(given)
    return SendMessageRequest(
        message=made,
        metadata=None if metadata is None else struct(metadata),
        configuration=SendMessageConfiguration(**given) if given else None,
    )


def _check(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in _SETTINGS:
            names = [*Sending.__annotations__]
            raise TypeError(f"unknown setting {name}; {did_you_mean(name, names, f'there are {names}')}")
