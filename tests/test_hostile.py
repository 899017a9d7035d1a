"""Malformed requests on every binding: each is refused in the words of its binding, and the server stays as it was."""

import contextlib

import grpc
import grpc.aio
import pytest
from hostile import FAMILIES, Answer, Siege, _frames, attacks, http_fault, siege, target
from hostile_grpc import call_of
from hostile_http import Http

COUNT = 1000
MOST_GROWTH = 2048  # KiB


def check(found: Siege) -> None:
    assert found.findings == []
    assert found.log == []
    assert found.answered == [["hi"] * 3] * 3
    start, first, second = found.states
    assert (first["tasks"], first["descriptors"]) == (start["tasks"], start["descriptors"])
    assert (second["tasks"], second["descriptors"]) == (start["tasks"], start["descriptors"])
    assert second["resident"] - first["resident"] <= MOST_GROWTH


async def test_a_thousand_malformed_requests() -> None:
    check(await siege(seed=1, count=COUNT))


async def test_a_grpc_path_that_is_not_utf8_does_not_end_the_server() -> None:
    """grpcio 1.84 and 1.85 end a grpc.aio server at such a request."""
    async with target() as where:
        await _frames(where.grpc_port, call_of(b"/\xff"))
        assert await _is_answered(where.grpc_port)
        assert await where.answers() == ["hi"] * 3


async def _is_answered(port: int) -> bool:
    """Whether a call is answered within a few seconds; the first may still meet a server that is about to end."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for _ in range(5):
            with contextlib.suppress(grpc.aio.AioRpcError):
                await channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=1, wait_for_ready=True)
                return True
    return False


def test_a_seed_gives_the_same_requests_again() -> None:
    made = list(attacks(7, 200))
    assert made == list(attacks(7, 200))
    assert made != list(attacks(8, 200))
    assert {family for _, family, _ in made} == {family.__name__ for family in FAMILIES}


JSON = {"content-type": "application/json"}
GOOD_ERROR = b'{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"m","details":[{}]}}'
ANSWERS = {  # form of the request, status, body → what is wrong with it
    "an error of HTTP+JSON": ("rest", 400, GOOD_ERROR, None),
    "an error of JSON-RPC": (
        "jsonrpc", 200, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":[{}]}}', None),
    "an internal error": (
        "jsonrpc", 200, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"m","data":[{}]}}',
        "an internal error"),
    "a status of its own": ("rest", 500, GOOD_ERROR, "status 500"),
    "two codes": ("rest", 404, GOOD_ERROR, "an error of HTTP+JSON that says too little"),
    "a text": ("any", 400, b"Bad Request", "an error that is no JSON"),
    "another shape": ("any", 400, b'{"detail":"x"}', "not the shape of an error of HTTP+JSON"),
    "another binding's shape": ("jsonrpc", 400, GOOD_ERROR, "not a JSON-RPC answer"),
    "a traceback": ("any", 400, b'{"error":"Traceback (most recent call last)"}', "tells b'Traceback'"),
    "an exception": ("any", 400, b'{"error":"KeyError: 1"}', "tells b'KeyError'"),
    "a secret": ("any", 200, b"postgres://user:password@db/prod", "tells b'postgres://user:password@db/prod'"),
    "half of JSON": ("any", 200, b"{", "application/json that is no JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_wrong_with_an_answer_is_found(name: str) -> None:
    form, status, body, fault = ANSWERS[name]
    assert http_fault(Http(b"", form=form), Answer(status, JSON, body)) == fault
