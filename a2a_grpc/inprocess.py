"""The in-process server: every binding, gRPC included, calls the servicer through here.

User interceptors are folded around the lookup of a handler, as grpc.aio does it; what comes out of a call is a
response, or a CallError. Every layer that iterates a stream closes it, so that a servicer's generator ends when its
client goes.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import grpc
import grpc.aio

from .behaviors import RpcHandler, streamed, unary
from .context import CallContext, CallError
from .encoded import Encoded
from .errors import InvalidAgentResponseError, MethodNotFoundError, UnavailableError, log, nearest
from .inherited import inherited
from .methods import Method

Lookup: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[RpcHandler | None]]"


class CallDetails(NamedTuple):
    """What an interceptor is asked about; grpc.HandlerCallDetails by shape."""

    method: str
    invocation_metadata: Any


class InProcessServer:
    """Calls the handlers of a servicer, by gRPC path, through the interceptors."""

    def __init__(
        self, handlers: Mapping[str, RpcHandler], interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
    ) -> None:
        self._handlers = handlers
        self._lookup: Lookup = self._find
        self._intercepted = bool(interceptors)
        for interceptor in reversed(interceptors):
            self._lookup = partial(interceptor.intercept_service, self._lookup)
        self._calls: set[CallContext] = set()
        self._streams: set[CallContext] = set()

    async def unary(self, method: Method, request: Any, context: CallContext) -> Any:
        """One response. Raises CallError; lets CancelledError of the client through."""
        self._calls.add(context)
        inherited.set(context)
        cancelled = True
        behavior: Any
        try:
            if self._intercepted:
                behavior = unary((await self._handler(method, context)).unary_unary)
            else:
                behavior = self._handlers[method.path].unary_unary
            response = await behavior(request, context)
            if type(response) is not method.response or context.status_is_set:
                self._verdict(method, response, context)
            cancelled = False
            return response
        except (Exception, asyncio.CancelledError) as error:
            status = context.status_of(error)
            cancelled = False
            raise CallError(status) from None
        finally:
            self._calls.discard(context)
            context.finish(cancelled=cancelled)
            inherited.set(None)  # or the task of the call, its context and this would hold each other

    async def stream(self, method: Method, request: Any, context: CallContext) -> AsyncGenerator[Any, None]:
        """The responses of a stream. Raises CallError, also when the server ends its streams."""
        self._calls.add(context)
        self._streams.add(context)
        inherited.set(context)
        cancelled = True
        behavior: Any
        try:
            if self._intercepted:
                behavior = _stream_behavior(await self._handler(method, context))
            else:
                behavior = self._handlers[method.path].unary_stream
            async with aclosing(behavior(request, context)) as responses:
                async for response in responses:
                    if type(response) is not method.response:
                        self._verdict(method, response, context)
                    yield response
            if (failure := context.failure()) is not None:
                raise CallError(failure)
            cancelled = False
        except (Exception, asyncio.CancelledError) as error:
            status = context.status_of(error)
            cancelled = False
            raise CallError(status) from None
        finally:
            self._calls.discard(context)
            self._streams.discard(context)
            context.finish(cancelled=cancelled)
            inherited.set(None)  # or the task of the call, its context and this would hold each other

    def end_streams(self) -> None:
        """Ends every open stream with UNAVAILABLE, for its client to follow elsewhere."""
        for context in tuple(self._streams):
            context.cancel_with(UnavailableError())

    def tasks(self) -> set[asyncio.Task[Any]]:
        """The tasks of all calls in flight."""
        return {context.task for context in self._calls if context.task}

    def end_calls(self) -> None:
        """Ends everything that is open with UNAVAILABLE."""
        self.end_streams()
        for context in tuple(self._calls):
            context.cancel_with(UnavailableError())

    async def _find(self, details: grpc.HandlerCallDetails) -> "RpcHandler | None":
        return self._handlers.get(details.method)

    async def _handler(self, method: Method, context: CallContext) -> Any:
        handler = await self._lookup(CallDetails(method.path, context.invocation_metadata()))  # type: ignore[arg-type]
        if handler is None:
            raise MethodNotFoundError(f"{method.name} is not served")
        return handler

    def _verdict(self, method: Method, response: Any, context: CallContext) -> None:
        """A status that was set is the outcome; a response of another type is the agent's mistake."""
        if (failure := context.failure()) is not None:
            raise CallError(failure)
        message = response.message if type(response) is Encoded else response
        if type(message) is not method.response:
            log.error("%s returned %s, not %s", method.name, type(message).__name__, method.response.__name__)
            raise InvalidAgentResponseError(f"{method.name}: the agent did not return a {method.response.__name__}")


def unknown_method(name: str, methods: Mapping[str, Method]) -> MethodNotFoundError:
    meant = nearest(name.rpartition("/")[2], methods)
    advice = f"Did you mean {meant}?" if meant else f"There are {', '.join(methods)}."
    return MethodNotFoundError(f"Unknown method {name[:80]}. {advice}")


def _stream_behavior(handler: Any) -> Callable[..., Any]:
    return streamed(handler.unary_stream) if handler.unary_stream else _single(unary(handler.unary_unary))


def _single(behavior: Callable[..., Awaitable[Any]]) -> Callable[..., AsyncGenerator[Any, None]]:
    async def stream(request: Any, context: CallContext) -> AsyncGenerator[Any, None]:
        yield await behavior(request, context)

    return stream
