"""Reasons that a project requires: on pages, in operations, in the API, and in the admin."""

from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from ledger.access import reasons
from ledger.access.reasons import ReasonRequired, require_reason
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, DeadLetter, Event, Instruction, Project, Task
from retries.models import Operation
from retries.operations.starting import start_operation
from retries.policies.editing import change_policies
from retries.verbs import agents, dead_letters, instructions, permission_rules, plans, rules, tasks
from retries.verbs.verb import Verb
from tests.conftest import Api
from tests.dashboard.seen import html
from tests.dashboard.worked import buried, enqueued, make_plan
from tests.factories import make_project, make_token, send
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.permissions.asking import make_rule as make_permission_rule

pytestmark = pytest.mark.django_db

WHY = "the wrong branch"


@pytest.fixture
def project(project: Project) -> Project:
    project.reason_verbs = list(reasons.VERBS)
    project.save()
    return project


def make_row(verb: str, agent: Agent, now: datetime) -> Any:
    match verb:
        case "task.abort" | "task.skip":
            return Task.objects.get(pk=enqueued(agent, now=now))
        case "plan.abort":
            return make_plan("03-01", [("One", [])], now=now, agent=agent)[0]
        case "instruction.cancel":
            return Instruction.objects.get(pk=send(agent, now=now))
        case "dead_letter.dismiss":
            return buried(agent=agent, now=now)
        case "agent.reset":
            send(agent, now=now)
            return agent
        case "rule.retire":
            return make_rule("Look", project=agent.project)
        case "permission_rule.revoke":
            return make_permission_rule(agent, "npm test", now=now)
    raise AssertionError(verb)


MODULES = (agents, dead_letters, instructions, permission_rules, plans, rules, tasks)
DECLARED = {
    verb.name: verb
    for module in MODULES
    for verb in vars(module).values()
    if isinstance(verb, Verb) and verb.may_require_reason
}
PATHS = {
    "task.abort": "/tasks/{id}/abort/",
    "task.skip": "/tasks/{id}/skip/",
    "plan.abort": "/plans/{id}/abort/",
    "instruction.cancel": "/instructions/{id}/withdraw/",
    "dead_letter.dismiss": "/dead-letters/{id}/dismiss/",
    "agent.reset": "/agents/{id}/reset/",
    "rule.retire": "/instructions/standing/{id}/retire/",
    "permission_rule.revoke": "/settings/permissions/{id}/revoke/",
}
CALLS = {
    "task.abort": ("POST", "/tasks/{id}/abort", "reason"),
    "plan.abort": ("POST", "/plans/{id}/abort", "reason"),
    "instruction.cancel": ("POST", "/instructions/{id}/cancel", "reason"),
    "dead_letter.dismiss": ("POST", "/dead-letters/{id}/dismiss", "note"),
    "agent.reset": ("POST", "/agents/{id}/reset", "reason"),
    "rule.retire": ("DELETE", "/standing-instructions/{id}", "reason"),
    "permission_rule.revoke": ("POST", "/permission-rules/{id}/revoke", "reason"),
}


def journaled(reason: str) -> bool:
    found = Event.objects.order_by("id").values_list("data", flat=True)
    return any(reason in (data.get("note"), data.get("reason")) for data in found)


def test_each_verb_is_declared() -> None:
    assert DECLARED.keys() == PATHS.keys() == set(reasons.VERBS)
    assert CALLS.keys() == set(reasons.VERBS) - {"task.skip"}  # no call skips a task


@pytest.mark.parametrize("verb", reasons.VERBS)
def test_a_page_refuses_it_and_then_journals_the_reason(
    browser: Client, project: Project, agent: Agent, now: datetime, verb: str
) -> None:
    row = make_row(verb, agent, now)
    path = PATHS[verb].format(id=row.pk)
    asked = html(browser.get(path.rsplit("/", 2)[0] + "/", {"ask": DECLARED[verb].slug}))
    assert "Required by the project" in asked, verb
    refused = html(browser.post(path, {"confirmed": "yes"}, follow=True))
    assert "requires a reason to" in refused and not journaled(WHY)
    told = {"confirmed": "yes", "note" if "dead" in verb else "reason": WHY}
    done = html(browser.post(path, told, follow=True))
    assert "Nothing changed" not in done and journaled(WHY)


@pytest.mark.parametrize("verb", CALLS)
def test_the_api_refuses_it_with_a_code(
    project: Project, agent: Agent, now: datetime, verb: str
) -> None:
    row, operator = make_row(verb, agent, now), Api(make_token("operator"))
    method, path, name = CALLS[verb]
    path = path.format(id=row.pk)
    for body in (None, {name: "  "}):
        refused = operator(method, path, body if method == "POST" else None)
        assert (refused.status_code, refused.body["code"]) == (422, "reason_required"), verb
        assert "The project default requires a reason to" in refused.body["detail"]
    if method == "DELETE":
        done = operator(method, f"{path}?reason=the%20wrong%20branch")
    else:
        done = operator(method, path, {name: WHY})
    assert done.status_code == 200 and journaled(WHY), done.body


def test_many_letters_are_not_dismissed_without_a_note(
    project: Project, agent: Agent, now: datetime
) -> None:
    letter, operator = buried(agent=agent, now=now), Api(make_token("operator"))
    body = {"action": "dismiss", "ids": [str(letter.pk)]}
    assert operator("POST", "/dead-letters/bulk", body).body["code"] == "reason_required"
    assert DeadLetter.objects.open().count() == 1
    assert operator("POST", "/dead-letters/bulk", body | {"note": WHY}).status_code == 200


@pytest.mark.parametrize("verb", ["task.abort", "instruction.cancel", "dead_letter.dismiss"])
def test_an_operation_is_not_started_without_a_reason(
    browser: Client, project: Project, agent: Agent, now: datetime, verb: str
) -> None:
    row = make_row(verb, agent, now)
    chosen = type(row).objects.filter(pk=row.pk)
    with pytest.raises(ReasonRequired):
        start_operation(verb, chosen, reason=" ", stamp=Stamp(SYSTEM, now))
    form = {"id": str(row.pk)}
    question = html(browser.post(f"/operations/new/{verb}/", form))
    assert "required; kept in the audit log" in " ".join(question.split())
    refused = browser.post(f"/operations/new/{verb}/", form | {"confirmed": "yes"})
    assert refused.status_code == 422 and "requires a reason" in html(refused, 422)
    assert not Operation.objects.exists()
    started = start_operation(verb, chosen, reason=WHY, stamp=Stamp(SYSTEM, now))
    assert started.reason == WHY


def test_a_reason_of_unseen_characters_is_none(
    project: Project, agent: Agent, now: datetime
) -> None:
    row, operator = make_row("task.abort", agent, now), Api(make_token("operator"))
    for reason in ("\u200b", "\u2060 \u202e"):
        refused = operator("POST", f"/tasks/{row.pk}/abort", {"reason": reason})
        assert (refused.status_code, refused.body["code"]) == (422, "reason_required")


def test_an_agent_is_not_stopped_with_an_abort_without_a_reason(
    browser: Client, project: Project, agent: Agent, now: datetime
) -> None:
    make_row("task.abort", agent, now)
    path = f"/agents/{agent.pk}/stop/"
    assert "required to abort" in html(browser.get(path))
    form = {"pause": "yes", "abort": "yes"}
    refused = browser.post(path, form)
    assert "requires a reason to abort a task" in html(refused, 422)
    agent.refresh_from_db()
    assert not agent.paused
    assert browser.post(path, {"pause": "yes"}).status_code == 302, "nothing is aborted"
    assert browser.post(path, form | {"reason": WHY}).status_code == 302


def test_the_admin_takes_a_reason(
    admin_client: Client, project: Project, agent: Agent, now: datetime
) -> None:
    row = make_row("task.abort", agent, now)
    path = "/admin/ledger/task/"
    assert 'name="reason"' in html(admin_client.get(path))
    form = {"action": "abort", "_selected_action": str(row.pk)}
    asked = admin_client.post(path, form | {"reason": WHY})
    assert f'name="reason" value="{WHY}"' in html(asked), "the question keeps the reason"
    form |= {"confirmed": "yes"}
    assert "requires a reason" in html(admin_client.post(path, form, follow=True))
    admin_client.post(path, form | {"reason": WHY}, follow=True)
    row.refresh_from_db()
    assert row.state == "aborted" and journaled(WHY)


def test_one_of_several_projects_is_enough(project: Project, agent: Agent, now: datetime) -> None:
    other = make_project("other")
    require_reason("task.abort", [other.pk], "")
    with pytest.raises(ReasonRequired, match="default requires a reason to abort a task"):
        require_reason("task.abort", [other.pk, project.pk], "")
    require_reason("task.abort", [other.pk, project.pk], WHY)
    require_reason("task.retry", [project.pk], "")


def test_the_policies_have_the_verbs(browser: Client, agent: Agent) -> None:
    operator, project = Api(make_token("operator")), agent.project
    Project.objects.update(reason_verbs=[])
    assert operator("GET", "/policies").body["reason_verbs"] == []
    form = {"verb": ["plan.abort", "task.abort"], "reason": WHY, "version": "1"}
    page = browser.post("/settings/policies/reasons/", form, follow=True)
    assert "Saved for which actions" in html(page)
    assert operator("GET", "/policies").body["reason_verbs"] == ["task.abort", "plan.abort"]
    event = Event.objects.get(kind=Kind.PROJECT_POLICIES_CHANGED)
    assert event.data == {"reason_verbs": ["task.abort", "plan.abort"], "reason": WHY}
    for change in ({"reason": ""}, {"version": "1"}, {"verb": "task.retry"}):
        refused = html(
            browser.post(
                "/settings/policies/reasons/", form | {"version": "2"} | change, follow=True
            )
        )
        assert "Nothing was changed" in refused, change
    headers = {"If_Match": '"v2"'}
    changed = operator("PATCH", "/policies", {"reason_verbs": []}, **headers)
    assert changed.status_code == 200 and changed.body["reason_verbs"] == []
    with pytest.raises(Invalid):
        change_policies(project, {}, reason_verbs=["x"], stamp=Stamp(SYSTEM))
