"""The clock's entries by name; each is safe to run twice and in parallel."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import Error, connection, transaction
from django.db.models import F

from ledger.database import server_time
from ledger.errors import Refusal
from ledger.models import ClockRun, Project
from ledger.secrets.redaction import redacted
from ledger.standing_instructions import clock as rule_clock
from retries import reminders
from retries.attempts import leases
from retries.escalations import expiry
from retries.failures import failure_counts, resigning
from retries.insight import clock
from retries.journal_readers import counts as activity_counts
from retries.journal_readers import metric_totals, new_words
from retries.notifications import tick
from retries.notifications.rules import watches
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
    }


ENTRIES: dict[str, Callable[..., dict[str, Any]]] = {
    "idle_check": run_idle_check,
    "backoff": leases.note_due_retries,
    "expire_leases": leases.expire_leases,
    "breakers": leases.half_open_breakers,
    "plans": completing.complete_plans,
    "escalations": process_escalations,
    "standing_instructions": rule_clock.send_due,
    "conditions": watches.watch_conditions,
    "notifications": tick.process_due,
    "insight": compute_insight,
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
    return run(name, now=now) if take_turn(name, before=now - every / 2, now=now) else None


def take_turn(name: str, *, before: datetime, now: datetime) -> bool:
    """Record this run of an entry unless its last one was after `before`; return whether it did."""
    # Jobs of two beats may be as far apart as `before` lies back.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("select pg_try_advisory_xact_lock(hashtext(%s))", [f"tenfour.clock.{name}"])
        if not cursor.fetchone()[0]:
            return False
        run, is_new = ClockRun.objects.get_or_create(name=name, defaults={"last_run_at": now})
        # A time in the future, from before the clock was set back, counts as never.
        if not is_new and before < run.last_run_at <= now + (now - before):
            return False
        ClockRun.objects.filter(name=name).update(
            last_run_at=now, host_ahead_s=server_time.measure_difference()
        )
        return True


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
                record_end(name, {}, error=f"{type(error).__name__}: {error}", now=now)
        raise
    took_ms = round((time.perf_counter() - started) * 1000)
    if is_tick:
        record_end(name, {"took_ms": took_ms, "did": did}, error=did.get("error", ""), now=now)
    return did


def record_end(name: str, values: dict[str, Any], *, error: str, now: datetime) -> None:
    """Record that an entry's run succeeded, or count its failure."""
    values |= {"last_run_at": now, "last_error": shorten_error(error)}
    again: dict[str, Any] = {"failures": F("failures") + 1} if error else {"last_success_at": now}
    first: dict[str, Any] = {"failures": 1} if error else {"last_success_at": now}
    ClockRun.objects.update_or_create(
        name=name, defaults=values | again, create_defaults=values | first
    )


def shorten_error(text: str) -> str:
    """Return an error's first line without secrets; PostgreSQL's other lines quote rows.

    >>> shorten_error("DataError: too long\\nDETAIL: Key (ref)=(x)")
    'DataError: too long'
    """
    line = text.replace("\0", "").strip().partition("\n")[0]
    return redacted(line)[: ClockRun.ERROR_LENGTH]
