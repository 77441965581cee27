"""The admin's page of operations."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Task
from retries.models import Operation
from retries.models.operation import OperationState
from tests.admin_pages import act, asked, path, sure
from tests.admin_pages import mara as mara
from tests.factories import make_agent, make_project
from tests.retries.moves import make_task
from tests.retries.operations.worlds import list_kinds, start

pytestmark = pytest.mark.django_db


def test_operations_are_undone_or_stopped(mara: Client, agent: Agent) -> None:
    make_task(agent)
    waiting, running = (start("task.skip", Task.objects.all(), now=timezone.now()) for _ in "ab")
    Operation.objects.filter(pk=running.pk).update(state=OperationState.RUNNING)
    assert "already" not in act(mara, Operation, "undo", waiting)
    assert "can't be undone" in act(mara, Operation, "undo", running)
    assert asked(mara, Operation, "stop", waiting, running) == [
        "1 operation will stop. Rows that changed stay changed.",
        "1 row will stay as it is.",
    ]
    assert sure(mara, Operation, "stop", running) == "1 stopped."
    assert act(mara, Operation, "stop", running).startswith("This would change nothing: ")
    assert set(Operation.objects.values_list("state", "ended_by_name")) == {
        ("undone", "mara"),
        ("stopped", "mara"),
    }
    assert list_kinds(running.pk)[-1] == "operation.stopped"
    page = mara.get(path(Operation, f"{running.pk}/change/"))
    assert page.context["verbs"] == [] and page.context["outside"] == f"/operations/{running.pk}/"


def test_an_operation_of_a_newer_version_stays_as_it_is(mara: Client, agent: Agent) -> None:
    """It may have a verb that this version lacks."""
    make_task(agent)
    newer, known = (start("task.skip", Task.objects.all(), now=timezone.now()) for _ in "ab")
    Operation.objects.filter(pk=newer.pk).update(verb="task.invented")
    assert "no verb" in act(mara, Operation, "undo", newer)
    act(mara, Operation, "undo", known)
    assert dict(Operation.objects.values_list("pk", "state")) == {
        newer.pk: "waiting",
        known.pk: "undone",
    }


def test_an_operation_on_several_projects_needs_all_of_them(mara: Client, agent: Agent) -> None:
    other = make_agent(project=make_project("other"))
    make_task(agent)
    own = start("task.skip", Task.objects.all(), now=timezone.now())
    make_task(other)
    both = start("task.skip", Task.objects.all(), now=timezone.now())
    user = User.objects.create_user("eve", is_staff=True)
    eve = Client()
    eve.force_login(user)
    Membership.objects.create(user=user, project=agent.project, role=Role.OPERATOR, added_by="mara")
    assert {row.pk for row in eve.get(path(Operation)).context["cl"].result_list} == {own.pk}
    assert eve.get(path(Operation, f"{both.pk}/change/")).status_code == 302
    eve.post(path(Operation), {"action": "undo", "_selected_action": [str(both.pk), str(own.pk)]})
    states = dict(Operation.objects.values_list("pk", "state"))
    assert states == {own.pk: "undone", both.pk: "waiting"}
