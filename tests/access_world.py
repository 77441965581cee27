"""One of everything in a project, for the walks that try what callers may not do."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model

from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.markers import create_marker
from ledger.models import (
    Agent,
    Attempt,
    Budget,
    Instruction,
    Membership,
    Plan,
    Project,
    StandingInstruction,
    Task,
    TaskHistory,
    Token,
)
from ledger.people.browsers import note_sign_in
from ledger.people.invitations import invite
from ledger.people.saved_views import save_view
from ledger.pools import membership
from ledger.secrets import encryption
from ledger.states import TaskState
from retries import in_process
from retries.budgets.editing import BudgetSpec, Scope, set_budget
from retries.budgets.prices import set_price
from retries.budgets.shipped_prices import Price
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.insight.experiments import start_experiment
from retries.models import (
    AttemptSpan,
    AttemptTrace,
    Channel,
    Escalation,
    EscalationPolicy,
    FailurePattern,
    NotificationRule,
    Rota,
    StreamCursor,
)
from retries.notifications import signatures
from retries.on_call.editing import create_policy, create_rota
from retries.states import Answer
from tests.conftest import Api
from tests.dashboard.notifications.deliveries import (
    make_channel,
    make_delivery,
    make_notification_rule,
)
from tests.dashboard.sessions.conversations import make_busy_session
from tests.dashboard.worked import MARA, buried, claimed, enqueued, make_task
from tests.factories import make_token, pull, send, tick
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import start as start_operation
from tests.retries.permissions.asking import ask as ask_permission
from tests.retries.permissions.asking import make_rule as make_permission_rule

# stands in every text of the world, so that a leak shows
MARK = "zebra"
PLAN = f"""---
phase: 03
plan: 01
agent: coder
---
<tasks>
<task type="auto">
<name>Create the {MARK}</name>
<action>Write it</action>
<verify>`npm test -- {MARK}`</verify>
</task>
</tasks>
"""
# rows of the instance, and a view
LEFT_OUT = (StreamCursor, TaskHistory)
# what a call notes about its caller, and what counts requests
VOLATILE = {
    *("last_used_at", "last_used_ip", "first_used_at", "first_call", "first_hook"),
    *("last_seen_at", "last_login"),
}


@dataclass(frozen=True)
class World:
    """One of everything in a project, by the names of the arguments of addresses."""

    project: Project
    agent: Agent
    ids: dict[str, Any]


def make_world(agent: Agent, now: datetime) -> World:
    """Make one of everything that has a page, an operation of the API, or an admin action."""
    project, start = agent.project, now - timedelta(minutes=2)
    Agent.objects.filter(pk=agent.pk).update(concurrency=100)
    pool = membership.create(
        f"{MARK}-pool", members=[agent], project=project, stamp=Stamp(SYSTEM, now)
    )
    ignored = send(agent, f"Ignore {MARK}", max_retries=0, on_failed="escalate", now=start)
    pull(agent, now=start)
    tick(now)
    delivered = send(agent, f"Deliver {MARK}", now=start)
    pull(agent, now=now)
    waiting = send(agent, f"Send {MARK}", now=now)
    why = {"message": f"{MARK} broke"}
    task = make_task(TaskState.ESCALATED, f"Ask {MARK}", agent=agent, now=start, why=why)
    answered = make_task(TaskState.ESCALATED, f"Answer {MARK}", agent=agent, now=start, why=why)
    undoable = Escalation.objects.get(task=answered)
    answering.answer(
        undoable.pk,
        Choice(Answer.RETRY),
        among=Escalation.objects.all(),
        stamp=Stamp(SYSTEM, now),
        channel="page",
        undo_for=timedelta(hours=1),
    )
    traced = Attempt.objects.get(task=task)
    AttemptTrace.objects.create(project=project, attempt=traced, spans=1, updated_at=now)
    AttemptSpan.objects.create(
        attempt=traced,
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        span_id="00f067aa0ba902b7",
        name=f"Call {MARK}",
        kind=3,
        status=0,
        started_at=start,
        ended_at=now,
    )
    fix = teach_fix(agent, start)
    letter = buried(f"Bury {MARK}", agent=agent, now=start, error=f"{MARK} broke")
    running = enqueued(agent, f"Run {MARK}", now=start)
    attempt = claimed(agent, running, now=now)
    asking = claimed(agent, enqueued(agent, f"Question {MARK}", now=start), now=now)
    asked = Api(make_token("agent", agent=agent))(
        "POST", f"/attempts/{asking}/escalate", {"question": f"Which {MARK}?"}
    )
    assert asked.status_code in (200, 201), asked.content
    permission = ask_permission(agent, f"echo {MARK}", now=now)
    permission_rule = make_permission_rule(agent, f"printf {MARK}", now=now)
    queued = enqueued(agent, f"Queue {MARK}", now=start)
    producer = Api(make_token("orchestrator", project=project))
    imported = producer("POST", "/plans", PLAN, Content_Type="text/markdown")
    assert imported.status_code == 201, imported.content
    plan = Plan.objects.get()
    blocked = Task.objects.filter(plan=plan).order_by("pk").first()
    rule, pattern = make_rule(f"Rule {MARK}", project=project), FailurePattern.objects.first()
    channel = make_channel(MARK, project=project, kind="person", now=now)
    webhook = make_channel(f"{MARK} hook", project=project, now=now)
    Channel.objects.filter(pk=webhook.pk).update(
        signing_secrets=encryption.encrypt([{"secret": signatures.new_secret()}])
    )
    on_call = Membership.objects.create(
        user=User.objects.create_user(f"{MARK}-operator"), project=project, role=Role.OPERATOR
    ).user.username
    rota = create_rota(
        project, name=f"{MARK} rota", shifts=[], fallback=[on_call], stamp=Stamp(SYSTEM, now)
    )
    policy = create_policy(
        project,
        name=f"{MARK} policy",
        conditions="reason:none",
        answer_within_s=600,
        steps=["0 tell role:operator"],
        stamp=Stamp(SYSTEM, now),
    )
    told = make_notification_rule(channel, project=project, now=now)
    delivery = make_delivery(channel, now=now, title=f"Deliver {MARK}")
    session = make_busy_session(agent, now=now)
    make_token("agent", agent=agent, name=MARK)
    invitation, _ = invite(project, Role.VIEWER, stamp=Stamp(SYSTEM, now))
    guest = Membership.objects.create(
        user=User.objects.create_user(f"{MARK}-guest"), project=project, role=Role.VIEWER
    )
    browser = note_sign_in(
        guest.user, session_key="k", method="password", address="", user_agent=MARK, now=now
    )
    experiment = start_experiment(
        project, "standing", reason=f"try {MARK}", stamp=Stamp(SYSTEM, now)
    )
    plenty = BudgetSpec(unit="tokens", amount=Decimal(10**9))
    budget = set_budget(Scope(project.pk, plan.pk), plenty, stamp=Stamp(SYSTEM, now))
    price = set_price(
        project,
        f"{MARK}-1",
        starts_on=now.date(),
        price=Price(*(Decimal(1),) * 4),
        stamp=Stamp(SYSTEM, now),
    )
    operation = start_operation("task.skip", Task.objects.filter(pk=queued), now=now)
    assert pattern and blocked
    ids = {
        "instruction_id": waiting,
        "delivered_id": delivered,
        "ignored_id": ignored,
        "rule_id": rule.pk,
        "task_id": task.pk,
        "queued_id": queued,
        "blocked_id": blocked.pk,
        "running_id": running,
        "attempt_id": attempt,
        "plan_id": plan.pk,
        "plan": plan.pk,
        "ref": plan.ref,
        "letter_id": letter.pk,
        "pattern_id": pattern.pk,
        "agent_id": agent.pk,
        "pool_id": pool.pk,
        "token_id": Token.objects.get(name=MARK).pk,
        "session_id": session.pk,
        "experiment_id": experiment.pk,
        "channel_id": channel.pk,
        "webhook_id": webhook.pk,
        "notification_rule_id": told.pk,
        "escalation_policy_id": policy.pk,
        "rota_id": rota.pk,
        "row_id": policy.pk,
        "operator": on_call,
        "delivery_id": delivery.pk,
        "operation_id": operation.pk,
        "verb_name": "task.skip",
        "form": "csv",
        "noun": "tasks",
        "number": 1,
        "order": 4,
        "escalation_id": Escalation.objects.get(task=task).pk,
        "undoable_id": undoable.pk,
        "permission_id": permission.pk,
        "permission_rule_id": permission_rule.pk,
        "budget_id": budget.pk,
        "price_id": price.pk,
        "question_id": UUID(asked.body["id"]),
        "member_id": guest.pk,
        "invitation_id": invitation.pk,
        "sign_in_id": browser.pk,
        "view_id": make_view(project),
        "marker_id": create_marker(f"deploy {MARK}", project=project, stamp=Stamp(SYSTEM, now)).pk,
        "fix": fix,
    }
    ids["versions"] = read_versions(ids)
    assert Instruction.objects.filter(pk=waiting, state="queued").exists()
    return World(project, agent, ids)


def teach_fix(agent: Agent, now: datetime) -> dict[str, str]:
    """Answer a failed task with a fix that works, and return what names the fix."""
    why = {"message": f"{MARK} broke"}
    task = make_task(TaskState.ESCALATED, f"Fix {MARK}", agent=agent, now=now, why=why)
    answering.answer(
        Escalation.objects.get(task=task).pk,
        Choice(Answer.FIX, fix=f"Repair the {MARK}"),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, now + timedelta(seconds=15)),
        channel="page",
    )
    attempt = claimed(agent, task.pk, now=now + timedelta(seconds=20))
    in_process.report_success(attempt, {}, stamp=Stamp(SYSTEM, now + timedelta(seconds=30)))
    operator, pattern = Api(make_token("operator")), FailurePattern.objects.get()
    (found,) = operator("GET", f"/patterns/{pattern.pk}/fixes").body["data"]
    return {"signature": found["signature"]["key"], "key": found["key"], "note": "checked"}


VERSIONED: tuple[tuple[str, type[Model]], ...] = (
    ("channel_id", Channel),
    ("webhook_id", Channel),
    ("notification_rule_id", NotificationRule),
    ("escalation_policy_id", EscalationPolicy),
    ("rota_id", Rota),
    ("budget_id", Budget),
    ("plan_id", Plan),
    ("rule_id", StandingInstruction),
    ("queued_id", Task),
)


def read_versions(ids: dict[str, Any]) -> dict[str, int]:
    """Return the versions of the rows that only the caller who has read them may change."""
    rows: list[tuple[str, Any]] = [
        (name, model._default_manager.get(pk=ids[name])) for name, model in VERSIONED
    ]
    return {name: row.version for name, row in rows}


def make_view(project: Project) -> UUID:
    name = f"{MARK} {uuid4()}"[:40]
    return UUID(str(save_view(project, "tasks", name, query="state:retry", stamp=Stamp(SYSTEM)).pk))


# ---- what has changed


@cache
def rows_sql() -> str:
    """Return the SQL that reads every row that a caller can change, as JSON."""
    names = ["auth_user", "auth_user_groups", "auth_user_user_permissions", "auth_group"]
    for app in ("ledger", "retries", "dashboard"):
        models = apps.get_app_config(app).get_models(include_auto_created=True)
        names += [each._meta.db_table for each in models if each not in LEFT_OUT]
    volatile = ",".join(sorted(VOLATILE))
    return " union all ".join(
        f"select '{name}', (to_jsonb(t) - '{{{volatile}}}'::text[])::text from {name} t"
        for name in sorted(set(names))
    )


def read_rows() -> Counter[tuple[str, str]]:
    """Return every row of the database, without what a call notes about its caller."""
    with connection.cursor() as cursor:
        cursor.execute(rows_sql())
        return Counter((name, row) for name, row in cursor.fetchall())


def list_changes(
    before: Counter[tuple[str, str]], *, besides: Sequence[object] = ()
) -> list[tuple[str, Any]]:
    """Return the rows that are new, gone or different, but for those that belong to `besides`."""
    after = read_rows()
    changed = [(name, json.loads(row)) for name, row in [*(before - after), *(after - before)]]
    others = {str(id) for id in besides}
    ours: list[tuple[str, Any]] = []
    for _ in range(3):  # rows of rows of rows
        ours = [row for row in changed if not others & {str(each) for each in row[1].values()}]
        others |= {str(row.get("id")) for _, row in changed if (_, row) not in ours}
    return ours
