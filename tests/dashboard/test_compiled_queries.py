"""Queries whose SQL is built once."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from dashboard.lists.compiled_queries import SHAPES, compiled
from ledger.database import sql
from ledger.models import Agent, Instruction, Project
from tests.factories import make_agent, make_project, send

built: list[str] = []


def build(
    project: Project | None, ids: tuple[UUID, ...], name: str, since: datetime, most: int
) -> QuerySet[Any]:
    """Use arguments of each kind, in the query and in a subquery."""
    built.append(name)
    recent = Instruction.objects.filter(
        agent=OuterRef("pk"), queued_at__gt=since - timedelta(hours=1)
    )
    rows = Agent.objects.filter(name__startswith=name).annotate(busy=Exists(recent))
    rows = rows.filter(project=project) if project else rows
    rows = rows.filter(pk__in=ids) if ids else rows
    return rows.select_related("project").order_by("name")[:most]


def test_a_compiled_query_finds_what_the_query_finds(db: None) -> None:
    fetch, now = compiled(build), timezone.now()
    one, two = make_project("one"), make_project("two")
    agents = [
        make_agent(name, project=project) for name in ("abe", "al", "bo") for project in (one, two)
    ]
    send(agents[0])
    built.clear()
    every = [
        (project, ids, name, since, most)
        for _ in range(3)  # built as ever, then compiled, then run again
        for project in (one, two, None)
        for ids in ((), (agents[0].pk, agents[3].pk), (agents[1].pk, agents[2].pk))
        for name in ("a", "b")
        for since in (now, now + timedelta(hours=2), now - timedelta(hours=2))
        for most in (1, 9)
    ]
    for arguments in every:
        found = [(each.pk, each.busy, each.project.name) for each in fetch(*arguments)]
        expected = build(*arguments)
        assert found == [(each.pk, each.busy, each.project.name) for each in expected]
        built.pop()
    # a project or none, ids or none, two names and two limits: each built once as ever, and twice
    # for the comparison of its samples
    assert len(built) == 16 * 3


def test_what_can_t_be_told_from_the_arguments_is_refused(agent: Agent) -> None:
    """It would stay what it was in the first call."""

    @compiled
    def by_the_clock(agent: Agent) -> QuerySet[Agent]:
        return Agent.objects.filter(pk=agent.pk, created_at__lt=timezone.now())

    @compiled
    def by_a_part(agent: Agent, at: datetime) -> QuerySet[Agent]:
        return Agent.objects.filter(pk=agent.pk, created_at__year=at.year)

    @compiled
    def by_rows(agent: Agent) -> QuerySet[Agent]:
        return Agent.objects.filter(pk__in=list(Agent.objects.values_list("pk", flat=True)))

    for fetch in (by_the_clock, by_rows):
        assert list(fetch(agent)) == [agent]
        with pytest.raises(TypeError):
            fetch(agent)
    by_a_part(agent, timezone.now())
    with pytest.raises(TypeError):
        by_a_part(agent, timezone.now())


def test_the_statements_of_a_query_are_limited(db: None) -> None:
    fetch = compiled(build)
    make_agent("abe")
    for name in [f"a{n}" for n in range(SHAPES)] * 2 + ["a", "a", "none"]:
        assert len(fetch(None, (), name, timezone.now(), 9)) == (name == "a")


def test_a_query_that_can_t_match_returns_nothing(db: None) -> None:
    @compiled
    def nothing(project: Project | None) -> QuerySet[Agent]:
        return Agent.objects.filter(pk__in=[])

    assert [nothing(None) for _ in range(3)] == [[], [], []]


def test_only_a_query_for_one_row_is_planned_once(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may have any part of a table, and a list of ids has a plan for each length."""
    prepared = []
    fetch = sql.fetch

    def note_and_fetch(text: str, values: Any, *, prepare: bool) -> Any:
        prepared.append(prepare)
        return fetch(text, values, prepare=prepare)

    monkeypatch.setattr(sql, "fetch", note_and_fetch)
    of_one = compiled(lambda id: Agent.objects.filter(pk=id))
    of_ids = compiled(lambda ids: Agent.objects.filter(pk__in=ids))
    of_project = compiled(lambda project: Agent.objects.filter(project=project))
    agent = make_agent()
    for _ in range(2):
        assert of_one(agent.pk) == of_ids((agent.pk,)) == of_project(agent.project) == [agent]
    assert prepared == [True, False, False]
