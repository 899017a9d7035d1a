"""The ProtoJSON codec against google.protobuf.json_format, and what it takes and refuses by its own rules."""

import json
import math
import re
import string
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2 as details_pb2
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from a2a_grpc.bindings.json_status import details as printed_details
from a2a_grpc.bindings.protojson import JsonSyntaxError, dumps, from_json, loads, to_dict, to_json
from a2a_grpc.bindings.protojson import text as json_text
from a2a_grpc.bindings.protojson.fields import is_map, is_repeated
from a2a_grpc.errors import InvalidAgentResponseError, InvalidParamsError, ParseError
from a2a_grpc.generated import a2a_pb2, a2a_v0_3_pb2

slow = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=["orjson", "json"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with each reader."""
    if request.param == "orjson":
        pytest.importorskip("orjson")
    else:
        monkeypatch.setattr(json_text, "orjson", None)
    return str(request.param)


# Messages of any type, drawn from descriptors


def _all_kinds_type() -> type[Message]:
    """Every kind of field that A2A has, each single and as the value of a map, and repeated but for the numbers."""
    field = FieldDescriptorProto
    scalars = [field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_BOOL, field.TYPE_INT32]
    file = FileDescriptorProto(name="kinds.proto", package="kinds", syntax="proto3")
    kinds = file.message_type.add(name="Kinds")
    for n, kind in enumerate(scalars):
        name = field.Type.Name(kind).lower()
        kinds.field.add(name=name, number=4 * n + 1, type=kind, label=field.LABEL_OPTIONAL)
        if kind in (field.TYPE_STRING, field.TYPE_BYTES):
            kinds.field.add(name=f"{name}s", number=4 * n + 2, type=kind, label=field.LABEL_REPEATED)
        _add_map(kinds, f"{name}_values", 4 * n + 3, field.TYPE_STRING, kind)
    kinds.field.add(
        name="self", number=900, type=field.TYPE_MESSAGE, type_name=".kinds.Kinds", label=field.LABEL_OPTIONAL
    )
    kinds.field.add(
        name="selves", number=5000, type=field.TYPE_MESSAGE, type_name=".kinds.Kinds", label=field.LABEL_REPEATED
    )
    pool = DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("kinds.Kinds"))


def _type_with(**options: Any) -> type[Message]:
    """A message type of one field, called x."""
    file = FileDescriptorProto(name="one.proto", package="one", syntax="proto3")
    file.message_type.add(name="One").field.add(name="x", number=1, **{"label": 1, **options})
    pool = DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("one.One"))


def _add_map(kinds: DescriptorProto, name: str, number: int, key: int, value: int) -> None:
    field = FieldDescriptorProto
    entry = kinds.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=key, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=value, label=field.LABEL_OPTIONAL)
    kinds.field.add(
        name=name,
        number=number,
        type=field.TYPE_MESSAGE,
        type_name=f".kinds.Kinds.{entry.name}",
        label=field.LABEL_REPEATED,
    )


KINDS = _all_kinds_type()
TYPES = [
    GetMessageClass(kind) for file in (a2a_pb2, a2a_v0_3_pb2) for kind in file.DESCRIPTOR.message_types_by_name.values()
]

texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["", "a", "\x00", '"\\:{}[]\u2028', "é" * 90]
)
doubles = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x or 0.0) | st.integers(-100, 100).map(float)
values = st.recursive(
    st.none() | st.booleans() | doubles | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
structs = st.dictionaries(texts, values, max_size=3)
seconds = st.integers(-62135596800, 253402300799) | st.sampled_from([0, -1, 1767323045])
timestamps = st.builds(lambda s, ms: Timestamp(seconds=s, nanos=ms * 1_000_000), seconds, st.integers(0, 999))


def parsed(kind: type[Message]) -> Callable[[Any], Message]:
    return lambda value: json_format.ParseDict(value, kind())


SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "google.protobuf.Struct": structs.map(parsed(Struct)),
    "google.protobuf.Value": values.map(parsed(Value)),
    "google.protobuf.Timestamp": timestamps,
}


F = FieldDescriptor
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    F.TYPE_STRING: texts,
    F.TYPE_BYTES: st.binary(max_size=8),
    F.TYPE_BOOL: st.booleans(),
    F.TYPE_INT32: st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, 127, 128, -(2**31), 2**31 - 1]),
}


def singles(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([v.number for v in field.enum_type.values])
    return messages(field.message_type, depth - 1) if field.message_type else SCALARS[field.type]


def fields(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return st.dictionaries(singles(key, depth), singles(value, depth), max_size=2)
    one = singles(field, depth)
    return st.lists(one, max_size=2) if is_repeated(field) else one


_drawn: dict[tuple[str, int], st.SearchStrategy[Any]] = {}


def messages(kind: Descriptor, depth: int = 5) -> st.SearchStrategy[Any]:
    if kind.full_name in SPECIAL:
        return SPECIAL[kind.full_name]
    if (kind.full_name, depth) not in _drawn:
        some = [f for f in kind.fields if f.message_type is None or depth > 0]
        members = st.fixed_dictionaries({}, optional={f.name: fields(f, depth) for f in some})
        _drawn[kind.full_name, depth] = members.map(lambda given: built(kind, given))
    return _drawn[kind.full_name, depth]


def built(kind: Descriptor, given: dict[str, Any]) -> Message:
    message = GetMessageClass(kind)()
    for name, value in given.items():
        field = kind.fields_by_name[name]
        if is_map(field) and field.message_type.fields_by_name["value"].message_type:
            for key, item in value.items():
                getattr(message, name)[key].CopyFrom(item)
        elif is_map(field):
            getattr(message, name).update(value)
        elif is_repeated(field):
            getattr(message, name).extend(value)
        elif field.message_type:
            getattr(message, name).CopyFrom(value)
        else:
            setattr(message, name, value)
    return message


any_message = st.sampled_from([*TYPES, Empty]).flatmap(lambda kind: messages(kind.DESCRIPTOR))
any_kinds = messages(KINDS.DESCRIPTOR, 1)


# Against json_format


SECOND = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{3})?Z")
ALWAYS = {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}


def expected(message: Message) -> Any:
    """What json_format prints, and all that differs on purpose when we do:

    - a timestamp always has three digits;
    - ListTasksResponse prints its fields even when they are empty.

    When we read, an unknown name or number of an enum is refused (json_format ignores the one and keeps the other), two
    names of a field are, `null` in a oneof beside another member is, and bytes must be base64 through and through.
    """
    plain = with_milliseconds(json_format.MessageToDict(message))
    return ALWAYS | plain if message.DESCRIPTOR.full_name == "lf.a2a.v1.ListTasksResponse" else plain


def with_milliseconds(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: with_milliseconds(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [with_milliseconds(item) for item in value]
    if name in ("timestamp", "statusTimestampAfter") and (found := SECOND.fullmatch(str(value))):
        return value if "." in value else f"{found[1]}.000Z"
    return value


@slow
@given(any_message)
def test_printed_is_what_json_format_prints_but_for_the_listed_differences(message: Message) -> None:
    assert to_dict(message) == expected(message)
    assert json.loads(to_json(message)) == to_dict(message)


@slow
@given(any_message)
def test_printed_is_read_by_json_format_and_by_us(message: Message) -> None:
    text = to_json(message)
    assert json_format.Parse(text, type(message)()) == message
    assert from_json(type(message), loads(text)) == message


@slow
@given(any_message, st.booleans(), st.booleans())
def test_reads_what_json_format_prints(message: Message, snake_case: bool, defaults: bool) -> None:
    text = json_format.MessageToJson(
        message, preserving_proto_field_name=snake_case, always_print_fields_with_no_presence=defaults
    )
    assert from_json(type(message), loads(text)) == message


@settings(slow, max_examples=60)
@given(any_kinds, st.booleans())
def test_knows_every_kind_of_field(message: Message, snake_case: bool) -> None:
    assert to_dict(message) == json_format.MessageToDict(message)
    assert from_json(KINDS, loads(to_json(message))) == message
    text = json_format.MessageToJson(message, preserving_proto_field_name=snake_case)
    assert from_json(KINDS, loads(text)) == message


@slow
@given(st.data())
def test_a_value_changed_anywhere_is_refused_or_read_as_json_format_reads_it(data: st.DataObject) -> None:
    message = data.draw(any_message)
    value = to_dict(message)
    change(data.draw, value)
    ours = read_or_refusal(type(message), value)
    try:
        theirs = json_format.ParseDict(value, type(message)(), ignore_unknown_fields=True)
    except json_format.ParseError:
        return
    assert isinstance(ours, InvalidParamsError) or ours == theirs


def read_or_refusal(kind: type[Message], value: Any) -> Message | InvalidParamsError:
    """A refusal names violations, in a form that can be sent."""
    try:
        return from_json(kind, value)
    except InvalidParamsError as error:
        refusal = error
    assert refusal.violations
    assert refusal.status().details
    return refusal


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(["ROLE_USER", "user", "1", "1s"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=6,
)


def change(draw: Callable[[Any], Any], value: Any) -> None:
    """Puts some JSON value somewhere into an object."""
    places = list(containers(value))
    place = draw(st.sampled_from(places))
    if isinstance(place, list):
        place.append(draw(json_values))
    else:
        place[draw(st.sampled_from([*place, "role", "metadata", "parts", "text", "data", "new"]))] = draw(json_values)


def containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@slow
@given(st.sampled_from(TYPES), json_values, st.data())
def test_any_json_value_is_read_or_refused(kind: type[Message], value: Any, data: st.DataObject) -> None:
    names = [f.json_name for f in kind.DESCRIPTOR.fields] or ["x"]
    for candidate in (value, data.draw(st.dictionaries(st.sampled_from(names), json_values))):
        assert read_or_refusal(kind, candidate) is not None


# What is read


def part(value: Any) -> a2a_pb2.Part:
    return from_json(a2a_pb2.Part, value)


def task_status(value: Any) -> a2a_pb2.TaskStatus:
    return from_json(a2a_pb2.TaskStatus, value)


def list_tasks(value: Any) -> a2a_pb2.ListTasksRequest:
    return from_json(a2a_pb2.ListTasksRequest, value)


def at(text: str) -> Timestamp:
    stamp = Timestamp()
    stamp.FromJsonString(text)
    return stamp


READ = [
    (part, {"text": "a", "mediaType": "b"}, a2a_pb2.Part(text="a", media_type="b")),
    (part, {"text": "a", "media_type": "b"}, a2a_pb2.Part(text="a", media_type="b")),
    (part, {"text": "a", "mediaType": None, "metadata": None, "url": None}, a2a_pb2.Part(text="a")),
    (part, {"text": "a", "mood": {"of": ["the", "day"]}}, a2a_pb2.Part(text="a")),
    (part, {"text": ""}, a2a_pb2.Part(text="")),
    (part, {"data": None}, a2a_pb2.Part(data=Value(null_value=0))),
    (part, {"data": 42}, a2a_pb2.Part(data=Value(number_value=42))),
    (part, {"data": 2**53 + 1}, a2a_pb2.Part(data=Value(number_value=2.0**53))),
    (part, {"data": 2**70}, a2a_pb2.Part(data=Value(number_value=2.0**70))),
    (part, {"data": [None, True, {}]}, json_format.ParseDict({"data": [None, True, {}]}, a2a_pb2.Part())),
    (part, {"raw": "+/+/YQ=="}, a2a_pb2.Part(raw=b"\xfb\xff\xbfa")),
    (part, {"raw": "+/+/YQ"}, a2a_pb2.Part(raw=b"\xfb\xff\xbfa")),
    (part, {"raw": "-_-_YQ=="}, a2a_pb2.Part(raw=b"\xfb\xff\xbfa")),
    (part, {"raw": "-_-_YQ"}, a2a_pb2.Part(raw=b"\xfb\xff\xbfa")),
    (part, {"raw": ""}, a2a_pb2.Part(raw=b"")),
    (task_status, {"state": "TASK_STATE_WORKING"}, a2a_pb2.TaskStatus(state=2)),
    (task_status, {"state": 2}, a2a_pb2.TaskStatus(state=2)),
    (task_status, {"state": 2.0}, a2a_pb2.TaskStatus(state=2)),
    (task_status, {"state": "2"}, a2a_pb2.TaskStatus(state=2)),
    (task_status, {"state": None}, a2a_pb2.TaskStatus()),
    (list_tasks, {"pageSize": 7}, a2a_pb2.ListTasksRequest(page_size=7)),
    (list_tasks, {"pageSize": "7"}, a2a_pb2.ListTasksRequest(page_size=7)),
    (list_tasks, {"pageSize": "-7"}, a2a_pb2.ListTasksRequest(page_size=-7)),
    (list_tasks, {"pageSize": 7.0}, a2a_pb2.ListTasksRequest(page_size=7)),
    (list_tasks, {"pageSize": 0}, a2a_pb2.ListTasksRequest(page_size=0)),
    (list_tasks, {"page_size": -0.0}, a2a_pb2.ListTasksRequest(page_size=0)),
    (list_tasks, {"includeArtifacts": False}, a2a_pb2.ListTasksRequest(include_artifacts=False)),
    (list_tasks, {}, a2a_pb2.ListTasksRequest()),
]


@pytest.mark.parametrize(("read", "value", "message"), READ)
def test_reads(read: Callable[[Any], Message], value: Any, message: Message) -> None:
    assert read(value) == message


def test_reads_maps_with_message_values() -> None:
    value = {"schemes": {"oauth": {"list": ["read"]}, "": {}}}
    requirement = from_json(a2a_pb2.SecurityRequirement, value)
    assert list(requirement.schemes["oauth"].list) == ["read"]
    assert sorted(requirement.schemes) == ["", "oauth"]
    assert to_dict(requirement) == value


@pytest.mark.parametrize(("text", "seconds_", "nanos"), [
    ("1s", 1, 0), ("0.5s", 0, 500_000_000), ("-1.25s", -1, -250_000_000), ("315576000000s", 315_576_000_000, 0),
])  # fmt: skip
def test_reads_durations(text: str, seconds_: int, nanos: int) -> None:
    info = from_json(details_pb2.RetryInfo, {"retryDelay": text})
    assert info.retry_delay == Duration(seconds=seconds_, nanos=nanos)


@pytest.mark.parametrize("text", ["", "1", "1 s", "s", "1e3s", "315576000001s", "1.s"])
def test_refuses_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(InvalidParamsError, match="duration such as"):
        from_json(details_pb2.RetryInfo, {"retryDelay": text})


TIMESTAMPS = [
    ("2026-01-02T03:04:05Z", 1767323045, 0),
    ("2026-01-02T03:04:05.6Z", 1767323045, 600_000_000),
    ("2026-01-02T03:04:05.678901234Z", 1767323045, 678_901_234),
    ("2026-01-02T03:04:05+00:00", 1767323045, 0),
    ("2026-01-02T05:34:05.5+02:30", 1767323045, 500_000_000),
    ("2026-01-01T20:04:05-07:00", 1767323045, 0),
    ("1969-12-31T23:59:59.999Z", -1, 999_000_000),
    ("0001-01-01T00:00:00Z", -62135596800, 0),
    ("9999-12-31T23:59:59.999999999Z", 253402300799, 999_999_999),
    ("2024-02-29T00:00:00Z", 1709164800, 0),
]


@pytest.mark.parametrize(("text", "second", "nanos"), TIMESTAMPS)
def test_reads_timestamps(text: str, second: int, nanos: int) -> None:
    assert task_status({"timestamp": text}).timestamp == Timestamp(seconds=second, nanos=nanos)


SEND = a2a_pb2.SendMessageRequest
WANTED_TIME = 'send a timestamp such as "2026-01-02T03:04:05.678Z"'
REFUSED: list[tuple[type[Message], Any, list[tuple[str, str]]]] = [
    (SEND, [], [("", "read an array; send an object")]),
    (SEND, None, [("", "read null; send an object")]),
    (SEND, "x", [("", 'read "x"; send an object')]),
    (SEND, {"message": 1}, [("message", "read the number 1; send an object")]),
    (SEND, {"message": {"role": "user"}}, [("message.role", 'unknown value "user"; did you mean ROLE_USER?')]),
    (SEND, {"message": {"role": "Agent"}}, [("message.role", 'unknown value "Agent"; did you mean ROLE_AGENT?')]),
    (SEND, {"message": {"role": 9}}, [("message.role", "unknown value 9; send one of ROLE_USER, ROLE_AGENT")]),
    (
        SEND,
        {"message": {"role": "zebra"}},
        [("message.role", 'unknown value "zebra"; send one of ROLE_USER, ROLE_AGENT')],
    ),
    (SEND, {"message": {"role": True}}, [("message.role", "unknown value true; send one of ROLE_USER, ROLE_AGENT")]),
    (
        a2a_pb2.ListTasksRequest,
        {"status": "failed"},
        [("status", 'unknown value "failed"; did you mean TASK_STATE_FAILED?')],
    ),
    (
        a2a_pb2.ListTasksRequest,
        {"status": "TASK_STATE_WORKNG"},
        [("status", 'unknown value "TASK_STATE_WORKNG"; did you mean TASK_STATE_WORKING?')],
    ),
    (
        SEND,
        {"message": {"parts": [{"text": "a", "url": "b"}]}},
        [("message.parts[0]", "text and url are both set; set exactly one")],
    ),
    (
        SEND,
        {"message": {"parts": [{"text": "a", "raw": "", "data": None}]}},
        [("message.parts[0]", "text, raw and data are all set; set exactly one")],
    ),
    (
        SEND,
        {"message": {"parts": [{"mediaType": "a", "media_type": "a"}]}},
        [("message.parts[0].media_type", "mediaType and media_type are both given; send one of them")],
    ),
    (
        SEND,
        {"message": {"message_id": 5, "parts": [{"text": 1}, None, {"raw": "?"}], "metadata": []}, "configuration": ""},
        [
            ("message.message_id", "read the number 5; send a string"),
            ("message.parts[0].text", "read the number 1; send a string"),
            ("message.parts[1]", "read null; send an object"),
            ("message.parts[2].raw", 'read "?"; send bytes as base64 text'),
            ("message.metadata", "read an array; send an object"),
            ("configuration", 'read ""; send an object'),
        ],
    ),
    (SEND, {"message": {"parts": {}}}, [("message.parts", "read an object; send an array")]),
    (SEND, {"message": {"extensions": ["a", None]}}, [("message.extensions[1]", "read null; send a string")]),
    (
        a2a_pb2.GetTaskRequest,
        {"historyLength": 2**31},
        [("history_length", "read the number 2147483648; send a whole number from -2147483648 to 2147483647")],
    ),
    (
        a2a_pb2.GetTaskRequest,
        {"historyLength": 1.5},
        [("history_length", "read the number 1.5; send a whole number from -2147483648 to 2147483647")],
    ),
    (
        a2a_pb2.GetTaskRequest,
        {"historyLength": True},
        [("history_length", "read true; send a whole number from -2147483648 to 2147483647")],
    ),
    (
        a2a_pb2.GetTaskRequest,
        {"historyLength": 10**5000},
        [("history_length", "read a very large number; send a whole number from -2147483648 to 2147483647")],
    ),
    (
        a2a_pb2.ListTasksRequest,
        {"includeArtifacts": "true"},
        [("include_artifacts", 'read "true"; send true or false')],
    ),
    (
        a2a_pb2.ListTasksRequest,
        {"statusTimestampAfter": 5},
        [("status_timestamp_after", f"read the number 5; {WANTED_TIME}")],
    ),
    (a2a_pb2.SecurityRequirement, {"schemes": []}, [("schemes", "read an array; send an object")]),
    (a2a_pb2.SecurityRequirement, {"schemes": {"a": []}}, [('schemes["a"]', "read an array; send an object")]),
    (
        a2a_pb2.SecurityRequirement,
        {"schemes": {"a": {"list": 1}}},
        [('schemes["a"].list', "read the number 1; send an array")],
    ),
    (a2a_pb2.ImplicitOAuthFlow, {"scopes": {"a": 1}}, [('scopes["a"]', "read the number 1; send a string")]),
    (a2a_pb2.Part, {"text": "\ud800"}, [("text", 'read "?"; send Unicode text')]),
    (a2a_pb2.Part, {"data": {"\ud800": 1}}, [("data", "read an object; send Unicode text")]),
    (a2a_pb2.Part, {"data": math.nan}, [("data", "read the number nan; send a number that a double can hold")]),
    (a2a_pb2.Part, {"data": [10**400]}, [("data", "read a very large number; send a number that a double can hold")]),
]


@pytest.mark.parametrize(("kind", "value", "violations"), REFUSED)
def test_refuses(kind: type[Message], value: Any, violations: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        from_json(kind, value)
    assert list(caught.value.violations) == violations


@pytest.mark.parametrize("text", ["YQ=a", "Y", "YQ==YQ==", "Y Q", "YQ\n", "é", "YQ*="])
def test_refuses_what_is_not_base64(text: str) -> None:
    with pytest.raises(InvalidParamsError, match="base64"):
        part({"raw": text})


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-13-01T00:00:00Z"),
        *("2025-02-29T00:00:00Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05.1234567890Z"),
        *("2026-01-02T03:04:60Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-00:01"),
        *("2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05Z\n", "٢٠٢٦-01-02T03:04:05Z"),
    ],
)
def test_refuses_what_is_not_a_timestamp(text: str) -> None:
    with pytest.raises(InvalidParamsError, match="timestamp such as"):
        task_status({"timestamp": text})


def test_names_at_most_a_hundred_violations() -> None:
    with pytest.raises(InvalidParamsError) as caught:
        from_json(SEND, {"message": {"parts": [1] * 100_000}})
    assert len(caught.value.violations) == 100


def nested(levels: int, wrap: Callable[[Any], Any], value: Any) -> Any:
    for _ in range(levels):
        value = wrap(value)
    return value


OBJECTS, ARRAYS = (lambda v: {"a": v}), (lambda v: [v])


@pytest.mark.parametrize("beside", [{}, {"media_type": "x"}], ids=["plain", "with care"])
@pytest.mark.parametrize(
    ("field", "wrap", "innermost", "most"),
    [
        *(("data", OBJECTS, "x", 33), ("data", OBJECTS, {}, 32), ("data", OBJECTS, [], 32)),
        *(
            ("data", ARRAYS, "x", 49),
            ("data", ARRAYS, {}, 49),
            ("metadata", OBJECTS, "x", 33),
            ("metadata", OBJECTS, {}, 33),
        ),
    ],
)
def test_what_is_read_can_be_sent_over_grpc(
    field: str, wrap: Callable[[Any], Any], innermost: Any, most: int, beside: dict[str, Any]
) -> None:
    deepest = part({field: nested(most, wrap, innermost), **beside})
    assert a2a_pb2.Part.FromString(deepest.SerializeToString()) == deepest
    for levels in (most + 1, 90, 5000):
        with pytest.raises(InvalidParamsError, match=f"{field}: nested too deep"):
            part({field: nested(levels, wrap, innermost), **beside})


# What is printed


@pytest.mark.parametrize("kind", [Struct, Value])
def test_what_is_nested_too_deep_for_protobuf_is_invalid(kind: Any) -> None:
    deep: Any = {}
    for _ in range(90):
        deep = {"a": [deep]}
    with pytest.raises(InvalidParamsError, match="nested too deep"):
        from_json(kind, deep)


def struct_of(value: dict[str, Any]) -> Struct:
    struct = Struct()
    struct.update(value)
    return struct


PRINTED = [
    (Empty(), b"{}"),
    (a2a_pb2.Part(text=""), b'{"text":""}'),
    (a2a_pb2.Part(raw=b"\xfb\xff\xbfa"), b'{"raw":"+/+/YQ=="}'),
    (a2a_pb2.Part(data=Value(null_value=0)), b'{"data":null}'),
    (a2a_pb2.Part(data=Value()), b'{"data":null}'),
    (a2a_pb2.Part(data=Value(number_value=42)), b'{"data":42}'),
    (a2a_pb2.Part(data=Value(number_value=0.5)), b'{"data":0.5}'),
    (a2a_pb2.Part(data=Value(string_value='é"\n')), '{"data":"é\\"\\n"}'.encode()),
    (a2a_pb2.Part(metadata=Struct()), b'{"metadata":{}}'),
    (a2a_pb2.Part(metadata=struct_of({"n": 2.0**53})), b'{"metadata":{"n":9007199254740992}}'),
    (a2a_pb2.Message(role=a2a_pb2.ROLE_USER), b'{"role":"ROLE_USER"}'),
    (a2a_pb2.Message(role=7), b'{"role":7}'),  # type: ignore[arg-type]
    (a2a_pb2.Message(role=-7), b'{"role":-7}'),  # type: ignore[arg-type]
    (a2a_pb2.ListTasksRequest(page_size=0, include_artifacts=False), b'{"pageSize":0,"includeArtifacts":false}'),
    (a2a_pb2.GetTaskRequest(history_length=-1), b'{"historyLength":-1}'),
    (a2a_pb2.TaskArtifactUpdateEvent(append=False, last_chunk=True), b'{"lastChunk":true}'),
    (a2a_pb2.ListTasksResponse(), b'{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}'),
    (
        a2a_pb2.ListTasksResponse(tasks=[a2a_pb2.Task(id="a")], page_size=300),
        b'{"tasks":[{"id":"a"}],"nextPageToken":"","pageSize":300,"totalSize":0}',
    ),
    (a2a_pb2.TaskStatus(timestamp=at("2026-01-02T03:04:05.678999Z")), b'{"timestamp":"2026-01-02T03:04:05.678Z"}'),
    (a2a_pb2.TaskStatus(timestamp=at("2026-01-02T03:04:05Z")), b'{"timestamp":"2026-01-02T03:04:05.000Z"}'),
    (a2a_pb2.TaskStatus(timestamp=at("1969-12-31T23:59:59.001Z")), b'{"timestamp":"1969-12-31T23:59:59.001Z"}'),
    (a2a_pb2.TaskStatus(timestamp=at("0001-01-01T00:00:00Z")), b'{"timestamp":"0001-01-01T00:00:00.000Z"}'),
]


@pytest.mark.parametrize(("message", "text"), PRINTED)
def test_prints(message: Message, text: bytes, reader: str) -> None:
    assert to_json(message) == text


def test_long_values_are_printed() -> None:
    text = "é" * 10_000
    message = a2a_pb2.Message(parts=[a2a_pb2.Part(text=text, metadata=struct_of({text: [text, {text: text}]}))] * 200)
    assert to_dict(message) == json_format.MessageToDict(message)
    assert from_json(a2a_pb2.Message, to_dict(message)) == message


def test_a_repeated_list_response_does_not_share_its_empty_list() -> None:
    to_dict(a2a_pb2.ListTasksResponse())["tasks"].append("x")
    assert to_dict(a2a_pb2.ListTasksResponse())["tasks"] == []


UNKNOWN = (
    bytes.fromhex("f807 9601"),  # field 127: varint 150
    bytes.fromhex("f907 0102030405060708"),  # 64 bits
    bytes.fromhex("fa07 03 616263"),  # three bytes
    bytes.fromhex("fb07 0801 fb0f fc0f fc07"),  # a group that holds a number and a group
    bytes.fromhex("fd07 01020304"),  # 32 bits
    bytes.fromhex("7001"),  # field 14
)


def test_unknown_fields_are_not_printed() -> None:
    unknown = b"".join(UNKNOWN)
    value = Value.FromString(Value(string_value="x").SerializeToString() + unknown)
    struct = Struct.FromString(unknown + struct_of({"a": 1, "": None}).SerializeToString() + unknown)
    struct.fields["v"].CopyFrom(value)
    items = Value()
    items.list_value.MergeFromString(unknown)
    items.list_value.values.append(value)
    stamp = Timestamp.FromString(unknown + at("2026-01-02T03:04:05Z").SerializeToString() + unknown)
    message = a2a_pb2.TaskStatus(
        message=a2a_pb2.Message(metadata=struct, parts=[a2a_pb2.Part(data=items)]), timestamp=stamp
    )
    message = a2a_pb2.TaskStatus.FromString(unknown + message.SerializeToString() + unknown)
    assert to_dict(message) == {
        "message": {"metadata": {"a": 1, "": None, "v": "x"}, "parts": [{"data": ["x"]}]},
        "timestamp": "2026-01-02T03:04:05.000Z",
    }


def test_error_details_are_printed_with_their_type() -> None:
    details = [
        details_pb2.ErrorInfo(reason="R", domain="d", metadata={"a": "b"}),
        details_pb2.BadRequest(field_violations=[details_pb2.BadRequest.FieldViolation(field="f", description="x")]),
        details_pb2.RetryInfo(retry_delay=Duration(seconds=1)),
        details_pb2.QuotaFailure(),
        FieldMask(paths=["a.b"]),
        Duration(nanos=-500_000_000),
        struct_of({"a": [1]}),
    ]
    status = Status(code=5, message="gone")
    for detail in details:
        status.details.add().Pack(detail)
    assert printed_details(status) == json_format.MessageToDict(status)["details"]
    assert printed_details(status)[2] == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}


@pytest.mark.parametrize(("kind", "value", "text"), [
    ("no.such/no.such.Type", b"a", "YQ=="),
    ("", b"a", "YQ=="),
    ("x/google.rpc.ErrorInfo", b"a", "YQ=="),  # not its bytes
    ("x/google.protobuf.Duration", b"\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "CP////////9/"),  # longer than JSON can say
])  # fmt: skip
def test_a_detail_that_cannot_be_read_keeps_its_bytes(kind: str, value: bytes, text: str) -> None:
    assert printed_details(Status(details=[AnyMessage(type_url=kind, value=value)])) == [{"@type": kind, "value": text}]


@pytest.mark.parametrize("kind", [
    FieldMask, AnyMessage, _type_with(type=F.TYPE_DOUBLE), _type_with(type=F.TYPE_INT64),
    _type_with(type=F.TYPE_INT32, label=3), _type_with(type=F.TYPE_FIXED32),
])  # fmt: skip
def test_types_without_rules_are_not_guessed_at(kind: type[Message]) -> None:
    for use in (lambda: to_dict(kind()), lambda: from_json(kind, {})):
        with pytest.raises(TypeError, match="the JSON form of"):
            use()


def _nan_task() -> a2a_pb2.Task:
    task = a2a_pb2.Task(artifacts=[a2a_pb2.Artifact(), a2a_pb2.Artifact()])
    task.artifacts[1].metadata.update({"a": {"b": [1, math.nan]}})
    return task


UNPRINTABLE = [
    (_nan_task(), "artifacts[1].metadata.a.b[1]: NaN and infinities cannot be written as JSON"),
    (a2a_pb2.Part(metadata=struct_of({"a": math.inf})), "metadata.a: NaN and infinities cannot be written as JSON"),
    (a2a_pb2.Part(data=Value(number_value=-math.inf)), "data: NaN and infinities cannot be written as JSON"),
    (a2a_pb2.TaskStatus(timestamp=Timestamp(nanos=-1)), "timestamp: a timestamp of 0 s and -1 ns is out of range"),
    (
        a2a_pb2.TaskStatus(timestamp=Timestamp(seconds=2**60)),
        f"timestamp: a timestamp of {2**60} s and 0 ns is out of range",
    ),
]


@pytest.mark.parametrize(("message", "text"), UNPRINTABLE)
def test_what_json_cannot_say_is_an_error_of_the_agent(message: Message, text: str) -> None:
    with pytest.raises(InvalidAgentResponseError) as caught:
        to_json(message)
    assert caught.value.message == text


def test_a_response_nested_without_end_is_an_error_of_the_agent() -> None:
    part = a2a_pb2.Part()
    inner = part.data
    for _ in range(2000):
        inner = inner.list_value.values.add()
    with pytest.raises(InvalidAgentResponseError, match="nested too deeply"):
        to_json(part)


# JSON text


ACCEPTED: list[tuple[str | bytes, Any]] = [
    (b'{"a":[1,-2.5e3,"x",true,false,null]}', {"a": [1, -2500.0, "x", True, False, None]}),
    (' \t\r\n{ "a" : 1 } \n', {"a": 1}),
    ("0", 0),
    ("-0", 0),
    ('"\\ud83d\\ude00\\u0000\\/"', "😀\x00/"),
    ('"é\x7f"', "é\x7f"),
    ('{"a\\u003a":":","b":{"a:":1}}', {"a:": ":", "b": {"a:": 1}}),
    ('{"a":{"a":1},"b":{"a":[{"a":1}]}}', {"a": {"a": 1}, "b": {"a": [{"a": 1}]}}),
    ("18446744073709551615", 2**64 - 1),
    ("18446744073709551616", 2.0**64),
    ("-9223372036854775808", -(2**63)),
    ("-9223372036854775809", -(2.0**63)),
    ("1" + "0" * 300, 1e300),
    ("1e-400", 0.0),
    ("[" + "[]," * 200 + "[]]", [[]] * 201),
]


@pytest.mark.parametrize(("text", "value"), ACCEPTED)
def test_accepts(text: str | bytes, value: Any, reader: str) -> None:
    read = loads(text)
    assert read == value
    assert type(read) is type(value)


def test_accepts_a_hundred_levels(reader: str) -> None:
    assert dumps(loads("[" * 100 + "]" * 100)) == b"[" * 100 + b"]" * 100


DEEP = "nested deeper than 100 levels"
NOT_A_NUMBER = "NaN, infinities and numbers that a double cannot hold are not JSON numbers"
SYNTAX_ERRORS: list[tuple[str | bytes, str]] = [
    ("", "line 1, column 1: the text is empty; send a JSON value"),
    (" \n", "line 1, column 1: the text is empty; send a JSON value"),
    ("{", "line 1, column 2: expected a name in double quotes, near {"),
    ('{"a":nope}', 'line 1, column 6: expected a value, near {"a":nope}'),
    ('{\n  "a": 1,\n  "b" 2\n}', 'line 3, column 7: expected ":", near {    "a": 1,    "b" 2 }'),
    ('{"a":1 "b":2}', 'line 1, column 8: expected "," or a closing bracket, near {"a":1 "b":2}'),
    ("[1] 2", "line 1, column 5: expected the end of the text, near [1] 2"),
    ('"abc', 'line 1, column 1: a string starts here and does not end, near "abc'),
    ('"a\tb"', 'line 1, column 3: a control character in a string must be escaped, near "a b"'),
    ('"\\x"', 'line 1, column 2: there is no such escape in JSON, near "\\x"'),
    ('"\\u12g4"', 'line 1, column 3: \\u must be followed by four hexadecimal digits, near "\\u12g4"'),
    ("01", "line 1, column 2: expected the end of the text, near 01"),
    ("'a'", "line 1, column 1: expected a value, near 'a'"),
    ("\ufeff{}", "line 1, column 1: the text starts with a byte order mark; send UTF-8 without one"),
    (b"\xff\xfe{\x00}\x00", "byte 1: not UTF-8, near ��{ } "),
    (b'{"a":"\xff"}', 'byte 7: not UTF-8, near {"a":"�"}'),
    (b'"\xed\xa0\x80"', 'byte 2: not UTF-8, near "���"'),
    ('"\ud800"', 'line 1, column 2: half of a surrogate pair, near " "'),
    ('{"a":"\\ud800"}', 'line 1, column 6: half of a surrogate pair, near {"a":"\\ud800"}'),
    ('["\\ude00\\ud83d"]', 'line 1, column 2: half of a surrogate pair, near ["\\ude00\\ud83d"]'),
    ('{"\\ud800":1}', 'line 1, column 2: half of a surrogate pair, near {"\\ud800":1}'),
    ('{"a":1,"a":1}', 'line 1, column 8: this name occurs twice in one object, near {"a":1,"a":1}'),
    (
        '[{"a":1},{"a":1,"\\u0061":{}}]',
        'line 1, column 17: this name occurs twice in one object, near [{"a":1},{"a":1,"\\u0061":{}}]',
    ),
    ('{"a":"\\u003a","a":1}', 'line 1, column 15: this name occurs twice in one object, near {"a":"\\u003a","a":1}'),
    (
        '{"\\u003a":1,"a":{":":2,":":3}}',
        'line 1, column 24: this name occurs twice in one object, near "a":{":":2,":":3}}',
    ),
    ("[NaN]", f"line 1, column 2: {NOT_A_NUMBER}, near [NaN]"),
    ('{"a":-Infinity}', f'line 1, column 6: {NOT_A_NUMBER}, near {{"a":-Infinity}}'),
    ("[1,1e999]", f"line 1, column 4: {NOT_A_NUMBER}, near [1,1e999]"),
    ("9" * 5000, f"line 1, column 1: {NOT_A_NUMBER}, near 99999999999999999999"),
    ("[" * 101 + "]" * 101, f"line 1, column 101: {DEEP}, near [[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]"),
    ("[" * 1_000_000, f"line 1, column 101: {DEEP}, near {'[' * 40}"),
    ('{"a":' * 200_000, f"line 1, column 501: {DEEP}, near " + '{"a":' * 8),
    ("[" * 500_000 + "]" * 500_000, f"line 1, column 101: {DEEP}, near {'[' * 40}"),
    ("[1," * 300 + "1" + "]" * 300, f"line 1, column 301: {DEEP}, near ,[1,[1,[1,[1,[1,[1,[1,[1,[1,[1,[1,[1,[1,"),
]


@pytest.mark.parametrize(("text", "message"), SYNTAX_ERRORS, ids=lambda v: repr(v)[:40])
def test_refuses_text(text: str | bytes, message: str, reader: str) -> None:
    started = time.monotonic()
    with pytest.raises(JsonSyntaxError) as caught:
        loads(text)
    assert time.monotonic() - started < 1
    assert issubclass(JsonSyntaxError, ParseError)
    assert caught.value.message.split(", near")[0] == message.split(", near")[0]


fragments = st.sampled_from(
    [
        *(
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"a"',
            '"b":',
            '"a":1',
            " ",
            "\n",
            "1",
            "-0",
            "0.5",
            "1e5",
            "true",
            "null",
            "NaN",
        ),
        *(
            '"\\u003a"',
            '"\\ud83d"',
            '"\\ud83d\\ude00"',
            '"\\n"',
            '"',
            "\\",
            "é",
            "1e999",
            "99999999999999999999",
            "{}",
            "[]",
        ),
    ]
)
raw_texts = (
    st.binary(max_size=30)
    | st.text(string.printable, max_size=30).map(str.encode)
    | st.lists(fragments, max_size=12).map(lambda parts: "".join(parts).encode())
    | json_values.map(lambda value: json.dumps(value).encode())
)


def outcome(text: bytes) -> str:
    try:
        return repr(loads(text))
    except JsonSyntaxError as error:
        return error.message


@settings(slow, max_examples=500)
@given(raw_texts)
@example(b'1e310+"\\\x00"')
def test_both_readers_take_the_same_texts_for_the_same_values(text: bytes) -> None:
    pytest.importorskip("orjson")
    with pytest.MonkeyPatch.context() as patch:
        fast = outcome(text)
        patch.setattr(json_text, "orjson", None)
        assert fast == outcome(text)


@slow
@given(values)
def test_what_is_dumped_is_loaded(value: Any) -> None:
    assert loads(dumps(value)) == value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "orjson", None)
        assert loads(dumps(value)) == value
