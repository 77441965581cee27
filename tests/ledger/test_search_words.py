"""Words of tasks, instructions and failures, as PostgreSQL finds them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from ledger import search_words
from ledger.models import Agent, Task
from ledger.models.bookkeeping import InstructionWords, TaskWords
from retries.journal_readers import new_words
from tests.dashboard.worked import enqueued, make_task
from tests.factories import send

pytestmark = pytest.mark.django_db


FOUND = {
    **dict.fromkeys(("lxml", "LXM", "xml", "xml.etree", "xml.et", "replace xml", "Ünicode"), True),
    **dict.fromkeys(("ünicode", "task-71", "05-01:task-7", "co", "sepa_export"), True),
    **dict.fromkeys(("etree xml", "tree", "' & !q:*", "\\'; drop table ledger_task; --"), False),
    **dict.fromkeys(("\u202e", "", "a" * 300), False),
}


# which index has the ids depends on the statistics
NEW_ROWS = r"Index Cond: .*\bid >= "


def explain(rows: QuerySet[Any]) -> str:
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        cursor.execute("set local enable_indexscan = off")  # an index of words has bitmaps only
        sql, params = rows.query.sql_with_params()
        cursor.execute(f"explain {sql}", params)
        return "\n".join(row[0] for row in cursor.fetchall())


def uuid7_in(interval: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("select uuidv7(%s::interval)", [interval])
        return cursor.fetchone()[0]


def find_tasks(word: str) -> list[Any]:
    return [id for (id,) in search_words.find_tasks(word)]


def test_a_word_is_the_start_of_a_word(agent: Agent) -> None:
    title = "Replace xml.etree with lxml in sepa_export, Ünicode <script> 05-01:task-71"
    id = enqueued(agent, title, now=timezone.now(), type="code")
    for word, found in FOUND.items():
        assert find_tasks(word) == [id] * found, word


@pytest.mark.django_db(transaction=True)
def test_the_clock_writes_the_words_of_new_rows(agent: Agent) -> None:
    """A row is found once, before its words are written and after, also if it was renamed."""
    renamed = enqueued(agent, "renamed at once", now=timezone.now())
    Task.objects.filter(pk=renamed).update(title="other")
    first = enqueued(agent, "first", now=timezone.now())
    told = send(agent, "Rebase on main, then push")
    for written in (1, 3):
        assert TaskWords.objects.count() + InstructionWords.objects.count() == written
        assert find_tasks("renamed") == [] and find_tasks("other") == [renamed]
        assert find_tasks("first") == [first]
        assert list(search_words.find_instructions("rebase on")) == [(told,)]
        new_words.write_words(now=timezone.now())
    assert new_words.write_words(now=timezone.now()) == {"batches": 0}
    late = enqueued(agent, "late", now=timezone.now())
    Task.objects.filter(pk=first).update(title="second")
    assert (find_tasks("late"), find_tasks("first")) == ([late], [])
    assert find_tasks("second") == [first]


def test_only_new_rows_are_read_themselves(agent: Agent) -> None:
    """A row without words is not found when a row that is a minute younger has its words."""
    old = enqueued(agent, "forgotten", now=timezone.now())
    assert find_tasks("forgotten") == [old]
    TaskWords.objects.create(task_id=uuid7_in("59 seconds"), words="")
    assert find_tasks("forgotten") == [old]
    TaskWords.objects.create(task_id=uuid7_in("2 minutes"), words="")
    assert find_tasks("forgotten") == []


def test_words_of_failures(agent: Agent) -> None:
    why = {"message": "ModuleNotFoundError: No module named 'lxml'", "type": "verification_failed"}
    task = make_task("failed", agent=agent, now=timezone.now(), why=why)
    for word in ("modulenotfound", "named 'lxml'", "verification_failed"):
        assert [each.task_id for each in search_words.find_failures(word)] == [task.pk], word


@pytest.mark.parametrize(
    ("rows", "scans"),
    [
        (lambda: search_words.find_tasks("rare"), ("Bitmap Index Scan on task_words", NEW_ROWS)),
        (
            lambda: search_words.find_instructions("rare"),
            ("Bitmap Index Scan on instruction_words", NEW_ROWS),
        ),
        (lambda: search_words.find_failures("rare"), ("Bitmap Index Scan on failure_search",)),
    ],
)
def test_a_search_uses_the_indexes(
    rows: Callable[[], QuerySet[Any]], scans: tuple[str, ...]
) -> None:
    plan = explain(rows())
    assert [scan for scan in scans if not re.search(scan, plan)] == [], plan
    assert "Seq Scan" not in plan


def test_a_change_of_state_writes_no_words(agent: Agent) -> None:
    id = enqueued(agent, "kept", now=timezone.now())
    Task.objects.filter(pk=id).update(title="kept", priority=3)
    assert not TaskWords.objects.exists()
