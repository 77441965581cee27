"""Tasks and patterns have an assignee and comments, and a dead letter has its task's."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from ledger.authorization.roles import Role
from ledger.errors import Invalid, NotFound
from ledger.journal import Actor, Stamp
from ledger.models import Agent, DeadLetter, Event, Membership, Project, Task
from retries.assignment.rows import PATTERN, TASK, assign, comment
from retries.models import FailurePattern
from retries.verbs import dead_letters
from tests.conftest import Api
from tests.dashboard.worked import buried, make_task
from tests.factories import NOW, make_agent, make_project
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db
MARA = Actor("user", "1", "mara")
STAMP = Stamp(MARA, NOW + timedelta(minutes=5))


def make_member(name: str, project: Project, role: Role = Role.OPERATOR) -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(user=user, project=project, role=role, added_by="mara")
    return user


@pytest.fixture
def ben(project: Project) -> User:
    return make_member("ben", project)


def test_only_rows_that_change_are_journaled(agent: Agent, ben: User) -> None:
    one, two = (make_task(agent=agent, now=NOW) for _ in range(2))
    assert assign(TASK, [one.pk], "ben", stamp=STAMP) == [one.pk]
    assert assign(TASK, [one.pk, two.pk], "ben", stamp=STAMP) == [two.pk]
    assert assign(TASK, [one.pk], None, stamp=STAMP) == [one.pk]
    assert assign(TASK, [one.pk], "", stamp=STAMP) == []
    given = list(Event.objects.filter(kind="task.assigned").order_by("id"))
    assert [(each.subject_id, each.data) for each in given] == [
        (one.pk, {"user": "ben"}),
        (two.pk, {"user": "ben"}),
        (one.pk, {"user": None}),
    ]
    assert {each.project_id for each in given} == {agent.project_id}
    assert {each.actor_name for each in given} == {"mara"}
    after = Task.objects.get(pk=one.pk)
    assert (after.version, after.updated_at) == (one.version + 2, one.updated_at)
    assert Task.objects.get(pk=two.pk).assignee == ben


def test_only_people_who_may_act_on_all_rows_are_assigned(agent: Agent, ben: User) -> None:
    make_member("vera", agent.project, Role.VIEWER)
    User.objects.filter(pk=make_member("gone", agent.project).pk).update(is_active=False)
    elsewhere = make_task(agent=make_agent("other", project=make_project("other")), now=NOW)
    task = make_task(agent=agent, now=NOW)
    for name in ("vera", "gone", "nobody", "be\0n"):
        with pytest.raises(Invalid, match="no active user"):
            assign(TASK, [task.pk], name, stamp=STAMP)
    with pytest.raises(Invalid, match="no active user"):
        assign(TASK, [task.pk, elsewhere.pk], "ben", stamp=STAMP)
    assert not Task.objects.exclude(assignee=None).exists()


def test_a_deleted_person_leaves_the_rows(agent: Agent, ben: User) -> None:
    letter = buried(agent=agent, now=NOW)
    pattern = FailurePattern.objects.get()
    assign(TASK, [letter.task_id], "ben", stamp=STAMP)
    assign(PATTERN, [pattern.pk], "ben", stamp=STAMP)
    ben.delete()
    assert Task.objects.get(pk=letter.task_id).assignee_id is None
    assert FailurePattern.objects.get(pk=pattern.pk).assignee_id is None


def test_a_dead_letter_has_the_assignee_of_its_task(agent: Agent, ben: User) -> None:
    letter = buried(agent=agent, now=NOW)
    rows = DeadLetter.objects.all()
    options = dead_letters.ASSIGN.check({"user": " ben "})
    assert dead_letters.ASSIGN.fit(rows, options).get() == letter
    assert dead_letters.ASSIGN.change([letter.pk], options, STAMP) == [letter.pk]
    assert Task.objects.get(pk=letter.task_id).assignee == ben
    assert not dead_letters.ASSIGN.fit(rows, options).exists()
    assert dead_letters.ASSIGN.change([letter.pk], options, STAMP) == []


def test_a_comment_is_stored_without_secrets(agent: Agent) -> None:
    task = make_task(agent=agent, now=NOW)
    comment(TASK, task.pk, "  it was password=hunter2hunter2 ", stamp=STAMP)
    event = Event.objects.get(kind="task.commented")
    assert event.data == {"text": "it was password=[redacted:secret]"}
    assert (event.subject_type, event.subject_id) == ("task", task.pk)
    for text, why in (
        (" ", "1 to 2000"),
        ("x" * 2001, "1 to 2000"),
        ("a\x1bb", "control character"),
        ("\u200b", "no visible"),
    ):
        with pytest.raises(Invalid, match=why):
            comment(TASK, task.pk, text, stamp=STAMP)
    with pytest.raises(NotFound):
        comment(PATTERN, task.pk, "x", stamp=STAMP)
    assert Event.objects.filter(kind="task.commented").count() == 1


def test_a_comment_mentions_people_who_may_see_its_subject(agent: Agent, ben: User) -> None:
    make_member("vera", agent.project, Role.VIEWER)
    make_member("joe.doe", agent.project)
    make_member("stranger", make_project("other"))
    buried(agent=agent, now=NOW)
    pattern = FailurePattern.objects.get()
    text = "@ben and @vera: ask @joe.doe. Not @stranger, @nobody or ops@ben"
    comment(PATTERN, pattern.pk, text, stamp=STAMP)
    event = Event.objects.get(kind="pattern.commented")
    assert event.data == {"text": text, "mentions": ["ben", "joe.doe", "vera"]}


# ---- the API


@pytest.fixture
def paths(agent: Agent) -> dict[str, str]:
    """The path of a row of each noun."""
    letter = buried(agent=agent, now=NOW)
    pattern = FailurePattern.objects.get()
    return {
        "tasks": f"/tasks/{letter.task_id}",
        "dead-letters": f"/dead-letters/{letter.pk}",
        "patterns": f"/patterns/{pattern.pk}",
    }


@pytest.mark.usefixtures("ben")
@pytest.mark.parametrize("noun", ["tasks", "dead-letters", "patterns"])
def test_operators_assign_and_comment(
    operator: Api, coder: Api, api: Any, paths: dict[str, str], noun: str
) -> None:
    path = paths[noun]
    assert operator("GET", f"/{noun}?assignee=ben").body["data"] == []
    assert operator("POST", f"{path}/assign", {"user": "ben"}).body["assignee"] == "ben"
    assert operator("GET", path).body["assignee"] == "ben"
    (row,) = operator("GET", f"/{noun}?assignee=ben").body["data"]
    assert path.endswith(row["id"]) and row["assignee"] == "ben"
    problem(operator("POST", f"{path}/assign", {"user": "x"}), 422, "validation_error")
    said = operator("POST", f"{path}/comment", {"text": "On it, @ben"})
    assert said.status_code == 200 and said.body["assignee"] == "ben"
    assert Event.objects.get(kind__endswith=".commented").data["mentions"] == ["ben"]
    problem(operator("POST", f"{path}/comment", {"text": " "}), 422, "validation_error")
    for verb, body in (("assign", {"user": None}), ("comment", {"text": "x"})):
        problem(coder("POST", f"{path}/{verb}", body), 403, "human_required")
        problem(api("reader")("POST", f"{path}/{verb}", body), 403, "human_required")
    assert operator("POST", f"{path}/assign", {"user": None}).body["assignee"] is None
