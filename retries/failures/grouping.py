"""Failures that say the same: put together as they come in, ignored, resolved, tried again.

The only writer of `FailurePattern` and `Grouped`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from ledger import journal, sql
from ledger.errors import Invalid
from ledger.journal import Actor, Kind
from ledger.models import DeadLetter, Failure, Task
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries import deadletters, task_actions
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired
from retries.failures import fingerprints
from retries.models import Escalation, EscalationQuerySet, Grouped
from retries.states import PATTERN_MOVES, Answer, PatternState, Reason

NOTE_LENGTH = 2000
EXAMPLE_LENGTH = 400
AT_ONCE = 500

# ---- as they come in

# A pattern is known nearly always, and then its row is only read: what would be written to it by
# every failure would have all agents that fail at once wait for each other. So `last_seen` moves
# at most once a minute.
JOIN = f"""with {TrustedCaller.cte}, found as (
    select id from retries_failurepattern
    where project_id = %(of)s and fingerprint = %(fingerprint)s
), grouped as (
    insert into retries_grouped (failure_id, pattern_id, agent_id, at)
    select %(failure)s, id, %(whose)s, %(now)s from found
), seen as (
    update retries_failurepattern p
    set state = case p.state when '{PatternState.RESOLVED}' then '{PatternState.REGRESSED}'
            when '{PatternState.IGNORED}' then case when p.ignored_until <= %(now)s then '{
    PatternState.OPEN
}'
                else p.state end
            else p.state end,
        state_at = case when p.state = '{PatternState.RESOLVED}' or p.ignored_until <= %(now)s
            then %(now)s else p.state_at end,
        state_by_name = case when p.state = '{PatternState.RESOLVED}' or p.ignored_until <= %(now)s
            then '' else p.state_by_name end,
        ignored_until = case when p.ignored_until > %(now)s then p.ignored_until end,
        last_seen = greatest(p.last_seen, %(now)s), updated_at = %(now)s
    from found f
    where p.id = f.id and (p.last_seen <= %(now)s - interval '1 minute'
        or p.state = '{PatternState.RESOLVED}' or p.ignored_until <= %(now)s)
    returning p.id, p.project_id, p.state, old.state as from_state
), back as (
    select s.*, case s.state when '{PatternState.REGRESSED}' then '{Kind.PATTERN_REGRESSED}'
        else '{Kind.PATTERN_REOPENED}' end as kind
    from seen s where s.state <> s.from_state
), told as ({
    journal.insert(
        "back",
        kind="m.kind",
        subject="pattern",
        agent="%(whose)s",
        data="jsonb_build_object('failure', %(failure)s::uuid, 'task', %(task)s::uuid)",
    )
}) select id from found"""

NEW = """insert into retries_failurepattern (project_id, fingerprint, template, example, first_seen,
    last_seen, state_at, updated_at)
values (%(of)s, %(fingerprint)s, %(template)s, %(example)s, %(now)s, %(now)s, %(now)s, %(now)s)
on conflict (project_id, fingerprint) do nothing"""


def said(failure: Failure) -> str:
    """The line of a failure that it is grouped by."""
    output = (failure.verification or {}).get("output") or ""
    return fingerprints.headline(failure.message, failure.details, str(output))


def join(
    failure: Failure,
    *,
    project_id: UUID,
    agent_id: UUID,
    actor: Actor,
    now: datetime,
    request_id: str = "",
) -> UUID:
    """Put a failure that was just written into its pattern; the pattern's id.

    One that was resolved is thereby regressed, one ignored until now is open again.
    """
    line = said(failure)
    template = fingerprints.template(line)
    fingerprint = fingerprints.fingerprint(template)
    known = TrustedCaller(actor, request_id=request_id)
    for _ in range(2):
        rows = sql.run(
            JOIN,
            failure=failure.pk,
            task=failure.task_id,
            of=project_id,
            whose=agent_id,
            fingerprint=fingerprint,
            now=now,
            **known.params,
        )
        if rows:
            break
        sql.run(
            NEW,
            of=project_id,
            fingerprint=fingerprint,
            template=template,
            example=line[:EXAMPLE_LENGTH],
            now=now,
        )
    id: UUID = rows[0]["id"]
    return id


# ---- what people do


def move_statement(to: PatternState, kind: Kind) -> str:
    sources = ", ".join(f"'{state}'" for state, targets in PATTERN_MOVES.items() if to in targets)
    return f"""with {TrustedCaller.cte}, moved as (
        update retries_failurepattern p
        set state = '{to}', ignored_until = %(until)s, note = %(note)s, state_at = %(now)s,
            state_by_name = c.actor_name, updated_at = %(now)s
        from caller c where p.state in ({sources}) and p.id = any(array(
            select id from retries_failurepattern where id = any(%(ids)s) order by id for update))
        returning p.id, p.project_id, p.state, p.ignored_until, old.state as from_state
    ), told as ({
        journal.insert(
            "moved",
            kind=f"'{kind}'",
            subject="pattern",
            agent="null::uuid",
            data="jsonb_strip_nulls(jsonb_build_object('until', m.ignored_until, "
            "'note', nullif(%(note)s, '')))",
        )
    }) select id from moved"""


IGNORE = move_statement(PatternState.IGNORED, Kind.PATTERN_IGNORED)
RESOLVE = move_statement(PatternState.RESOLVED, Kind.PATTERN_RESOLVED)
REOPEN = move_statement(PatternState.OPEN, Kind.PATTERN_REOPENED)


def ignore(
    ids: Iterable[UUID],
    *,
    until: datetime | None = None,
    note: str = "",
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[UUID]:
    """Let these patterns trouble nobody, for ever or until a time; the ids of those that did.

    The first failure after that time opens its pattern again. Raises Invalid where it is past.
    """
    now = now or timezone.now()
    if until is not None and until <= now:
        raise Invalid("/until", "Name a time to come, or none to ignore it for good.")
    return move(IGNORE, ids, until=until, note=note, actor=actor, now=now, request_id=request_id)


def resolve(
    ids: Iterable[UUID],
    *,
    note: str = "",
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[UUID]:
    """Say that what caused these patterns is mended: the next failure of one is a regression.

    Gives the ids of those that were not resolved yet.
    """
    return move(RESOLVE, ids, note=note, actor=actor, now=now, request_id=request_id)


def reopen(
    ids: Iterable[UUID], *, actor: Actor, now: datetime | None = None, request_id: str = ""
) -> list[UUID]:
    """Have these patterns, ignored or resolved, dealt with again; the ids of those that were."""
    return move(REOPEN, ids, actor=actor, now=now, request_id=request_id)


def move(
    statement: str,
    ids: Iterable[UUID],
    *,
    until: datetime | None = None,
    note: str = "",
    actor: Actor,
    now: datetime | None,
    request_id: str,
) -> list[UUID]:
    rows = sql.run(
        statement,
        ids=list(ids),
        until=until,
        note=note.strip()[:NOTE_LENGTH],
        now=now or timezone.now(),
        **TrustedCaller(actor, request_id=request_id).params,
    )
    return [row["id"] for row in rows]


# ---- all of one pattern, once more


@dataclass(frozen=True, slots=True)
class Again:
    """What really is tried again."""

    replayed: list[DeadLetter]
    hurried: list[UUID]
    answered: list[Escalation]

    def __len__(self) -> int:
        return len(self.replayed) + len(self.hurried) + len(self.answered)


def questions() -> EscalationQuerySet:
    """The open questions that another attempt is an answer to.

    What an agent or a plan asks is none, nor whether something took effect: a person reads those.
    """
    others = (Reason.AGENT_QUESTION, Reason.NEEDS_CONFIRMATION)
    return Escalation.objects.open().exclude(reason__in=others)


def stuck(ids: Iterable[UUID]) -> QuerySet[Task]:
    """The tasks that stand still or wait because of these patterns: by their last failure."""
    ids = list(ids)
    last = Failure.objects.filter(task=OuterRef("pk")).order_by("-id")
    return (
        Task.objects.filter(
            Q(state=TaskState.RETRY)
            | Q(
                Exists(DeadLetter.objects.open().filter(task=OuterRef("pk"))),
                state=TaskState.FAILED,
            )
            | Q(Exists(questions().filter(task=OuterRef("pk"))), state=TaskState.ESCALATED),
            pk__in=Grouped.objects.filter(pattern__in=ids).values("failure__task"),
            replaced_by=None,
        )
        .annotate(pattern=Subquery(last.values("grouped__pattern")[:1]))
        .filter(pattern__in=ids)
        .order_by("id")
    )


@transaction.atomic
def retry(
    ids: Iterable[UUID],
    *,
    choice: Choice | None = None,
    actor: Actor,
    channel: str,
    now: datetime | None = None,
    request_id: str = "",
) -> Again:
    """Try everything that stands still because of these patterns again, at most AT_ONCE tasks.

    Open dead letters are replayed, retries wait no longer, and `questions` about them are answered
    with `choice`, a retry or a fix.
    """
    now, choice = now or timezone.now(), choice or Choice(Answer.RETRY)
    found = list(stuck(ids).values_list("pk", "state")[:AT_ONCE])
    of = {state: [id for id, each in found if each == state] for state in TaskState}
    letters = DeadLetter.objects.open().filter(task__in=of[TaskState.FAILED])
    replayed = deadletters.replay(
        letters.values_list("pk", flat=True),
        among=DeadLetter.objects.all(),
        actor=actor,
        now=now,
        request_id=request_id,
    )
    hurried = task_actions.retry_now(of[TaskState.RETRY], actor=actor, now=now)
    answered = []
    for question in questions().filter(task__in=of[TaskState.ESCALATED]).order_by("id"):
        try:
            answered.append(
                answering.answer(
                    question.pk,
                    choice,
                    among=Escalation.objects.all(),
                    actor=actor,
                    channel=channel,
                    now=now,
                    request_id=request_id,
                )
            )
        except (AlreadyResolved, EscalationExpired):
            continue  # somebody or the clock was quicker: it is settled
    return Again(replayed, hurried, answered)
