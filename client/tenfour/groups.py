"""The client's methods by noun: instructions, tasks, plans, agents; sync and async."""

from __future__ import annotations

from typing import TypeVar, overload

from tenfour import calls, plans, tasks
from tenfour.core import Call
from tenfour.models import Acked, Instruction
from tenfour.verbs import AsyncListing, AsyncPerforms, AsyncVerb, Listing, Performs, Verb

T = TypeVar("T")
Ids = list[str] | tuple[str, ...]


class Group(Performs):
    def __init__(self, client: Performs) -> None:
        self._client = client

    def perform(self, call: Call[T]) -> T:
        return self._client.perform(call)


class AsyncGroup(AsyncPerforms):
    def __init__(self, client: AsyncPerforms) -> None:
        self._client = client

    async def perform(self, call: Call[T]) -> T:
        return await self._client.perform(call)


class Agents(Group):
    list = Listing(calls.agents)


class AsyncAgents(AsyncGroup):
    list = AsyncListing(calls.agents)


class Instructions(Group):
    send = Verb(calls.send)
    pull = Verb(calls.pull)
    get = Verb(calls.get)
    cancel = Verb(calls.cancel)
    list = Listing(calls.instructions)

    @overload
    def ack(
        self, ids: str, *, outcome: calls.Outcome | None = ..., note: str | None = ...
    ) -> Instruction: ...

    @overload
    def ack(self, ids: Ids) -> tuple[Acked, ...]: ...

    def ack(
        self, ids: str | Ids, *, outcome: calls.Outcome | None = None, note: str | None = None
    ) -> Instruction | tuple[Acked, ...]:
        """Acknowledge one instruction, or a list with a result for each."""
        if isinstance(ids, str):
            return self.perform(calls.ack(ids, outcome=outcome, note=note))
        _refuse_details_for_list(outcome, note)
        return tuple(acked for call in calls.acks(ids) for acked in self.perform(call))


class AsyncInstructions(AsyncGroup):
    send = AsyncVerb(calls.send)
    pull = AsyncVerb(calls.pull)
    get = AsyncVerb(calls.get)
    cancel = AsyncVerb(calls.cancel)
    list = AsyncListing(calls.instructions)

    @overload
    async def ack(
        self, ids: str, *, outcome: calls.Outcome | None = ..., note: str | None = ...
    ) -> Instruction: ...

    @overload
    async def ack(self, ids: Ids) -> tuple[Acked, ...]: ...

    async def ack(
        self, ids: str | Ids, *, outcome: calls.Outcome | None = None, note: str | None = None
    ) -> Instruction | tuple[Acked, ...]:
        """Acknowledge one instruction, or a list with a result for each."""
        if isinstance(ids, str):
            return await self.perform(calls.ack(ids, outcome=outcome, note=note))
        _refuse_details_for_list(outcome, note)
        return tuple([acked for call in calls.acks(ids) for acked in await self.perform(call)])


class Tasks(Group):
    enqueue = Verb(tasks.enqueue)
    enqueue_many = Verb(tasks.enqueue_many)
    enqueue_and_claim = Verb(tasks.enqueue_and_claim)
    get = Verb(tasks.get)
    list = Listing(tasks.tasks)
    abort = Verb(tasks.abort)
    claim = Verb(tasks.claim)
    start = Verb(tasks.start)
    attempt = Verb(tasks.attempt)
    heartbeat = Verb(tasks.heartbeat)
    report = Verb(tasks.report)
    exit = Verb(tasks.exit)
    release = Verb(tasks.release)


class AsyncTasks(AsyncGroup):
    enqueue = AsyncVerb(tasks.enqueue)
    enqueue_many = AsyncVerb(tasks.enqueue_many)
    enqueue_and_claim = AsyncVerb(tasks.enqueue_and_claim)
    get = AsyncVerb(tasks.get)
    list = AsyncListing(tasks.tasks)
    abort = AsyncVerb(tasks.abort)
    claim = AsyncVerb(tasks.claim)
    start = AsyncVerb(tasks.start)
    attempt = AsyncVerb(tasks.attempt)
    heartbeat = AsyncVerb(tasks.heartbeat)
    report = AsyncVerb(tasks.report)
    exit = AsyncVerb(tasks.exit)
    release = AsyncVerb(tasks.release)


class Plans(Group):
    import_file = Verb(plans.import_file)
    import_text = Verb(plans.import_text)
    create = Verb(plans.create)
    get = Verb(plans.get)
    list = Listing(plans.plans)
    rename = Verb(plans.rename)
    pause = Verb(plans.pause)
    resume = Verb(plans.resume)
    abort = Verb(plans.abort)
    restart = Verb(plans.restart)
    confirm = Verb(plans.confirm)


class AsyncPlans(AsyncGroup):
    import_file = AsyncVerb(plans.import_file)
    import_text = AsyncVerb(plans.import_text)
    create = AsyncVerb(plans.create)
    get = AsyncVerb(plans.get)
    list = AsyncListing(plans.plans)
    rename = AsyncVerb(plans.rename)
    pause = AsyncVerb(plans.pause)
    resume = AsyncVerb(plans.resume)
    abort = AsyncVerb(plans.abort)
    restart = AsyncVerb(plans.restart)
    confirm = AsyncVerb(plans.confirm)


def _refuse_details_for_list(outcome: str | None, note: str | None) -> None:
    if outcome is not None or note is not None:
        raise TypeError("outcome and note apply to one instruction: acknowledge it separately")
