"""People who may only look: no page shows them a button that would refuse them."""

import re
from datetime import datetime, timedelta

from django.contrib.auth.models import Permission, User
from django.test import Client

from dashboard.frame.access import PAGES
from ledger.authorization.permissions import ENTER
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Membership, Plan, Task
from ledger.pools import membership
from ledger.states import TaskState
from retries.models import Escalation, FailurePattern
from tests.dashboard.conftest import PART
from tests.dashboard.limits.shares import note_share
from tests.dashboard.notifications.deliveries import (
    make_channel,
    make_delivery,
    make_notification_rule,
)
from tests.dashboard.plans.conftest import MARKDOWN, form
from tests.dashboard.seen import html
from tests.dashboard.sessions.conversations import make_busy_session
from tests.dashboard.worked import buried, make_task
from tests.factories import pull, send, tick
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import start as start_operation
from tests.retries.permissions.asking import make_rule as make_permission_rule

# What sends something: a form, a button that a form outside of it sends, and links to forms.
SENDS = re.compile(
    r'<form[^>]*method="post"|formaction=|hx-post=|<input[^>]*form="bulk-form"|data-pick-all'
    r'|href="(/instructions/new/|/tasks/new/|/plans/import/|/instructions/standing/new/|/settings/permissions/new/)|/edit/"|class="btn[^>]*[?&]ask='
)
# everyone may sign out, here or elsewhere, set a profile, quiet hours and columns of their own, and
# hide the first steps
OWN = re.compile(
    r'<form[^>]*action="(/sign-out/|/first-steps/|/columns/|[^"]*/quiet-hours/|/settings/profile/|/settings/people/browsers/)'
    r".*?</form>"
)


def make_world(agent: Agent, browser: Client, now: datetime) -> dict[str, str]:
    """Make one of everything that has actions, and return the addresses of its pages."""
    start = now - timedelta(minutes=2)
    ignored = send(agent, max_retries=0, on_failed="escalate", now=start)
    pull(agent, now=start)
    tick(now)
    waiting = send(agent, now=now)
    task = make_task(TaskState.ESCALATED, agent=agent, now=start)
    letter = buried(agent=agent, now=start)
    browser.post("/plans/import/", form(MARKDOWN, confirmed="yes"))
    plan, rule = Plan.objects.get(), make_rule()
    question = Escalation.objects.get(instruction=ignored)
    asked = Escalation.objects.get(task=task)
    pattern = FailurePattern.objects.first()
    channel = make_channel(project=agent.project, now=now)
    told, delivery = make_notification_rule(channel, now=now), make_delivery(channel, now=now)
    assert pattern
    operation = start_operation("task.skip", Task.objects.filter(pk=task.pk), now=now)
    allowed = make_permission_rule(agent, "npm test", now=now)
    note_share(agent, 0.82, now=now)
    pool = membership.create(
        "reviewers", members=[agent], project=agent.project, stamp=Stamp(SYSTEM, now)
    )
    return {
        "home": "/",
        "settings": "/settings/",
        "activity": "/activity/",
        "instructions": f"/instructions/?open={waiting}",
        "instruction": f"/instructions/{waiting}/?ask=cancel",
        "rules": "/instructions/standing/",
        "rule": f"/instructions/standing/{rule.pk}/",
        "tasks": "/tasks/",
        "task_types": "/tasks/types/",
        "task": f"/tasks/{task.pk}/?ask=abort",
        "plans": "/plans/",
        "plan": f"/plans/{plan.pk}/?ask=abort",
        "plan_summary": f"/plans/{plan.pk}/summary/",
        "deadletters": "/dead-letters/",
        "deadletter": f"/dead-letters/{letter.pk}/?ask=dismiss",
        "patterns": "/patterns/",
        "pattern": f"/patterns/{pattern.pk}/",
        "agents": "/agents/",
        "agent": f"/agents/{agent.pk}/?ask=trip",
        "connect": "/agents/connect/",
        "task_contexts": f"/tasks/{task.pk}/contexts/",
        "task_spans": f"/tasks/{task.pk}/spans/1/",
        "permission_rules": "/settings/permissions/",
        "permission_rule": f"/settings/permissions/{allowed.pk}/?ask=revoke",
        "policies": "/settings/policies/?ask=obey_waits&scope=off",
        "on_call": "/settings/on-call/?edit=policy:new",
        "budgets": "/settings/budgets/",
        "notifications": "/settings/notifications/?edit=new&channel=new",
        "notification_preview": f"/settings/notifications/rules/{told.pk}/preview/",
        "deliveries": f"/settings/deliveries/?range=yes&open={delivery.pk}",
        "insight": "/insight/",
        "limits": "/limits/",
        "pools": "/agents/pools/",
        "pool": f"/agents/pools/{pool.pk}/",
        "operations": "/operations/",
        "audit": "/settings/audit/",
        "operation": f"/operations/{operation.pk}/",
        "people": "/settings/people/",
        "tokens": "/settings/tokens/?new=1",
        "profile": "/settings/profile/",
        "sessions": "/sessions/",
        "session": f"/sessions/{make_busy_session(agent, now=now).pk}/?make=4",
        "escalations": f"/escalations/?id={asked.pk}",
        "escalation": f"/escalations/{question.pk}/",
    }


# what has no actions of its own, and views that are no pages
QUIET = {
    "audit",
    "operations",
    "task_contexts",
    "task_spans",
    "settings",
    "activity",
    "plan_summary",
    "connect",
    "home",
    "limits",
    "notification_preview",
    "profile",
}
PARTS = {
    "complete",
    "audit_export",
    *(
        f"{noun}_export"
        for noun in (
            *("tasks", "instructions", "escalations", "deadletters", "patterns", "plans"),
            *("sessions", "activity", "agents", "rules", "deliveries", "operations", "insight"),
            "permission_rules",
        )
    ),
    "browser_end",
    "browsers_end_others",
    "first_steps",
    "list_columns",
    "profile_save",
    "profile_password",
    "plan_by_ref",
    "escalation_preview",
    "search",
    "session_message",
    "task_output",
    "notification_quiet",
}


def test_no_page_shows_a_button_that_refuses(agent: Agent, browser: Client, now: datetime) -> None:
    """One line says what is missing; those who may act get the buttons and not the line."""
    verbs = {name: each.permission for name, each in PAGES.items()}
    views = {verb for verb in verbs.values() if ".view_" in verb or verb == ENTER}
    eve = User.objects.create_user("eve", is_staff=True)
    names = [verb.partition(".")[2] for verb in views - {ENTER}]
    eve.user_permissions.set(Permission.objects.filter(codename__in=names))
    reader = Client()
    reader.force_login(eve)
    lists = [f"/{name}/" for name in ("plans", "tasks", "agents", "instructions/standing")]
    for path in ("/", *lists):  # with nothing to show yet
        assert not SENDS.search(read(reader, path)), path
    paths = make_world(agent, browser, now)
    assert {name for name, verb in verbs.items() if verb in views} - PARTS == set(paths)
    for name, path in paths.items():
        text, acting = read(reader, path), read(browser, path)
        assert not SENDS.search(text) and not re.search(r">\s*Answer\b", text), (
            name,
            SENDS.search(text),
        )
        assert text.count('id="read-only"') == (name not in QUIET), name
        assert 'id="read-only"' not in acting, name
        assert name in QUIET or SENDS.search(acting), name


# the keys of actions, in the key line and in the dialog of shortcuts
ACTION_KEYS = re.compile(
    r"</kbd> (answer|write|send|skip|leave|cancel|abort|snooze|assign|probe|keep|import|retry"
    r"|resolve|ignore|reopen|pause or|replay|dismiss)\b"
    r"|<dt>(Write an answer|Skip|Abort|Snooze|Assign|Import|Replay|Dismiss|Probe|Resolve|Send a)[^<]*</dt> ?<dd> ?<kbd"
)


def test_a_viewer_is_told_one_sentence_and_no_key_that_does_nothing(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """OPR-18, OPR-42: in words of the product, also where a page or a form is refused."""
    paths = make_world(agent, browser, now)
    vic = User.objects.create_user("vic")
    Membership.objects.create(user=vic, project=agent.project, role=Role.VIEWER)
    viewer, changes = Client(), "an admin of the project can change it."
    viewer.force_login(vic)
    for name, path in paths.items():
        response = viewer.get(path)
        text = html(response, response.status_code)
        assert "“Can " not in text and not ACTION_KEYS.search(text), (name, path)
        told = "does not include this" if response.status_code == 403 else "can only read"
        own = name == "people"  # it names the admins
        if response.status_code == 403 or ('id="read-only"' in text and not own):
            assert f"Your role in this project {told}; {changes}" in text, name
    assert ACTION_KEYS.search(read(browser, paths["escalation"]))
    sent = viewer.post(f"{paths['escalation']}answer/", headers=PART)
    assert sent.content.decode() == (
        f"Your role in this project can only read; {changes} Nothing was changed."
    )


def read(client: Client, path: str) -> str:
    return OWN.sub("", html(client.get(path)))
