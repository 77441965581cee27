"""Walk each page and each action as each role, as a stranger, and as a member elsewhere."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from dashboard.access import REQUIRED
from dashboard.urls import urlpatterns
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Membership, Plan, Project, Task, Token
from ledger.people.browsers import note_sign_in
from ledger.people.invitations import invite
from ledger.permissions import ENTER, may, projects_where
from ledger.roles import Role, role_needed
from ledger.saved_views import save_view
from ledger.states import TaskState
from retries.insight.experiments import start_experiment
from retries.models import Escalation, FailurePattern
from tests.dashboard.conftest import PART
from tests.dashboard.notifications.deliveries import (
    make_channel,
    make_delivery,
    make_notification_rule,
)
from tests.dashboard.plans.conftest import MARKDOWN, form
from tests.dashboard.sessions.conversations import make_busy_session
from tests.dashboard.worked import buried, make_task
from tests.factories import make_agent, make_project, make_token, pull, send, tick
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import start as start_operation

# the verb that the walk asks of each action
VERBS = {
    "instruction_act": "withdraw",
    "rule_act": "pause",
    "task_act": "skip",
    "plan_act": "pause",
    "deadletter_act": "dismiss",
    "operation_act": "stop",
    "pattern_act": "ignore",
    "pattern_fix": "promote",
    "patterns_act": "ignore",
    "agent_act": "pause",
    "policy_switch": "obey_waits",
    "member_act": "operator",
    "token_act": "rotate",
    "notification_rule_act": "off",
    "notification_channel_act": "off",
}


# what a form holds without which there is nothing to act on
FORMS = {
    "invite": {"role": "viewer"},
    "token_new": {"kind": "reader"},
    "policy_switch": {"scope": "off"},
    "experiment_start": {"in": "default"},
}


@dataclass(frozen=True)
class World:
    """One of everything in a project, by the URL patterns' arguments."""

    project: Project
    ids: dict[str, Any]

    def path_of(self, name: str) -> str:
        """Return the address of a URL pattern."""
        pattern = next(each for each in urlpatterns if each.name == name)
        keys = re.findall(r"<\w+:(\w+)>", str(pattern.pattern))
        own = {key: self.ids.get(f"{name}.{key}", self.ids.get(key)) for key in keys}
        own |= {key: VERBS[name] for key in ("verb", "name") if key in keys}
        own |= {key: "csv" for key in ("form",) if key in keys}
        assert None not in own.values(), (name, own)
        return reverse(f"dashboard:{name}", kwargs=own)

    def form_of(self, name: str) -> dict[str, Any]:
        """Return the fields of an action's form without which there is nothing to act on."""
        return {"target_set": {"agent": str(self.ids["agent_id"])}}.get(name) or FORMS.get(name, {})


@pytest.fixture
def world(agent: Agent, browser: Client, now: datetime) -> World:
    send(agent, max_retries=0, on_failed="escalate", now=now)
    pull(agent, now=now)
    tick(now)
    waiting = send(agent, now=now)
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    letter = buried(agent=agent, now=now)
    browser.post("/plans/import/", form(MARKDOWN, confirmed="yes"))
    plan, rule = Plan.objects.get(), make_rule()
    pattern = FailurePattern.objects.first()
    channel = make_channel(project=agent.project, kind="person", now=now)
    told = make_notification_rule(channel, project=agent.project, now=now)
    make_delivery(channel, now=now)
    make_token("agent", agent=agent)
    invitation, _ = invite(agent.project, Role.VIEWER, stamp=Stamp(SYSTEM, now))
    guest = Membership.objects.create(
        user=User.objects.create_user("guest"), project=agent.project, role=Role.VIEWER
    )
    browser_row = note_sign_in(
        guest.user, session_key="k", method="password", address="", user_agent="", now=now
    )
    experiment = start_experiment(
        agent.project, "standing", reason="try it", stamp=Stamp(SYSTEM, now)
    )
    assert pattern
    ids = {
        "instruction_id": waiting,
        "rule_id": rule.pk,
        "task_id": task.pk,
        "plan_id": plan.pk,
        "plan": plan.pk,
        "ref": plan.ref,
        "letter_id": letter.pk,
        "pattern_id": pattern.pk,
        "agent_id": agent.pk,
        "token_id": Token.objects.get().pk,
        "session_id": make_busy_session(agent, now=now).pk,
        "experiment_id": experiment.pk,
        "channel_id": channel.pk,
        "operation_id": start_operation("task.skip", Task.objects.all(), now=now).pk,
        "verb_name": "task.skip",
        "format": "csv",
        "escalation_id": Escalation.objects.get(task=task).pk,
        "member_id": guest.pk,
        "invitation_id": invitation.pk,
        "sign_in_id": browser_row.pk,
        "view_id": make_view(agent.project),
        "noun": "tasks",
        "number": 1,
        "order": 1,
    }
    ids |= {f"{name}.rule_id": told.pk for name in REQUIRED if name.startswith("notification")}
    return World(agent.project, ids)


def make_view(project: Project) -> UUID:
    view = save_view(project, "tasks", f"View {uuid4()}"[:40], query="state:retry", by="mara")
    return UUID(str(view.pk))


def sign_in(role: str, project: Project | None = None) -> Client:
    user = User.objects.create_user(f"{role}-{project.name if project else 'none'}")
    if project:
        Membership.objects.create(user=user, project=project, role=role, added_by="mara")
    client = Client()
    client.force_login(user)
    return client


def call(client: Client, path: str, data: dict[str, Any] | None = None) -> HttpResponse:
    """Request a path: by GET, or by POST if it takes no other."""
    response = client.get(path)
    return client.post(path, data or {}) if response.status_code == 405 else response


def test_each_role_opens_its_pages_and_actions_and_no_others(world: World) -> None:
    """A weaker role gets 403, people of other projects 404, and people of none sign in."""
    elsewhere = make_project("elsewhere")
    make_agent("foreign", project=elsewhere)
    members = {role: sign_in(role, world.project) for role in Role}
    foreign, stranger = sign_in(Role.ADMIN, elsewhere), sign_in("stranger")
    before = Event.objects.exclude(project_id=elsewhere.pk).count()
    for name in REQUIRED:
        path = world.path_of(name)
        assert call(stranger, path).status_code == 302, name
        named = re.search(r"[0-9a-f]{8}-|03-01", path)
        seen = call(foreign, path)
        expected = seen.status_code == 404 if named else seen.status_code not in (401, 403)
        assert expected, (name, seen.status_code)
        assert call(foreign, f"{path}?project={world.project.name}").status_code == 404, name
    assert Event.objects.exclude(project_id=elsewhere.pk).count() == before
    for role, client in members.items():
        for name, verb in REQUIRED.items():
            needed = Role.VIEWER if verb == ENTER else role_needed(verb)
            if name == "view_delete":  # the role before has deleted it
                world.ids["view_id"] = make_view(world.project)
            assert needed, name
            status = call(client, world.path_of(name), world.form_of(name)).status_code
            if name == "browser_end":  # one's own, or with the admin's role another member's
                needed = Role.ADMIN
                assert status == (302 if role == needed else 404), (role, status)
            elif role.rank < needed.rank:
                assert status == 403, (role, name, status)
                script = client.post(world.path_of(name), headers=PART)
                assert script.status_code in (403, 405), (role, name)
            else:
                assert status not in (401, 403, 404), (role, name, status)


def test_may_gives_each_role_what_is_its_own_where_it_is(project: Project) -> None:
    """`may` needs the project, and a role elsewhere gives nothing here."""
    other = make_project("elsewhere")
    user = User.objects.create_user("eve")
    Membership.objects.create(user=user, project=project, role=Role.OPERATOR, added_by="mara")
    assert may(user, ENTER) and may(user, ENTER, project.pk) and not may(user, ENTER, other.pk)
    for verb, allowed in (
        ("ledger.view_task", True),
        ("ledger.change_task", True),
        ("ledger.view_token", True),
        ("ledger.add_token", False),
        ("retries.change_retrypolicy", False),
        ("ledger.add_project", False),
        ("auth.change_user", False),
    ):
        assert may(user, verb, project.pk) is allowed, verb
        assert not may(user, verb, other.pk) and not may(user, verb), verb
        assert projects_where(user, verb) == ({project.pk} if allowed else set()), verb
    user.is_active = False
    assert not may(user, ENTER) and not may(user, "ledger.view_task", project.pk)
