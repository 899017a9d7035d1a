"""The limit: the same servicer on a plain grpc.aio server, and aiohttp with answers whose bytes are made beforehand."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
from aiohttp import web

from a2a_grpc.bindings.protojson import to_json
from a2a_grpc.generated import a2a_pb2_grpc

from .agent import EVENTS, KEPT, SENT, Servicer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def grpc_(port: int) -> grpc.aio.Server:
    server = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(Servicer(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server


async def http(port: int) -> web.AppRunner:
    app = web.Application()
    app.router.add_post("/", _jsonrpc())
    app.router.add_post("/message:send", _answer(to_json(SENT)))
    app.router.add_post("/message:stream", _stream([to_json(event) for event in EVENTS]))
    app.router.add_get("/tasks/{id}", _answer(to_json(KEPT)))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


def _jsonrpc() -> Handler:
    send, stream = _answer(_enveloped(SENT)), _stream([_enveloped(event) for event in EVENTS])

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        return await (stream if b'"SendStreamingMessage"' in body else send)(request)

    return answer


def _enveloped(message: Any) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + to_json(message) + b"}"


def _answer(body: bytes) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    return answer


def _stream(events: list[bytes]) -> Handler:
    frames = [b"data: " + event + b"\n\n" for event in events]

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        for frame in frames:
            await response.write(frame)
        return response

    return answer
