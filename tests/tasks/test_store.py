"""What every task store does, and what the one in memory does besides: it lets ended tasks go."""

from collections.abc import Callable
from typing import Any

import pytest
from engine import BytesStore
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.lifecycle import TERMINAL, apply
from a2a_grpc.tasks.store import ConflictError, MemoryStore, Position, Query, Scope

ANN, BOB, ACME = Scope("", "ann"), Scope("", "bob"), Scope("acme", "ann")
WORKING, COMPLETED = pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED
STORES: dict[str, Callable[[], Any]] = {"memory": MemoryStore, "bytes": BytesStore}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Any:
    return STORES[request.param]()


def task(id_: str, second: int = 1, state: int = WORKING, context: str = "C") -> pb.Task:
    made = pb.Task(id=id_, context_id=context, status=pb.TaskStatus(state=state))  # type: ignore[arg-type]
    made.status.timestamp.seconds = second
    return made


def status(second: int, state: int = WORKING) -> pb.StreamResponse:
    made = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=state)))  # type: ignore[arg-type]
    made.status_update.status.timestamp.seconds = second
    return made


def chunk(text: str) -> pb.StreamResponse:
    made = pb.Artifact(artifact_id="A", parts=[pb.Part(text=text)])
    return pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=made, append=text != "0"))


class Written:
    """A task as its one writer has it."""

    def __init__(self, store: Any, scope: Scope, made: pb.Task) -> None:
        self.store, self.scope, self.task, self.version = store, scope, made, 0

    async def append(self, event: pb.StreamResponse) -> None:
        await self.store.append(self.scope, self.task, self.version, event)
        self.version += 1
        apply(self.task, event)


async def written(store: Any, made: pb.Task, scope: Scope = ANN) -> Written:
    await store.create(scope, made)
    return Written(store, scope, made)


def ids(tasks: Any) -> str:
    return "".join(task.id for task in tasks)


async def pages(store: Any, query: Query, scope: Scope = ANN) -> list[str]:
    found = []
    while True:
        page = await store.list(scope, query)
        found.append(ids(page.tasks))
        if page.next is None:
            return found
        query = Query(query.limit, query.context_id, query.state, query.since, page.next)


# Writing and reading


async def test_a_task_is_read_as_it_was_created(store: Any) -> None:
    made = task("T")
    await store.create(ANN, made)
    found = await store.read(ANN, "T")
    assert (found.task, found.version) == (made, 0)
    assert await store.read(ANN, "U") is None


async def test_every_event_makes_a_version(store: Any) -> None:
    writer = await written(store, task("T"))
    for number, event in enumerate([chunk("0"), chunk("1"), status(2), chunk("2"), status(3, COMPLETED)], 1):
        await writer.append(event)
        found = await store.read(ANN, "T")
        assert (found.task, found.version) == (writer.task, number)
    assert [p.text for p in writer.task.artifacts[0].parts] == ["0", "1", "2"]


@pytest.mark.parametrize("state", [WORKING, COMPLETED])
async def test_what_was_read_may_be_changed(store: Any, state: int) -> None:
    await store.create(ANN, task("T", state=state))
    for _ in range(2):
        found = await store.read(ANN, "T")
        assert not found.task.artifacts
        found.task.artifacts.add(artifact_id="mine")
        [listed] = (await store.list(ANN, Query(10))).tasks
        assert not listed.artifacts
        listed.artifacts.add(artifact_id="mine")


@pytest.mark.parametrize("event", [chunk("0"), status(9), status(9, COMPLETED)], ids=["chunk", "status", "end"])
@pytest.mark.parametrize("version", [0, 2])
async def test_a_conflict_changes_nothing(store: Any, version: int, event: pb.StreamResponse) -> None:
    writer = await written(store, task("T"))
    await writer.append(status(2))
    with pytest.raises(ConflictError):
        await store.append(ANN, writer.task, version, event)
    found = await store.read(ANN, "T")
    assert (found.task, found.version) == (writer.task, 1)
    assert (await store.list(ANN, Query(10, state=COMPLETED))).total == 0


async def test_of_two_writers_the_second_is_told(store: Any) -> None:
    """BR-61: it goes on from what it reads, and nothing is lost."""
    first = await written(store, task("T"))
    second = Written(store, ANN, (await store.read(ANN, "T")).task)
    await second.append(chunk("0"))
    with pytest.raises(ConflictError):
        await first.append(chunk("1"))
    found = await store.read(ANN, "T")
    first.task, first.version = found.task, found.version
    await first.append(chunk("1"))
    assert [p.text for p in (await store.read(ANN, "T")).task.artifacts[0].parts] == ["0", "1"]


async def test_appending_to_a_task_that_there_is_not_is_a_conflict(store: Any) -> None:
    with pytest.raises(ConflictError):
        await store.append(ANN, task("T"), 0, status(1))


# Scopes


@pytest.mark.parametrize("other", [BOB, ACME, Scope("", "")])
async def test_what_is_not_in_the_scope_does_not_exist(store: Any, other: Scope) -> None:
    """X-TEN-4, BR-59."""
    writer = await written(store, task("T"))
    await store.put_config(ANN, pb.TaskPushNotificationConfig(task_id="T", id="P"))
    assert await store.read(other, "T") is None
    assert (await store.list(other, Query(10))).total == 0
    assert list(await store.configs(other, "T")) == []
    await store.delete_config(other, "T", "P")
    with pytest.raises(ConflictError):
        await store.append(other, writer.task, 0, status(1))
    assert len(await store.configs(ANN, "T")) == 1


async def test_the_same_id_in_two_scopes(store: Any) -> None:
    ann, bob = await written(store, task("T")), await written(store, task("T", context="other"), BOB)
    await ann.append(chunk("0"))
    assert (await store.read(BOB, "T")).task == bob.task
    assert (await store.read(ANN, "T")).task == ann.task != bob.task


# Webhooks


async def test_webhooks(store: Any) -> None:
    await written(store, task("T"))
    for id_, url in (("P", "1"), ("Q", "2"), ("P", "3")):
        await store.put_config(ANN, pb.TaskPushNotificationConfig(task_id="T", id=id_, url=url))
    assert sorted((c.id, c.url) for c in await store.configs(ANN, "T")) == [("P", "3"), ("Q", "2")]
    for _ in range(2):
        await store.delete_config(ANN, "T", "P")
        assert [c.id for c in await store.configs(ANN, "T")] == ["Q"]
    assert list(await store.configs(ANN, "U")) == []


async def test_webhooks_outlive_the_end_of_their_task(store: Any) -> None:
    """PUSH-CREATE-002."""
    writer = await written(store, task("T"))
    await writer.append(status(2, COMPLETED))
    await store.put_config(ANN, pb.TaskPushNotificationConfig(task_id="T", id="P"))
    assert [c.id for c in await store.configs(ANN, "T")] == ["P"]


# Lists


async def test_the_newest_status_comes_first_then_the_greater_id(store: Any) -> None:
    for id_, second in (("a", 1), ("b", 3), ("c", 2), ("d", 3)):
        await store.create(ANN, task(id_, second))
    assert await pages(store, Query(10)) == ["dbca"]
    assert await pages(store, Query(1)) == ["d", "b", "c", "a"]
    assert await pages(store, Query(2)) == ["db", "ca"]
    assert await pages(store, Query(3)) == ["dbc", "a"]


async def test_an_empty_list(store: Any) -> None:
    page = await store.list(ANN, Query(10))
    assert (list(page.tasks), page.next, page.total) == ([], None, 0)


FILTERS = {
    "none": (Query(10), "dcba"), "context": (Query(10, context_id="C1"), "db"),
    "state": (Query(10, state=COMPLETED), "dc"), "both": (Query(10, context_id="C1", state=COMPLETED), "d"),
    "since": (Query(10, since=3 * 10**9), "dc"), "since a moment later": (Query(10, since=3 * 10**9 + 1), "d"),
    "nothing": (Query(10, context_id="C9"), ""), "limit": (Query(1, context_id="C1"), "d"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
async def test_filters_combine_and_total_counts_what_they_let_through(store: Any, name: str) -> None:
    """X-LIST-2, X-LIST-3: `since` is inclusive."""
    for id_, second, state, context in (
        ("a", 1, WORKING, "C0"), ("b", 2, WORKING, "C1"), ("c", 3, COMPLETED, "C0"), ("d", 4, COMPLETED, "C1"),
    ):  # fmt: skip
        await store.create(ANN, task(id_, second, state, context))
    query, expected = FILTERS[name]
    page = await store.list(ANN, query)
    assert ids(page.tasks) == expected
    assert page.total == (2 if query.limit == 1 else len(expected))


async def test_a_status_moves_a_task_to_the_front_and_an_artifact_does_not(store: Any) -> None:
    """X-LIST-7."""
    first, second = await written(store, task("a", 1)), await written(store, task("b", 2))
    await first.append(chunk("0"))
    assert await pages(store, Query(10)) == ["ba"]
    await first.append(status(3))
    assert await pages(store, Query(10)) == ["ab"]
    await second.append(status(4, COMPLETED))
    assert await pages(store, Query(10)) == ["ba"]
    assert ids((await store.list(ANN, Query(10, state=COMPLETED))).tasks) == "b"


async def test_paging_goes_on_though_tasks_change_and_come(store: Any) -> None:
    """X-LIST-5: nobody comes twice, and who did not change is not left out."""
    writers = {id_: await written(store, task(id_, second)) for second, id_ in enumerate("abcdef", 1)}
    page = await store.list(ANN, Query(2))
    assert ids(page.tasks) == "fe"
    await writers["e"].append(status(10))  # the last one of the page moves to the front
    await writers["c"].append(status(11))  # one that was not shown yet moves to the front
    await store.create(ANN, task("g", 12))
    assert await pages(store, Query(2, after=page.next)) == ["db", "a"]


times = st.integers(1, 5)


@given(st.lists(times, max_size=12), st.integers(1, 5), st.lists(st.tuples(st.integers(0, 11), times), max_size=6))
async def test_pages_together_are_the_list(seconds: list[int], limit: int, changes: list[tuple[int, int]]) -> None:
    for make in STORES.values():
        store = make()
        writers = [await written(store, task(chr(97 + i), second)) for i, second in enumerate(seconds)]
        for index, second in changes:
            if index < len(writers):
                await writers[index].append(status(second))
        expected = sorted(((w.task.status.timestamp.seconds, w.task.id) for w in writers), reverse=True)
        found = await pages(store, Query(limit))
        assert "".join(found) == "".join(id_ for _, id_ in expected)
        assert all(len(page) == limit for page in found[:-1])


async def test_a_page_may_begin_after_a_task_that_is_gone(store: Any) -> None:
    for second, id_ in enumerate("abc", 1):
        await store.create(ANN, task(id_, second))
    assert await pages(store, Query(10, after=Position(2 * 10**9 + 5, "x"))) == ["ba"]
    assert await pages(store, Query(10, after=Position(0, ""))) == [""]


# Memory: ended tasks expire


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def kept(store: MemoryStore, names: str, scope: Scope = ANN) -> str:
    return "".join([name for name in names if await store.read(scope, name)])


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_ended_tasks_expire_by_number_the_first_to_end_first(most: int) -> None:
    store = MemoryStore(most_ended=most)
    writers = {id_: await written(store, task(id_)) for id_ in "abcdef"}
    for id_ in "cabde":
        await writers[id_].append(status(2, COMPLETED))
    assert await kept(store, "cabde") == "cabde"[5 - most :]
    assert await kept(store, "f") == "f"
    assert (await store.list(ANN, Query(10))).total == most + 1


@pytest.mark.parametrize("ask", ["read", "list", "another ends"])
async def test_ended_tasks_expire_by_age(ask: str) -> None:
    clock = Clock()
    store = MemoryStore(longest=60, clock=clock)
    writer = await written(store, task("a"))
    await written(store, task("b"))
    await writer.append(status(2, COMPLETED))
    clock.now = 60
    assert await store.read(ANN, "a")
    clock.now = 60.5
    if ask == "read":
        assert await store.read(ANN, "a") is None
    elif ask == "list":
        assert ids((await store.list(ANN, Query(10))).tasks) == "b"
    else:
        await store.create(ANN, task("c", state=COMPLETED))
        assert not any(id_ == "a" for tasks in store._scopes.values() for id_ in tasks)


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_every_end_counts_and_one_at_creation_too(state: int) -> None:
    store = MemoryStore(most_ended=1)
    await store.create(ANN, task("a", state=state))
    await (await written(store, task("b"))).append(status(2, state))
    assert await kept(store, "ab") == "b"


async def test_open_tasks_never_expire() -> None:
    clock = Clock()
    store = MemoryStore(most_ended=0, longest=1, clock=clock)
    writer = await written(store, task("a"))
    await writer.append(status(2, pb.TASK_STATE_INPUT_REQUIRED))
    clock.now = 10**6
    assert await kept(store, "a") == "a"


async def test_nothing_stays_of_what_has_expired() -> None:
    store = MemoryStore(most_ended=1)
    for id_ in "abc":
        scope = Scope("", id_)
        await store.create(scope, task(id_, state=COMPLETED))
        await store.put_config(scope, pb.TaskPushNotificationConfig(task_id=id_, id="P"))
    assert list(store._scopes) == [Scope("", "c")]
    assert len(store._ended) == 1
    assert list(await store.configs(Scope("", "a"), "a")) == []
