"""Version, extensions, capabilities and validation: applied once, in one order, on every binding (X-OP-3, A-33)."""

import grpc
import pytest
from lab import Lab, card, send
from wires import BINDINGS, All, Outcome, wire

from a2a_grpc import Server
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.methods import methods
from a2a_grpc.validation import validator

EXTENSION = "urn:a2a:tck:required-extension"
REQUIRING = card(
    capabilities=pb.AgentCapabilities(
        streaming=True,
        extended_agent_card=True,
        extensions=[pb.AgentExtension(uri=EXTENSION, required=True), pb.AgentExtension(uri="urn:optional")],
    )
)
INCAPABLE = card(
    capabilities=pb.AgentCapabilities(streaming=False, push_notifications=False, extended_agent_card=False)
)


def reasons(outcomes: list[Outcome]) -> set[str]:
    assert len({repr(o.fault and o.fault.same) for o in outcomes}) == 1, outcomes
    return {o.fault.reason if o.fault else "OK" for o in outcomes}


VERSIONS = {
    "1.0": "OK", "1.0.1": "OK", " 1.0 ": "OK", "": "OK",
    "99.0": "VERSION_NOT_SUPPORTED", "0.5": "VERSION_NOT_SUPPORTED", "2.0": "VERSION_NOT_SUPPORTED",
    "1.1": "VERSION_NOT_SUPPORTED", "abc": "VERSION_NOT_SUPPORTED", "1": "VERSION_NOT_SUPPORTED",
    "0.3": "VERSION_NOT_SUPPORTED", "1.0.x": "VERSION_NOT_SUPPORTED",
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_explicit_version_is_enforced(version: str) -> None:
    """BR-50."""
    async with Server(Lab(), http_port=0, grpc_port=0) as server, All(server) as every:
        for method, request in (("SendMessage", send("hi")), ("SendStreamingMessage", send("1:"))):
            outcomes = await every.call(method, request, {"A2A-Version": version})
            assert reasons(outcomes) == {VERSIONS[version]}
            if (fault := outcomes[0].fault) is not None:
                assert fault.metadata["supportedVersions"] == "1.0"
                assert "A2A-Version: 1.0" in fault.message


async def test_an_absent_version_goes_by_the_name_called_or_is_0_3() -> None:
    """A-1: policies infer and strict."""
    for policy, expected in (("infer", "OK"), ("strict", "VERSION_NOT_SUPPORTED")):
        async with Server(Lab(), http_port=0, grpc_port=0, version_policy=policy) as server, All(server) as every:
            for headers in ({}, {"A2A-Version": ""}):
                outcomes = await every.call("SendMessage", send("hi"), headers)
                assert reasons(outcomes) == {expected}
            assert reasons(await every.call("SendMessage", send("hi"), {"A2A-Version": "1.0"})) == {"OK"}
    assert outcomes[0].fault
    assert outcomes[0].fault.message.startswith("No A2A-Version was sent, which is read as 0.3")


async def test_a_version_in_the_query_counts_on_http() -> None:
    """X-VER-1."""
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=None) as server:
        for name in ("jsonrpc", "rest"):
            client = await wire(name, server)
            for query, reason in (("a2a-VERSION=9.0", "VERSION_NOT_SUPPORTED"), ("A2A-Version=1.0", "OK")):
                base = client.base.rstrip("/")
                async with client.session.post(
                    f"{base}/?{query}" if name == "jsonrpc" else f"{base}/message:send?{query}",
                    json={"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}
                    if name == "jsonrpc"
                    else {"message": MESSAGE},
                ) as response:
                    assert (reason == "OK") == ("error" not in await response.json())
            await client.close()
        for _, context in lab.seen:
            assert ("a2a-version", "1.0") in context.invocation_metadata()


MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


async def test_required_extensions() -> None:
    """CORE-CAP-004, A-9, BR-55."""
    lab = Lab()
    async with Server(lab, REQUIRING, http_port=0, grpc_port=0) as server, All(server) as every:
        for method, request in (
            ("SendMessage", send("hi")),
            ("SendStreamingMessage", send("1:")),
            ("GetTask", {"id": "T1"}),
        ):
            for headers in ({}, {"A2A-Extensions": "urn:other"}):
                outcomes = await every.call(method, request, headers)
                assert reasons(outcomes) == {"EXTENSION_SUPPORT_REQUIRED"}
                assert EXTENSION in (outcomes[0].fault.message if outcomes[0].fault else "")
            assert lab.seen == []
            for name in ("A2A-Extensions", "X-A2A-Extensions"):
                assert reasons(await every.call(method, request, {name: f"urn:other , {EXTENSION}"})) == {"OK"}
            lab.seen.clear()
        declared = send("hi")
        declared.message.extensions.append(EXTENSION)
        assert reasons(await every.call("SendMessage", declared)) == {"OK"}
        assert reasons(await every.call("GetExtendedAgentCard", {})) == {"OK"}


async def test_activated_extensions_are_echoed() -> None:
    """X-EXT-3, A-10."""
    async with Server(Lab(), REQUIRING, http_port=0, grpc_port=0) as server, All(server) as every:
        for method, request in (("SendMessage", send("metadata")), ("SendStreamingMessage", send("1:"))):
            outcomes = await every.call(method, request, {"A2A-Extensions": f"{EXTENSION},urn:unknown,urn:optional"})
            assert [o.headers["a2a-extensions"] for o in outcomes] == [f"{EXTENSION}, urn:optional"] * 3
            assert outcomes[0].trailing["a2a-extensions"] == f"{EXTENSION}, urn:optional"


CAPABILITIES = {
    "SendStreamingMessage": (send("1:"), "UNSUPPORTED_OPERATION"),
    "SubscribeToTask": ({"id": "T1"}, "UNSUPPORTED_OPERATION"),
    "CreateTaskPushNotificationConfig": ({"taskId": "nope", "url": "x"}, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "GetTaskPushNotificationConfig": ({"taskId": "nope", "id": "P"}, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "ListTaskPushNotificationConfigs": ({"taskId": "nope"}, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "DeleteTaskPushNotificationConfig": ({"taskId": "nope", "id": "P"}, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "GetExtendedAgentCard": ({}, "UNSUPPORTED_OPERATION"),
}


@pytest.mark.parametrize("method", CAPABILITIES)
async def test_capabilities_that_the_card_does_not_declare(method: str) -> None:
    """CORE-CAP-001..003, BR-43."""
    request, reason = CAPABILITIES[method]
    lab = Lab()
    async with Server(lab, INCAPABLE, http_port=0, grpc_port=0) as server, All(server) as every:
        assert reasons(await every.call(method, request)) == {reason}
    assert lab.seen == []


async def test_an_inline_webhook_needs_the_capability() -> None:
    """X-SEND-5."""
    request = send("hi")
    request.configuration.task_push_notification_config.url = "https://example.com"
    async with Server(Lab(), INCAPABLE, http_port=0, grpc_port=0) as server, All(server) as every:
        assert reasons(await every.call("SendMessage", request)) == {"PUSH_NOTIFICATION_NOT_SUPPORTED"}


TEXT = [{"text": "x"}]
FAULTY = {  # BR-06, BR-21 and more: request → the fields that are named
    "no messageId": ("SendMessage", {"message": {"role": "ROLE_USER", "parts": TEXT}}, ["message.messageId"]),
    "no role": ("SendMessage", {"message": {"messageId": "m", "parts": TEXT}}, ["message.role"]),
    "no parts": ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}, ["message.parts"]),
    "empty part": ("SendMessage", {"message": {**MESSAGE, "parts": [{}]}}, ["message.parts[0]"]),
    "no message": ("SendMessage", {}, ["message"]),
    "three faults": (
        "SendMessage", {"message": {"parts": [{}]}}, ["message.messageId", "message.role", "message.parts[0]"]),
    "negative history": ("GetTask", {"id": "T1", "historyLength": -1}, ["historyLength"]),
    "negative history in send": (
        "SendMessage", {"message": MESSAGE, "configuration": {"historyLength": -5}}, ["configuration.historyLength"]),
    "page size 0": ("ListTasks", {"pageSize": 0}, ["pageSize"]),
    "page size 101": ("ListTasks", {"pageSize": 101}, ["pageSize"]),
    "page size -1": ("ListTasks", {"pageSize": -1}, ["pageSize"]),
    "webhook without url": ("CreateTaskPushNotificationConfig", {"taskId": "T1"}, ["url"]),
    "authentication without scheme": (
        "CreateTaskPushNotificationConfig", {"taskId": "T1", "url": "https://x", "authentication": {}},
        ["authentication.scheme"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
async def test_invalid_requests_name_every_fault(name: str) -> None:
    method, request, fields = FAULTY[name]
    lab = Lab()
    async with Server(lab, http_port=0, grpc_port=0) as server, All(server) as every:
        outcomes = await every.call(method, request)
        assert reasons(outcomes) == {"INVALID_PARAMS"}
        assert [[field for field, _ in o.fault.violations] for o in outcomes if o.fault] == [fields] * 3
    assert lab.seen == []


async def test_a_role_of_the_agent_is_accepted() -> None:
    """A-16."""
    async with Server(Lab(), http_port=0, grpc_port=0) as server, All(server) as every:
        assert reasons(await every.call("SendMessage", {"message": {**MESSAGE, "role": "ROLE_AGENT"}})) == {"OK"}


REQUIRED = [
    (method.name, field.name)
    for method in methods().values()
    for field in method.request.DESCRIPTOR.fields
    if any(v.field == field.name for v in validator(method.request)(method.request()))
]


@pytest.mark.parametrize(("method", "field"), REQUIRED)
async def test_required_fields_of_every_request(method: str, field: str) -> None:
    """DM-SERIAL-004, over gRPC and JSON-RPC (a REST path cannot lack its variables)."""
    async with Server(Lab(), http_port=0, grpc_port=0) as server:
        outcomes = []
        for name in BINDINGS[:2]:
            client = await wire(name, server)
            outcomes.append(await client.call(method, {}))
            await client.close()
    for outcome in outcomes:
        assert outcome.fault
        assert outcome.fault.reason == "INVALID_PARAMS"
        camel = methods()[method].request.DESCRIPTOR.fields_by_name[field].json_name
        assert camel in [f for f, _ in outcome.fault.violations]


def test_the_required_fields_were_found() -> None:
    assert len(REQUIRED) == 12


async def test_unknown_enums_are_refused() -> None:
    """X-JSON-3, X-GRPC-2, X-LIST-4."""
    async with Server(Lab(), http_port=0, grpc_port=0) as server, All(server) as every:
        grpc_wire, *http = every.wires
        for client in http:
            named = await client.call("SendMessage", {"message": {**MESSAGE, "role": "user"}})
            assert named.fault
            assert "ROLE_USER" in named.fault.message
            listed = await client.call("ListTasks", {"status": "TASK_STATE_RUNNING"})
            assert listed.fault
            assert [f for f, _ in listed.fault.violations] == ["status"]
        numbered = send("hi")
        numbered.message.role = 77  # type: ignore[assignment]
        outcome = await grpc_wire.call("SendMessage", numbered)
        assert outcome.fault
        assert outcome.fault.violations[0][0] == "message.role"


async def test_protobuf_bytes_that_are_no_message() -> None:
    async with Server(Lab(), http_port=None, grpc_port=0) as server:
        async with grpc.aio.insecure_channel(server.grpc_address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(b"\xff\xff\xff", timeout=5)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "lf.a2a.v1.SendMessageRequest" in (caught.value.details() or "")


async def test_tenants() -> None:
    """X-TEN-5."""
    for tenants, tenant, expected in (
        (None, "acme", "OK"), (["acme"], "acme", "OK"), (["acme"], "", "OK"),
        (["acme"], "other", "INVALID_PARAMS"), ([], "acme", "INVALID_PARAMS"),
    ):  # fmt: skip
        async with Server(Lab(), http_port=0, grpc_port=0, tenants=tenants) as server, All(server) as every:
            assert reasons(await every.call("GetTask", {"id": "T1", "tenant": tenant})) == {expected}


async def test_the_order_of_the_duties() -> None:
    """X-OP-3: each fault hides those after it."""
    needing = card(
        capabilities=pb.AgentCapabilities(
            push_notifications=False, extensions=[pb.AgentExtension(uri="urn:x", required=True)]
        )
    )
    headers = {"A2A-Version": "9.0"}
    async with Server(Lab(), needing, http_port=0, grpc_port=0) as server, All(server) as every:
        method = "CreateTaskPushNotificationConfig"
        request = {"taskId": "T1", "url": ""}
        assert reasons(await every.call(method, request, headers)) == {"VERSION_NOT_SUPPORTED"}
        assert reasons(await every.call(method, request)) == {"EXTENSION_SUPPORT_REQUIRED"}
        headers = {"A2A-Extensions": "urn:x"}
        assert reasons(await every.call(method, request, headers)) == {"PUSH_NOTIFICATION_NOT_SUPPORTED"}
        assert reasons(await every.call("SendMessage", {}, headers)) == {"INVALID_PARAMS"}
