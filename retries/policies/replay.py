"""Run a policy over the ledger's history: which attempts it would have saved, and which successes
lost.

Each task's attempts are walked in order, and each failure is decided on by the same rules as a
report. Where the policy would have asked a person and no one was asked, the attempts after it, up
to the next time that a person was asked, are what the policy changes: saved if none of them
succeeded, else their success is lost.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from ledger.states import Outcome, TaskState
from retries.attempts.evidence import find_evidence
from retries.decisions import NEEDS, SAME_FAILURE_AGAIN, Case, Evidence, Policy
from retries.failures.known_errors import BY_NAME, Action
from retries.failures.outputs.salience import find_headline
from retries.states import Answer, PolicyScope

DAYS = 90
MOST_TASKS = 2_000  # the newest ones that a page replays
LEAST_TASKS = 50  # tasks below which a page shows no figure
MOST_UNREAD = 1_000  # failures without a stored known error whose texts a page reads
TEXTS_AT_ONCE = 200

WAITS = tuple(name for name, error in BY_NAME.items() if error.action == Action.WAIT)
# the known errors that each policy is about; the policy on repeated failures needs none
ABOUT = {
    "ask_at_once": tuple(NEEDS),
    "obey_waits": tuple({*WAITS, *NEEDS}),
    "ask_on_same_failure": (),
}

TASKS = """select id, state from ledger_task
where project_id = %(project)s and created_at >= %(since)s and attempts > 0
order by id desc limit %(most)s"""
ATTEMPTS = f"""with tasks as ({TASKS})
select t.id as task_id, t.ref, t.title, t.type, t.plan_id is not null as in_plan, t.state,
    a.number, a.outcome, a.started_at, a.ended_at, f.id as failure_id, f.at,
    g.signature, g.files_changed, g.known_error,
    exists (
        select from retries_escalation e where e.task_id = t.id and e.attempts = a.number
    ) as was_asked
from tasks join ledger_task t using (id) join ledger_attempt a on a.task_id = t.id
left join ledger_failure f on f.attempt_id = a.id
left join retries_grouped g on g.failure_id = f.id
where t.id in (
    select f.task_id from ledger_failure f join tasks on tasks.id = f.task_id
)
order by t.id, a.number"""
COUNT = f"""with tasks as ({TASKS})
select count(*) as tasks, count(*) filter (where state = '{TaskState.DONE}') as done from tasks"""
TEXTS = """select id, verification->>'output' as output, details, message from ledger_failure
where id = any(%(ids)s)"""


@dataclass(frozen=True, slots=True)
class ReplayedTask:
    """A task whose course a policy changes; `asks_after` is the attempt after which it asks."""

    id: UUID
    ref: str
    title: str
    in_plan: bool
    asks_after: int
    saved: int = 0
    saved_s: float = 0.0
    loses_success: bool = False
    asks_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The changes that a policy would have made in a project's history."""

    policy: str
    scope: str
    since: datetime
    tasks: int  # with at least one attempt
    done: int  # the number of `tasks` that are done
    changed: list[ReplayedTask] = field(default_factory=list)

    @property
    def saved(self) -> int:
        return sum(each.saved for each in self.changed)

    @property
    def saved_s(self) -> float:
        return sum(each.saved_s for each in self.changed)

    @property
    def lost(self) -> list[ReplayedTask]:
        """Return the tasks that were done without a person, and would have asked one."""
        return [each for each in self.changed if each.loses_success]

    @property
    def asked_more(self) -> int:
        return sum(each.asks_more for each in self.changed)

    @property
    def is_enough(self) -> bool:
        return self.tasks >= LEAST_TASKS

    def narrow_to(self, scope: str) -> "Replay":
        rows = [each for each in self.changed if scope == PolicyScope.ALL or each.in_plan]
        return replace(self, scope=scope, changed=[] if scope == PolicyScope.OFF else rows)


def replay_policy(
    policy: str,
    *,
    project_id: UUID,
    now: datetime,
    days: int = DAYS,
    most: int | None = MOST_TASKS,
    scope: str = PolicyScope.ALL,
) -> Replay:
    """Return what a policy would have changed in the newest tasks of a project's last days.

    `most` bounds how many tasks are read; None reads all of them.
    """
    since = now - timedelta(days=days)
    about = {"project": project_id, "since": since, "most": most}
    counts = sql.run(COUNT, **about)[0]
    rows = sql.run(ATTEMPTS, **about)
    evidence = read_evidence(policy, rows, most_unread=None if most is None else MOST_UNREAD)
    changed = [
        each
        for _, attempts in groupby(rows, key=lambda row: row["task_id"])
        for each in replay_task(policy, list(attempts), evidence)
    ]
    found = Replay(
        policy=policy,
        scope=PolicyScope.ALL,
        since=since,
        tasks=counts["tasks"],
        done=counts["done"],
        changed=changed,
    )
    return found.narrow_to(scope)


# ---- the evidence of failures


def read_evidence(
    policy: str, rows: Iterable[Row], *, most_unread: int | None = None
) -> dict[UUID, Evidence]:
    """Return what the failures tell that a policy may be about, by failure."""
    # Of the failures that were stored before known errors existed, only the newest are read.
    found: dict[UUID, Evidence] = {}
    candidates: dict[UUID, tuple[datetime, int | None]] = {}
    unread: dict[UUID, tuple[datetime, int | None]] = {}
    for before, row in pairs(rows):
        if row["failure_id"] is None:
            continue
        if policy == "ask_on_same_failure":
            if before is not None and is_same_without_change(before, row):
                candidates[row["failure_id"]] = row["at"], before["number"]
        elif row["known_error"] is None:
            unread[row["failure_id"]] = row["at"], None
        elif row["known_error"] in ABOUT[policy]:
            candidates[row["failure_id"]] = row["at"], None
    for id in sorted(unread, reverse=True)[:most_unread]:
        candidates[id] = unread[id]
    for id, texts in read_texts(candidates):
        at, same_as = candidates[id]
        if same_as is not None:
            if find_headline(*texts).score:
                found[id] = Evidence(same_as=same_as)
        elif evidence := find_evidence(*texts, now=at):
            found[id] = evidence
    return found


def pairs(rows: Iterable[Row]) -> Iterator[tuple[Row | None, Row]]:
    """Yield each attempt with the last failed one of the same task before it."""
    before: Row | None = None
    for row in rows:
        if before is not None and before["task_id"] != row["task_id"]:
            before = None
        yield before, row
        if row["failure_id"] is not None:
            before = row


def is_same_without_change(before: Row, row: Row) -> bool:
    return bool(
        row["signature"]
        and row["signature"] == before["signature"]
        and row["files_changed"] == 0
        and before["files_changed"] is not None
    )


def read_texts(ids: Iterable[UUID]) -> Iterator[tuple[UUID, tuple[str, str, str]]]:
    # Read some at a time, because an output may be long.
    wanted = list(ids)
    for start in range(0, len(wanted), TEXTS_AT_ONCE):
        for row in sql.run(TEXTS, ids=wanted[start : start + TEXTS_AT_ONCE]):
            yield row["id"], (row["output"] or "", row["details"], row["message"])


# ---- one task


def replay_task(
    policy: str, attempts: list[Row], evidence: dict[UUID, Evidence]
) -> Iterator[ReplayedTask]:
    at = 0
    while at < len(attempts):
        row, rest = attempts[at], attempts[at + 1 :]
        found = evidence.get(row["failure_id"]) if row["failure_id"] else None
        at += 1
        if found is None or row["was_asked"]:
            continue
        if policy == "obey_waits":
            if changed := replay_wait(row, rest, found):
                yield changed
            continue
        if would_ask(policy, found):
            skipped = take_until_person(rest)
            at += len(skipped)
            yield replay_question(row, skipped)


def would_ask(policy: str, evidence: Evidence) -> bool:
    on = Policy(
        asks_at_once=policy == "ask_at_once",
        obeys_waits=True,
        asks_on_same_failure=policy == "ask_on_same_failure",
    )
    case = Case(status="failure", evidence=evidence, policy=on)
    return bool(case.needs) or case.is_same_again


def take_until_person(attempts: list[Row]) -> list[Row]:
    found = []
    for row in attempts:
        found.append(row)
        if row["was_asked"]:
            break
    return found


def replay_question(row: Row, skipped: list[Row]) -> ReplayedTask:
    # The task asks a person instead of being retried.
    succeeds = any(each["outcome"] == Outcome.SUCCESS for each in skipped)
    wasted = [] if succeeds else skipped
    return ReplayedTask(
        **name_task(row),
        saved=len(wasted),
        saved_s=sum(map(length_s, wasted)),
        loses_success=succeeds,
        asks_more=not any(each["was_asked"] for each in skipped),
    )


def replay_wait(row: Row, rest: list[Row], evidence: Evidence) -> ReplayedTask | None:
    # Nothing changes if the task waited as long anyway.
    case = Case(status="failure", evidence=evidence, policy=Policy(obeys_waits=True))
    if case.named_wait_s is None:
        return None
    until = row["at"] + timedelta(seconds=case.named_wait_s)
    early = [each for each in rest if each["started_at"] < until]
    failed = [each for each in early if each["outcome"] == Outcome.FAILURE]
    if not failed:
        return None
    return ReplayedTask(**name_task(row), saved=len(failed), saved_s=sum(map(length_s, failed)))


def name_task(row: Row) -> dict[str, Any]:
    return {
        "id": row["task_id"],
        "ref": row["ref"] or "",
        "title": row["title"] or row["type"],
        "in_plan": row["in_plan"],
        "asks_after": row["number"],
    }


def length_s(row: Row) -> float:
    ended: datetime | None = row["ended_at"]
    return (ended - row["started_at"]).total_seconds() if ended else 0.0


# ---- a policy that is on

EFFECTS = f"""select count(*) as asked, count(*) filter (
    where e.action = '{Answer.RETRY}' and next.outcome = '{Outcome.SUCCESS}'
) as lost
from retries_escalation e
left join lateral (
    select a.outcome from ledger_attempt a
    where a.task_id = e.task_id and a.number > e.attempts order by a.number limit 1
) next on true
where e.project_id = %(project)s and e.opened_at >= %(since)s and e.reason = any(%(reasons)s)"""
REASONS = {
    "ask_at_once": tuple(set(NEEDS.values())),
    "ask_on_same_failure": (SAME_FAILURE_AGAIN,),
    "obey_waits": (),
}


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a policy: how often it asked, and how often a plain retry then succeeded."""

    asked: int = 0
    lost: int = 0


def count_effects(policy: str, *, project_id: UUID, now: datetime, days: int = DAYS) -> Effects:
    if not REASONS[policy]:
        return Effects()
    row = sql.run(
        EFFECTS, project=project_id, since=now - timedelta(days=days), reasons=list(REASONS[policy])
    )[0]
    return Effects(row["asked"], row["lost"])
