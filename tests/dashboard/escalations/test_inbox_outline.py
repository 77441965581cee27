"""The groups of the inbox are kept while no escalation changes, and no table is read whole."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from dashboard.escalations.inbox import lines as inbox_lines
from dashboard.escalations.inbox.outline import Outline
from ledger.database import optional_cache
from ledger.journal import Actor, Stamp
from ledger.models import Agent
from retries.escalations import assignment, snoozing
from retries.failures.fixes import statements as fix_statements
from retries.models import Escalation
from tests.dashboard.escalations.test_escalations import URL, jonas_answers
from tests.dashboard.escalations.test_inbox import LXML, TABLE, escalated, groups
from tests.dashboard.worked import enqueued

LARGE = ("ledger_task", "ledger_failure", "ledger_attempt", "ledger_need", "retries_grouped")
HOUR = timedelta(hours=1)


def outline(*groups: int) -> tuple[Outline, list[UUID]]:
    ids = [uuid4() for _ in range(sum(groups))]
    sizes = [(str(number), count) for number, count in enumerate(groups)]
    order = b"".join(id.bytes for id in ids)
    return Outline([], sizes, order, len(ids), {}, {}, [], [], [], 0, 0), ids


def test_places_and_neighbors() -> None:
    found, ids = outline(3, 1, 2)
    places = [found.find_place(id) for id in ids]
    assert [each and (each.number, each.key) for each in places] == [
        (1, "0"), (2, "0"), (3, "0"), (4, "1"), (5, "2"), (6, "2")
    ]  # fmt: skip
    assert [each and each.next for each in places] == [
        ids[1], ids[2], ids[0], ids[4], ids[5], ids[4]
    ]  # fmt: skip
    assert places[0] and (places[0].before, places[0].after) == (None, ids[1])
    assert places[5] and (places[5].before, places[5].after) == (ids[4], None)
    assert found.find_place(uuid4()) is None
    alone, (id,) = outline(1)
    assert alone.find_place(id) and alone.find_place(id).next is None  # type: ignore[union-attr]
    # bytes that look like an id, across two of them
    across = UUID(bytes=ids[0].bytes[8:] + ids[1].bytes[:8])
    assert found.find_index(across) is None


@pytest.mark.django_db
def test_the_groups_are_kept_until_an_escalation_changes(
    browser: Client, mara: User, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow they are, what a person changes is shown at once."""
    made = [escalated(agent, f"t{n}", LXML, now=now - n * HOUR) for n in range(3)]
    monkeypatch.setattr(optional_cache, "FRESH_SECONDS", -1)
    monkeypatch.setattr(optional_cache, "WORTH", 10**9)
    stamp, every = Stamp(Actor("user", str(mara.pk), "mara"), now), Escalation.objects.all()
    assert groups(browser.get(URL))[0][1:] == (3, 0)
    enqueued(agent, "waits", now=now, needs=[made[0].task_id])
    assert groups(browser.get(URL))[0][1:] == (3, 0), "as old as other cached counts"
    assignment.assign(made[0].pk, "mara", among=every, stamp=stamp)
    page = browser.get(URL)
    assert groups(page)[0][1:] == (3, 1)
    assert {each.label: each.count for each in page.context["inbox"].chips}["Assigned to me"] == 1
    snoozing.snooze(made[1].pk, now + HOUR, among=every, stamp=stamp)
    assert groups(browser.get(URL))[0][1] == 2
    escalated(agent, "new", LXML, now=now - 5 * HOUR)
    assert groups(browser.get(URL))[0][1] == 3
    jonas_answers(made[0], "retry", now - HOUR)  # a clock that is behind
    assert groups(browser.get(URL))[0][1] == 2


@pytest.mark.django_db
def test_no_table_is_read_whole(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of a large table is found by an index, whatever the planner thinks of the sizes."""
    made = escalated(agent, "t", LXML, now=now)
    escalated(agent, "u", TABLE, now=now)
    enqueued(agent, "waits", now=now, needs=[made.task_id])
    sent: list[tuple[Any, Any]] = []
    execute = psycopg.Cursor.execute

    def execute_and_note(cursor: Any, query: Any, params: Any = None, **more: Any) -> Any:
        sent.append((query, params))
        return execute(cursor, query, params, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", execute_and_note)
        browser.get(URL, {"q": "reason:failed"})
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text, _ in sent]
    assert len(sent) <= 15, texts
    (wanted,) = [each for each in sent if "waits as materialized" in str(each[0])]
    for statement, params, part in (
        (*wanted, None),
        (inbox_lines.LINES, {"ids": [made.pk], "now": now}, None),
        (fix_statements.PLAIN, {"patterns": [made.pk]}, None),
        (fix_statements.OF_FAILURES, {"failures": [made.pk]}, "CTE failed"),
    ):
        assert walked(statement, params, part) == [], statement


def walked(statement: Any, params: dict[str, Any], part: str | None) -> list[str]:
    """Return the large tables that a plan, or a part of it, reads without any condition.

    A planner that expects many rows joins whole tables; only lookups with a limit keep it from it.
    """
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        cursor.execute("set local enable_nestloop = off")
        cursor.execute("explain (format json) " + statement, params)
        (plans,) = cursor.fetchone() or ()
    (plan,) = json.loads(plans) if isinstance(plans, str) else plans
    parts = [plan["Plan"]] if part is None else find_parts(plan["Plan"], part)
    assert parts
    return sorted({table for each in parts for table in list_walked(each)})


def find_parts(plan: dict[str, Any], name: str) -> list[dict[str, Any]]:
    if plan.get("Subplan Name") == name:
        return [plan]
    return [found for part in plan.get("Plans", ()) for found in find_parts(part, name)]


def list_walked(plan: dict[str, Any]) -> list[str]:
    found = [table for part in plan.get("Plans", ()) for table in list_walked(part)]
    is_walk = plan.get("Relation Name") in LARGE and not (
        plan.get("Index Cond") or plan.get("Recheck Cond") or plan.get("Filter")
    )
    return [*found, plan["Relation Name"]] if is_walk else found
