"""The agents for the official kits: they start, their cards are right, each reaction works on each binding."""

import asyncio
import base64
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from google.protobuf.json_format import MessageToDict, ParseDict
from wires import BINDINGS, GrpcWire, JsonRpcWire, Outcome, RestWire, wire

from a2a_grpc import Server
from a2a_grpc.examples import conformance
from a2a_grpc.examples.conformance import DATA, DIRECT, HELLO, PROFILES, REACTIONS, REPLIES, Conformance, longest_prefix
from a2a_grpc.examples.itk import FINISHED, PULSES, Itk, holds, mounts
from a2a_grpc.examples.itk_instruction import (
    FILENAME,
    MEDIA_TYPE,
    CallAgent,
    Instruction,
    InstructionError,
    ReturnResponse,
    SeriesOfSteps,
    instruction_of,
    instruction_part,
)
from a2a_grpc.generated import a2a_pb2 as pb

WELL_KNOWN = "/.well-known/agent-card.json"
COMPLETED, WORKING, FAILED = "TASK_STATE_COMPLETED", "TASK_STATE_WORKING", "TASK_STATE_FAILED"


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return request.param


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


async def card_at(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as http, http.get(url + WELL_KNOWN) as response:
        assert response.status == 200
        return await response.json()


# Both programs


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("conformance", ["--profile", "open", "--http-port", "{http}", "--grpc-port", "{grpc}"]),
        ("itk", ["--httpPort", "{http}", "--grpcPort", "{grpc}"]),
    ],
)
async def test_the_program_serves_on_the_given_ports_until_sigterm(module: str, arguments: list[str]) -> None:
    ports = {"http": free_port(), "grpc": free_port()}
    command = [sys.executable, "-m", f"a2a_grpc.examples.{module}", *(a.format(**ports) for a in arguments)]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        card = await _when_it_answers(f"http://127.0.0.1:{ports['http']}", process)
        assert f"127.0.0.1:{ports['grpc']}" in [interface["url"] for interface in card["supportedInterfaces"]]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _when_it_answers(url: str, process: asyncio.subprocess.Process) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            assert process.returncode is None
            try:
                return await card_at(url)
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)


# The conformance kit's


@asynccontextmanager
async def conformance_over(
    binding: str, profile: str = "open", **given: Any
) -> AsyncIterator[GrpcWire | JsonRpcWire | RestWire]:
    async with Server(Conformance(profile, **given), http_port=0, grpc_port=0) as server:
        wired = await wire(binding, server)
        try:
            yield wired
        finally:
            await wired.close()


def tck_send(message_id: str, **message: Any) -> dict[str, Any]:
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "hi"}], **message}}


@pytest.mark.parametrize(
    ("profile", "capabilities"),
    [
        ("open", {"streaming": True, "pushNotifications": True, "extendedAgentCard": True}),
        ("closed", {"streaming": False, "pushNotifications": False, "extendedAgentCard": False}),
        (
            "extension",
            {
                "streaming": True,
                "pushNotifications": False,
                "extendedAgentCard": False,
                "extensions": [
                    {
                        "uri": "urn:a2a:tck:required-extension",
                        "description": "Refuses whoever is without",
                        "required": True,
                    }
                ],
            },
        ),
    ],
)
async def test_the_card_of_each_profile(profile: str, capabilities: dict[str, Any]) -> None:
    async with Server(Conformance(profile), http_port=0, grpc_port=0) as server:
        card = await card_at(server.http_url)
    assert card["capabilities"] == capabilities
    assert [i["protocolBinding"] for i in card["supportedInterfaces"]] == ["GRPC", "JSONRPC", "HTTP+JSON"]
    assert set(card) == {
        *("name", "description", "version", "capabilities", "skills", "supportedInterfaces"),
        *("defaultInputModes", "defaultOutputModes"),
    }


TEXTS = {
    "tck-artifact-text": "Generated text content",
    "tck-stream-001": "Stream hello from TCK",
    "tck-stream-003": "Stream task lifecycle",
    "tck-stream-ordering-001": "Ordered output",
    "tck-stream-artifact-text": "Streamed text content",
}
FILE = {
    "raw": base64.b64encode(b"Generated file content").decode(),
    "filename": "output.txt",
    "mediaType": "text/plain",
}
LINK = {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}
ARTIFACTS: dict[str, list[dict[str, Any]]] = {
    # the parts of the one artifact of the task
    **{prefix: [{"text": text}] for prefix, text in TEXTS.items()},
    "tck-artifact-file": [FILE],
    "tck-artifact-file-url": [LINK],
    "tck-artifact-data": [{"data": DATA, "mediaType": "application/json"}],
    "tck-stream-artifact-file": [FILE],
    "tck-stream-artifact-chunked": [{"text": "chunk-1 "}, {"text": "chunk-2"}],
}
STATUSES = {
    # what the task ends with
    "tck-complete-task": (COMPLETED, HELLO),
    "anything else": (COMPLETED, HELLO),
    "test-resubscribe-message-id": (COMPLETED, HELLO),
    "tck-input-required": ("TASK_STATE_INPUT_REQUIRED", "What else?"),
    "tck-reject-task": ("TASK_STATE_REJECTED", "rejected"),
}
MESSAGES = ["tck-message-response", "tck-stream-002"]


def test_every_reaction_has_an_expectation_here() -> None:
    assert {*REACTIONS, *REPLIES} - {""} == {*ARTIFACTS, *STATUSES, *MESSAGES} - {"tck-complete-task", "anything else"}


async def test_artifacts(binding: str) -> None:
    async with conformance_over(binding) as wired:
        for prefix, parts in ARTIFACTS.items():
            outcome = await wired.call("SendMessage", tck_send(f"{prefix}-0a1b2c3d-{binding}"))
            task = MessageToDict(outcome.only.task)
            assert task["status"]["state"] == COMPLETED, prefix
            [made] = task["artifacts"]
            assert made["artifactId"]
            assert made["parts"] == parts, prefix


async def test_artifacts_are_streamed(binding: str) -> None:
    async with conformance_over(binding) as wired:
        for prefix, parts in ARTIFACTS.items():
            task, working, *chunks, completed = await _streamed(wired, prefix)
            assert task["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
            assert [e["statusUpdate"]["status"]["state"] for e in (working, completed)] == [WORKING, COMPLETED]
            updates = [chunk["artifactUpdate"] for chunk in chunks]
            assert [part for update in updates for part in update["artifact"]["parts"]] == parts, prefix
            assert len({update["artifact"]["artifactId"] for update in updates}) == 1
            assert [(u.get("append", False), u.get("lastChunk", False)) for u in updates] == [
                (n > 0, n == len(parts) - 1) for n in range(len(parts))
            ], prefix


async def test_statuses(binding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "SLOW", 0.01)
    async with conformance_over(binding) as wired:
        for prefix, (state, text) in STATUSES.items():
            outcome = await wired.call("SendMessage", tck_send(f"{prefix}-0a1b2c3d-{binding}"))
            [*_, last] = await _streamed(wired, prefix)
            for status in (MessageToDict(outcome.only.task)["status"], last["statusUpdate"]["status"]):
                assert (status["state"], status["message"]["parts"]) == (state, [{"text": text}]), prefix


@pytest.mark.parametrize("prefix", MESSAGES)
async def test_bare_messages(binding: str, prefix: str) -> None:
    async with conformance_over(binding) as wired:
        outcome = await wired.call("SendMessage", tck_send(prefix))
        assert [part.text for part in outcome.only.message.parts] == [DIRECT]
        [event] = await _streamed(wired, prefix)
        assert event["message"]["parts"] == [{"text": DIRECT}]


async def _streamed(wired: Any, prefix: str) -> list[dict[str, Any]]:
    outcome = await wired.call("SendStreamingMessage", tck_send(f"{prefix}-0a1b2c3d"))
    assert outcome.fault is None
    return [MessageToDict(message) for message in outcome.messages]


async def test_a_follow_up_goes_on_with_its_task(binding: str) -> None:
    """With the id of its task alone, and the same message id again."""
    async with conformance_over(binding) as wired:
        asked = (await wired.call("SendMessage", tck_send("tck-input-required-1"))).only.task
        again = (await wired.call("SendMessage", tck_send("tck-input-required-1", taskId=asked.id))).only.task
        done = (await wired.call("SendMessage", tck_send("tck-complete-task-1", taskId=asked.id))).only.task
    assert [(t.id, t.context_id, t.status.state) for t in (asked, again, done)] == [
        (asked.id, asked.context_id, state)
        for state in (pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_COMPLETED)
    ]
    said = [m.message_id for m in done.history if m.role == pb.ROLE_USER]
    assert said == ["tck-input-required-1", "tck-input-required-1", "tck-complete-task-1"]


async def test_parts_of_any_media_type_are_taken_unless_told_otherwise(binding: str) -> None:
    parts = [{"raw": "AA==", "mediaType": "application/x-unsupported-tck-type"}]
    async with conformance_over(binding) as wired:
        assert (await wired.call("SendMessage", tck_send("m", parts=parts))).only.task.id
    async with conformance_over(binding, input_modes=["text/plain"]) as wired:
        assert _reason(await wired.call("SendMessage", tck_send("m", parts=parts))) == "CONTENT_TYPE_NOT_SUPPORTED"


CAPABLE: dict[str, tuple[str, dict[str, Any]]] = {
    # what the closed profile answers
    "SendStreamingMessage": ("UNSUPPORTED_OPERATION", tck_send("m")),
    "SubscribeToTask": ("UNSUPPORTED_OPERATION", {"id": "t"}),
    "GetExtendedAgentCard": ("UNSUPPORTED_OPERATION", {}),
    "CreateTaskPushNotificationConfig": (
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        {"taskId": "t", "url": "https://example.com"},
    ),
}


@pytest.mark.parametrize("method", CAPABLE)
async def test_the_closed_profile_refuses(binding: str, method: str) -> None:
    reason, request = CAPABLE[method]
    async with conformance_over(binding, "closed") as wired:
        assert _reason(await wired.call(method, request)) == reason


async def test_the_extension_profile_refuses_whoever_is_without(binding: str) -> None:
    uri = PROFILES["extension"].extensions[0].uri
    async with conformance_over(binding, "extension") as wired:
        assert _reason(await wired.call("SendMessage", tck_send("m"))) == "EXTENSION_SUPPORT_REQUIRED"
        assert (await wired.call("SendMessage", tck_send("m"), {"A2A-Extensions": uri})).only.task.id


async def test_the_open_profile_shows_its_extended_card_to_anybody(binding: str) -> None:
    async with conformance_over(binding) as wired:
        card = (await wired.call("GetExtendedAgentCard", {})).only
    assert "extended" in card.description


async def test_the_open_profile_takes_webhooks_on_this_machine(binding: str) -> None:
    async with conformance_over(binding) as wired:
        task = (await wired.call("SendMessage", tck_send("tck-complete-task"))).only.task
        config = {"taskId": task.id, "id": "c", "url": "http://localhost:1234/webhook"}
        assert (await wired.call("CreateTaskPushNotificationConfig", config)).only.id == "c"


@pytest.mark.parametrize(
    ("message_id", "prefix"),
    [
        ("tck-artifact-file-url-0a1b2c3d", "tck-artifact-file-url"),
        ("tck-artifact-file-0a1b2c3d", "tck-artifact-file"),
        ("tck-artifact-fil", ""),
        ("x-tck-artifact-file", ""),
        ("", ""),
    ],
)
def test_the_longest_prefix_counts(message_id: str, prefix: str) -> None:
    assert longest_prefix(message_id, REACTIONS) == prefix


def _reason(outcome: Outcome) -> str:
    assert outcome.fault is not None, outcome.messages
    return outcome.fault.reason


# The integration test kit's


def response(text: str, *, hold: bool = False) -> Any:
    return Instruction(return_response=ReturnResponse(response=text, hold_task=hold))


def steps(*instructions: Any) -> Any:
    return Instruction(steps=SeriesOfSteps(instructions=instructions))


def call(instruction: Any) -> Any:
    return Instruction(call_agent=CallAgent(agent_card_uri="http://127.0.0.1:9", instruction=instruction))


def itk_send(*parts: pb.Part, **configuration: Any) -> pb.SendMessageRequest:
    message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=parts)
    return ParseDict({"configuration": configuration}, pb.SendMessageRequest(message=message))


@asynccontextmanager
async def itk_over(binding: str, pulse: float = 0.01) -> AsyncIterator[GrpcWire | JsonRpcWire | RestWire]:
    agent, port = Itk(), free_port()
    agent.pulse = pulse
    wires: dict[str, Callable[[Server], GrpcWire | JsonRpcWire | RestWire]] = {
        "grpc": lambda server: GrpcWire(server.grpc_address),
        "jsonrpc": lambda server: JsonRpcWire(f"{server.http_url}/jsonrpc/"),
        "rest": lambda server: RestWire(f"{server.http_url}/rest"),
    }
    async with Server(mounts(agent, port), http_port=port, grpc_port=0) as server:
        wired = wires[binding](server)
        try:
            yield wired
        finally:
            await wired.close()
            assert agent._sender is not None
            await agent._sender.close(1)


def spoken(status: pb.TaskStatus) -> str:
    return "".join(part.text for part in status.message.parts)


async def test_the_card_names_a_path_for_each_binding() -> None:
    port = free_port()
    async with Server(mounts(Itk(), port), http_port=port, grpc_port=0) as server:
        card = await card_at(server.http_url)
        wired = JsonRpcWire(f"{server.http_url}/jsonrpc")
        answered = await wired.call("SendMessage", itk_send(instruction_part(response("a"))))
        await wired.close()
        assert {i["protocolBinding"]: i["url"] for i in card["supportedInterfaces"]} == {
            "JSONRPC": f"http://127.0.0.1:{port}/jsonrpc",
            "HTTP+JSON": f"http://127.0.0.1:{port}/rest",
            "GRPC": server.grpc_address,
        }
    assert spoken(answered.only.task.status) == "a"
    assert [i for i in card["supportedInterfaces"] if i.get("tenant") or i["protocolVersion"] != "1.0"] == []
    assert card["capabilities"]["streaming"]
    assert card["capabilities"]["pushNotifications"]


async def test_texts_are_joined_in_order(binding: str) -> None:
    asked = steps(response("a"), steps(response("b"), steps(), response("c")), response("d"))
    async with itk_over(binding) as wired:
        task = (await wired.call("SendMessage", itk_send(instruction_part(asked)))).only.task
    assert (task.status.state, spoken(task.status)) == (pb.TASK_STATE_COMPLETED, "a\nb\nc\nd")
    assert task.status.message.role == pb.ROLE_AGENT
    assert [m.role for m in task.history] == [pb.ROLE_USER]


async def test_a_stream_speaks_once(binding: str) -> None:
    async with itk_over(binding) as wired:
        outcome = await wired.call("SendStreamingMessage", itk_send(instruction_part(response("a"))))
    task, *updates = outcome.messages
    assert [m.role for m in task.task.history] == [pb.ROLE_USER]
    assert [(u.status_update.status.state, spoken(u.status_update.status)) for u in updates] == [
        (pb.TASK_STATE_WORKING, ""),
        (pb.TASK_STATE_COMPLETED, "a"),
    ]


async def test_a_held_task_says_all_first_and_again_at_its_end(binding: str) -> None:
    async with itk_over(binding) as wired:
        outcome = await wired.call("SendStreamingMessage", itk_send(instruction_part(response("a", hold=True))))
    said = [spoken(m.status_update.status) for m in outcome.messages[1:]]
    assert said == ["", f"a\n{FINISHED}", *[""] * PULSES, f"a\n{FINISHED}"]


async def test_a_held_task_is_canceled_at_once(binding: str) -> None:
    request = itk_send(instruction_part(response("a", hold=True)), returnImmediately=True)
    async with itk_over(binding, pulse=600) as wired:
        task = (await wired.call("SendMessage", request)).only.task
        canceled = (await wired.call("CancelTask", {"id": task.id})).only
    assert canceled.status.state == pb.TASK_STATE_CANCELED


async def test_a_reply_comes_after_its_notification(binding: str) -> None:
    received: list[dict[str, Any]] = []

    async def receive(request: web.Request) -> web.Response:
        received.append(await request.json())
        return web.Response()

    async with AsyncExitStack() as stack:
        url = await _listener(stack, receive)
        wired = await stack.enter_async_context(itk_over(binding))
        config = {"taskPushNotificationConfig": {"url": url, "token": "itk-token"}}
        await wired.call("SendMessage", itk_send(instruction_part(steps(response("a"), response("b"))), **config))
        final = received[-1]["statusUpdate"]["status"]
    assert (final["state"], final["message"]["role"], final["message"]["parts"]) == (
        COMPLETED,
        "ROLE_AGENT",
        [{"text": "a\nb"}],
    )


async def _listener(stack: AsyncExitStack, handler: Any) -> str:
    app = web.Application()
    app.router.add_post("/notifications", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/notifications"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (instruction_part(call(response("a"))), "does not call others: http://127.0.0.1:9"),
        (instruction_part(steps(response("a"), call(response("b")))), "does not call others"),
        (instruction_part(steps(response("a"), Instruction())), "an instruction is empty"),
        (pb.Part(text="hello"), f"send one as {MEDIA_TYPE}"),
    ],
)
async def test_what_cannot_be_done_fails_and_says_why(binding: str, part: pb.Part, why: str) -> None:
    async with itk_over(binding) as wired:
        task = (await wired.call("SendMessage", itk_send(part))).only.task
    assert task.status.state == pb.TASK_STATE_FAILED
    assert why in spoken(task.status)


ENCODED = response("a").SerializeToString()
BASE64 = base64.b64encode(ENCODED).decode()


@pytest.mark.parametrize(
    "parts",
    [
        [pb.Part(raw=ENCODED, media_type=MEDIA_TYPE)],
        [pb.Part(raw=ENCODED, filename=FILENAME, media_type="application/octet-stream")],
        [pb.Part(text=BASE64, media_type=MEDIA_TYPE)],
        [pb.Part(text="hello"), pb.Part(raw=b"\xff", filename="x"), pb.Part(text=BASE64)],
        [pb.Part(raw=b"\xff\xff", media_type=MEDIA_TYPE), pb.Part(text=BASE64)],
    ],
)
def test_an_instruction_is_found(parts: list[pb.Part]) -> None:
    assert instruction_of(pb.Message(parts=parts)) == response("a")


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [pb.Part(text="")],
        [pb.Part(text="héllo")],
        [pb.Part(raw=ENCODED)],
        [pb.Part(raw=b"", media_type=MEDIA_TYPE)],
        [pb.Part(raw=CallAgent(transport="x").SerializeToString(), media_type=MEDIA_TYPE)],
    ],
)
def test_no_instruction_is_found(parts: list[pb.Part]) -> None:
    with pytest.raises(InstructionError, match="no part of the message"):
        instruction_of(pb.Message(parts=parts))


def test_the_instruction_is_that_of_the_kit() -> None:
    """Numbers and types, as bytes that were written by hand."""
    inner = b"\x12\x03\x0a\x01a"  # return_response { response: "a" }
    called = b"\x0a\x01j\x12\x01u\x1a\x05" + inner + b"\x20\x01" + b"\x32\x03\x0a\x01w"
    found = Instruction.FromString(b"\x0a" + bytes([len(called)]) + called)
    assert found.WhichOneof("step") == "call_agent"
    told = CallAgent(transport="j", agent_card_uri="u", instruction=response("a"))
    assert CallAgent(**{field.name: value for field, value in found.call_agent.ListFields()}) == told
    held = Instruction.FromString(b"\x1a\x0a" + b"\x0a\x06\x12\x04\x0a\x00\x10\x01" + b"\x10\x01")
    assert held.steps.instructions[0].return_response.hold_task


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        (response("a"), False),
        (response("a", hold=True), True),
        (steps(response("a"), steps(response("b", hold=True))), True),
        (call(response("a", hold=True)), False),
        (steps(response("a"), call(response("b", hold=True))), False),
    ],
)
def test_holding_is_for_the_agent_that_is_told_so(instruction: Any, expected: bool) -> None:
    assert holds(instruction) is expected
