"""`manage.py project fetch`: a project moves here from another installation with all its rows."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from ledger.authorization.permissions import may
from ledger.authorization.roles import Role
from ledger.models import Event, Membership, Project, Task, Token
from retries import sweeps
from retries.journal_readers import counts
from retries.models import Channel, Escalation, FailurePattern, StreamCursor
from retries.retention.projects import move as project_move
from tests.dashboard.notifications.deliveries import make_channel
from tests.elsewhere import blocked
from tests.factories import make_agent, make_project, make_token
from tests.journal_partitions import settle
from tests.retries.retention.test_projects import count_all, make_world
from tests.serving import database_of_tests, make_database, use_database
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

NEW = "tenfour_new"
ASSIGNED: tuple[type[Any], ...] = (Escalation, Task, FailurePattern)


@pytest.fixture
def new_installation() -> Iterator[str]:
    """The database of an installation that has run; its URL."""
    with make_database(NEW, migrated=True) as url:
        with use_database(NEW):
            make_token(project=make_project("there"))
            read_journal()
        yield url


def read_journal() -> None:
    settle()
    for entry in ("activity", "metrics", "search_words", "notifications"):
        sweeps.run(entry)


def fetch(name: str, *more: str) -> str:
    """Move a project from the tests' own database."""
    out, url = StringIO(), database_of_tests()
    with use_database(NEW):
        call_command("project", "fetch", name, "--from", url, *more, stdout=out)
    return out.getvalue()


def make_moving() -> Project:
    """A project with rows of nearly every table, whose events have been read."""
    project = make_project("mine")
    make_world(project)
    for name, role in (("mara", Role.ADMIN), ("stranger", Role.OPERATOR)):
        user = User.objects.create_user(name)
        Membership.objects.create(user=user, project=project, role=role)
        for model in ASSIGNED:
            model._default_manager.filter(project=project, assignee=None).update(assignee=user)
    make_channel(project=project, now=timezone.now())
    read_journal()
    return project


def test_every_row_arrives(new_installation: str) -> None:
    project, other = make_moving(), make_project("other")
    make_world(other)
    there = count_all(project.pk)
    assert len([number for number in there.values() if number]) > 20
    with use_database(NEW):
        # accounts have other ids here
        User.objects.create_user("first")
        mara = User.objects.create_user("mara")
        positions = list(StreamCursor.objects.values_list("name", "tx", "event_id"))

    said = fetch("mine", "--as", "moved")

    assert "Members without an account here: stranger." in said
    assert f"with {sum(there.values()) - 1} rows" in said
    with use_database(NEW):
        assert count_all(project.pk) == there | {"ledger_membership": 1}
        assert not Project.objects.filter(pk=other.pk).exists()
        assert Project.objects.get(pk=project.pk).name == "moved"
        assert Membership.objects.get(project=project).user == mara
        for model in ASSIGNED:
            given = model._default_manager.exclude(assignee=None)
            assert set(given.values_list("assignee")) == {(mara.pk,)}, model
        assert not Token.objects.filter(project=project).exclude(revoked_at=None).exists()
        assert Channel.objects.get(project=project).state == "active"
        # its events were read there
        read_journal()
        assert list(StreamCursor.objects.values_list("name", "tx", "event_id")) == positions
    assert Channel.objects.get(project=project).state == "disabled"
    project.refresh_from_db()
    assert not Token.objects.filter(project=project, revoked_at=None).exists()
    member = User.objects.get(username="mara")
    assert may(member, "ledger.view_task", project.pk)
    assert not may(member, "ledger.change_task", project.pk)


def test_calls_wait_until_the_project_stays() -> None:
    """A killed move leaves the project closed; `stay` opens it again."""
    project = make_project("mine")
    secret, revoked = make_token(project=project), make_token(project=project)
    Token.objects.filter(prefix=revoked[:16]).update(revoked_at=timezone.now())
    with psycopg.connect(database_of_tests(), autocommit=True) as source:
        source.execute(project_move.BEGIN, {"project": project.pk})

    def call(token: str) -> tuple[int, str]:
        answer = Client().get("/v1/me", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.json().get("code", "")

    assert call(secret) == (503, "project_moving")
    assert call(revoked) == (401, "token_revoked")
    call_command("project", "stay", "mine", stdout=StringIO())
    assert call(secret) == (200, "")
    assert call(revoked) == (401, "token_revoked")


def test_events_that_were_not_read_are_read_here(new_installation: str) -> None:
    project = make_moving()
    agent = make_agent("late", project=project)
    unread = set(Event.objects.about(agent.pk).values_list("pk", flat=True))
    assert unread
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(project_move, "IS_READ", "select true as holds")
        fetch("mine")
    with use_database(NEW):
        [cursor] = StreamCursor.objects.filter(name=counts.READER)
        found = Event.objects.filter(project_id=project.pk).extra(
            where=["tx > %s::text::xid8"], params=[cursor.tx]
        )
        assert set(found.values_list("pk", flat=True)) == unread


def test_a_move_that_fails_changes_nothing(
    new_installation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_moving()
    make_agent("late", project=project)
    monkeypatch.setattr(project_move, "PATIENCE", timedelta())
    with pytest.raises(CommandError, match="the worker, which reads the journal, did not end"):
        fetch("mine")
    project.refresh_from_db()
    assert project.moving_since is None
    assert Token.objects.filter(project=project, revoked_at=None).count() == 2
    with use_database(NEW):
        assert not Project.objects.filter(name="mine").exists()


def test_a_failure_after_the_copy_opens_no_second_place(
    new_installation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_moving()
    monkeypatch.setattr(project_move, "DISABLE_CHANNELS", "select 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        fetch("mine")
    assert not Token.objects.filter(project=project, revoked_at=None).exists()
    with use_database(NEW):
        assert Token.objects.filter(project=project, revoked_at=None).exists()


LATE = """insert into ledger_event (project_id, kind, subject_type, subject_id, actor_type)
values (%(project)s, 'agent.paused', 'project', %(project)s, 'user')"""


def test_what_is_written_during_the_copy_is_copied(
    new_installation: str, elsewhere: Callable[..., Future[Any]]
) -> None:
    project, url = make_moving(), database_of_tests()
    argv = ("project", "fetch", "mine", "--from", url)
    with use_database(NEW), psycopg.connect(new_installation) as blocker:
        blocker.execute("lock table ledger_agent in share mode")
        moving = elsewhere(lambda: call_command(*argv, stdout=StringIO()))
        with blocked(moving):
            with psycopg.connect(url, autocommit=True) as source:
                source.execute(LATE, {"project": project.pk})
            blocker.rollback()
        moving.result(PATIENCE_S)
        assert Event.objects.filter(project_id=project.pk, kind="agent.paused").exists()


REFUSALS = [
    ("default", [], "can't move"),
    ("nowhere", [], "has no project 'nowhere'"),
    ("mine", ["--as", "there"], "A project 'there' is here already"),
]


@pytest.mark.parametrize(("name", "more", "text"), REFUSALS)
def test_refusals(new_installation: str, name: str, more: list[str], text: str) -> None:
    make_project()
    make_project("mine")
    with pytest.raises(CommandError, match=text):
        fetch(name, *more)


def test_other_versions_are_refused(new_installation: str) -> None:
    make_project("mine")
    with psycopg.connect(new_installation, autocommit=True) as new:
        new.execute("update django_migrations set name = '9999_later' where name = '0002_initial'")
        new.execute("delete from django_migrations where app = 'retries' and name like '0027%'")
    with pytest.raises(CommandError, match="different versions"):
        fetch("mine")


def test_an_installation_that_has_not_run_is_refused() -> None:
    make_project("mine")
    with (
        make_database(NEW, migrated=True),
        pytest.raises(CommandError, match="has not read its journal yet"),
    ):
        fetch("mine")
