"""Plain grpc.aio interceptors guard every binding, with one list."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from lab import Lab, SyncLab, WritingLab, artifact, caller, reply, send
from wires import All, Outcome

from a2a_grpc import Server, UnauthenticatedError
from a2a_grpc.generated import a2a_pb2 as pb

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]]


class DenyByAbort(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        async def deny(_: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

        if dict(details.invocation_metadata).get("authorization") == "Bearer good":
            return await continuation(details)
        return grpc.unary_unary_rpc_method_handler(deny)


class DenyByException(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        if dict(details.invocation_metadata).get("authorization") == "Bearer good":
            return await continuation(details)
        raise UnauthenticatedError("no token")


class Broken(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        raise ValueError("a secret of the interceptor")


class NoHandler(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        return None


class SetCaller(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        caller.set(str(dict(details.invocation_metadata).get("x-caller")))
        return await continuation(details)


class Wrapping(grpc.aio.ServerInterceptor):
    """Adds an event before and after each stream, and swallows whatever a broad `except` swallows."""

    def __init__(self) -> None:
        self.closed = 0

    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        handler: Any = await continuation(details)
        if not handler.response_streaming:
            return handler

        async def wrapped(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                yield artifact(100)
                async for event in handler.unary_stream(request, context):
                    yield event
                yield artifact(101)
            finally:
                self.closed += 1

        return grpc.unary_stream_rpc_method_handler(wrapped, handler.request_deserializer, handler.response_serializer)


class Swallowing(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> Any:
        handler: Any = await continuation(details)

        async def wrapped(request: Any, context: Any) -> Any:
            try:
                return await handler.unary_unary(request, context)
            except Exception:
                return pb.SendMessageResponse(message=reply("swallowed"))

        return grpc.unary_unary_rpc_method_handler(wrapped, handler.request_deserializer, handler.response_serializer)


async def outcomes(servicer: Any, interceptor: Any, method: str, request: Any, **headers: str) -> list[Outcome]:
    given = [interceptor] if interceptor else []
    async with Server(servicer, http_port=0, grpc_port=0, interceptors=given) as server, All(server) as every:
        return await every.call(method, request, headers)


@pytest.mark.parametrize("interceptor", [DenyByAbort, DenyByException])
@pytest.mark.parametrize(("method", "text"), [("SendMessage", "hi"), ("SendStreamingMessage", "1:")])
async def test_deny(interceptor: Any, method: str, text: str) -> None:
    lab = Lab()
    denied = await outcomes(lab, interceptor(), method, send(text))
    assert [(o.fault.status or o.fault.wire, o.fault.reason, o.fault.message) for o in denied if o.fault] == [
        ("UNAUTHENTICATED", "UNAUTHENTICATED", "no token"),
        (-31401, "UNAUTHENTICATED", "no token"),
        ("UNAUTHENTICATED", "UNAUTHENTICATED", "no token"),
    ]
    assert denied[2].fault
    assert denied[2].fault.wire == 401
    assert lab.seen == []
    allowed = await outcomes(lab, interceptor(), method, send(text), authorization="Bearer good")
    assert [o.fault for o in allowed] == [None] * 3


@pytest.mark.parametrize("interceptor", [DenyByAbort, DenyByException])
async def test_credentials_are_told_before_anything_else(interceptor: Any) -> None:
    """Wrong credentials, a wrong version and a bad enum together: A-33."""
    bad = {"message": {"messageId": "m", "role": "nobody", "parts": [{"text": "x", "url": "y"}]}}
    async with Server(Lab(), http_port=0, grpc_port=0, interceptors=[interceptor()]) as server, All(server) as every:
        by_grpc = await _raw_call(server.grpc_address, b"\xff\xff", (("a2a-version", "9.0"),))
        by_http = [await w.call("SendMessage", bad, {"A2A-Version": "9.0"}) for w in every.wires[1:]]
    assert by_grpc is grpc.StatusCode.UNAUTHENTICATED
    assert [o.fault.reason for o in by_http if o.fault] == ["UNAUTHENTICATED"] * 2


async def _raw_call(address: str, data: bytes, metadata: Any) -> grpc.StatusCode:
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(data, metadata=metadata, timeout=5)
        return await call.code()


@pytest.mark.parametrize(("method", "text"), [("SendMessage", "hi"), ("SendStreamingMessage", "1:")])
async def test_a_broken_interceptor_tells_nothing(method: str, text: str, caplog: pytest.LogCaptureFixture) -> None:
    broken = await outcomes(Lab(), Broken(), method, send(text))
    assert [o.fault.reason for o in broken if o.fault] == ["INTERNAL_ERROR"] * 3
    assert "secret" not in repr(broken)
    assert sum("secret" in str(r.exc_info) for r in caplog.records) == 3


async def test_an_interceptor_without_a_handler_means_unimplemented() -> None:
    found = await outcomes(Lab(), NoHandler(), "SendMessage", send("hi"))
    assert [o.fault.reason for o in found if o.fault] == ["METHOD_NOT_FOUND"] * 3


@pytest.mark.parametrize("servicer", [Lab, SyncLab])
async def test_a_context_variable_reaches_every_kind_of_unary_method(servicer: Any) -> None:
    found = await outcomes(servicer(), SetCaller(), "SendMessage", send("caller"), **{"X-Caller": "ann"})
    assert [o.only.message.parts[0].text for o in found] == ["ann"] * 3
    assert caller.get() == "nobody"


@pytest.mark.parametrize(("servicer", "text"), [(Lab, "1:caller_event"), (SyncLab, ""), (WritingLab, "x")])
async def test_a_context_variable_reaches_every_kind_of_stream(servicer: Any, text: str) -> None:
    found = await outcomes(servicer(), SetCaller(), "SendStreamingMessage", send(text or "x"), **{"X-Caller": "ann"})
    for outcome in found:
        assert outcome.messages == [artifact(0), pb.StreamResponse(message=reply("ann"))]


async def test_a_wrapped_stream() -> None:
    wrapping = Wrapping()
    found = await outcomes(Lab(), wrapping, "SendStreamingMessage", send("1:"))
    assert [o.messages for o in found] == [[artifact(100), artifact(0), artifact(101)]] * 3
    assert wrapping.closed == 3


async def test_an_error_under_a_wrapped_stream_comes_late() -> None:
    found = await outcomes(Lab(), Wrapping(), "SendStreamingMessage", send("1:raise TaskNotFoundError"))
    assert [(o.messages, o.fault and o.fault.reason) for o in found] == [
        ([artifact(100), artifact(0)], "TASK_NOT_FOUND")
    ] * 3


async def test_an_abort_stands_though_an_interceptor_swallows_it() -> None:
    """BR-36."""
    found = await outcomes(Lab(), Swallowing(), "SendMessage", send("abort NOT_FOUND"))
    assert [o.fault and o.fault.reason for o in found] == ["NOT_FOUND"] * 3


async def test_a_synchronous_abort() -> None:
    found = await outcomes(SyncLab(), None, "SendMessage", send("abort"))
    assert [o.fault and o.fault.message for o in found] == ["aborted in a thread"] * 3


async def test_metadata_of_the_answer() -> None:
    found = await outcomes(Lab(), None, "SendMessage", send("metadata"))
    assert [o.headers["x-initial"] for o in found] == ["1"] * 3
    assert (found[0].trailing["x-trailing"], found[1].headers["x-trailing"], found[2].headers["x-trailing"]) == (
        "2",
    ) * 3
