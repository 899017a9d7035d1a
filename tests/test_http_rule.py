"""The transcoder: paths × verbs, what is bound, what fails at start-up, and that hostile input raises nothing else."""

from urllib.parse import quote

import pytest
from google.api.http_pb2 import HttpRule
from hypothesis import assume, example, given
from hypothesis import strategies as st

from a2a_grpc.bindings.http_rule import RESERVED, Allowed, Match, Router, bind, bindings, expand, hint
from a2a_grpc.bindings.protojson import to_dict
from a2a_grpc.errors import InvalidParamsError
from a2a_grpc.generated import a2a_pb2
from a2a_grpc.methods import Method, methods
from tests.library_service import SERVICE, message_type, rule

A2A, LIBRARY = methods(), methods(SERVICE)
router, library = Router(A2A.values()), Router(LIBRARY.values())


def found(which, verb, path):
    match = which.match(verb, path)
    return (match.binding.method.name, dict(match.variables)) if isinstance(match, Match) else match


def bound(which, verb, target, body=None):
    path, _, query = target.partition("?")
    pairs = [tuple(pair.split("=", 1)) for pair in query.split("&")] if query else ()
    match = which.match(verb, path)
    assert isinstance(match, Match)
    return bind(*match, pairs, body)


def refused(which, verb, target, body=None):
    with pytest.raises(InvalidParamsError) as caught:
        bound(which, verb, target, body)
    return [v.field for v in caught.value.violations], str(caught.value)


def allowed(*verbs):
    return Allowed(verbs)


CONFIGS = "/tasks/t/pushNotificationConfigs"

PATHS = [
    # every RPC, without and with a tenant
    ("POST", "/message:send", ("SendMessage", {})),
    ("POST", "/acme/message:send", ("SendMessage", {"tenant": "acme"})),
    ("POST", "/message:stream", ("SendStreamingMessage", {})),
    ("POST", "/acme/message:stream", ("SendStreamingMessage", {"tenant": "acme"})),
    ("GET", "/tasks", ("ListTasks", {})),
    ("GET", "/acme/tasks", ("ListTasks", {"tenant": "acme"})),
    ("GET", "/tasks/T1", ("GetTask", {"id": "T1"})),
    ("GET", "/acme/tasks/T1", ("GetTask", {"tenant": "acme", "id": "T1"})),
    ("POST", "/tasks/T1:cancel", ("CancelTask", {"id": "T1"})),
    ("POST", "/acme/tasks/T1:cancel", ("CancelTask", {"tenant": "acme", "id": "T1"})),
    ("POST", CONFIGS, ("CreateTaskPushNotificationConfig", {"task_id": "t"})),
    ("POST", "/a" + CONFIGS, ("CreateTaskPushNotificationConfig", {"tenant": "a", "task_id": "t"})),
    ("GET", CONFIGS, ("ListTaskPushNotificationConfigs", {"task_id": "t"})),
    ("GET", "/a" + CONFIGS, ("ListTaskPushNotificationConfigs", {"tenant": "a", "task_id": "t"})),
    ("GET", CONFIGS + "/c", ("GetTaskPushNotificationConfig", {"task_id": "t", "id": "c"})),
    ("GET", "/a" + CONFIGS + "/c", ("GetTaskPushNotificationConfig", {"tenant": "a", "task_id": "t", "id": "c"})),
    ("DELETE", CONFIGS + "/c", ("DeleteTaskPushNotificationConfig", {"task_id": "t", "id": "c"})),
    ("DELETE", "/a" + CONFIGS + "/c", ("DeleteTaskPushNotificationConfig", {"tenant": "a", "task_id": "t", "id": "c"})),
    ("GET", "/extendedAgentCard", ("GetExtendedAgentCard", {})),
    ("GET", "/acme/extendedAgentCard", ("GetExtendedAgentCard", {"tenant": "acme"})),
    # BR-17: subscribe is annotated GET, and clients POST it
    ("GET", "/tasks/T1:subscribe", ("SubscribeToTask", {"id": "T1"})),
    ("POST", "/tasks/T1:subscribe", ("SubscribeToTask", {"id": "T1"})),
    ("GET", "/acme/tasks/T1:subscribe", ("SubscribeToTask", {"tenant": "acme", "id": "T1"})),
    ("POST", "/acme/tasks/T1:subscribe", ("SubscribeToTask", {"tenant": "acme", "id": "T1"})),
    ("DELETE", "/tasks/T1:subscribe", allowed("GET", "POST")),
    # BR-19: ids with colons; only known verbs are verbs, and only with the right HTTP verb
    ("GET", "/tasks/urn:task:42", ("GetTask", {"id": "urn:task:42"})),
    ("POST", "/tasks/urn:task:42:cancel", ("CancelTask", {"id": "urn:task:42"})),
    ("GET", "/tasks/x:cancel", allowed("POST")),
    ("GET", "/acme/tasks/x:cancel", allowed("POST")),
    ("DELETE", "/tasks/x:cancel", allowed("POST")),
    ("POST", "/tasks/x:nosuchverb", None),
    ("POST", "/acme/tasks/x:nosuchverb", None),
    ("POST", "/tasks/x", allowed("GET")),
    ("DELETE", "/tasks/urn:task:42", allowed("GET")),
    ("GET", "/tasks/:cancel", None),
    ("POST", "/tasks/:cancel", None),
    ("GET", "/tasks/x:", ("GetTask", {"id": "x:"})),
    ("GET", "/tasks/cancel", ("GetTask", {"id": "cancel"})),
    ("POST", "/tasks/x:cancel:cancel", ("CancelTask", {"id": "x:cancel"})),
    ("GET", "/tasks/x%3Acancel", ("GetTask", {"id": "x:cancel"})),
    ("POST", "/tasks/x%3Acancel", allowed("GET")),
    ("POST", "/tasks/a%3Ab:cancel", ("CancelTask", {"id": "a:b"})),
    ("POST", "/tasks/x:c%61ncel", ("CancelTask", {"id": "x"})),
    ("POST", "/message%3Asend", None),
    (
        "GET",
        "/tasks/a:b/pushNotificationConfigs/c:d",
        ("GetTaskPushNotificationConfig", {"task_id": "a:b", "id": "c:d"}),
    ),
    # BR-23: un-prefixed routes win; a tenant is one segment
    ("GET", "/tasks/tasks", ("GetTask", {"id": "tasks"})),
    ("GET", "/tasks/extendedAgentCard", ("GetTask", {"id": "extendedAgentCard"})),
    ("GET", "/tasks/message:send", ("GetTask", {"id": "message:send"})),
    ("GET", "/tasks/tasks/tasks", ("GetTask", {"tenant": "tasks", "id": "tasks"})),
    ("GET", "/message:send", allowed("POST")),
    ("GET", "/.well-known/tasks", None),
    ("GET", "/%2Ewell-known/tasks", None),
    ("GET", "/a%2Fb/tasks", ("ListTasks", {"tenant": "a/b"})),
    ("POST", "/a%2fb/message:send", ("SendMessage", {"tenant": "a/b"})),
    ("GET", "/a/b/tasks", None),
    ("GET", "/urn:x/tasks", ("ListTasks", {"tenant": "urn:x"})),
    # X-TEN-3: v1 is never a tenant
    ("GET", "/v1/tasks", None),
    ("GET", "/v1/tasks/T1", None),
    ("POST", "/v1/message:send", None),
    ("POST", "/v1/tasks/T1:cancel", None),
    ("GET", "/%76%31/tasks", None),
    ("GET", "/v10/tasks", ("ListTasks", {"tenant": "v10"})),
    # percent-encoding and odd paths
    ("GET", "/tasks/a%2Fb", ("GetTask", {"id": "a/b"})),
    ("GET", "/tasks/a%252Fb", ("GetTask", {"id": "a%2Fb"})),
    ("GET", "/tasks/%C3%A9%20%F0%9F%99%82", ("GetTask", {"id": "é 🙂"})),
    ("GET", "/tasks/é", ("GetTask", {"id": "é"})),
    ("GET", "/tasks/a+b", ("GetTask", {"id": "a+b"})),
    ("GET", "/t%61sks/x", ("GetTask", {"id": "x"})),
    ("GET", "/tasks/%zz", None),
    ("GET", "/tasks/%4", None),
    ("GET", "/tasks/%FF", None),
    ("GET", "/tasks/\udcff", None),
    ("GET", "/tasks/", None),
    ("GET", "/tasks//", None),
    ("GET", "//tasks", None),
    ("GET", "/tasks/x/", None),
    ("GET", "/message:send/", None),
    ("GET", "/", None),
    ("GET", "", None),
    ("GET", "tasks", None),
    ("GET", "/Tasks", None),
    ("GET", "/tasks:list", None),
    ("GET", "/a/b/c/d/e/f/g", None),
    # 405
    ("HEAD", "/tasks", allowed("GET")),
    ("PUT", "/tasks", allowed("GET")),
    ("get", "/tasks", allowed("GET")),
    ("PUT", CONFIGS, allowed("GET", "POST")),
    ("PATCH", CONFIGS + "/c", allowed("DELETE", "GET")),
]


@pytest.mark.parametrize(("verb", "path", "expected"), PATHS)
def test_a2a_paths(verb, path, expected):
    assert found(router, verb, path) == expected


LIBRARY_PATHS = [
    ("GET", "/v1/shelves/1/books/2", ("GetBook", {"name": "shelves/1/books/2"})),
    ("GET", "/v1/shelves/1/books/a%2Fb%20c", ("GetBook", {"name": "shelves/1/books/a%2Fb c"})),
    ("GET", "/v1/shelves/1/book/2", None),
    ("GET", "/v1/archive", None),
    ("GET", "/v1/archive/", None),
    ("GET", "/v1/archive/1%2f2", ("GetBook", {"name": "1/2"})),
    ("PATCH", "/v1/shelves/1/books", ("SaveBook", {"shelf": "shelves/1"})),
    ("DELETE", "/v1/shelves/1/books/2", allowed("GET")),
    ("PUT", "/v1/books", ("SaveBook", {})),
    ("GET", "/v1/books", ("Search", {})),
    ("POST", "/v1/books:search", ("Search", {})),
    ("GET", "/v1/books:search", allowed("POST")),
    ("POST", "/v1/shelves/1/books/2:lend", ("LendBook", {"name": "shelves/1/books/2"})),
    ("GET", "/v1/shelves/1/books/2:lend", allowed("POST")),
    ("GET", "/v1/shelves/1/books/2:peek", ("LendBook", {"name": "shelves/1/books/2"})),
    ("POST", "/v1/shelves/1/books/2:peek", ("LendBook", {"name": "shelves/1/books/2"})),
    ("POST", "/v1/shelves/1/books/2:burn", None),
    ("GET", "/v1/shelves/1/books/:peek", None),
]


@pytest.mark.parametrize(("verb", "path", "expected"), LIBRARY_PATHS)
def test_library_paths(verb, path, expected):
    assert found(library, verb, path) == expected


HINTS = [
    (router, "GET", "/v1/tasks/x", "did you mean GET /tasks/x? (/v1 is the 0.3 path)"),
    (router, "GET", "/v1/tasks/x:cancel", "did you mean POST /tasks/x:cancel? (/v1 is the 0.3 path)"),
    (router, "POST", "/v1/message:send", "did you mean POST /message:send? (/v1 is the 0.3 path)"),
    (router, "GET", "/task/0b7c1f0e-8888-4444-9999", "did you mean GET /tasks/{id}?"),
    (router, "GET", "/acme/task/1", "did you mean GET /{tenant}/tasks/{id}?"),
    (router, "POST", "/message:sned", "did you mean POST /message:send?"),
    (router, "POST", "/message/send", "did you mean POST /message:send?"),
    (router, "POST", "/task/x:cancel", "did you mean POST /tasks/{id}:cancel?"),
    (router, "GET", "/Tasks", "did you mean GET /tasks?"),
    (router, "POST", "/tasks/x:stop", "POST takes :cancel or :subscribe here, not :stop"),
    (router, "GET", "/tasks/", "did you mean GET /tasks? (no path ends in a slash)"),
    (router, "PUT", "/tasks/x/", "did you mean GET /tasks/x? (no path ends in a slash)"),
    (router, "GET", "/tasks//x", "a segment of the path is empty"),
    (router, "GET", "/", None),
    (router, "GET", "/tasks/%FF", "the path is not percent-encoded UTF-8"),
    (router, "GET", "/.well-known/tasks", None),
    (router, "GET", "/zzzz", None),
    (router, "GET", "/v1", None),
    (router, "GET", "/v1/v1/v1/v1", None),
    (library, "GET", "/v1/bookz", "did you mean GET /v1/books?"),
]


@pytest.mark.parametrize(("which", "verb", "path", "expected"), HINTS)
def test_hints(which, verb, path, expected):
    assert which.match(verb, path) is None
    assert hint(which, verb, path) == expected


# Binding


GET_TASK, LIST = a2a_pb2.GetTaskRequest, a2a_pb2.ListTasksRequest
HELLO = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
HELLO_MESSAGE = a2a_pb2.Message(message_id="m", role="ROLE_USER", parts=[a2a_pb2.Part(text="hi")])
MOMENT = {"seconds": 1767323045, "nanos": 678000000}

BOUND = [
    ("GET", "/tasks/T1", None, GET_TASK(id="T1")),
    ("GET", "/a%2Fb/tasks/é", None, GET_TASK(tenant="a/b", id="é")),
    # BR-21 and HTTP_JSON-QP-001
    ("GET", "/tasks/T1?historyLength=0", None, GET_TASK(id="T1", history_length=0)),
    ("GET", "/tasks/T1?historyLength=2", None, GET_TASK(id="T1", history_length=2)),
    ("GET", "/tasks/T1?history_length=2", None, GET_TASK(id="T1", history_length=2)),
    ("GET", "/tasks/T1?historyLength=-1", None, GET_TASK(id="T1", history_length=-1)),  # validation refuses it
    ("GET", "/tasks/T1?historyLength=1&historyLength=7", None, GET_TASK(id="T1", history_length=7)),
    ("GET", "/tasks/T1?historyLength=", None, GET_TASK(id="T1")),
    ("GET", "/tasks/T1?A2A-Version=1.0&x=1&x.y=2&id.x=3&=4", None, GET_TASK(id="T1")),
    (
        "GET",
        "/tasks?status=TASK_STATE_WORKING&pageSize=1&includeArtifacts=true"
        "&statusTimestampAfter=2026-01-02T03:04:05.678Z&contextId=c,d&pageToken=p+q",
        None,
        LIST(
            status="TASK_STATE_WORKING",
            page_size=1,
            include_artifacts=True,
            status_timestamp_after=MOMENT,
            context_id="c,d",
            page_token="p+q",
        ),
    ),
    ("GET", "/tasks?status_timestamp_after=2026-01-02T03:04:05.678+00:00", None, LIST(status_timestamp_after=MOMENT)),
    ("GET", "/tasks?statusTimestampAfter=2026-01-02T03:04:05.678 00:00", None, LIST(status_timestamp_after=MOMENT)),
    ("GET", "/tasks?lastUpdatedAfter=2026-01-02T03:04:05.678Z", None, LIST(status_timestamp_after=MOMENT)),
    ("GET", "/tasks?status=2&pageSize=0", None, LIST(status=2, page_size=0)),
    ("GET", "/tasks?includeArtifacts=TRUE", None, LIST(include_artifacts=True)),
    ("GET", "/tasks?includeArtifacts=0", None, LIST(include_artifacts=False)),
    ("GET", "/tasks?includeArtifacts=1", None, LIST(include_artifacts=True)),
    # X-TEN-3: the tenant is taken from the path, else the body, else the query
    ("GET", "/tasks/T1?tenant=q", None, GET_TASK(tenant="q", id="T1")),
    ("GET", "/p/tasks/T1?tenant=q", None, GET_TASK(tenant="p", id="T1")),
    ("POST", "/tasks/T1:cancel?tenant=q", None, a2a_pb2.CancelTaskRequest(tenant="q", id="T1")),
    ("POST", "/tasks/T1:cancel?tenant=q", {"tenant": "b"}, a2a_pb2.CancelTaskRequest(tenant="b", id="T1")),
    ("POST", "/tasks/T1:cancel?tenant=q", {"tenant": None}, a2a_pb2.CancelTaskRequest(tenant="q", id="T1")),
    ("POST", "/p/tasks/T1:cancel?tenant=q", {"tenant": "b"}, a2a_pb2.CancelTaskRequest(tenant="p", id="T1")),
    # X-REST-3 to 5
    ("GET", "/tasks/T1", {"id": "body", "historyLength": 3}, GET_TASK(id="T1")),
    ("DELETE", CONFIGS + "/c", {"id": 5}, a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c")),
    ("POST", "/tasks/T1:cancel", None, a2a_pb2.CancelTaskRequest(id="T1")),
    ("POST", "/tasks/T1:cancel", {}, a2a_pb2.CancelTaskRequest(id="T1")),
    ("POST", "/tasks/T1:cancel", {"id": 7}, a2a_pb2.CancelTaskRequest(id="T1")),
    ("POST", "/tasks/T1:subscribe", None, a2a_pb2.SubscribeToTaskRequest(id="T1")),
    ("POST", "/tasks/T1:subscribe", {"id": "x", "tenant": "b"}, a2a_pb2.SubscribeToTaskRequest(id="T1", tenant="b")),
    ("POST", CONFIGS, {"url": "u", "taskId": "b"}, a2a_pb2.TaskPushNotificationConfig(task_id="t", url="u")),
    ("POST", CONFIGS, {"url": "u", "task_id": "b"}, a2a_pb2.TaskPushNotificationConfig(task_id="t", url="u")),
    (
        "POST",
        CONFIGS,
        {"url": "u", "task_id": "b", "taskId": 3},
        a2a_pb2.TaskPushNotificationConfig(task_id="t", url="u"),
    ),
    ("POST", "/message:send", {"message": HELLO}, a2a_pb2.SendMessageRequest(message=HELLO_MESSAGE)),
    ("POST", "/p/message:send", {"message": HELLO}, a2a_pb2.SendMessageRequest(tenant="p", message=HELLO_MESSAGE)),
    (
        "POST",
        "/message:send?tenant=q&message.messageId=no&A2A-Version=1.0",
        {"message": HELLO},
        a2a_pb2.SendMessageRequest(tenant="q", message=HELLO_MESSAGE),
    ),
]


@pytest.mark.parametrize(("verb", "target", "body", "expected"), BOUND)
def test_a2a_requests(verb, target, body, expected):
    assert bound(router, verb, target, body) == expected


BOOK, SAVE, SEARCH = (message_type(name) for name in ("Book", "SaveBook", "Search"))
SHELF = "/v1/shelves/1/books"

LIBRARY_BOUND = [
    ("PATCH", SHELF, {"title": "T"}, SAVE(shelf="shelves/1", book=BOOK(title="T"))),
    (
        "PATCH",
        SHELF + "?shelf=s&validateOnly=true&book=no&book.title=no",
        {"title": "T"},
        SAVE(shelf="shelves/1", book=BOOK(title="T"), validate_only=True),
    ),
    (
        "PUT",
        "/v1/books?shelf=s",
        {"title": "T", "author": {"countryCode": "BE"}},
        SAVE(shelf="s", book={"title": "T", "author": {"country_code": "BE"}}),
    ),
    ("GET", "/v1/books?author.name=A&words.x=y", None, SEARCH()),  # names of fields in fields are no names
    ("GET", "/v1/books?genre=GENRE_ESSAY&limit=-2147483648", None, SEARCH(genre=3, limit=-2147483648)),
    ("GET", "/v1/books?lent=0", None, SEARCH(lent=False)),
    ("GET", "/v1/books?since=2026-01-02T03:04:05.678Z", None, SEARCH(since=MOMENT)),
    ("GET", "/v1/books?" + "author." * 5000 + "name=x", None, SEARCH()),
    ("POST", "/v1/books:search", None, SEARCH()),
    ("POST", "/v1/books:search?limit=4", {"words": ["a"]}, SEARCH(words=["a"])),
]


@pytest.mark.parametrize(("verb", "target", "body", "expected"), LIBRARY_BOUND)
def test_library_requests(verb, target, body, expected):
    assert bound(library, verb, target, body) == expected


REFUSED = [
    (router, "GET", "/tasks/T1?historyLength=abc", None, ["history_length"]),
    (router, "GET", "/tasks/T1?historyLength=2147483648", None, ["history_length"]),
    (router, "GET", "/tasks/T1?historyLength=1&historyLength=x", None, ["history_length"]),
    (router, "GET", "/tasks?status=working", None, ["status"]),
    (router, "GET", "/tasks?status=99", None, ["status"]),
    (router, "GET", "/tasks?status=" + "9" * 5000, None, ["status"]),
    (router, "GET", "/tasks?includeArtifacts=yes", None, ["include_artifacts"]),
    (router, "GET", "/tasks?statusTimestampAfter=yesterday", None, ["status_timestamp_after"]),
    (
        router,
        "GET",
        "/tasks?pageSize=x&status=y&includeArtifacts=z",
        None,
        ["include_artifacts", "page_size", "status"],
    ),
    (router, "POST", "/tasks/T1:cancel", [], [""]),
    (router, "POST", "/message:send", "text", [""]),
    (router, "POST", "/p/message:send", None, ["message"]),
    (router, "POST", CONFIGS, None, ["url"]),
    (library, "GET", "/v1/books?author=A&words=a&limit=1.5", None, ["author", "limit", "words"]),
    (library, "PATCH", SHELF + "?validateOnly=maybe", {"copies": "x"}, ["book.copies", "validate_only"]),
    (library, "PATCH", SHELF, "text", ["book"]),
    (library, "PUT", "/v1/books", None, ["book"]),
]


@pytest.mark.parametrize(("which", "verb", "target", "body", "fields"), REFUSED)
def test_refused_requests_name_every_field(which, verb, target, body, fields):
    assert sorted(refused(which, verb, target, body)[0]) == fields


def test_an_empty_body_says_what_to_send():
    assert refused(router, "POST", "/message:send")[1] == "The body is empty; send a JSON object with message"
    assert refused(library, "PUT", "/v1/books")[1] == "The body is empty; send book as JSON"


def test_the_body_is_not_changed():
    body = {"title": "T", "name": "given", "tenant": "b"}
    before = dict(body)
    bound(library, "PATCH", SHELF + "?validateOnly=true", body)
    bound(router, "POST", "/p/tasks/T1:cancel", body)
    assert body == before


# Start-up


BAD_RULES = [
    ("get:/tasks/{limt}", 'has no field "limt", did you mean "limit"'),
    ("get:/tasks/{words}", "must be a single string"),
    ("get:/tasks/{author}", "must be a single string"),
    ("get:/tasks/{limit}", "must be a single string"),
    ("get:/tasks/{author.name}", "malformed variable {author.name}"),
    ("get:/tasks/{tenant}/{tenant}", "twice"),
    ("get:/tasks/{tenant", "not a path template"),
    ("get:/tasks/{tenant=}", "malformed variable {tenant=}"),
    ("get:/tasks/{tenant={x}}", "not a path template"),
    ("get:/tasks/{1x}", "malformed variable"),
    ("get:/tasks/{tenant=a//b}", "malformed segment"),
    ("get:/tasks//x", "not a path template"),
    ("get:/tasks/", "not a path template"),
    ("get:/", "not a path template"),
    ("get:tasks", "not a path template"),
    ("get:/tasks:a:b", "not a path template"),
    ("get:/a b", "malformed segment"),
    ("get:/a*", "malformed segment"),
    ("get:/*", "malformed segment"),
    ("get:/{tenant=**}", "malformed segment"),
    ("get:/%2A", "wildcard"),
    ("get:/%zz", "malformed segment"),
    ("get:/%FF", "decode"),
    ("post:/x body:nosuch", 'body: library.v1.Search has no field "nosuch"'),
    ("post:/x body:author.name", 'body: library.v1.Search has no field "author.name"'),
    ("post:/x/{tenant} body:tenant", "already a path variable"),
    ("get:/x body:*", "GET takes no body"),
    ("get:/x response_body:books", "response_body is not served"),
]


def search(*rules):
    return Method("Search", "/library.v1.Library/Search", SEARCH, message_type("Books"), False, rules)


@pytest.mark.parametrize(("text", "why"), [(text.replace("a b", "a\tb"), why) for text, why in BAD_RULES])
def test_a_bad_rule_fails_at_start_up(text, why):
    made = rule(text) if "\t" not in text else HttpRule(get="/a b")
    with pytest.raises(ValueError, match="Search") as caught:
        Router([search(made)])
    message = str(caught.value)
    assert message.startswith("/library.v1.Library/Search: ")
    assert f'"{getattr(made, made.WhichOneof("pattern"))}"' in message
    assert why in message


def test_a_rule_without_a_verb_and_a_nested_rule_fail_at_start_up():
    nested = rule("get:/y")
    nested.additional_bindings.append(rule("get:/z"))
    wrong = (
        ((HttpRule(),), "no HTTP verb"),
        ((rule("LINK:/x"),), "no HTTP verb"),
        ((rule("get:/x"), nested), "nested"),
    )
    for rules, why in wrong:
        with pytest.raises(ValueError, match=why):
            Router([search(*rules)])


CLASHES = [
    ("get:/x/{tenant}", "get:/x/{tenant=*}"),
    ("get:/x", "get:/%78"),
    ("get:/{tenant=x/*}", "get:/x/{tenant}"),
]


@pytest.mark.parametrize(("one", "other"), CLASHES)
def test_rules_that_match_the_same_requests_fail_at_start_up(one, other):
    with pytest.raises(ValueError, match=r"Search: .* matches the same requests as /library.v1.Library/Search: "):
        Router([search(rule(one), rule(other))])


def test_an_explicit_post_stands_beside_a_get_action():
    both = Router([search(rule("get:/x:go"), rule("post:/x:go body:author"))])
    assert both.match("POST", "/x:go").binding.body.name == "author"


def test_a_service_without_rules_serves_nothing():
    assert Router([search()]).match("GET", "/x") is None


# Expansion, and properties


names = st.text(min_size=1, max_size=20)


@given(names, names)
@example("a/b", "x:cancel")
@example("%2F", "é🙂\x00 +?#")
def test_any_id_and_tenant_survive_the_path(tenant, id):
    path = f"/{quote(tenant, safe='')}/tasks/{quote(id, safe='')}"
    assume(tenant not in RESERVED)
    match = router.match("GET", path)
    assert isinstance(match, Match)
    assert bind(*match) == GET_TASK(tenant=tenant, id=id)


@given(st.sampled_from([*A2A.values(), *LIBRARY.values()]), names, names, st.integers(-5, 5), st.booleans())
def test_an_expanded_request_is_bound_to_itself(method, text, other, number, flag):
    which = router if method.name in A2A else library
    message = _filled(method.request(), text, other, number, flag)
    call = expand(bindings(method), message)
    match = which.match(call.verb, call.path)
    assert isinstance(match, Match)
    assert match.binding.method is method
    body = None if call.body is None else to_dict(call.body)
    assert bind(*match, call.query, body) == message


def _filled(message, text, other, number, flag):
    """Text in every string; where a template wants structure, something that has it."""
    for field in message.DESCRIPTOR.fields:
        single = not isinstance(field.default_value, list)
        if field.type == field.TYPE_STRING and single:
            setattr(message, field.name, "t" + text)
        elif field.type == field.TYPE_INT32 and single:
            setattr(message, field.name, number or 1)
        elif field.type == field.TYPE_BOOL and single:
            setattr(message, field.name, flag)
        elif field.type == field.TYPE_ENUM and single:
            setattr(message, field.name, 2)
    if message.DESCRIPTOR.name == "BookRequest":
        message.name = f"shelves/{quote(text, safe='')}/books/{quote(other, safe='')}"
    if message.DESCRIPTOR.name == "SaveBook":
        message.shelf = f"shelves/{quote(text, safe='')}"
        message.book.title = other
    return message


def test_expand_refuses_what_no_path_can_carry():
    get_book = LIBRARY["GetBook"]
    for name in ("shelves/1", "shelves//books/2", "books/1/shelves/2"):
        with pytest.raises(ValueError, match="does not fit"):
            expand(list(bindings(get_book))[:1], message_type("BookRequest")(name=name))
    with pytest.raises(ValueError, match="not set"):
        expand(bindings(get_book), message_type("BookRequest")())
    with pytest.raises(ValueError, match="cannot be sent in a URL"):
        expand(bindings(LIBRARY["Search"]), SEARCH(like=[BOOK(title="T")]))
    with pytest.raises(ValueError, match="cannot be sent in a URL"):
        expand(bindings(LIBRARY["Search"]), SEARCH(author={"name": "A"}))


def test_expand_chooses_the_rule_and_the_body():
    call = expand(
        bindings(A2A["CancelTask"]), a2a_pb2.CancelTaskRequest(tenant="a/b", id="x:cancel", metadata={"k": 1})
    )
    assert call == ("POST", "/a%2Fb/tasks/x%3Acancel:cancel", [], a2a_pb2.CancelTaskRequest(metadata={"k": 1}))
    call = expand(bindings(LIBRARY["SaveBook"]), SAVE(book=BOOK(title="T"), shelf="shelves/1", validate_only=True))
    assert call == ("PATCH", SHELF, [("validateOnly", "true")], BOOK(title="T"))
    call = expand(bindings(A2A["ListTasks"]), LIST(status=2, page_size=0, status_timestamp_after=MOMENT))
    query = [("status", "TASK_STATE_WORKING"), ("pageSize", "0"), ("statusTimestampAfter", "2026-01-02T03:04:05.678Z")]
    assert call == ("GET", "/tasks", query, None)


PIECES = [
    "/",
    "tasks",
    "v1",
    "books",
    "files",
    ":",
    ":cancel",
    ":search",
    "%2F",
    "%",
    "%FF",
    "é",
    "\udcff",
    "a",
    "**",
    "{",
    "..",
]
paths = (
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=9).map(lambda parts: "/" + "".join(parts))
    | st.text()
)
verbs = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "", "*"]) | st.text(max_size=4)


@given(st.sampled_from([router, library]), verbs, paths)
def test_no_path_raises(which, verb, path):
    match = which.match(verb, path)
    assert match is None or isinstance(match, Match | Allowed)
    assert isinstance(hint(which, verb, path), str | None)


PARAMETERS = [f.json_name for f in (*LIST.DESCRIPTOR.fields, *SEARCH.DESCRIPTOR.fields)]
keys = st.sampled_from([*PARAMETERS, "author.name", "tenant", "lastUpdatedAfter", "."]) | st.text(max_size=8)
values = (
    st.sampled_from(
        ["1", "-0", "true", "1e400", "NaN", "1_0", "٣", "2026-01-02T03:04:05Z", ",", "[]", "null", "\udcff"]
    )
    | st.text()
)
bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys | st.sampled_from(["book", "message", "id"]), inner, max_size=4)
    ),
    max_leaves=8,
)
TARGETS = [
    (router, "GET", "/tasks"),
    (router, "GET", "/p/tasks/x"),
    (router, "POST", "/p/tasks/x:cancel"),
    (router, "POST", "/message:send"),
    (library, "GET", "/v1/books"),
    (library, "PATCH", SHELF),
    (library, "POST", "/v1/books:search"),
]


@given(st.sampled_from(TARGETS), st.lists(st.tuples(keys, values), max_size=6), bodies)
def test_no_query_or_body_raises_anything_else(target, query, body):
    which, verb, path = target
    match = which.match(verb, path)
    try:
        message = bind(*match, query, body)
    except InvalidParamsError as error:
        message = error
    assert getattr(message, "violations", None) or type(message) is match.binding.method.request
