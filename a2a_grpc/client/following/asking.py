"""Asking: a message, and then whatever it takes to know its result, by streaming or by polling."""

import asyncio
from contextlib import aclosing

from ...errors import DeadlineExceededError, InvalidAgentResponseError, ResourceExhaustedError
from ...generated.a2a_pb2 import GetTaskRequest, SendMessageRequest, Task
from ..answer import Answer
from ..artifacts import INTERRUPTED, TERMINAL, Assembly
from ..calls import Calls, now
from ..errors import ConnectError, StreamBrokenError
from .following import Following, too_late
from .sent import leave

FIRST_POLL, LONGEST_POLL = 0.2, 5.0  # seconds between two looks at a task


async def by_stream(calls: Calls, request: SendMessageRequest, until: float) -> Answer:
    """The task as its stream told it; read once more where the stream is not to be relied on."""
    assembly, following = Assembly(), Following(calls, until=until)
    try:
        async with aclosing(following.events("SendStreamingMessage", request)) as events:
            async for event in events:
                assembly.add(event)
                if assembly.size > calls.options.max_response:
                    raise ResourceExhaustedError(f"The answer is larger than {calls.options.max_response} bytes")
    except StreamBrokenError as error:
        if not error.task_id:
            raise
        return Answer(task=await settled(calls, error.task_id, until))
    if assembly.message is not None:
        return Answer(message=assembly.message)
    if assembly.task and (following.broken or assembly.doubtful):
        return Answer(task=await settled(calls, assembly.task.id, until))
    return Answer(task=assembly.task)


async def by_polling(calls: Calls, request: SendMessageRequest, until: float) -> Answer:
    """A task that exists may still wait for this very message, so only a new one is looked at from the start."""
    request.configuration.return_immediately = not request.message.task_id
    try:
        response = await calls.unary("SendMessage", request, until)
    except asyncio.CancelledError:
        await leave(calls, request.message)
        raise
    if response.HasField("message"):
        return Answer(message=response.message)
    if not response.HasField("task"):
        raise InvalidAgentResponseError("The agent answered with neither a task nor a message")
    if _is_settled(response.task):
        return Answer(task=response.task)
    return Answer(task=await settled(calls, response.task.id, until))


async def settled(calls: Calls, task_id: str, until: float) -> Task:
    """The task, once its turn is over, by looking again and again."""
    try:
        return await _polled(calls, task_id, until)
    except asyncio.CancelledError:
        await leave(calls, task_id=task_id)
        raise


async def _polled(calls: Calls, task_id: str, until: float) -> Task:
    pause = FIRST_POLL
    while True:
        task = await _look(calls, task_id, until, pause)
        if task and _is_settled(task):
            return task
        if now() + pause >= until:
            raise too_late(task_id)
        await asyncio.sleep(pause)
        pause = min(LONGEST_POLL, pause * 1.5)


async def _look(calls: Calls, task_id: str, until: float, pause: float) -> Task | None:
    """None where the connection failed, and there is time to look again."""
    try:
        task: Task = await calls.unary("GetTask", GetTaskRequest(id=task_id), until)
    except ConnectError:
        if now() + pause >= until:
            raise
        return None
    except DeadlineExceededError:
        raise too_late(task_id) from None
    return task


def _is_settled(task: Task) -> bool:
    return task.status.state in TERMINAL or task.status.state in INTERRUPTED
