"""Look up the facts for messages about events: titles, reasons, and how many tasks wait."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from ledger.database.sql import Row
from ledger.journal import Kind
from ledger.models import Agent, Instruction, Plan, Project, Task
from ledger.values.text import truncate
from retries.models import Escalation, FailurePattern
from retries.notifications.messages.wording import Facts
from retries.states import QUESTIONS, Reason

TITLE_LENGTH = 200
# the page of each subject
PAGES = {
    "agent": "agents",
    "budget": "settings/budgets",
    "channel": "settings/notifications",
    "escalation": "escalations",
    "instruction": "instructions",
    "limit": "limits",
    "pattern": "patterns",
    "plan": "plans",
    "price": "settings/budgets",
    "task": "tasks",
}


@dataclass(frozen=True, slots=True)
class Subjects:
    """The rows that a batch of events is about, by id."""

    projects: dict[UUID, Project] = field(default_factory=dict)
    agents: dict[UUID, Agent] = field(default_factory=dict)
    escalations: dict[UUID, Escalation] = field(default_factory=dict)
    tasks: dict[UUID, Task] = field(default_factory=dict)
    plans: dict[UUID, Plan] = field(default_factory=dict)
    instructions: dict[UUID, Instruction] = field(default_factory=dict)
    patterns: dict[UUID, FailurePattern] = field(default_factory=dict)

    def plan_of(self, event: Row) -> UUID | None:
        if event["subject_type"] == "plan":
            return UUID(str(event["subject_id"]))
        task = self.task_of(event)
        return task.plan_id if task else None

    def task_of(self, event: Row) -> Task | None:
        if event["subject_type"] == "escalation":
            escalation = self.escalations.get(event["subject_id"])
            return escalation.task if escalation else None
        return self.tasks.get(event["subject_id"])

    def severity_of(self, event: Row) -> str:
        escalation = self.escalations.get(event["subject_id"])
        return escalation.severity if escalation else ""


def fetch_subjects(events: Iterable[Row]) -> Subjects:
    # This takes one query for each noun.
    ids: dict[str, set[UUID]] = {}
    for event in events:
        ids.setdefault(event["subject_type"], set()).add(event["subject_id"])
        ids.setdefault("project", set()).add(event["project_id"])
        if event["agent_id"]:
            ids.setdefault("agent", set()).add(event["agent_id"])

    def rows(query: Any, noun: str) -> dict[UUID, Any]:
        wanted = ids.get(noun)
        return {row.pk: row for row in query.filter(pk__in=wanted)} if wanted else {}

    return Subjects(
        projects=rows(Project.objects.all(), "project"),
        agents=rows(Agent.objects.all(), "agent"),
        escalations=rows(
            Escalation.objects.select_related(
                "task", "task__plan", "instruction", "permission", "assignee"
            ),
            "escalation",
        ),
        tasks=rows(Task.objects.select_related("plan"), "task"),
        plans=rows(Plan.objects.all(), "plan"),
        instructions=rows(Instruction.objects.all(), "instruction"),
        patterns=rows(FailurePattern.objects.all(), "pattern"),
    )


def facts_of(event: Row, about: Subjects, *, with_details: bool) -> Facts:
    """Return an event's facts for a message; error text only with details."""
    project = about.projects.get(event["project_id"])
    agent = about.agents.get(event["agent_id"])
    task, data = about.task_of(event), event["data"]
    escalation = about.escalations.get(event["subject_id"])
    plan = task.plan if task else about.plans.get(event["subject_id"])
    return Facts(
        kind=event["kind"],
        project=project.name if project else "",
        agent=agent.name if agent else "",
        title=title_of(event, about),
        reason=str(escalation.reason if escalation else data.get("reason") or ""),
        attempts=attempts_of(escalation),
        waiting=task.needed_by if task else count_silent_tasks(event),
        actor=event["actor_name"],
        action=str(data.get("action") or data.get("user") or ""),
        plan=plan.ref if plan else "",
        count=int(data.get("waiting") or data.get("failures") or data.get("count") or 0),
        detail=detail_of(event, about) if with_details else "",
        figures=figures_of(event),
        url=url_of(event["subject_type"], event["subject_id"]),
        short_id=short_id(event["subject_id"]),
        severity=about.severity_of(event),
        is_question=escalation is not None and escalation.reason in QUESTIONS,
        until=until_of(event, escalation),
        since=f"{event['at']:%Y-%m-%d %H:%M} UTC",
        subject_id=str(event["subject_id"]),
    )


def count_silent_tasks(event: Row) -> int:
    return int(event["data"].get("tasks") or 0) if event["kind"] == Kind.AGENT_SILENT else 0


def title_of(event: Row, about: Subjects) -> str:
    # A title may hold anything that an agent wrote.
    if task := about.task_of(event):
        return task.title or task.ref or task.type
    if escalation := about.escalations.get(event["subject_id"]):
        if escalation.permission:
            return escalation.permission.title
        return escalation.instruction.content if escalation.instruction else escalation.reason
    if plan := about.plans.get(event["subject_id"]):
        return f"{plan.ref} {plan.title}".strip()
    if instruction := about.instructions.get(event["subject_id"]):
        return str(instruction.content)
    if event["subject_id"] in about.patterns:  # its text is that of an error
        return f"failure pattern {short_id(event['subject_id'])}"
    agent = about.agents.get(event["subject_id"])
    return agent.name if agent else str(event["data"].get("name") or "")


def until_of(event: Row, escalation: Escalation | None) -> str:
    if escalation:
        return f"{escalation.expires_at:%H:%M} UTC" if escalation.expires_at else ""
    until = event["data"].get("until") if event["kind"] == Kind.LIMIT_REACHED else None
    return f"{datetime.fromisoformat(until):%Y-%m-%d %H:%M} UTC" if until else ""


def attempts_of(escalation: Escalation | None) -> str:
    if escalation is None or escalation.reason != Reason.MAX_RETRIES_EXCEEDED:
        return ""
    return f"failed {escalation.attempts} of {escalation.attempt_limit}"


def detail_of(event: Row, about: Subjects) -> str:
    task, escalation = about.task_of(event), about.escalations.get(event["subject_id"])
    if event["kind"] == Kind.TASK_FILES_OUTSIDE:
        return ", ".join(event["data"].get("files", []))
    if escalation and escalation.question:
        return str(escalation.question)
    if pattern := about.patterns.get(event["subject_id"]):
        return str(pattern.template)
    return str(task.error or "") if task else ""


def figures_of(event: Row) -> str:
    # Of what an agent wrote, they name the title alone.
    return str(event["data"].get("text") or "") if event["subject_type"] == "budget" else ""


def url_of(noun: str, id: UUID) -> str:
    if noun not in PAGES:
        return f"{settings.LINK_URL}/"
    page = f"{settings.LINK_URL}/{PAGES[noun]}/"
    return page if noun in ("budget", "channel", "limit", "price") else f"{page}{id}/"


def short_id(id: UUID) -> str:
    return str(id)[-8:]


def subject_columns(event: Row, about: Subjects) -> dict[str, Any]:
    return {
        "kind": event["kind"],
        "event_id": event["id"],
        "project_id": event["project_id"],
        "subject_type": event["subject_type"],
        "subject_id": event["subject_id"],
        "agent_id": event["agent_id"],
        "title": truncate(" ".join(title_of(event, about).split()), TITLE_LENGTH),
    }
