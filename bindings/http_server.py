"""The aiohttp server under the HTTP bindings; what it refuses itself is answered in their error format too."""

from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from ..errors import A2AError, InvalidRequestError, to_status
from .cors import Handler
from .http_body import JSON
from .rest import DEFAULT


class _Protocol(RequestHandler):
    def log_exception(self, *args: Any, **kw: Any) -> None:
        """A body that cannot be decoded was answered; that aiohttp meets it again while it lingers is no news."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        error: BaseException = (
            InvalidRequestError("This is not valid HTTP, or its body is not what its headers say")
            if status < 500
            else exc or A2AError()
        )
        code, body = DEFAULT.error(to_status(error), status)
        response = web.Response(status=code, body=body, headers={"Content-Type": JSON})
        response.force_close()
        return response


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Protocol(self, loop=self._loop, **self._kwargs)


async def http_runner(handler: Handler, shutdown_timeout: float) -> web.ServerRunner:
    server = _Server(handler, handler_cancellation=True, access_log=None, keepalive_timeout=75.0)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=shutdown_timeout)
    await runner.setup()
    return runner


async def close_http(runner: web.ServerRunner) -> None:
    """Takes no new connections, closes the idle ones at once and the others after their requests."""
    assert runner.server is not None
    transports = [connection.transport for connection in runner.server.connections]
    try:
        await runner.cleanup()
    finally:
        for transport in transports:  # one whose reader has stopped, or does not end TLS, would stay open
            if transport is not None:
                transport.abort()
