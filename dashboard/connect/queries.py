"""Read the rows of the page that connects an agent."""

import hashlib
from datetime import datetime
from uuid import UUID

from dashboard.connect.light import Arrival
from dashboard.frame.access import PAGES
from dashboard.lists.shared_queries import of_project
from ledger.access import auth_failures
from ledger.authorization.permissions import people_who_may
from ledger.models import Agent, Instruction, Project, Token

FIRST_TEXT = "Run `git status` and say in one line what you found."
FIRST_DIGEST = hashlib.sha256(FIRST_TEXT.encode()).digest()
PEOPLE_NAMED = 3
AGENTS_LISTED = 200
NAME = "coder"


def find_token(token_id: UUID) -> Token | None:
    rows = Token.objects.select_related("agent", "project").defer("digest")
    return rows.filter(pk=token_id, agent__isnull=False).first()


def find_first_instruction(token: Token) -> Instruction | None:
    rows = Instruction.objects.filter(agent=token.agent, content_sha256=FIRST_DIGEST)
    return rows.order_by("-id").first()


def read_arrival(token: Token, *, now: datetime) -> Arrival:
    assert token.agent
    row = find_first_instruction(token)
    failures = auth_failures.list_project_failures(token.project_id, now=now)
    return Arrival(
        agent=token.agent.name,
        created_at=token.created_at,
        is_valid=not token.revoked_at and (token.expires_at is None or token.expires_at > now),
        first_used_at=token.first_used_at,
        first_call=token.first_call,
        first_hook=token.first_hook,
        instruction_text=row.content if row else "",
        queued_at=row.queued_at if row else None,
        delivered_at=row.delivered_at if row else None,
        acknowledged_at=row.acknowledged_at if row else None,
        acknowledged_by=row.acknowledged_by if row else None,
        failures=[each for each in failures if each["at"] >= token.created_at],
    )


def list_names(project: Project) -> list[str]:
    rows = of_project(Agent.objects.workers(), project).order_by("name")
    return list(rows.values_list("name", flat=True)[:AGENTS_LISTED])


def suggest_name(known: list[str]) -> str:
    numbered = (f"{NAME}-{number}" for number in range(2, len(known) + 3))
    return next(name for name in (NAME, *numbered) if name not in known)


def list_people(project: Project) -> list[str]:
    people = people_who_may(PAGES["connect_token"].permission, project.pk)
    return list(people.values_list("username", flat=True)[:PEOPLE_NAMED])
