"""Servicer → handlers: each RPC's method, wrapped once with the duties that the protocol puts on every agent.

The duties come in this order: version, required extensions, capabilities, validation, media types (authentication is an
interceptor's and comes before them). A request that did not decode travels here as `Undecodable` and is refused where
validation stands, so that wrong credentials are always told first.
"""

from collections.abc import AsyncGenerator, Callable, Set
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from .behaviors import RpcHandler, streamed, unary
from .card import CAPABILITIES, extensions, missing_capability
from .context import CallContext, Metadatum
from .errors import A2AError, InvalidParamsError, PushNotificationNotSupportedError, Violation, quote
from .generated.a2a_pb2 import AgentCard
from .generated.a2a_pb2_grpc import A2AServiceServicer
from .input_modes import InputModes
from .methods import Method, methods
from .service_parameters import (
    EXTENSIONS,
    VERSION,
    VersionPolicy,
    check_required,
    check_version,
    requested_extensions,
)
from .validation import validator

OPEN_TO_ALL = frozenset({"GetExtendedAgentCard"})  # a client must be able to read which extensions are required

Check = Callable[[Any, CallContext], None]


class Undecodable:
    """A request that is not its message; `error` says why."""

    __slots__ = ("error",)

    def __init__(self, error: A2AError) -> None:
        self.error = error


def decoder(message_type: type[Message]) -> Callable[[bytes], Any]:
    """A gRPC request deserializer that never raises."""

    def decode(data: bytes) -> Any:
        try:
            return message_type.FromString(data)
        except DecodeError:
            name = message_type.DESCRIPTOR.full_name
            return Undecodable(InvalidParamsError([Violation("", f"The request is not a valid {name} message")]))

    return decode


def implemented(servicer: Any) -> set[str]:
    """The RPCs that a servicer has a method of its own for."""
    return {name for name in methods() if _overrides(servicer, name)}


def handlers(
    servicer: Any, card: AgentCard, version_policy: VersionPolicy = "infer", tenants: Set[str] | None = None
) -> dict[str, RpcHandler]:
    """The handlers of a servicer by gRPC path, with what its card asks of every call. `tenants` None accepts any.

    A servicer with a true attribute `check_input_modes` gets no parts of media types that the card does not declare.
    """
    modes = InputModes(card) if getattr(servicer, "check_input_modes", False) else None
    return {
        m.path: _handler(m, getattr(servicer, m.name), _checks(m, card, modes, version_policy, tenants))
        for m in methods().values()
    }


def _overrides(servicer: Any, name: str) -> bool:
    method = getattr(servicer, name, None)
    return method is not None and getattr(method, "__func__", method) is not getattr(A2AServiceServicer, name)


def _handler(method: Method, behavior: Callable[..., Any], check: Check) -> RpcHandler:
    serializers = (decoder(method.request), method.response.SerializeToString)
    if method.streaming:
        return grpc.unary_stream_rpc_method_handler(_dutiful_stream(streamed(behavior), check), *serializers)
    return grpc.unary_unary_rpc_method_handler(_dutiful_unary(unary(behavior), check), *serializers)


def _dutiful_unary(behavior: Callable[..., Any], check: Check) -> Callable[..., Any]:
    async def call(request: Any, context: CallContext) -> Any:
        check(request, context)
        return await behavior(request, context)

    return call


def _dutiful_stream(behavior: Callable[..., Any], check: Check) -> Callable[..., Any]:
    async def call(request: Any, context: CallContext) -> AsyncGenerator[Any, None]:
        check(request, context)
        async with aclosing(behavior(request, context)) as responses:
            async for response in responses:
                yield response

    return call


def _checks(
    method: Method, card: AgentCard, modes: InputModes | None, policy: VersionPolicy, tenants: Set[str] | None
) -> Check:
    """The duties of one RPC, as one function that raises the first error."""
    check_extensions = _extension_check(method, card)
    check_capability = _capability_check(method, card)
    check_modes = modes.check if modes and _carries(method, "message") else None
    validate = validator(method.request)

    def check(request: Any, context: CallContext) -> None:
        check_version(context.parameter(VERSION), context.version, policy)
        if check_extensions:
            check_extensions(request, context)
        if check_capability:
            check_capability(request)
        if type(request) is Undecodable:
            raise request.error
        if violations := validate(request):
            raise InvalidParamsError(violations)
        if tenants is not None and request.tenant not in tenants:
            raise InvalidParamsError([Violation("tenant", f"{quote(request.tenant)} is not a tenant of this agent")])
        if check_modes:
            check_modes(request.message)

    return check


def _carries(method: Method, field: str) -> bool:
    return field in method.request.DESCRIPTOR.fields_by_name


def _extension_check(method: Method, card: AgentCard) -> Check | None:
    declared = extensions(card)
    required = [] if method.name in OPEN_TO_ALL else [uri for uri, needed in declared.items() if needed]
    carries_message = _carries(method, "message")

    def check(request: Any, context: CallContext) -> None:
        requested = requested_extensions(context.parameter(*EXTENSIONS))
        if carries_message and type(request) is not Undecodable:
            requested += [uri for uri in request.message.extensions if uri not in requested]
        check_required(required, requested)
        _activate(context, tuple(uri for uri in requested if uri in declared))

    return check if declared else None


def _activate(context: CallContext, uris: tuple[str, ...]) -> None:
    context.extensions = uris
    if uris:
        context.echo = (Metadatum(EXTENSIONS[0], ", ".join(uris)),)


def _capability_check(method: Method, card: AgentCard) -> Callable[[Any], None] | None:
    if missing := missing_capability(card, method.name):
        return partial(_refuse, method.name, missing)
    if _carries(method, "configuration") and not card.capabilities.push_notifications:
        return _refuse_inline_push
    return None


def _refuse(name: str, missing: str, _: Any) -> None:
    raise CAPABILITIES[missing].refusal(f"{name} is not supported: the agent's card does not declare {missing}")


def _refuse_inline_push(request: Any) -> None:
    if type(request) is not Undecodable and request.configuration.HasField("task_push_notification_config"):
        raise PushNotificationNotSupportedError
