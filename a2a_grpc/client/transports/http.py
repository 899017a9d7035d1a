"""Calls over HTTP, for both bindings: one session, bodies within limits, SSE."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import aiohttp
import yarl
from google.protobuf.message import Message

from ...bindings.protojson import JsonSyntaxError, loads
from ...bindings.sse import Event, Parser
from ...errors import InvalidAgentResponseError, ResourceExhaustedError
from ...methods import Method
from ..addresses import origin
from ..errors import ConnectError, Fault
from ..settings import ClientOptions
from . import failures
from .codecs import Codec, Request
from .transport import Outgoing

SSE = "text/event-stream"
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ClientSSLError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)

_NO_HTTP = "what answers is not HTTP/1.1; is this the port of gRPC? A card is fetched over HTTP"
_SIGNS = {  # of a wrong address
    "WRONG_VERSION_NUMBER": "it does not speak TLS; is http:// meant?",
    "Bad status line": _NO_HTTP,
    "Expected HTTP/": _NO_HTTP,
}


def new_session(options: ClientOptions) -> aiohttp.ClientSession:
    """One for a client: pooled, without cookies, and without a limit that streams could use up."""
    context = options.tls.ssl_context() if options.tls else True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, connect=options.connect_timeout),
        headers={"User-Agent": "a2a-grpc"},
    )


class HttpTransport:
    """`codec` is the binding."""

    def __init__(self, url: str, codec: Codec, session: aiohttp.ClientSession, options: ClientOptions) -> None:
        self._url, self._codec, self._session, self._options = url, codec, session, options
        self._streams: set[aiohttp.ClientResponse] = set()

    async def unary(self, method: Method, message: Message, call: Outgoing) -> Message:
        with network(self._url):
            async with AsyncExitStack() as stack:
                response = await self._open(stack, method, message, call)
                body = await self._body(response)
        return self._codec.message(method, _json(method, body) if body.strip() else None)

    async def stream(self, method: Method, message: Message, call: Outgoing) -> AsyncGenerator[Message, None]:
        with network(self._url):
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(call.idle):  # what drips is no sign of life before the stream is one
                    response = await self._open(stack, method, message, call)
                    body = None if response.content_type == SSE else await self._body(response)
                if body is not None:
                    yield self._codec.message(method, _json(method, body))
                    return
                self._streams.add(response)
                stack.callback(self._streams.discard, response)
                async with aclosing(self._events(response, call.idle)) as events:
                    async for event in events:
                        yield self._codec.message(method, _event(event))

    async def close(self) -> None:
        """The session is its owner's, who closes it; what reads a stream then would not be told."""
        for response in tuple(self._streams):
            response.close()

    async def _open(
        self, stack: AsyncExitStack, method: Method, message: Message, call: Outgoing
    ) -> aiohttp.ClientResponse:
        """The response to the first alternative that the server serves. Raises the error that it is."""
        fault = None
        for request in self._codec.requests(method, message):
            response: aiohttp.ClientResponse = await stack.enter_async_context(self._ask(request, call))
            if response.status < 300:
                return response
            fault = self._fault(response, await self._body(response))
            if not _is_unserved(fault):
                break
        assert fault is not None
        raise failures.error(fault)

    def _ask(self, request: Request, call: Outgoing) -> Any:
        headers = {**call.metadata, "Accept": self._codec.accept}
        if request.body is not None:
            headers["Content-Type"] = self._codec.media_type
        if call.timeout is not None:
            headers["Grpc-Timeout"] = timeout_header(call.timeout)
        if call.idle is not None:
            headers["Accept-Encoding"] = "identity"  # what compresses a stream also holds it back
        url = yarl.URL(_with_query(request.url, [*request.query, *call.query.items()]), encoded=True)
        timeout = aiohttp.ClientTimeout(total=None, connect=self._options.connect_timeout, sock_read=call.idle)
        body = None if request.body is None else BytesIO(request.body)  # aiohttp warns of large bytes
        return self._session.request(
            request.verb, url, data=body, headers=headers, allow_redirects=False, timeout=timeout
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        return await read_body(response, self._options.max_response, self._options.idle_timeout)

    async def _events(self, response: aiohttp.ClientResponse, idle: float | None) -> AsyncGenerator[Event, None]:
        """Each read has a limit of its own: that of the socket does not hold once the chunks are damaged."""
        parser = Parser(self._options.max_response)
        try:
            while chunk := await _read(response, idle):
                for event in parser.feed(chunk):
                    yield event
        except ValueError:
            raise _too_large(self._options.max_response) from None
        for event in parser.close():
            yield event

    def _fault(self, response: aiohttp.ClientResponse, body: bytes) -> Fault:
        try:
            fault = self._codec.fault(loads(body), response.status)
        except JsonSyntaxError:
            fault = None
        return fault or failures.of_http(response.status, body, response.headers)


async def read_body(response: aiohttp.ClientResponse, most: int, idle: float) -> bytes:
    """Raises ResourceExhaustedError for more than `most` bytes."""
    body = bytearray()
    while chunk := await _read(response, idle):
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


async def _read(response: aiohttp.ClientResponse, idle: float | None) -> bytes:
    try:
        async with asyncio.timeout(idle):
            return await response.content.readany()
    except RuntimeError as error:  # aiohttp says so of a connection that it has closed under damaged chunks
        raise ConnectionResetError(str(error)) from None


def timeout_header(seconds: float) -> str:
    """As gRPC writes it: at most eight digits, and a unit."""
    milliseconds = max(1, int(seconds * 1000))
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{min(int(seconds), 10**8 - 1)}S"


def _with_query(url: str, pairs: Sequence[tuple[str, str]]) -> str:
    return url + ("&" if "?" in url else "?") + urlencode(pairs) if pairs else url


@contextmanager
def network(url: str) -> Iterator[None]:
    """What aiohttp raises, as ConnectError; not as its cause, whose text has the URL, and so a key in its query."""
    try:
        yield
    except _NOT_SENT as error:
        raise ConnectError(f"cannot connect to {origin(url)}: {_words(error)}", sent=False) from None
    except TimeoutError:
        raise ConnectError(f"nothing came from {origin(url)} in time", sent=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise ConnectError(f"the connection to {origin(url)} broke: {_words(error)}", sent=True) from None


def _words(error: Exception) -> str:
    told = failures.without_query(str(error)) or type(error).__name__
    for sign, words in _SIGNS.items():
        if sign in told:
            return words
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return "nothing listens there; is the agent running?"
    return told


def _is_unserved(fault: Fault) -> bool:
    """Nobody answers this verb at this path: not the same as an agent that does not find a task."""
    return fault.http_status in (404, 405) and (fault.info is None or fault.info.reason == "METHOD_NOT_FOUND")


def _json(method: Method, body: bytes) -> Any:
    try:
        return loads(body)
    except JsonSyntaxError as error:
        raise InvalidAgentResponseError(f"The agent answered {method.name} with what is not JSON: {error}") from None


def _event(event: Event) -> Any:
    try:
        return loads(event.data)
    except JsonSyntaxError as error:
        raise ConnectError(f"an event of the stream is not whole: {error}", sent=True) from None


def _too_large(limit: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(f"The answer is larger than {limit} bytes")
