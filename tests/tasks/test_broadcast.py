"""Subscribers of one task: order, room, ends and leaving."""

import asyncio
from contextlib import closing
from typing import Any

import pytest
from engine import until

from a2a_grpc.encoded import Encoded
from a2a_grpc.errors import A2AError, ResourceExhaustedError
from a2a_grpc.generated import a2a_pb2 as pb
from a2a_grpc.tasks.broadcast import Subscriber, Topic


def event(text: str) -> Encoded:
    artifact = pb.Artifact(artifact_id="A", parts=[pb.Part(text=text)])
    return Encoded(pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(artifact=artifact)))


FIRST = event("first")


class Left:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def left() -> Left:
    return Left()


@pytest.fixture
def topic(left: Left) -> Topic:
    return Topic(left)


def joined(topic: Topic, room: int = 100) -> Subscriber:
    subscriber = Subscriber(room)
    subscriber.join(topic, FIRST)
    return subscriber


async def texts(subscriber: Subscriber) -> list[str]:
    return [found.artifact_update.artifact.parts[0].text async for found in subscriber]


async def test_a_subscriber_has_a_first_event_and_all_that_follow(topic: Topic) -> None:
    subscriber = joined(topic)
    for index in range(5):
        topic.publish(event(str(index)))
    topic.end()
    assert await texts(subscriber) == ["first", "0", "1", "2", "3", "4"]


async def test_all_have_the_same_objects(topic: Topic) -> None:
    """What is encoded once is shared: no subscriber has an event of its own."""
    subscribers = [joined(topic) for _ in range(3)]
    published = [event(str(index)) for index in range(4)]
    for one in published:
        topic.publish(one)
    topic.end()
    for subscriber in subscribers:
        assert [found async for found in subscriber] == [FIRST, *published]


async def test_who_joins_later_has_what_comes_later(topic: Topic) -> None:
    early = joined(topic)
    topic.publish(event("0"))
    late = joined(topic)
    topic.publish(event("1"))
    topic.end()
    assert await texts(early) == ["first", "0", "1"]
    assert await texts(late) == ["first", "1"]


async def test_a_reader_waits_for_the_next_event(topic: Topic) -> None:
    subscriber = joined(topic)
    reading = asyncio.create_task(texts(subscriber))
    for index in range(3):
        await asyncio.sleep(0)
        topic.publish(event(str(index)))
    await asyncio.sleep(0)
    assert not reading.done()
    topic.end()
    assert await reading == ["first", "0", "1", "2"]


@pytest.mark.parametrize("waits", [True, False])
async def test_the_end_may_be_an_error_after_what_came_before(topic: Topic, waits: bool) -> None:
    subscriber = joined(topic)
    if waits:
        assert await anext(subscriber) is FIRST
        reading = asyncio.ensure_future(anext(subscriber))
        await asyncio.sleep(0)
        topic.end(A2AError("broken"))
        with pytest.raises(A2AError, match="broken"):
            await reading
    else:
        topic.end(A2AError("broken"))
        assert await anext(subscriber) is FIRST
        with pytest.raises(A2AError, match="broken"):
            await anext(subscriber)


async def test_the_first_end_stands(topic: Topic) -> None:
    subscriber = joined(topic)
    subscriber.end()
    topic.end(A2AError("too late"))
    topic.publish(event("too late"))
    assert await texts(subscriber) == ["first"]


async def test_a_laggard_is_cut_off_and_no_other(topic: Topic) -> None:
    """X-STR-2."""
    slow, quick = joined(topic, room=3), joined(topic, room=3)
    for index in range(10):
        topic.publish(event(str(index)))
        if index == 0:
            assert await anext(quick) is FIRST
        await anext(quick)
    with pytest.raises(ResourceExhaustedError, match="read too slowly; subscribe again, or read the task"):
        await anext(slow)
    topic.end()
    assert await texts(quick) == []


async def test_room_is_for_exactly_so_many(topic: Topic) -> None:
    subscriber = joined(topic, room=3)  # the first event takes a place
    topic.publish(event("0"))
    topic.publish(event("1"))
    topic.end()
    assert await texts(subscriber) == ["first", "0", "1"]


async def test_leaving(topic: Topic, left: Left) -> None:
    stays = joined(topic)
    with closing(joined(topic)) as leaves:
        topic.publish(event("0"))
        assert (len(topic), left.times) == (2, 0)
        assert await anext(leaves) is FIRST
    assert (len(topic), left.times) == (1, 1)
    topic.publish(event("1"))
    topic.end()
    assert await texts(leaves) == []
    assert await texts(stays) == ["first", "0", "1"]
    stays.close()
    assert (len(topic), left.times) == (0, 2)


async def test_a_reader_that_is_cancelled_leaves(topic: Topic, left: Left) -> None:
    async def read() -> None:
        with closing(joined(topic)) as subscriber:
            await texts(subscriber)

    reading = asyncio.create_task(read())
    await until(lambda: len(topic))
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert (len(topic), left.times) == (0, 1)


async def test_who_has_left_before_joining_does_not_join(topic: Topic, left: Left) -> None:
    with closing(Subscriber(10)) as gone:
        pass
    gone.join(topic, FIRST)
    assert (len(topic), left.times) == (0, 0)
    assert await texts(gone) == []


async def test_the_ended_are_counted_until_they_have_left(topic: Topic) -> None:
    subscribers: list[Any] = [joined(topic) for _ in range(3)]
    topic.end()
    assert len(topic) == 3
    for subscriber in subscribers:
        subscriber.close()
    assert len(topic) == 0
