"""The counts of failures by pattern and agent: exact at any time, and few rows once added up."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction

from ledger.models import Agent
from retries import sweeps
from retries.failures import failure_counts, figures
from retries.failures.failure_counts import add_up_counts
from retries.failures.figures import Total
from retries.models import FailureCount, FailurePattern, Grouped, PastFailures
from tests.elsewhere import at_once, blocked
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.failures.test_grouping import broken
from tests.retries.failures.test_pattern_merging import LINE, only_current
from tests.statement_plans import plan_of, prepared
from tests.waiting import PATIENCE_S

Elsewhere = Callable[[Callable[[], Any]], Future[Any]]
MIGRATION = import_module("retries.migrations.0019_squashed_0025_attempt_diff")


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def count_all() -> dict[str, tuple[int, dict[str, int]]]:
    """The total and the failures of each agent of every pattern, by its template."""
    names = dict(Agent.objects.values_list("pk", "name"))
    found = {}
    for row in FailurePattern.objects.current():
        total = figures.count_failures([row.pk]).get(row.pk, Total(0, NOW))
        by_agent = figures.count_by_agent(row.pk, most=99)
        assert sorted(names[id] for id in by_agent) == figures.list_agent_names([row.pk])[row.pk]
        found[row.template] = (total.total, {names[id]: n for id, n in by_agent.items()})
    return found


@pytest.mark.django_db
def test_each_failure_counts_and_the_clock_adds_them_up(agent: Agent) -> None:
    other = make_agent("reviewer")
    for n in range(3):
        broken(agent, now=NOW + n * MINUTE)
    broken(other, now=NOW + 9 * MINUTE)
    broken(other, "disk full")
    expected = {
        "Cannot find module ‹text›": (4, {"coder": 3, "reviewer": 1}),
        "disk full": (1, {"reviewer": 1}),
    }
    assert count_all() == expected and FailureCount.objects.count() == 5
    assert sweeps.run("activity", now=NOW)["patterns"] == 2
    assert count_all() == expected and FailureCount.objects.count() == 3
    first = FailurePattern.objects.get(template__startswith="Cannot")
    assert figures.count_failures([first.pk])[first.pk].last_at == NOW + 9 * MINUTE
    # what is added up is not read again
    before = set(FailureCount.objects.values_list("id", flat=True))
    assert add_up_counts() == 0
    broken(agent, now=NOW + 10 * MINUTE)
    assert add_up_counts() == 1 and FailureCount.objects.count() == 3
    assert len(before & set(FailureCount.objects.values_list("id", flat=True))) == 2
    assert count_all()["Cannot find module ‹text›"] == (5, {"coder": 4, "reviewer": 1})


@pytest.mark.django_db
def test_many_patterns_are_added_up_in_batches(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("disk full", "no memory", "no such host"):
        broken(agent, name)
        broken(make_agent(name.replace(" ", "-")), name)
    batch = failure_counts.NEW.replace(str(failure_counts.BATCH_SIZE), "3")
    assert batch != failure_counts.NEW
    monkeypatch.setattr(failure_counts, "NEW", batch)
    expected = count_all()
    assert add_up_counts() == 3 and not FailureCount.objects.filter(is_sum=False).exists()
    assert count_all() == expected


@pytest.mark.django_db
def test_rows_of_one_insert_are_counted_together(agent: Agent) -> None:
    for _ in range(3):
        broken(agent)
    execute("""create temp table kept on commit drop as select * from retries_grouped;
        delete from retries_grouped; delete from retries_failurecount;
        insert into retries_grouped select * from kept""")
    assert Grouped.objects.count() == 3 and FailureCount.objects.get().failures == 3


@pytest.mark.django_db
@pytest.mark.parametrize("is_added_up", [False, True])
def test_a_merge_moves_the_counts(agent: Agent, is_added_up: bool) -> None:
    other = make_agent("reviewer")
    for whose, name in ((agent, "ada"), (agent, "ada"), (other, "ada"), (other, "joe")):
        broken(whose, LINE.format(name))
    if is_added_up:
        add_up_counts()
    broken(agent, LINE.format("mara"))
    expected = (5, {"coder": 3, "reviewer": 2})
    assert count_all() == {only_current().template: expected}
    assert set(FailureCount.objects.values_list("pattern", flat=True)) == {only_current().pk}
    add_up_counts()
    assert count_all() == {only_current().template: expected} and FailureCount.objects.count() == 2


@pytest.mark.django_db
def test_projects_are_counted_apart(agent: Agent) -> None:
    there = make_agent("coder", project=make_project("elsewhere"))
    for whose in (agent, there, there):
        broken(whose)
    add_up_counts()
    totals = figures.count_failures(FailurePattern.objects.values_list("pk", flat=True))
    mine = FailurePattern.objects.get(project=agent.project)
    assert totals.pop(mine.pk).total == 1 and [each.total for each in totals.values()] == [2]


# ---- at the same time


@pytest.mark.django_db(transaction=True)
def test_the_clock_waits_for_a_merge(agent: Agent, elsewhere: Elsewhere) -> None:
    for name in ("ada", "ada", "joe"):
        broken(agent, LINE.format(name))
    with ExitStack() as stack:
        with transaction.atomic():
            broken(agent, LINE.format("mara"))
            added = elsewhere(add_up_counts)
            stack.enter_context(blocked(added))
        added.result(PATIENCE_S)
    assert count_all() == {only_current().template: (4, {"coder": 4})}
    add_up_counts()
    assert count_all() == {only_current().template: (4, {"coder": 4})}
    assert FailureCount.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_merge_waits_for_the_clock(agent: Agent, elsewhere: Elsewhere) -> None:
    for name in ("ada", "ada", "joe"):
        broken(agent, LINE.format(name))
    with ExitStack() as stack:
        with transaction.atomic():
            assert add_up_counts() == 2
            merged = elsewhere(lambda: broken(agent, LINE.format("mara")))
            stack.enter_context(blocked(merged))
        merged.result(PATIENCE_S)
    assert count_all() == {only_current().template: (4, {"coder": 4})}
    assert set(FailureCount.objects.values_list("pattern", flat=True)) == {only_current().pk}


@pytest.mark.django_db(transaction=True)
def test_failures_and_another_clock_do_not_wait(agent: Agent, elsewhere: Elsewhere) -> None:
    for _ in range(3):
        broken(agent)
    with transaction.atomic():
        assert add_up_counts() == 1
        # of a transaction that is still open
        elsewhere(lambda: broken(agent)).result(PATIENCE_S)
        assert elsewhere(add_up_counts).result(PATIENCE_S) == 0
    assert count_all() == {"Cannot find module ‹text›": (4, {"coder": 4})}
    add_up_counts()
    assert FailureCount.objects.get().failures == 4


@pytest.mark.django_db(transaction=True)
def test_clocks_and_failures_at_once_lose_and_double_nothing(agent: Agent) -> None:
    agents = [agent, make_agent("reviewer"), make_agent("tester")]

    def work(n: int) -> None:
        for step in range(4):  # one more opens the breaker
            if n < len(agents):
                broken(agents[n], ("disk full", "no memory")[step % 2])
            else:
                add_up_counts()

    assert at_once(6, work) == [None] * 6
    add_up_counts()
    counted = (6, {"coder": 2, "reviewer": 2, "tester": 2})
    assert count_all() == {"disk full": counted, "no memory": counted}


# ---- the migration


@pytest.fixture
def older(transactional_db: None) -> Iterator[None]:
    """A database without the triggers; they are there again after the test."""
    execute(MIGRATION.NO_TRIGGERS)
    yield
    with connection.cursor() as cursor:
        cursor.execute("select from pg_trigger where tgname = 'retries_failures_counted'")
        if not cursor.rowcount:
            cursor.execute(MIGRATION.TRIGGERS)


def migrate() -> None:
    MIGRATION.count_failures(apps, connection.schema_editor())


@pytest.mark.usefixtures("older")
def test_what_was_there_is_counted_also_if_it_was_deleted(agent: Agent) -> None:
    other = make_agent("reviewer")
    for n in range(3):
        broken(agent, now=NOW + n * MINUTE)
    broken(agent, "disk full")
    pattern = FailurePattern.objects.get(template__startswith="Cannot")
    for whose, number in ((agent, 40), (other, 2)):
        PastFailures.objects.create(
            pattern=pattern,
            agent=whose,
            failures=number,
            last_at=NOW - timedelta(days=9),
            retried=0,
            worked=0,
        )
    assert not FailureCount.objects.exists()
    migrate()
    expected = {
        "Cannot find module ‹text›": (45, {"coder": 43, "reviewer": 2}),
        "disk full": (1, {"coder": 1}),
    }
    assert count_all() == expected and FailureCount.objects.count() == 3
    assert figures.count_failures([pattern.pk])[pattern.pk].last_at == NOW + 2 * MINUTE
    broken(other)
    assert count_all()[pattern.template] == (46, {"coder": 43, "reviewer": 3})


@pytest.mark.usefixtures("older")
def test_failures_of_other_processes_are_counted_once(agent: Agent, elsewhere: Elsewhere) -> None:
    """The migration waits for reports under way, and later ones do not wait for its count."""
    broken(agent)
    with ExitStack() as stack:
        with transaction.atomic():
            broken(agent)
            migrated = elsewhere(migrate)
            stack.enter_context(blocked(migrated))
        migrated.result(PATIENCE_S)
    broken(agent)
    assert count_all() == {"Cannot find module ‹text›": (3, {"coder": 3})}


@pytest.mark.usefixtures("older")
def test_a_report_and_a_merge_beside_the_count_are_counted_once(
    agent: Agent, elsewhere: Elsewhere
) -> None:
    other = make_agent("reviewer")
    for whose, name in ((agent, "ada"), (agent, "ada"), (other, "joe")):
        broken(whose, LINE.format(name))
    with MIGRATION.create_triggers(connection) as earlier:
        elsewhere(lambda: broken(other, LINE.format("joe"))).result(PATIENCE_S)
        elsewhere(lambda: broken(agent, LINE.format("mara"))).result(PATIENCE_S)  # merges all
        MIGRATION.add_earlier(connection, earlier)
    expected = {only_current().template: (5, {"coder": 3, "reviewer": 2})}
    assert count_all() == expected
    assert set(FailureCount.objects.values_list("pattern", flat=True)) == {only_current().pk}
    add_up_counts()
    assert count_all() == expected and FailureCount.objects.count() == 2


@pytest.mark.usefixtures("older")
def test_a_merge_waits_for_the_counts_that_are_added(agent: Agent, elsewhere: Elsewhere) -> None:
    for name in ("ada", "ada", "joe"):
        broken(agent, LINE.format(name))
    with MIGRATION.create_triggers(connection) as earlier, ExitStack() as stack:
        with transaction.atomic():
            MIGRATION.add_earlier(connection, earlier)
            merged = elsewhere(lambda: broken(agent, LINE.format("mara")))
            stack.enter_context(blocked(merged))
        merged.result(PATIENCE_S)
    assert count_all() == {only_current().template: (4, {"coder": 4})}


@pytest.mark.usefixtures("older")
def test_a_count_that_was_cut_short_is_made_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(agent)
    broken(agent, "disk full")
    monkeypatch.setattr(MIGRATION, "ROWS_READ", 1)
    with MIGRATION.create_triggers(connection) as earlier:
        assert len(MIGRATION.fetch(earlier)) == 1
    broken(agent)
    MIGRATION.create_table(apps, connection.schema_editor())
    migrate()
    expected = {"Cannot find module ‹text›": (2, {"coder": 2}), "disk full": (1, {"coder": 1})}
    assert count_all() == expected
    migrate()
    assert count_all() == expected


@pytest.mark.usefixtures("older")
def test_reports_beside_the_migration_lose_and_double_nothing(agent: Agent) -> None:
    agents = [make_agent(name) for name in ("reviewer", "tester", "writer")]
    broken(agent)

    def work(n: int) -> None:
        if n == len(agents):
            migrate()
        else:
            for _ in range(4):  # one more opens the breaker
                broken(agents[n])

    assert at_once(4, work) == [None] * 4
    counted = {"coder": 1, "reviewer": 4, "tester": 4, "writer": 4}
    assert count_all() == {"Cannot find module ‹text›": (13, counted)}


# ---- what is read

MANY = """insert into retries_failurecount (pattern_id, agent_id, failures, last_at, is_sum)
select uuidv7(), uuidv7(), 1, now(), n > 20 from generate_series(1, 20000) n"""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (figures.TOTALS, {"ids": []}),
        (figures.AGENT_NAMES, {"ids": []}),
        (figures.BY_AGENT, {"pattern": None, "most": 9}),
        (failure_counts.ADD_UP, {"patterns": []}),
    ],
)
def test_no_count_reads_a_whole_table(statement: str, values: dict[str, Any]) -> None:
    with prepared("retries_failurecount", fill=MANY) as cursor:
        plan = plan_of(cursor, statement, values)
    assert not [line for line in plan if "Seq Scan on retries_" in line]
    assert not [line for line in plan if "retries_grouped" in line or "pastfailures" in line]


@pytest.mark.django_db
def test_only_new_rows_are_searched_for() -> None:
    with prepared("retries_failurecount", fill=MANY) as cursor:
        rows = cursor.execute(f"explain {failure_counts.NEW}".encode()).fetchall()
    assert any("failure_count_new" in line for (line,) in rows)
