"""Words of tasks, instructions and failures, as PostgreSQL finds them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from ledger import search_words
from ledger.models import Agent, Task
from ledger.models.search_words import TaskWords
from tests.dashboard.worked import enqueued, make_task
from tests.factories import send

pytestmark = pytest.mark.django_db


FOUND = {
    **dict.fromkeys(("lxml", "LXM", "xml", "xml.etree", "xml.et", "replace xml", "Ünicode"), True),
    **dict.fromkeys(("ünicode", "task-71", "05-01:task-7", "co", "sepa_export"), True),
    **dict.fromkeys(("etree xml", "tree", "' & !q:*", "\\'; drop table ledger_task; --"), False),
    **dict.fromkeys(("\u202e", "", "a" * 300), False),
}


def test_a_word_is_the_start_of_a_word(agent: Agent) -> None:
    title = "Replace xml.etree with lxml in sepa_export, Ünicode <script> 05-01:task-71"
    id = enqueued(agent, title, now=timezone.now(), type="code")
    for word, found in FOUND.items():
        rows = list(search_words.find_tasks(word).values_list("task", flat=True))
        assert rows == [id] * found, word


def test_triggers_follow_titles(agent: Agent) -> None:
    id = enqueued(agent, "first", now=timezone.now())
    Task.objects.filter(pk=id).update(title="second")
    assert not search_words.find_tasks("first").exists()
    assert search_words.find_tasks("second").exists()


def test_words_of_instructions_and_failures(agent: Agent) -> None:
    id = send(agent, "Rebase on main, then push")
    assert [each.pk for each in search_words.find_instructions("rebase on")] == [id]
    why = {"message": "ModuleNotFoundError: No module named 'lxml'", "type": "verification_failed"}
    task = make_task("failed", agent=agent, now=timezone.now(), why=why)
    for word in ("modulenotfound", "named 'lxml'", "verification_failed"):
        assert [each.task_id for each in search_words.find_failures(word)] == [task.pk], word


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        (lambda: search_words.find_tasks("rare"), "task_words"),
        (lambda: search_words.find_instructions("rare"), "instruction_words"),
        (lambda: search_words.find_failures("rare"), "failure_words"),
    ],
)
def test_a_search_uses_the_index(rows: Callable[[], QuerySet[Any]], index: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        sql, params = rows().query.sql_with_params()
        cursor.execute(f"explain {sql}", params)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert f"Bitmap Index Scan on {index}" in plan


def test_a_change_of_state_writes_no_words(agent: Agent) -> None:
    id = enqueued(agent, "kept", now=timezone.now())
    before = TaskWords.objects.values_list("pk").extra(select={"at": "xmin::text"}).get()
    Task.objects.filter(pk=id).update(title="kept", priority=3)
    assert TaskWords.objects.values_list("pk").extra(select={"at": "xmin::text"}).get() == before
