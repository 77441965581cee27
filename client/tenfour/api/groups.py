"""The client's methods by noun: instructions, tasks, plans, agents, sessions, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from tenfour import tasks
from tenfour.api import (
    agent_calls,
    calls,
    channel_calls,
    deadletter_calls,
    escalation_calls,
    event_calls,
    marker_calls,
    operation_calls,
    pattern_calls,
    plans,
    pool_calls,
    rule_calls,
    session_calls,
    webhook_calls,
)
from tenfour.api.settings import (
    budget_calls,
    on_call_calls,
    policy_calls,
    target_calls,
    token_calls,
)
from tenfour.http.exchange import Steps
from tenfour.http.verbs import D, Driven, Listing, Verb
from tenfour.models import Acked, Instruction

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tenfour.http.async_driver import AsyncDriver
    from tenfour.http.drivers import Driver

Ids = list[str] | tuple[str, ...]


class Agents(Driven[D]):
    list = Listing(agent_calls.agents)
    get = Verb(agent_calls.get)
    register = Verb(agent_calls.register)
    change = Verb(agent_calls.change)
    accounts = Listing(agent_calls.accounts)
    trip_breaker = Verb(agent_calls.trip_breaker)
    keep_breaker_open = Verb(agent_calls.keep_breaker_open)
    reset_breaker = Verb(agent_calls.reset_breaker)
    reset = Verb(agent_calls.reset)


class Pools(Driven[D]):
    list = Listing(pool_calls.pools)
    get = Verb(pool_calls.get)
    create = Verb(pool_calls.create)
    change = Verb(pool_calls.change)
    remove = Verb(pool_calls.remove)


class Instructions(Driven[D]):
    send = Verb(calls.send)
    pull = Verb(calls.pull)
    get = Verb(calls.get)
    cancel = Verb(calls.cancel)
    list = Listing(calls.instructions)

    @overload
    def ack(
        self: Instructions[Driver],
        ids: str,
        *,
        outcome: calls.Outcome | None = ...,
        note: str | None = ...,
    ) -> Instruction: ...

    @overload
    def ack(self: Instructions[Driver], ids: Ids) -> tuple[Acked, ...]: ...

    @overload
    def ack(
        self: Instructions[AsyncDriver],
        ids: str,
        *,
        outcome: calls.Outcome | None = ...,
        note: str | None = ...,
    ) -> Awaitable[Instruction]: ...

    @overload
    def ack(self: Instructions[AsyncDriver], ids: Ids) -> Awaitable[tuple[Acked, ...]]: ...

    def ack(
        self, ids: str | Ids, *, outcome: calls.Outcome | None = None, note: str | None = None
    ) -> Any:
        """Acknowledge one instruction, or a list with a result for each."""
        if isinstance(ids, str):
            return self._driver.run(self._core.perform(calls.ack(ids, outcome=outcome, note=note)))
        if outcome is not None or note is not None:
            raise TypeError("outcome and note apply to one instruction: acknowledge it separately")
        return self._driver.run(self._ack_all(ids))

    def _ack_all(self, ids: Ids) -> Steps[tuple[Acked, ...]]:
        acked: tuple[Acked, ...] = ()
        for call in calls.acks(ids):
            acked += yield from self._core.perform(call)
        return acked


class Tasks(Driven[D]):
    enqueue = Verb(tasks.enqueue)
    enqueue_many = Verb(tasks.enqueue_many)
    enqueue_and_claim = Verb(tasks.enqueue_and_claim)
    get = Verb(tasks.get)
    list = Listing(tasks.tasks)
    abort = Verb(tasks.abort)
    change = Verb(tasks.change)
    unblock = Verb(tasks.unblock)
    assign = Verb(tasks.assign)
    comment = Verb(tasks.comment)
    attempts = Listing(tasks.attempts)
    claim = Verb(tasks.claim)
    start = Verb(tasks.start)
    attempt = Verb(tasks.attempt)
    heartbeat = Verb(tasks.heartbeat)
    send_output = Verb(tasks.send_output)
    output = Verb(tasks.output)
    report = Verb(tasks.report)
    exit = Verb(tasks.exit)
    release = Verb(tasks.release)
    ask = Verb(tasks.ask)


class Plans(Driven[D]):
    import_file = Verb(plans.import_file)
    import_text = Verb(plans.import_text)
    create = Verb(plans.create)
    get = Verb(plans.get)
    forecast = Verb(plans.forecast)
    list = Listing(plans.plans)
    rename = Verb(plans.rename)
    change = Verb(plans.change)
    pause = Verb(plans.pause)
    resume = Verb(plans.resume)
    abort = Verb(plans.abort)
    restart = Verb(plans.restart)
    confirm = Verb(plans.confirm)


class Escalations(Driven[D]):
    get = Verb(escalation_calls.get)
    list = Listing(escalation_calls.escalations)
    resolve = Verb(escalation_calls.resolve)
    undo = Verb(escalation_calls.undo)
    withdraw = Verb(escalation_calls.withdraw)
    assign = Verb(escalation_calls.assign)
    snooze = Verb(escalation_calls.snooze)
    comment = Verb(escalation_calls.comment)


class DeadLetters(Driven[D]):
    get = Verb(deadletter_calls.get)
    list = Listing(deadletter_calls.dead_letters)
    replay = Verb(deadletter_calls.replay)
    dismiss = Verb(deadletter_calls.dismiss)
    close_many = Verb(deadletter_calls.close_many)
    assign = Verb(deadletter_calls.assign)
    comment = Verb(deadletter_calls.comment)


class Patterns(Driven[D]):
    list = Listing(pattern_calls.patterns)
    get = Verb(pattern_calls.get)
    failures = Listing(pattern_calls.failures)
    resolve = Verb(pattern_calls.resolve)
    ignore = Verb(pattern_calls.ignore)
    reopen = Verb(pattern_calls.reopen)
    retry = Verb(pattern_calls.retry)
    assign = Verb(pattern_calls.assign)
    comment = Verb(pattern_calls.comment)


class Tokens(Driven[D]):
    list = Listing(token_calls.tokens)
    get = Verb(token_calls.get)
    create = Verb(token_calls.create)
    rotate = Verb(token_calls.rotate)
    revoke = Verb(token_calls.revoke)


class Events(Driven[D]):
    list = Listing(event_calls.events)
    stream = Verb(event_calls.stream)


class Markers(Driven[D]):
    list = Listing(marker_calls.markers)
    create = Verb(marker_calls.create)
    delete = Verb(marker_calls.delete)


class StandingInstructions(Driven[D]):
    list = Listing(rule_calls.rules)
    get = Verb(rule_calls.get)
    create = Verb(rule_calls.create)
    change = Verb(rule_calls.change)
    pause = Verb(rule_calls.pause)
    resume = Verb(rule_calls.resume)
    retire = Verb(rule_calls.retire)
    try_saved = Verb(rule_calls.try_saved)
    hold = Verb(rule_calls.hold)


class Sessions(Driven[D]):
    list = Listing(session_calls.sessions)
    get = Verb(session_calls.get)
    create = Verb(session_calls.create)
    store_messages = Verb(session_calls.store_messages)
    messages = Listing(session_calls.messages)
    import_lines = Verb(session_calls.import_lines)
    tasks = Verb(session_calls.tasks)
    link_task = Verb(session_calls.link_task)
    status = Verb(session_calls.status)
    flush = Verb(session_calls.flush)
    retry = Verb(session_calls.retry)
    tools = Verb(session_calls.tools)
    call_tools = Verb(session_calls.call_tools)


class Operations(Driven[D]):
    list = Listing(operation_calls.operations)
    get = Verb(operation_calls.get)


class Policies(Driven[D]):
    get = Verb(policy_calls.get)
    change = Verb(policy_calls.change)


class EscalationPolicies(Driven[D]):
    list = Listing(on_call_calls.policies)
    get = Verb(on_call_calls.get_policy)
    create = Verb(on_call_calls.create_policy)
    change = Verb(on_call_calls.change_policy)
    delete = Verb(on_call_calls.delete_policy)


class Rotas(Driven[D]):
    list = Listing(on_call_calls.rotas)
    get = Verb(on_call_calls.get_rota)
    create = Verb(on_call_calls.create_rota)
    change = Verb(on_call_calls.change_rota)
    delete = Verb(on_call_calls.delete_rota)


class Budgets(Driven[D]):
    list = Listing(budget_calls.budgets)
    get = Verb(budget_calls.get)
    set = Verb(budget_calls.set)
    change = Verb(budget_calls.change)
    grant = Verb(budget_calls.grant)
    remove = Verb(budget_calls.remove)
    prices = Verb(budget_calls.prices)
    set_price = Verb(budget_calls.set_price)
    remove_price = Verb(budget_calls.remove_price)


class Targets(Driven[D]):
    list = Verb(target_calls.targets)
    set = Verb(target_calls.set)
    remove = Verb(target_calls.remove)


class Channels(Driven[D]):
    list = Listing(channel_calls.channels)
    get = Verb(channel_calls.get)
    create = Verb(channel_calls.create)
    change = Verb(channel_calls.change)
    enable = Verb(channel_calls.enable)
    disable = Verb(channel_calls.disable)
    delete = Verb(channel_calls.delete)
    test = Verb(channel_calls.test)


class Webhooks(Driven[D]):
    list = Listing(webhook_calls.webhooks)
    get = Verb(webhook_calls.get)
    create = Verb(webhook_calls.create)
    change = Verb(webhook_calls.change)
    enable = Verb(webhook_calls.enable)
    disable = Verb(webhook_calls.disable)
    delete = Verb(webhook_calls.delete)
    test = Verb(webhook_calls.test)
    rotate = Verb(webhook_calls.rotate)
    redeliver = Verb(webhook_calls.redeliver)
