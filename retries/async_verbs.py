"""The verbs for callers in the same process that are coroutines: each is awaited, as `aenqueue`."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ledger import instructions, tasks
from retries import in_process, reminders
from retries.calls import run_in_thread
from retries.sessions import buffering, flushing, processing

P = ParamSpec("P")
T = TypeVar("T")


def awaited(verb: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    # The verb runs in a thread, where it may use the database.
    @wraps(verb)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run_in_thread(verb, *args, **kwargs)

    return call


aqueue_instruction = awaited(instructions.queue_instruction)
aqueue_instruction_with_ack = awaited(instructions.queue_instruction_with_ack)
aacknowledge_instruction = awaited(instructions.acknowledge_instruction)
ais_queue_empty = awaited(instructions.is_queue_empty)
afailed_instructions = awaited(instructions.failed_instructions)
aretry_unacknowledged = awaited(reminders.retry_unacknowledged)

aenqueue = awaited(tasks.enqueue)
afetch_task = awaited(tasks.fetch_task)
amark_running = awaited(in_process.mark_running)
amark_retry = awaited(in_process.mark_retry)
amark_blocked = awaited(in_process.mark_blocked)
amark_done = awaited(in_process.mark_done)
amark_failed = awaited(in_process.mark_failed)

acheck_buffer_timer_or_set = awaited(buffering.check_buffer_timer_or_set)
ainsert_new_message = awaited(buffering.insert_new_message)
abuffer_new_message = awaited(processing.buffer_new_message)
aflush_session_message_blocking = awaited(flushing.flush_session_message_blocking)
