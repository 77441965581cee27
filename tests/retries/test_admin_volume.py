"""The admin at volume: no list reads or counts every row, and every row leads to related ones."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.db.models import JSONField
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ledger.admin_pages.filters import MOST_NAMES
from ledger.admin_pages.lists import ReadOnly
from ledger.admin_pages.paging import LimitedPaginator
from ledger.journal import SYSTEM, Stamp
from ledger.models import (
    Agent,
    Attempt,
    Breaker,
    ClockRun,
    DeadLetter,
    Event,
    Failure,
    Project,
    Task,
    TaskHistory,
    Token,
)
from ledger.values.ids import first_id
from retries import breaker_actions
from retries.models import (
    Escalation,
    FailurePattern,
    FixVerdict,
    NotificationRule,
    QuietHours,
    RetryPolicy,
)
from tests.access_world import make_world
from tests.admin_pages import mara as mara
from tests.admin_pages import path, sure
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db

PAGES = {model: page for model, page in admin.site._registry.items() if isinstance(page, ReadOnly)}


def read(client: Client, url: str) -> Any:
    response = client.get(url)
    assert response.status_code == 200, url
    return response


def list_rows(client: Client, model: Any, query: str = "") -> set[Any]:
    found = read(client, f"{path(model)}?{query}").context["cl"]
    return {row.pk for row in found.result_list}


def names_of(client: Client, model: Any, title: str, query: str = "") -> list[str]:
    """Return the choices of a filter of a list."""
    changelist = read(client, f"{path(model)}?{query}").context["cl"]
    found = [spec for spec in changelist.filter_specs if spec.title == title]
    return [choice["display"] for spec in found for choice in spec.choices(changelist)]


def test_a_list_counts_up_to_a_limit(
    mara: Client, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more rows it has no later pages, and no action changes all of them at once."""
    monkeypatch.setattr(LimitedPaginator, "limit", 4)
    monkeypatch.setattr(PAGES[Task], "list_per_page", 2)
    for _ in range(4):
        make_task(agent)
    page = read(mara, path(Task)).content.decode()
    assert "Select all 4 tasks</a>" in page and "4+" not in page
    form = {"action": "abort", "confirmed": "yes", "select_across": "1"}
    form["_selected_action"] = str(Task.objects.order_by("pk")[0].pk)
    last = make_task(agent)
    response = read(mara, path(Task))
    page = response.content.decode()
    assert "4+" in page and "Select all 4" not in page
    assert response.context["cl"].paginator.num_pages == 2
    said = mara.post(path(Task), form, follow=True).context["messages"]
    assert [str(each) for each in said] == [
        "Nothing changed. An action changes at most 4 rows. Select fewer with a search or a filter."
    ]
    assert set(Task.objects.values_list("state", flat=True)) == {"queued"}
    Task.objects.filter(pk=last).delete()
    mara.post(path(Task), form)
    assert set(Task.objects.values_list("state", flat=True)) == {"aborted"}


def test_no_list_reads_every_row_of_its_table(mara: Client, agent: Agent) -> None:
    """Each count has a limit, and no filter looks for the values of a column."""
    make_world(agent, timezone.now())
    for model in PAGES:
        for query in ("", "q=zebra", "_facets=True"):
            with CaptureQueriesContext(connection) as found:
                read(mara, f"{path(model)}?{query}")
            statements = [each["sql"] for each in found if model._meta.db_table in each["sql"]]
            assert statements, model
            for sql in statements:
                assert "DISTINCT" not in sql, (model, sql)
                assert "COUNT(" not in sql or "LIMIT" in sql, (model, sql)


def test_filters_know_their_values(mara: Client, agent: Agent) -> None:
    make_task(agent, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    make_task(agent)
    live = attempt_of(claim(agent))
    over = Attempt.objects.exclude(pk=live).get()
    assert names_of(mara, Attempt, "outcome")[-1] == "running"
    assert list_rows(mara, Attempt, "outcome__isnull=True") == {live}
    assert list_rows(mara, Attempt, "outcome__exact=failure") == {over.pk}
    assert len(list_rows(mara, DeadLetter, "closed_as__isnull=True")) == 1
    assert list_rows(mara, DeadLetter, "closed_as__exact=replayed") == set()
    events = Event.objects.filter(kind="task.claimed").values_list("pk", flat=True)
    assert list_rows(mara, Event, "kind__exact=task.claimed") == set(events)
    page = read(mara, f"{path(Attempt)}?outcome__isnull=True").context["cl"]
    (spec,) = (each for each in page.filter_specs if each.title == "outcome")
    assert [each["display"] for each in spec.choices(page) if each["selected"]] == ["running"]


def test_a_list_shows_what_is_open_with_its_error_and_figures(mara: Client, agent: Agent) -> None:
    """Tasks and escalations tell their error, patterns count their failures (OPR-29)."""
    for _ in range(2):
        make_task(agent, max_attempts=1, on_exhausted="escalate")
        fail(agent, attempt_of(claim(agent)), now=timezone.now())
    answered, asked = Escalation.objects.order_by("pk")
    assert "1 skipped" in sure(mara, Escalation, "skip", answered)
    assert list_rows(mara, Escalation) == {asked.pk}
    assert list_rows(mara, Escalation, "state=resolved") == {answered.pk}
    found = {answered.pk, asked.pk}
    assert list_rows(mara, Escalation, "state=any") == found
    assert list_rows(mara, Escalation, "state=unknown") == {asked.pk}
    assert list_rows(mara, Escalation, f"task__id__exact={answered.task_id}") == {answered.pk}
    assert list_rows(mara, Escalation, f"q={answered.pk}") == {answered.pk}
    assert list_rows(mara, Escalation, f"agent__id__exact={agent.pk}&state=any") == found
    assert list_rows(mara, Task, f"agent__id__exact={make_agent(name='other').pk}") == set()
    error = Failure.objects.first().message
    for model, column in ((Task, "error"), (Escalation, "error"), (FailurePattern, "failures")):
        page = read(mara, path(model)).content.decode()
        assert re.search(rf'class="field-{column}"><bdi[^>]*>{error}|field-failures">2<', page), (
            model
        )


def test_a_filter_lists_no_more_names_than_a_person_can_read(mara: Client, agent: Agent) -> None:
    """A project's own page still leads to its lists."""
    make_task(agent)
    other = make_project("other")
    assert names_of(mara, Task, "project") == ["All", "default", "other"]
    Project.objects.bulk_create(Project(name=f"tenant-{n}") for n in range(MOST_NAMES))
    assert names_of(mara, Task, "project") == []
    links = read(mara, path(Project, f"{other.pk}/change/")).context["links"]
    (tasks,) = (link.url for link in links if link.label == "Tasks")
    chosen = tasks.partition("?")[2]
    assert names_of(mara, Task, "project", chosen) == ["All", "other"]
    assert list_rows(mara, Task, chosen) == set()
    assert mara.get(f"{path(Task)}?project__id__exact=x").status_code == 302


def test_the_journal_shows_the_last_week_unless_it_is_asked_for_more(
    mara: Client, agent: Agent
) -> None:
    now = timezone.now()
    task = make_task(agent, now=now)
    new = Event.objects.get(subject_id=task, kind="task.created")
    at = now - timedelta(days=10)
    old = Event.objects.create(
        id=first_id(at),
        at=at,
        project_id=agent.project_id,
        kind="task.claimed",
        subject_type="task",
        subject_id=task,
        from_state="queued",
        to_state="running",
        actor_type="system",
        actor_name="tenfour",
        request_id="req_old",
    )
    assert new.pk in list_rows(mara, Event)
    for query, shows_it in {
        "": False,
        "when=day": False,
        "when=month": True,
        "when=any": True,
        "when=<script>": False,
        "q=tenfour": False,
        f"q={task}": True,
        f"subject_id__exact={task}": True,
        f"subject_id__exact={task}&when=week": False,
    }.items():
        assert (old.pk in list_rows(mara, Event, query)) is shows_it, query
    assert list_rows(mara, TaskHistory) == set()
    assert list_rows(mara, TaskHistory, f"task__id__exact={task}") == {old.pk}
    links = read(mara, path(Event, f"{old.pk}/change/")).context["links"]
    (request,) = (link.url for link in links if link.label == "Events of its request")
    assert {row.pk for row in read(mara, request).context["cl"].result_list} == {old.pk}


ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-")
SHOWN_JSON = {(NotificationRule, "conditions"), (ClockRun, "did")}
# rows that no page outside the admin shows
WITHOUT_PAGE = {ClockRun, QuietHours}
# rows that the world does not have
NOT_IN_WORLD = {FixVerdict, QuietHours}


def test_every_row_leads_to_its_page_and_to_related_rows(mara: Client, agent: Agent) -> None:
    make_world(agent, timezone.now())
    ClockRun.objects.create(name="idle_check", last_run_at=NOW)
    RetryPolicy.objects.create(project=agent.project)
    for model in PAGES.keys() - NOT_IN_WORLD:
        row = model._default_manager.order_by("pk").first()
        assert row, model
        page = read(mara, path(model, f"{row.pk}/change/"))
        links, outside = page.context["links"], page.context["outside"]
        assert bool(outside) is bool(links) is (model not in WITHOUT_PAGE), model
        for url in [link.url for link in links] + [outside] * bool(outside):
            assert read(mara, url), (model, url)


def test_a_pattern_leads_to_its_failures_and_back(mara: Client, agent: Agent) -> None:
    for message in ("disk full", "no route to host"):
        make_task(agent, max_attempts=1)
        fail(agent, attempt_of(claim(agent)), now=NOW, message=message)
    pattern = FailurePattern.objects.get(template__contains="disk")
    links = read(mara, path(FailurePattern, f"{pattern.pk}/change/")).context["links"]
    (url,) = (link.url for link in links if link.label == "Failures")
    (failure,) = read(mara, url).context["cl"].result_list
    assert failure.message == "disk full"
    links = read(mara, path(Failure, f"{failure.pk}/change/")).context["links"]
    assert links[0].url == path(FailurePattern, f"{pattern.pk}/change/")


def test_lists_are_not_sorted_where_that_reads_every_row(mara: Client, agent: Agent) -> None:
    make_task(make_agent("other"))
    for model in (Event, Attempt, Failure, TaskHistory):
        assert "?o=" not in read(mara, path(model)).content.decode(), model
    assert "?o=" in read(mara, path(Task)).content.decode()


def test_a_list_reads_no_json_that_it_does_not_show(mara: Client, agent: Agent) -> None:
    make_world(agent, timezone.now())
    ClockRun.objects.create(name="idle_check", last_run_at=NOW)
    for model in PAGES:
        columns = [
            f'"{each._meta.db_table}"."{field.column}"'
            for each in apps.get_models()
            for field in each._meta.concrete_fields
            if isinstance(field, JSONField) and (each, field.name) not in SHOWN_JSON
        ]
        with CaptureQueriesContext(connection) as found:
            read(mara, path(model))
        statements = " ".join(each["sql"] for each in found)
        assert [name for name in columns if name in statements] == [], model


def test_a_row_is_named_after_what_it_is_about(mara: Client, agent: Agent) -> None:
    """Not by ids; and its page shows what no form edits, such as when an agent was last seen."""
    world = make_world(agent, timezone.now())
    titles = {}
    for model in PAGES.keys() - NOT_IN_WORLD - {ClockRun, RetryPolicy, Project}:
        row = model._default_manager.order_by("-pk").first()
        titles[model] = read(mara, path(model, f"{row.pk}/change/")).context["row_title"]
        assert titles[model] in read(mara, path(model, f"{row.pk}/history/")).content.decode()
    assert not [title for title in titles.values() if ID.search(title)]
    assert titles[Attempt] == "Attempt 1 of Question zebra"
    assert titles[DeadLetter] == "Bury zebra"
    page = read(mara, path(Agent, f"{agent.pk}/change/")).content.decode()
    seen = Agent.objects.get(pk=agent.pk).last_seen_at
    assert seen and f"{seen:%Y-%m-%d %H:%M:%S}" in page and "Breaker:" in page
    token = read(mara, path(Token, f"{world.ids['token_id']}/change/")).content.decode()
    assert "Last used at:" in token and "Digest" not in token


def test_agents_are_found_by_their_breakers(mara: Client, agent: Agent) -> None:
    other = make_agent("other")
    breaker_actions.trip([other], reason="by hand", stamp=Stamp(SYSTEM, timezone.now()))
    assert list_rows(mara, Agent, "breaker__state__exact=open") == {other.pk}
    assert list_rows(mara, Agent) == {agent.pk, other.pk}
    page = read(mara, path(Agent)).content.decode()
    assert page.count(">Closed<") == page.count(">Open<") == 1
    links = read(mara, path(Agent, f"{other.pk}/change/")).context["links"]
    assert links[0].url == path(Breaker, f"{Breaker.objects.get().pk}/change/")


def test_every_list_of_ids_has_a_search_box(mara: Client, agent: Agent) -> None:
    make_world(agent, timezone.now())
    for model in PAGES.keys() - {ClockRun, QuietHours}:
        page = read(mara, path(model)).content.decode()
        assert 'id="searchbar"' in page and "Show all" not in page, model
    assert "1 result" in read(mara, f"{path(Task)}?q=bury").content.decode()
    event = Event.objects.filter(subject_type="task").order_by("-id")[0]
    page = read(mara, f"{path(Event)}?q={event.subject_id}").content.decode()
    assert f'href="{path(Task, f"{event.subject_id}/change/")}"' in page
