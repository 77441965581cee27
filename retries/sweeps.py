"""The clock's entries by name; each is safe to run twice and in parallel."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error, close_old_connections
from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.errors import Refusal
from ledger.models import ClockRun, Project
from ledger.secrets.redaction import redacted
from ledger.standing_instructions import clock as rule_clock
from ledger.tasks.exclusive_files import mark_projects
from retries import reminders
from retries.attempts import leases
from retries.budgets import asking
from retries.escalations import expiry
from retries.failures import failure_counts, resigning
from retries.insight import clock
from retries.insight.forecasts import stored as forecasts
from retries.journal_readers import counts as activity_counts
from retries.journal_readers import metric_totals, new_words
from retries.notifications import tick
from retries.notifications.rules import watches
from retries.on_call import routing
from retries.operations import running
from retries.permissions import requests, rules
from retries.plans import completing
from retries.retention import journal_upkeep
from retries.retention import running as retention
from retries.sessions import sweeping

logger = logging.getLogger(__name__)


class UnknownEntry(Refusal):
    """Unknown clock entry"""

    code = "unknown_entry"


def run_idle_check(*, now: datetime, project: Project | None) -> dict[str, Any]:
    return asdict(reminders.retry_unacknowledged(now=now, project=project))


def count_activity(*, now: datetime, project: Project | None) -> dict[str, Any]:
    did = activity_counts.count_activity(now=now, project=project)
    return did | {"patterns": failure_counts.add_up_counts()}


def compute_insight(*, now: datetime, project: Project | None) -> dict[str, Any]:
    did = clock.compute_figures(now=now, project=project)
    signed = resigning.sign_old_failures() if project is None else 0
    return did | ({"signed": signed} if signed else {})


def process_escalations(*, now: datetime, project: Project | None) -> dict[str, Any]:
    of = project.id if project else None
    did = expiry.process_due(now=now, project=project)
    return did | {
        "withdrawn": requests.withdraw_silent(now=now, of=of),
        "rules_expired": rules.expire_unused(now=now, of=of),
        "budgets_asked": asking.ask_pending(now=now, project=project),
    }


def complete_plans(*, now: datetime, project: Project | None) -> dict[str, Any]:
    did = completing.complete_plans(now=now, project=project)
    marked = mark_projects() if project is None else 0
    return did | ({"marked": marked} if marked else {})


ENTRIES: dict[str, Callable[..., dict[str, Any]]] = {
    "idle_check": run_idle_check,
    "backoff": leases.note_due_retries,
    "expire_leases": leases.expire_leases,
    "breakers": leases.half_open_breakers,
    "plans": complete_plans,
    "escalations": process_escalations,
    "on_call": routing.take_due_steps,
    "standing_instructions": rule_clock.send_due,
    "conditions": watches.watch_conditions,
    "notifications": tick.process_due,
    "insight": compute_insight,
    "forecasts": forecasts.make_forecasts,
    "metrics": metric_totals.count_events,
    "activity": count_activity,
    "search_words": new_words.write_words,
    "sessions": sweeping.sweep_sessions,
    "operations": running.count_due,
    "retention": retention.delete_old,
    "journal": journal_upkeep.keep_months,
}


def run_due(name: str, *, every: timedelta, now: datetime | None = None) -> dict[str, Any] | None:
    """Run an entry if it is due; return its counts, or None if it ran just now."""
    # While processes are updated, a newer clock may ask for an entry that is not known here; a
    # worker of its version runs it next time.
    now = now or server_time.now()
    if name not in ENTRIES:
        logger.warning("The clock of another version asks for the entry '%s'. It was left.", name)
        return None
    # Two beats may tick together. Half an interval is the slack for a beat that is late.
    return run(name, now=now) if take_turns({name: now - every / 2}, now=now) else None


def run_frequent(*, now: datetime | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run those of `settings.FREQUENT` that are due; yield each that succeeded with its counts."""
    at = now or server_time.now()
    # They are asked every second, so half of that is the slack.
    befores = {
        name: at - timedelta(seconds=every - 0.5) for name, every in settings.FREQUENT.items()
    }
    taken = take_turns(befores, now=at)
    for name in settings.FREQUENT:
        if name not in taken:
            continue
        try:
            did = run(name, now=now)  # the one before may have taken long
        except Exception:
            logger.exception("the clock's entry '%s' failed", name)
            close_old_connections()  # or the entries after it would fail on a lost one, too
        else:
            yield name, did


# One statement for all entries, because it runs every second. An entry that another clock takes at
# this moment is left to that one. A time in the future, from before the clock was set back, counts
# as never.
TAKE = """with given as (
    select * from unnest(%(names)s::text[], %(befores)s::timestamptz[]) g (name, before)
), due as materialized (
    select g.name, g.before from given g left join ledger_clockrun c using (name)
    where c.name is null or not c.last_run_at > g.before
        or c.last_run_at > %(now)s + (%(now)s - g.before)
), free as materialized (
    select name, before from due
    where pg_try_advisory_xact_lock(hashtext('tenfour.clock.' || name))
), known as (
    update ledger_clockrun c set last_run_at = %(now)s, host_ahead_s = %(ahead)s
    from free f
    where c.name = f.name and (not c.last_run_at > f.before
        or c.last_run_at > %(now)s + (%(now)s - f.before))
    returning c.name
), new as (
    insert into ledger_clockrun (name, last_run_at, host_ahead_s, did)
    select name, %(now)s, %(ahead)s, '{}' from free
    where not exists (select from ledger_clockrun c where c.name = free.name)
    on conflict do nothing returning name
) select name from known union all select name from new"""


def take_turns(befores: dict[str, datetime], *, now: datetime) -> set[str]:
    """Record a run of each entry whose last one was not after its time; return their names."""
    # Jobs of two beats may be as far apart as a time lies back.
    rows = sql.run(
        TAKE,
        names=list(befores),
        befores=list(befores.values()),
        ahead=server_time.measure_difference(),
        now=now,
    )
    return {row["name"] for row in rows}


def run(
    name: str, *, now: datetime | None = None, project: Project | None = None
) -> dict[str, Any]:
    if name not in ENTRIES:
        raise UnknownEntry(f"The clock has no entry '{name}'; it has: {', '.join(ENTRIES)}.")
    now = now or server_time.now()
    started = time.perf_counter()
    # A run for one project is not a tick of the clock.
    is_tick = project is None
    try:
        did = ENTRIES[name](now=now, project=project)
    except Exception as error:
        if is_tick:
            with suppress(Error):  # the database may be what failed
                record_end(name, error=f"{type(error).__name__}: {error}", now=now)
        raise
    took_ms = round((time.perf_counter() - started) * 1000)
    if is_tick:
        record_end(name, now=now, error=did.get("error", ""), took_ms=took_ms, did=did)
    return did


# A run without a result keeps that of the run before.
RECORD = """insert into ledger_clockrun as c
    (name, last_run_at, last_success_at, failures, last_error, took_ms, did)
values (%(name)s, %(now)s, case when %(error)s = '' then %(now)s end, (%(error)s <> '')::int,
    %(error)s, %(took_ms)s, coalesce(%(did)s::jsonb, '{}'))
on conflict (name) do update set last_run_at = excluded.last_run_at,
    last_success_at = coalesce(excluded.last_success_at, c.last_success_at),
    failures = c.failures + excluded.failures, last_error = excluded.last_error,
    took_ms = coalesce(excluded.took_ms, c.took_ms),
    did = case when %(did)s::jsonb is null then c.did else excluded.did end"""


def record_end(
    name: str,
    *,
    now: datetime,
    error: str = "",
    took_ms: int | None = None,
    did: dict[str, Any] | None = None,
) -> None:
    """Record that an entry's run succeeded, or count its failure."""
    given = None if did is None else Jsonb(did)
    error = shorten_error(error)
    sql.run(RECORD, name=name, now=now, error=error, took_ms=took_ms, did=given)


def shorten_error(text: str) -> str:
    """Return an error's first line without secrets; PostgreSQL's other lines quote rows.

    >>> shorten_error("DataError: too long\\nDETAIL: Key (ref)=(x)")
    'DataError: too long'
    """
    line = text.replace("\0", "").strip().partition("\n")[0]
    return redacted(line)[: ClockRun.ERROR_LENGTH]
