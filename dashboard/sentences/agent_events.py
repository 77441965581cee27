"""Describe events of agents, tokens, projects and channels in sentences (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dashboard.sentences.event_sentence import (
    QUOTE,
    EventSentence,
    EventSubject,
    plain,
    unknown,
    who_of,
)
from dashboard.sentences.tasks import breaker_reason
from dashboard.wording.formatting import counted, describe_waiting
from ledger.journal import Kind
from ledger.models import Event
from ledger.values.text import truncate

# by measure: the kind of target, and how a case meets it
TARGETS = {"ack": ("", "acknowledged"), "wait": ("wait ", "claimed"), "run": ("run ", "ended")}
NAMED = 5  # of the agents that an event names


def describe_breaker_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, by_hand = who_of(event), about.agent, event.actor_type == "user"
    said = breaker_reason(event.data)
    because = f": {said}" if said else ""
    match event.kind:
        case Kind.AGENT_BREAKER_OPENED if by_hand:
            sentence = plain("c-open", actor, f"opened {agent}’s breaker", because)
        case Kind.AGENT_BREAKER_OPENED:
            sentence = plain("c-open", agent, "is on hold: its breaker opened", because)
        case Kind.AGENT_BREAKER_HALF_OPEN:
            sentence = plain("c-half", agent, "gets one probe attempt: its breaker is half open")
        case Kind.AGENT_BREAKER_KEPT_OPEN:
            sentence = plain("c-open", actor, f"set {agent}’s breaker to stay open", because)
        case _ if by_hand:
            sentence = plain("c-closed", actor, f"closed {agent}’s breaker")
        case _:
            sentence = plain("c-closed", agent, "recovered: its breaker closed")
    return replace(sentence, tone=BREAKER_TONES.get(Kind(event.kind), ""))


BREAKER_TONES = {
    Kind.AGENT_BREAKER_OPENED: "red",
    Kind.AGENT_BREAKER_KEPT_OPEN: "red",
    Kind.AGENT_BREAKER_HALF_OPEN: "amber",
    Kind.AGENT_BREAKER_CLOSED: "green",
}


def agent_of(event: Event, about: EventSubject) -> str:
    # An agent that is gone still has its name in the event.
    return about.agent or str(event.data.get("name", ""))


def describe_agent_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, data = who_of(event), agent_of(event, about), event.data
    if event.kind in BREAKER_TONES:
        return describe_breaker_event(event, about)
    match event.kind:
        case Kind.AGENT_REGISTERED:
            return plain("n-agents", actor, f"registered {agent}")
        case Kind.AGENT_PAUSED:
            because = f": {data['note']}" if data.get("note") else ""
            return plain("pause", actor, f"paused {agent}", because)
        case Kind.AGENT_RESUMED:
            return plain("play", actor, f"resumed {agent}")
        case kind if kind == Kind.AGENT_WAIT_SET or "waits_until" in data:
            # Earlier versions recorded it as AGENT_LIMITED.
            did = f"waits for a limit of the account {data.get('account')}"
            return replace(plain("clock", agent, did), tone="amber")
        case Kind.AGENT_LIMITED if "account" in data:
            name = data["account"] or "its own"
            return plain("n-agents", actor, f"set {agent}’s account to {name}")
        case Kind.AGENT_LIMITED:
            most = data.get("concurrency")
            may = counted(int(most), "attempt") if most else "unlimited"
            return plain("n-agents", actor, f"set {agent}’s concurrency to {may}")
        case Kind.AGENT_BRIEFED:
            did = "changed" if data.get("characters") else "cleared"
            return plain("n-agents", actor, f"{did} the system prompt of {agent}")
        case Kind.AGENT_TARGET_SET:
            return plain("s-acked", actor, describe_target(data, agent))
        case Kind.AGENT_RESET:
            cancelled = counted(int(data.get("cancelled") or 0), "instruction")
            return plain("s-aborted", actor, f"reset {agent}", f": {cancelled} cancelled")
        case Kind.AGENT_NEEDS_ATTENTION:
            return describe_attention(agent, str(data.get("message") or ""))
        case Kind.AGENT_SILENT:
            numbers = [int(data.get(name) or 0) for name in ("tasks", "waiting")]
            tail = f" while {describe_waiting(*numbers)} waited" if any(numbers) else ""
            return replace(plain("clock", agent, "has not called", tail), tone="amber")
        case Kind.AGENT_HEARD:
            return plain("beat", agent, "called again")
    return unknown(event)


def describe_target(data: Mapping[str, Any], owner: str) -> str:
    kind, done = TARGETS.get(data.get("measure", "ack"), ("", "ended"))
    if not data.get("percent"):
        return f"removed the {kind}target of {owner}"
    share = f"{data['percent']}% {done} within {data.get('within_s')} s"
    return f"set the {kind}target of {owner}: {share}"


def describe_attention(agent: str, message: str) -> EventSentence:
    does, quote = "waits for the person at its terminal", truncate(message, QUOTE)
    if not quote:
        return replace(plain("person", agent, does), tone="amber")
    return EventSentence("person", agent, f"{does}:", "amber", quote, "", f" · {does}")


def describe_pool_event(event: Event, about: EventSubject) -> EventSentence:
    actor, pool, data = who_of(event), agent_of(event, about), event.data
    match event.kind:
        case Kind.POOL_CREATED:
            return plain("n-agents", actor, f"created the pool {pool}")
        case Kind.POOL_REMOVED:
            moved = int(data.get("tasks") or 0)
            tail = f": {counted(moved, 'task')} went to {data.get('moved_to')}" if moved else ""
            return plain("s-aborted", actor, f"removed the pool {pool}", tail)
        case Kind.POOL_CHANGED if "added" in data:
            return plain("n-agents", actor, f"added {name_first(data['added'])} to {pool}")
        case Kind.POOL_CHANGED if "removed" in data:
            return plain("n-agents", actor, f"removed {name_first(data['removed'])} from {pool}")
        case Kind.POOL_CHANGED:
            return plain(
                "n-agents", actor, f"set who retries {pool}’s tasks", f": {data.get('retry_on')}"
            )
    return unknown(event)


def name_first(names: Sequence[str]) -> str:
    shown = ", ".join(str(name) for name in names[:NAMED])
    more = len(names) - NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown


def describe_limit_event(event: Event) -> EventSentence:
    name = f"the account {event.data.get('name', '')}".rstrip()
    if event.kind == Kind.LIMIT_REACHED:
        return replace(plain("clock", name, "is at its limit"), tone="amber")
    return plain("clock", name, "has room again")


def describe_budget_event(event: Event) -> EventSentence:
    actor, data = who_of(event), event.data
    name = str(data.get("name", ""))
    match event.kind:
        case Kind.BUDGET_SET:
            return plain("rule", actor, f"set a budget of {name}", f": {describe_limit(data)}")
        case Kind.BUDGET_REMOVED:
            return plain("rule", actor, f"removed a budget of {name}", f": {describe_limit(data)}")
        case Kind.BUDGET_GRANTED:
            return plain("plus", actor, f"granted {data.get('granted', 'more')} to {name}")
        case Kind.BUDGET_NEAR:
            return describe_use(data, "has used", tone="amber")
        case Kind.BUDGET_REACHED:
            return describe_use(data, "has used up a budget:", tone="red")
        case Kind.PRICE_SET:
            since = f" from {data.get('starts_on')} on" if data.get("starts_on") else ""
            return plain("rule", actor, f"set the price of {name}", since)
        case Kind.PRICE_REMOVED:
            return plain("rule", actor, f"removed the price of {name}")
    return unknown(event)


def describe_use(data: dict[str, Any], did: str, *, tone: str) -> EventSentence:
    # The log shows no subject of it.
    name = str(data.get("name", ""))
    owner, does = f"{name[:1].upper()}{name[1:]}", f"{did} {describe_used(data)}"
    return replace(plain("clock", owner, does), tone=tone, note=f"{owner} {does}")


def describe_used(data: dict[str, Any]) -> str:
    used = float(data.get("used") or 0)
    number = f"{used:,.2f}" if data.get("unit") == "usd" else f"{used:,.0f}"
    return f"{number} of {describe_limit(data)}"


def describe_limit(data: dict[str, Any]) -> str:
    number = float(data.get("limit") or 0)
    limit = f"{number:,.2f} USD" if data.get("unit") == "usd" else f"{number:,.0f} tokens"
    return f"{limit} {'per day' if data.get('period') == 'day' else 'in total'}"


def describe_project_event(event: Event) -> EventSentence:
    actor, data = who_of(event), event.data
    match event.kind:
        case Kind.PROJECT_CREATED:
            return plain("project", actor, f"created the project {data.get('name', '')}".rstrip())
        case Kind.PROJECT_DELETION_STARTED:
            return plain("project", actor, "started to delete the project")
        case Kind.PROJECT_POLICIES_CHANGED:
            changed = ", ".join(
                f"{name.replace('_', ' ')} to {describe_setting(value)}"
                for name, value in sorted(data.items())
                if name != "reason"
            )
            reason = f": {data['reason']}" if data.get("reason") else ""
            return plain("project", actor, f"set the policies {changed}", reason)
        case Kind.PROJECT_TARGET_SET:
            noun = "plan" if data.get("plan") else "type"
            does = describe_target(data, f"the {noun} {data.get(noun, '')}")
            return plain("s-acked", actor, does)
        case Kind.PROJECT_TYPE_PAUSED | Kind.PROJECT_TYPE_RESUMED:
            did = "paused" if event.kind == Kind.PROJECT_TYPE_PAUSED else "resumed"
            note = f": {data['note']}" if data.get("note") else ""
            does = f"{did} tasks of the type {data.get('type', '')}"
            return plain("pause" if did == "paused" else "play", actor, does, note)
        case Kind.PROJECT_EXPERIMENT_STARTED | Kind.PROJECT_EXPERIMENT_ENDED:
            did = "started" if event.kind == Kind.PROJECT_EXPERIMENT_STARTED else "ended"
            element = str(data.get("element") or "?").replace("_", " ")
            reason = truncate(str(data.get("reason") or ""), QUOTE)
            does = f"{did} the experiment without {element}:"
            return EventSentence("f-verify", actor, does, "", reason)
    return unknown(event)


def describe_setting(value: Any) -> str:
    """Return a setting's value as a sentence has it.

    >>> describe_setting("all"), describe_setting(["a", "b"]), describe_setting([])
    ('all', 'a, b', 'none')
    """
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def describe_token_event(event: Event, about: EventSubject) -> EventSentence:
    actor, data = who_of(event), event.data
    token = describe_token(agent_of(event, about), data)
    match event.kind:
        case Kind.TOKEN_CREATED:
            scopes = data.get("scopes")
            with_scopes = f" with {', '.join(map(str, scopes))}" if scopes else ""
            return plain("key", actor, f"created {token}{with_scopes}")
        case Kind.TOKEN_REVOKED:
            return plain("key", actor, f"revoked {token}")
        case Kind.TOKEN_ROTATED:
            return plain("key", actor, f"rotated {token}")
        case Kind.TOKEN_USED_IN_BULK:
            done = f"{data.get('done', 'changed')} {counted(int(data.get('count') or 0), 'row')}"
            if "noun" in data:
                done = describe_token_use(data)
            return plain("key", actor, f"{done} with one call")
    return unknown(event)


def describe_token_use(data: dict[str, Any]) -> str:
    """Return what a token did to tasks or patterns: `assigned 1 task (0198…) to ben`."""
    ids, count = ", ".join(map(str, data.get("ids") or ())), int(data.get("count") or 0)
    to = f" to {data['to'] or 'no one'}" if "to" in data else ""
    return f"{data.get('done')} {counted(count, str(data['noun']))} ({ids}){to}"


def describe_token(agent: str, data: dict[str, Any]) -> str:
    """Return a token's owner or kind, and its prefix: `coder’s token, tf_1a2…`."""
    kind = str(data.get("kind", ""))
    article = "an" if kind[:1] in "aeiou" else "a"
    token = f"{agent}’s token" if agent else f"{article} {kind} token" if kind else "a token"
    return f"{token}, {data['prefix']}…" if data.get("prefix") else token
