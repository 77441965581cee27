"""Questions from agents: the attempt ends without counting, and the task waits for the answer."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from psycopg.types.json import Jsonb

from ledger.database import server_time, sql
from ledger.database.sql import Row
from ledger.errors import Invalid, InvalidTransition
from ledger.journal import Stamp
from ledger.secrets.notes import clean_message
from ledger.secrets.redaction import redacted
from ledger.states import Outcome, TaskState
from ledger.tokens import TrustedCaller
from retries.attempts.live_attempt import TRIES, LeaseLost, end_statement, lease_lost, read_attempt
from retries.escalations import lifecycle, response_schema, task_effects
from retries.escalations.answering import HumanRequired
from retries.escalations.lifecycle import Question
from retries.models import Escalation, EscalationQuerySet
from retries.states import Answer, EscalationState, OnExpiry, Reason

QUESTION_LENGTH = 4000
CLIENT_STATE_BYTES = 8192
SCHEMA_BYTES = 8192
MAX_QUESTIONS = 3  # in one round; further ones do not expire
# An agent must not get its own task out of the way: only a person skips or aborts it.
AGENTS_ON_EXPIRY = (OnExpiry.RETRY, OnExpiry.FAIL)

ASK = end_statement(TrustedCaller, TaskState.ESCALATED, opens=False)


def ask(
    attempt_id: UUID, question: Question, *, caller: TrustedCaller, now: datetime | None = None
) -> Escalation:
    """Ask a person about a live attempt's task; the attempt ends and does not count.

    Raises LeaseLost if the attempt is over, and InvalidTransition if it was asked to stop.
    """
    now = now or server_time.now()
    question = clean_question(check_question(question, now=now))
    for _ in range(TRIES):
        row = read_attempt(attempt_id, caller=caller, now=now)
        if row["outcome"] is not None:
            raise lease_lost(row)
        if row["abort_requested_at"]:
            raise InvalidTransition(
                "A person has asked this task to stop. Report the attempt to end it.",
                current=row["state"],
                allowed=[],
            )
        if escalation := escalate(row, question, caller=caller, now=now):
            return escalation
    raise LeaseLost("The task kept changing while the question was asked.")


@transaction.atomic
def escalate(
    row: Row, question: Question, *, caller: TrustedCaller, now: datetime
) -> Escalation | None:
    """Move the task and open the question; None if the task has changed since `row`."""
    # After several questions without an answer, the next one does not expire.
    reason = Reason.AGENT_QUESTION
    if count_unanswered(row["id"]) >= MAX_QUESTIONS:
        reason = Reason.QUESTIONS_EXHAUSTED
        question = replace(question, expires_at=None, on_expiry=None)
    moved = sql.run(
        ASK,
        id=row["id"],
        version=row["version"],
        attempt=row["attempt_id"],
        retry_count=row["retry_count"],
        error=row["error"],
        data=Jsonb({"attempt": row["number"], "reason": reason}),
        outcome=Outcome.ESCALATED,
        reason=Reason.AGENT_QUESTION,
        result=None,
        report_digest=None,
        usage=None,
        checks=None,
        tree=None,
        decision=None,
        now=now,
        **caller.params,
    )
    if not moved:
        return None
    return lifecycle.open_for_task(
        moved[0],
        reason,
        question=question,
        asked_in=row["attempt_id"],
        stamp=Stamp(caller.actor, now, caller.request_id),
    )


def count_unanswered(task_id: UUID) -> int:
    """Return the number of questions about the task since a person's last answer."""
    escalations = Escalation.objects.filter(task_id=task_id)
    answered = escalations.filter(state=EscalationState.RESOLVED).order_by("-id")
    asked = escalations.filter(asked_in__isnull=False)
    if last := answered.values_list("id", flat=True).first():
        asked = asked.filter(id__gt=last)
    return asked.count()


def check_question(question: Question, *, now: datetime) -> Question:
    if not question.text.strip():
        raise Invalid("/question", "The question is empty: say what a person should decide.")
    size = len(json.dumps(question.client_state).encode())
    if size > CLIENT_STATE_BYTES:
        raise Invalid(
            "/client_state", f"client_state has {size} of at most {CLIENT_STATE_BYTES} bytes."
        )
    if len(json.dumps(question.response_schema).encode()) > SCHEMA_BYTES:
        raise Invalid("/response_schema", f"response_schema has at most {SCHEMA_BYTES} bytes.")
    if question.response_schema is not None:
        response_schema.check_schema(question.response_schema)
    if (question.expires_at is None) != (question.on_expiry is None):
        missing = "on_expiry" if question.on_expiry is None else "expires_at"
        raise Invalid(f"/{missing}", "Send both expires_at and on_expiry, or neither.")
    if question.expires_at is not None and question.expires_at.tzinfo is None:
        raise Invalid("/expires_at", "expires_at needs a time zone, as in 2026-11-21T14:05:58Z.")
    floor = settings.TENFOUR["QUESTION_MIN_SECONDS"]
    if question.expires_at is not None and question.expires_at < now + timedelta(seconds=floor):
        raise Invalid(
            "/expires_at", f"expires_at must leave a person at least {floor} seconds to answer."
        )
    if question.on_expiry is not None and question.on_expiry not in AGENTS_ON_EXPIRY:
        raise Invalid("/on_expiry", "Set on_expiry to 'retry' or 'fail'.")
    return question


def clean_question(question: Question) -> Question:
    return Question(
        text=clean_message(question.text, limit_bytes=4 * QUESTION_LENGTH),
        choices=redacted(question.choices),
        response_schema=mask_texts(question.response_schema),
        severity=question.severity,
        client_state=redacted(question.client_state),
        expires_at=question.expires_at,
        on_expiry=question.on_expiry,
    )


def mask_texts(schema: Any) -> Any:
    # A property may have the name of a secret, but its description is not secret.
    if isinstance(schema, dict):
        return {name: mask_texts(part) for name, part in schema.items()}
    if isinstance(schema, list):
        return [mask_texts(part) for part in schema]
    return redacted(schema) if isinstance(schema, str) else schema


@transaction.atomic
def withdraw(
    escalation_id: UUID, *, among: EscalationQuerySet, stamp: Stamp, by_person: bool
) -> Escalation:
    """Close a question that needs no answer any more; queue its task again.

    Raises HumanRequired if an agent may not withdraw it.
    """
    # An agent may withdraw its own questions and no others, and not the question that it asked
    # after several without an answer: it could ask and withdraw forever.
    escalation = lifecycle.lock(escalation_id, among)
    if not by_person and not escalation.is_of_agent:
        raise HumanRequired("The agent did not ask this question: a person answers it.")
    if not by_person and escalation.reason != Reason.AGENT_QUESTION:
        raise HumanRequired(
            "The agent has asked several questions without an answer: a person closes this one."
        )
    if not escalation.is_question:
        raise InvalidTransition(
            "This is not an agent's question: answer it with retry, fix, skip or abort.",
            current=escalation.state,
            allowed=[],
        )
    lifecycle.require_open(escalation)
    task_effects.requeue(escalation, Answer.ANSWER, stamp=stamp)
    lifecycle.close(escalation, EscalationState.WITHDRAWN, stamp=stamp)
    escalation.refresh_from_db()
    return escalation
