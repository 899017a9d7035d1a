"""What became of a message whose answer was lost: its task is looked for; the message is not sent again. BR-73."""

import asyncio
from contextlib import suppress

from ...errors import A2AError
from ...generated.a2a_pb2 import CancelTaskRequest, GetTaskRequest, ListTasksRequest, Message, Task
from ...inherited import inherited
from ..calls import Calls, now

MOST_TASKS = 20  # the newest ones, among which a message's own task is looked for
LONGEST_CANCEL = 2.0  # seconds, of a task that an agent waited for and does not need any more


async def find(calls: Calls, sent: Message, until: float | None) -> Task | None:
    """The task that has the message in its history; None where the agent has none, or does not tell.

    Raises ConnectError.
    """
    with suppress(A2AError):
        for task in await _candidates(calls, sent, until):
            if any(message.message_id == sent.message_id for message in task.history):
                return task
    return None


async def _candidates(calls: Calls, sent: Message, until: float | None) -> list[Task]:
    if sent.task_id:
        return [await calls.unary("GetTask", GetTaskRequest(id=sent.task_id), until)]
    request = ListTasksRequest(context_id=sent.context_id, page_size=MOST_TASKS)
    return list((await calls.unary("ListTasks", request, until)).tasks)


async def leave(calls: Calls, sent: Message | None = None, task_id: str = "") -> None:
    """Inside an agent, a task ends with the one that it was for: to be called where a call was cancelled."""
    task = asyncio.current_task()
    if inherited.get() is None or not (task and task.cancelling()):
        return
    until = now() + LONGEST_CANCEL
    with suppress(Exception):  # whatever goes wrong, the call was cancelled
        if not task_id and sent and (found := await find(calls, sent, until)):
            task_id = found.id
        if task_id:
            await calls.unary("CancelTask", CancelTaskRequest(id=task_id), until)
