"""Find tasks by the values at declared keys of their payloads and results, as they are stored.

The clock writes a digest of each value, so that a write costs nothing more. Until then a search
reads the tasks of the unread events. The stored values decide: a digest may be stale.
"""

import re
import time
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, F, Func, Q, UUIDField, Value
from django.db.models.expressions import RawSQL

from ledger.database import server_time, sql
from ledger.errors import Invalid
from ledger.journal import Cursor, Kind, since_position
from ledger.models import Project
from ledger.models.fields import IsAmong
from ledger.secrets.redaction import redacted
from ledger.values.ids import SLACK, first_id
from retries.journal_readers.positions import IN_BATCH, ensure_cursor

READER = "search_words"  # the cursor of `new_words`
KEY = re.compile(r"(?:payload|result)(?:\.[A-Za-z0-9_-]{1,40}+){1,4}+", re.ASCII)
MOST_KEYS, KEY_LENGTH = 8, 100
BATCH = 2_000
COMMON = 10_000
FILLING_S = 2.0
MOST_FRESH = 50_000  # unread events that a search reads, if the clock was stopped
KINDS = sql.quoted((Kind.TASK_CREATED, Kind.TASK_CHANGED, Kind.TASK_COMPLETED))

WRITE = """insert into ledger_taskvalue (digest, task_id)
select distinct ledger_value_digest(t.project_id, k.key, v.value), t.id
from ledger_task t join ledger_project p on p.id = t.project_id
    cross join unnest(p.search_keys) k(key)
    cross join ledger_stored_values(t.payload, t.result, k.key) v(value)
where t.id in ({})
on conflict do nothing""".format
CHANGED = f"""e.subject_type = 'task' and e.kind in ({KINDS})
    and e.project_id in (select id from ledger_project where search_keys <> '{{}}')"""
WRITE_BATCH = WRITE(f"select e.subject_id from ledger_event e where {IN_BATCH} and {CHANGED}")
FILL = f"""with batch as materialized (
    select id from ledger_task where project_id = %(project)s and id < %(before)s
    order by id desc limit %(most)s
), written as ({WRITE("select id from batch")})
select count(*) = %(most)s as more, (select id from batch order by id limit 1) as before from batch
"""
# the projects that have declared the key, or one of them
WITH_VALUE = """select v.task_id from ledger_taskvalue v where v.digest = any(array(
    select ledger_value_digest(p.id, {key}, {value}) from ledger_project p
    where {key} = any(p.search_keys) and p.id = coalesce({project}, p.id)))""".format
CURSOR = f"(select {{}} from retries_streamcursor where name = '{READER}')".format
READ = CURSOR("event_id")
FRESH = f"""(select e.subject_id from ledger_event e
    where (e.tx, e.id) > ({CURSOR("tx::text::xid8")}, {READ})
        and e.id >= {since_position(READ)} and {CHANGED} limit {MOST_FRESH})"""
FIND = f"array({WITH_VALUE(key='%s', value='%s', project='%s')} union {FRESH})"
COUNT = f"""select count(*) as n from (
    {WITH_VALUE(key="%(key)s", value="%(value)s", project="%(project)s::uuid")} limit %(most)s
) found"""


# ---- search


def check_task(key: str, project: Project | None, value: str) -> Q:
    """Return the condition that a task's project declares the key, and the task has the value."""
    return Q(project__search_keys__contains=[key]) & has_value(key, value)


def match_task(key: str, project: Project | None, value: str) -> Q:
    """Return the condition of `check_task`, answered by the index of digests."""
    found = RawSQL(  # noqa: S611 - the values are parameters
        FIND, (key, value, key, project.pk if project else None), UUIDField()
    )
    return Q(IsAmong("id", found)) & has_value(key, value)


def match_newest(key: str, project: Project, value: str) -> Q:
    """Return the condition that finds the newest tasks sooner: per row if many have the value."""
    is_common = count_tasks(key, [value], project, COMMON + 1) > COMMON
    return (check_task if is_common else match_task)(key, project, value)


def has_value(key: str, value: str) -> Q:
    stored: tuple[Any, ...] = (F("payload"), F("result"), Value(key), Value(value))
    return Q(Func(*stored, function="ledger_has_value", output_field=BooleanField()))


def count_tasks(key: str, values: Iterable[str], project: Project | None, most: int) -> int:
    count = partial(count_value, key, project.pk if project else None, most)
    return min(sum(map(count, values)), most)


def count_value(key: str, project_id: UUID | None, most: int, value: str) -> int:
    found = sql.run_custom_plan(COUNT, key=key, value=value, project=project_id, most=most)
    return int(found[0]["n"])


def list_keys(project: Project | None) -> set[str]:
    """Return the keys that a project declares, or that any does."""
    rows = Project.objects.filter(pk=project.pk) if project else Project.objects.all()
    return {key for keys in rows.values_list("search_keys", flat=True) for key in keys}


def read_term(term: str, project: Project) -> tuple[str, str]:
    """Return the key and the value of `payload.order:1284`; raise Invalid for an unknown key."""
    key, _, value = term.partition(":")
    if key not in project.search_keys:
        known = ", ".join(project.search_keys) or "none"
        raise Invalid("/value", f"The project doesn't declare '{key}'. Declared keys: {known}.")
    return key, value


# ---- the keys of a project


def clean_keys(keys: Collection[str]) -> list[str]:
    cleaned = list(dict.fromkeys(key.strip() for key in keys if key.strip()))
    for key in cleaned:
        if len(key) > KEY_LENGTH or not KEY.fullmatch(key) or redacted(key) != key:
            raise Invalid(
                "/search_keys",
                "Write each key as payload.order or result.customer.id: one to four names of "
                f"letters, digits, _ and -, and at most {KEY_LENGTH} characters.",
            )
    if len(cleaned) > MOST_KEYS:
        raise Invalid("/search_keys", f"A project can declare at most {MOST_KEYS} keys.")
    return cleaned


def declare(project: Project, keys: list[str]) -> None:
    """Set a project's keys. The clock adds its older tasks, the newest first."""
    added, now = set(keys) - set(project.search_keys), server_time.now()
    project.search_keys = keys
    if added:
        ensure_cursor(READER, start=Cursor(), now=now)
        project.fills_values_before = first_id(now + SLACK)
    project.save(update_fields=["search_keys", "fills_values_before"])


# ---- the clock


def write_batch(between: dict[str, str]) -> None:
    sql.run(WRITE_BATCH, **between)


def fill() -> int:
    batches, until = 0, time.monotonic() + FILLING_S
    while time.monotonic() < until and fill_batch():
        batches += 1
    return batches


@transaction.atomic
def fill_batch() -> bool:
    rows = Project.objects.exclude(fills_values_before=None).order_by("pk")
    project = rows.select_for_update(skip_locked=True, no_key=True).first()
    if project is None:
        return False
    before = project.fills_values_before
    found = sql.run(FILL, project=project.pk, before=before, most=BATCH)[0]
    project.fills_values_before = found["before"] if found["more"] else None
    project.save(update_fields=["fills_values_before"])
    return True
