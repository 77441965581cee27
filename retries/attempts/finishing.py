"""What agents say of their attempts: heartbeats, results, exits, releases."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from psycopg.types.json import Jsonb

from ledger import journal, moves, needs, sql
from ledger.errors import Invalid, NotFound, Refusal
from ledger.instructions import answered
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import DeadLetter, Failure
from ledger.moves import EVENT_COLUMNS, task_to
from ledger.redaction import LONGEST, clean, redacted, stripped
from ledger.sql import Row
from ledger.states import BlockedReason, FailureType, Outcome, TaskState
from ledger.timestamps import written
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller
from retries import breaker, checkpoints
from retries.decisions import Case, Decision, decide
from retries.escalations import lifecycle
from retries.failures import grouping
from retries.strategy import RetryConfig, delay_s

# what is kept of a report, in characters where it does not say bytes
OUTPUT_BYTES = 65_536
OUTPUT_TAIL = 0.75
READ_BYTES = LONGEST - 1  # of an output: its start and its end, with a newline between
SUMMARY_LENGTH = 500
CODE_LENGTH = 64
MESSAGE_LENGTH = 2000
ADVICE_LENGTH = 1000
LEARNING_LENGTH = 300
MOST_LEARNINGS = 20
WORD_LENGTH = 4096
MOST_FILES = 200
ERROR_LENGTH = 500
PROGRESS_BYTES = 8192
MOST_RELEASES = 10
MOST_RETRY_AFTER_S = 86_400
KILLED = {124, 137}
TRIES = 10


class LeaseLost(Refusal):
    """This attempt is no longer the live one"""

    code = "lease_lost"
    hint = "Stop working on it: what you report now changes nothing. Claim anew."


class AlreadyReported(Refusal):
    """This attempt was reported before, with something else"""

    code = "attempt_already_reported"
    hint = "A report is final; the same report again gets the same answer."


class VerificationMissing(Refusal):
    """This task must be verified"""

    code = "verification_missing"
    hint = "Run the task's verify command and send 'verification' with its exit_code."


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of an attempt, as its agent tells it."""

    status: str = "success"
    summary: str = ""
    result: Any = None
    exit_code: int | None = None
    verification: dict[str, Any] | None = None
    type: FailureType | None = None
    code: str = ""
    message: str = ""
    details: str = ""
    root_cause_guess: str = ""
    suggested_fix: str = ""
    non_retryable: bool = False
    retry_after_s: int | None = None
    files_modified: Sequence[dict[str, Any]] = ()
    learnings: Sequence[str] = ()

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(CANONICAL(SAID(self)).encode()).digest()


SAID = attrgetter(*Report.__slots__)
CANONICAL = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Told:
    """The decision that an agent gets; the same for the same report."""

    decision: dict[str, Any]
    replayed: bool = False
    worker_id: str = ""


# ---- the fast path: it is done, in one statement

DONE_DECISION = {"decision": "done", "reason": "verified"}
# Of one attempt, found by its id. 'outcome is null' says the same, but where few are live
# PostgreSQL would rather read the whole index of those, and all that it has not forgotten yet.
LIVES = "a.ended_at is null"


def done_statement(caller: type[Caller]) -> str:
    """The move to done of what means nothing to anybody else.

    Nobody waits for it, and its agent's breaker has no failures to forget.
    """
    own = "a.agent_id = c.agent_id" if caller is Bearer else "true"
    expected = "coalesce((t.payload -> 'verify' ->> 'expect_exit')::int, 0)"
    required = "coalesce((t.payload -> 'verify' ->> 'required')::bool, false)"
    done = task_to(
        TaskState.DONE,
        where=f"""t.id = (select task_id from live) and t.current_attempt = %(attempt)s
            and t.abort_requested_at is null
            and (%(exit)s::int is null and not {required} or %(exit)s = {expected})
            and t.needed_by = 0
            and (select b.agent_id from ledger_breaker b where b.agent_id = t.agent_id
                and ({breaker.HOLDS_BACK} or b.failures > 0)) is null""",
        sets="result = %(result)s",
        columns=EVENT_COLUMNS,
    )
    return f"""with {caller.cte}, live as materialized (
        select a.task_id from ledger_attempt a, caller c
        where a.id = %(attempt)s and {LIVES} and {own}
    ), moved as ({done}), closed as (
        update ledger_attempt a set outcome = '{Outcome.SUCCESS}', ended_at = %(now)s,
            report_digest = %(mark)s, decision = '{json.dumps(DONE_DECISION)}'
        where a.id = (select former_attempt from moved)
    ), told as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_COMPLETED}'",
            subject="task",
            data="jsonb_build_object('attempt', m.attempts)",
        )
    })
    select m.id, m.version, c.agent_id as caller_agent, c.unseen
    from caller c left join moved m on true"""


DONE: Statements = {caller: done_statement(caller) for caller in (Bearer, TrustedCaller)}


def report(attempt_id: UUID, said: Report, *, caller: Caller, now: datetime | None = None) -> Told:
    """Close an attempt with what its agent says, and decide what comes next.

    The same report again gets the same answer; another one raises AlreadyReported, and one of an
    attempt that is over in another way LeaseLost.
    """
    now, digest = now or timezone.now(), said.digest
    if told := finished(attempt_id, said, digest=digest, caller=caller, now=now):
        return told
    return concluded(attempt_id, tidied(said), digest=digest, caller=caller, now=now)


def finished(
    attempt_id: UUID, said: Report, *, digest: bytes, caller: Caller, now: datetime
) -> Told | None:
    """Close an attempt whose success means nothing to anybody else; None where it may."""
    if said.status != "success":
        return None
    rows = sql.run(
        DONE[type(caller)],
        attempt=attempt_id,
        exit=said.exit_code,
        result=Jsonb(redacted(said.result)),
        mark=digest,
        now=now,
        **caller.params,
    )
    moved = answered(rows, caller, now)
    if not moved:
        return None
    return Told(whole(DONE_DECISION, moved[0]["id"], TaskState.DONE, moved[0]["version"]))


def concluded(
    attempt_id: UUID, said: Report, *, digest: bytes, caller: Caller, now: datetime
) -> Told:
    """Decide about a report that is tidied; `digest` is of the report as it was made."""
    for _ in range(TRIES):
        row = live_row(attempt_id, caller=caller, now=now)
        if row["outcome"] is not None:
            return earlier(row, digest)
        told = settle(row, said, digest=digest, caller=caller, now=now)
        if told:
            return told
    raise LeaseLost("The task changed again and again while this was reported.")


def whole(decision: dict[str, Any], task_id: UUID, state: str, version: int) -> dict[str, Any]:
    return decision | {"task": {"id": str(task_id), "state": str(state), "version": version}}


# ---- read, decide, write


def live_statement(caller: type[Caller]) -> str:
    own = "a.agent_id = c.agent_id" if caller is Bearer else "true"
    return f"""with {caller.cte}
    select {moves.task_columns("t")}, a.id as attempt_id, a.number, a.outcome, a.report_digest,
        a.decision, a.worker_id, a.lease_s as attempt_lease_s, a.deadline_at, g.name as agent_name,
        c.actor_type, c.actor_id, c.actor_name, c.unseen
    from caller c left join (ledger_attempt a join ledger_task t on t.id = a.task_id
        join ledger_agent g on g.id = t.agent_id) on a.id = %(attempt)s and {own}"""


LIVE: Statements = {caller: live_statement(caller) for caller in (Bearer, TrustedCaller)}


def live_row(attempt_id: UUID, *, caller: Caller, now: datetime) -> Row:
    """The attempt with its task; raises NotFound where the caller has none of that id."""
    rows = sql.run(LIVE[type(caller)], attempt=attempt_id, now=now, **caller.params)
    found = answered(rows, caller, now)
    if not found:
        raise NotFound(f"There is no attempt {attempt_id} of this agent.")
    return found[0]


def earlier(row: Row, digest: bytes) -> Told:
    """The answer to an attempt that is over."""
    if row["report_digest"] is None:
        raise lost(row)
    if bytes(row["report_digest"]) != digest:
        raise AlreadyReported(f"Attempt {row['number']} was reported before, with something else.")
    return Told(whole(row["decision"], row["id"], row["state"], row["version"]), replayed=True)


def lost(row: Row) -> LeaseLost:
    how = "its lease ran out" if row["outcome"] == Outcome.FAILURE else f"it was {row['outcome']}"
    if row["report_digest"] is not None:
        how = "it was reported"
    holder = row["current_attempt"]
    return LeaseLost(
        f"Attempt {row['number']} is over: {how}. The task is {row['state']}.",
        current=row["state"],
        attempt=str(holder) if holder else None,
    )


@sql.atomic
def settle(
    row: Row, said: Report, *, digest: bytes | None, caller: Caller, now: datetime
) -> Told | None:
    """Decide, and write all that belongs to it; None where the task has changed meanwhile."""
    case = case_of(row, said)
    decided = decide(case)
    delay = delay_of(row, said) if decided.to == TaskState.RETRY else 0.0
    answer: dict[str, Any] = {"decision": name_of(decided), "reason": decided.reason}
    if case.has_failed:
        answer["verdict"] = {"status": "failure", "type": str(case.failure_type)}
    if decided.to == TaskState.RETRY:
        answer["not_before"] = written(now + timedelta(seconds=delay))
        answer["delay_s"] = delay
    moved = move(row, decided, case, said, delay=delay, caller=caller, now=now)
    if moved is None:
        return None
    after = follow(row, moved, decided, case, said, caller=caller, now=now)
    close(
        row["attempt_id"],
        outcome_of(decided, case),
        digest=digest,
        decision=answer | after,
        now=now,
    )
    decision = whole(answer | after, row["id"], moved["state"], moved["version"])
    return Told(decision, worker_id=row["worker_id"])


def verify_of(row: Row) -> dict[str, Any]:
    """What the task's payload says of its verification."""
    payload = row["payload"]
    found: dict[str, Any] = payload.get("verify", {}) if isinstance(payload, dict) else {}
    return found


def case_of(row: Row, said: Report) -> Case:
    verify = verify_of(row)
    if said.status == "success" and said.exit_code is None and verify.get("required"):
        raise VerificationMissing("The task requires a verification and none was sent.")
    return Case(
        status=said.status,
        type=said.type,
        code=said.code,
        exit_code=said.exit_code if said.status == "success" else None,
        expect_exit=verify.get("expect_exit", 0),
        non_retryable=said.non_retryable or row["non_retryable"],
        abort_asked=row["abort_requested_at"] is not None,
        in_plan=row["plan_id"] is not None,
        idempotent=row["idempotent"],
        number=row["number"],
        attempt_limit=row["attempt_limit"],
        on_exhausted=row["on_exhausted"],
    )


NAMES = {TaskState.RETRY: "wait"}


def name_of(decided: Decision) -> str:
    return NAMES.get(decided.to, decided.to.value)


def outcome_of(decided: Decision, case: Case) -> Outcome:
    match decided.to:
        case TaskState.DONE:
            return Outcome.SUCCESS
        case TaskState.ABORTED:
            return Outcome.ABORTED
        case TaskState.BLOCKED:
            return Outcome.BLOCKED
    return Outcome.FAILURE if case.has_failed else Outcome.ESCALATED


def delay_of(row: Row, said: Report) -> float:
    """Seconds until the next attempt: what the agent asked for, or the task's backoff."""
    if said.retry_after_s is not None:
        return float(said.retry_after_s)
    config = RetryConfig(
        base_delay_ms=row["base_delay_ms"],
        max_delay_ms=row["max_delay_ms"],
        exponential_base=row["exponential_base"],
        jitter=row["jitter"],
    )
    return round(delay_s(config, row["retry_count"]), 3)


KINDS = {
    TaskState.DONE: Kind.TASK_COMPLETED,
    TaskState.RETRY: Kind.TASK_RETRY_SCHEDULED,
    TaskState.FAILED: Kind.TASK_FAILED,
    TaskState.ESCALATED: Kind.TASK_ESCALATED,
    TaskState.BLOCKED: Kind.TASK_BLOCKED,
    TaskState.ABORTED: Kind.TASK_ABORTED,
    TaskState.QUEUED: Kind.TASK_RELEASED,
}
GUARD = "t.id = %(id)s and t.version = %(version)s and t.current_attempt = %(attempt)s"
SETS = {
    TaskState.DONE: "result = %(result)s",
    TaskState.RETRY: "retry_count = %(retry_count)s, error = %(error)s, due_at = %(due_at)s",
    TaskState.FAILED: "retry_count = %(retry_count)s, error = %(error)s",
    TaskState.ESCALATED: "retry_count = %(retry_count)s, error = %(error)s",
    TaskState.BLOCKED: "error = %(error)s",
    TaskState.ABORTED: "",
    TaskState.QUEUED: "releases = t.releases + 1, attempt_limit = t.attempt_limit + 1",
}


def move_statement(caller: type[Caller], to: TaskState) -> str:
    reason = f"'{BlockedReason.REPORTED}'" if to == TaskState.BLOCKED else "null"
    moved = task_to(to, where=GUARD, sets=SETS[to], reason=reason)
    told = journal.insert("moved", kind=f"'{KINDS[to]}'", subject="task", data="%(data)s")
    return f"with {caller.cte}, moved as ({moved}), told as ({told}) select * from moved"


MOVE: dict[tuple[type[Caller], TaskState], str] = {
    (caller, to): move_statement(caller, to) for caller in (Bearer, TrustedCaller) for to in KINDS
}


def move(
    row: Row,
    decided: Decision,
    case: Case,
    said: Report,
    *,
    delay: float,
    caller: Caller,
    now: datetime,
) -> Row | None:
    """Move the task, guarded by the version that was read; None where it has changed since."""
    data = {"attempt": row["number"], "reason": decided.reason}
    if case.failure_type:
        data["failure_type"] = str(case.failure_type)
    if said.code:
        data["code"] = said.code
    if decided.to == TaskState.RETRY:
        data["delay_s"] = delay
    if error := error_of(said, case):
        data["error"] = error[:ERROR_LENGTH]
    rows = sql.run(
        MOVE[type(caller), decided.to],
        id=row["id"],
        version=row["version"],
        attempt=row["attempt_id"],
        result=Jsonb(said.result),
        retry_count=row["retry_count"] + decided.counts,
        error=error_of(said, case),
        due_at=now + timedelta(seconds=delay),
        data=Jsonb(data),
        now=now,
        **caller.params,
    )
    return rows[0] if rows else None


def error_of(said: Report, case: Case) -> str | None:
    if not case.has_failed and said.status == "success":
        return None
    output = (said.verification or {}).get("output", "")
    told = said.message or said.summary or first_lines(output)
    return told or f"The attempt ended as {said.status} without a word."


def first_lines(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip())[:MESSAGE_LENGTH]


def follow(
    row: Row,
    moved: Row,
    decided: Decision,
    case: Case,
    said: Report,
    *,
    caller: Caller,
    now: datetime,
) -> dict[str, Any]:
    """What else belongs to the move: failure, breaker, dead letter, escalation."""
    who = actor_of(row)
    request_id = caller.params["request_id"]
    error = error_of(said, case) or ""
    if case.has_failed or said.status == "failure":
        failure = Failure.objects.create(
            attempt_id=row["attempt_id"],
            task_id=row["id"],
            at=now,
            type=case.failure_type or FailureType.EXECUTION_ERROR,
            code=said.code,
            message=error[:MESSAGE_LENGTH],
            details=said.details,
            root_cause_guess=said.root_cause_guess,
            suggested_fix=said.suggested_fix,
            verification=said.verification,
            files_modified=list(said.files_modified),
            learnings=list(said.learnings),
        )
        whose = {"project_id": row["project_id"], "agent_id": row["agent_id"]}
        grouping.join(failure, **whose, actor=who, now=now, request_id=request_id)
    if said.status != "blocked" and decided.to != TaskState.ABORTED:
        breaker.heard(
            row["agent_id"],
            ok=decided.to == TaskState.DONE,
            failure_type=str(case.failure_type) if case.failure_type else None,
            attempt_id=row["attempt_id"],
            actor=who,
            now=now,
            request_id=request_id,
        )
    if decided.to == TaskState.DONE:
        needs.meet([row["id"]], caller=TrustedCaller(who, request_id=request_id), now=now)
        checkpoints.ask_after([row["id"]], actor=who, now=now, request_id=request_id)
    if decided.to == TaskState.FAILED:
        bury(moved, decided.reason, error=error, now=now)
    if decided.to in (TaskState.ESCALATED, TaskState.BLOCKED):
        opened = lifecycle.open_for_task(
            moved, decided.reason, actor=who, now=now, request_id=request_id
        )
        return {"escalation": {"id": str(opened.id)}}
    return {}


def bury(task: Row, reason: str, *, error: str, now: datetime) -> DeadLetter:
    """Write the dead letter of a task that has just failed."""
    return DeadLetter.objects.create(
        project_id=task["project_id"],
        agent_id=task["agent_id"],
        task_id=task["id"],
        type=task["type"],
        payload=task["payload"],
        error=error or "It failed without a word.",
        reason=reason,
        retry_count=task["retry_count"],
        failed_at=now,
    )


CLOSE = """update ledger_attempt set outcome = %(outcome)s, ended_at = %(now)s,
    report_digest = %(digest)s, decision = %(decision)s where id = %(id)s"""


def close(
    attempt_id: UUID,
    outcome: Outcome,
    *,
    digest: bytes | None,
    decision: dict[str, Any] | None,
    now: datetime,
) -> None:
    sql.run(
        CLOSE,
        id=attempt_id,
        outcome=outcome,
        digest=digest,
        decision=Jsonb(decision) if decision is not None else None,
        now=now,
    )


def note_opened(attempt_id: UUID, *, opened: UUID) -> None:
    """Keep with a decision which attempt was opened at once: the same report is told it again."""
    sql.run(
        "update ledger_attempt set decision = decision || %(more)s where id = %(id)s",
        more=Jsonb({"opened": str(opened)}),
        id=attempt_id,
    )


def actor_of(row: Row) -> Actor:
    """Who the journal says it was, as in the move's own event."""
    return Actor(row["actor_type"], row["actor_id"], row["actor_name"])


# ---- cleaned


def tidied(said: Report) -> Report:
    """The report without secrets and control characters, cut to what is kept."""
    learnings = dict.fromkeys(text(each, LEARNING_LENGTH).strip() for each in said.learnings)
    return Report(
        status=said.status,
        summary=text(said.summary, SUMMARY_LENGTH),
        result=redacted(said.result),
        exit_code=said.exit_code,
        verification=worded(said.verification) if said.verification else None,
        type=said.type,
        code=text(said.code, CODE_LENGTH),
        message=text(said.message, MESSAGE_LENGTH),
        details=printed(said.details),
        root_cause_guess=text(said.root_cause_guess, ADVICE_LENGTH),
        suggested_fix=text(said.suggested_fix, ADVICE_LENGTH),
        non_retryable=said.non_retryable,
        retry_after_s=said.retry_after_s,
        files_modified=[worded(each) for each in said.files_modified[:MOST_FILES]],
        learnings=[each for each in learnings if each][:MOST_LEARNINGS],
    )


def text(value: str, most: int) -> str:
    """A text of at most so many characters."""
    whole = stripped(redacted(value))  # cut last: half a secret would not be known
    return whole if len(whole) <= most else whole[: most - 1] + "…"


def printed(output: str, *, of: int = 0) -> str:
    """A program's output as it is kept: what it said last tells most of what went wrong."""
    return clean(redacted(output), limit_bytes=OUTPUT_BYTES, tail=OUTPUT_TAIL, of=of)


def worded(values: dict[str, Any]) -> dict[str, Any]:
    """Short values by their names, and an output."""
    return {
        name: value
        if not isinstance(value, str)
        else printed(value)
        if name == "output"
        else text(value, WORD_LENGTH)
        for name, value in values.items()
    }


# ---- a plain exit code


def exit(
    attempt_id: UUID, code: int, output: bytes, *, caller: Caller, now: datetime | None = None
) -> Told:
    """Close an attempt with the exit code of its program and what that printed: see `report`.

    0, or what the task's verify command expects, is success.
    """
    now = now or timezone.now()
    row = live_row(attempt_id, caller=caller, now=now)
    said = exited(code, printed(ends(output), of=len(output)), verify=verify_of(row))
    digest = hashlib.sha256(b"%d\n%b" % (code, output)).digest()
    if told := finished(attempt_id, said, digest=digest, caller=caller, now=now):
        return told
    return concluded(attempt_id, said, digest=digest, caller=caller, now=now)


def exited(code: int, output: str, *, verify: dict[str, Any]) -> Report:
    """The report that an exit code makes: of the task's verify command where it has one."""
    message = last_lines(output) or f"It ended with exit code {code}."
    if not verify.get("command"):
        if code == 0:
            return Report(exit_code=0, message=message)
        kind = FailureType.TIMEOUT if code in KILLED else FailureType.EXECUTION_ERROR
        return Report(status="failure", type=kind, message=message, details=output)
    command = text(verify["command"], WORD_LENGTH)
    checked = {"command": command, "exit_code": code, "output": output}
    if code in (0, verify.get("expect_exit", 0)):  # 0 that is not expected is found to be wrong
        return Report(exit_code=code, message=message, verification=checked)
    kind = FailureType.VERIFICATION_FAILED
    return Report(status="failure", type=kind, message=message, verification=checked)


def ends(output: bytes) -> str:
    """As much of an output as is looked at: of a longer one whole lines of its start and end.

    It is redacted before it is cut to what is kept, so more is looked at than that.
    """
    if len(output) > READ_BYTES:
        head, tail = output[: READ_BYTES // 4], output[len(output) - READ_BYTES * 3 // 4 :]
        head, tail = head.rpartition(b"\n")[0] or head, tail.partition(b"\n")[2] or tail
        output = head + b"\n" + tail
    return output.decode(errors="replace")


def last_lines(text: str, most: int = 5) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-most:])[-MESSAGE_LENGTH:]


# ---- while it runs, and when it is given back


def heartbeat_statement(caller: type[Caller]) -> str:
    own = "a.agent_id = c.agent_id" if caller is Bearer else "true"
    return f"""with {caller.cte}, beat as (
        update ledger_attempt a set heartbeat_at = %(now)s, heartbeats = a.heartbeats + 1,
            progress = coalesce(%(progress)s, a.progress), lease_expires_at = greatest(
                a.lease_expires_at,
                %(now)s + coalesce(%(extend)s, a.lease_s) * interval '1 second')
        from caller c where a.id = %(attempt)s and {LIVES} and {own}
        returning a.*
    )
    select b.id, b.lease_expires_at, b.deadline_at, c.unseen,
        (select t.abort_requested_at is not null from ledger_task t where t.id = b.task_id)
            as abort_requested,
        (select count(*) from (select from ledger_instruction i where i.agent_id = b.agent_id
            and i.state = 'queued' limit 100) i) as pending_instructions
    from caller c left join beat b on true"""


HEARTBEAT: Statements = {caller: heartbeat_statement(caller) for caller in (Bearer, TrustedCaller)}


def heartbeat(
    attempt_id: UUID,
    *,
    caller: Caller,
    progress: dict[str, Any] | None = None,
    extend_s: int | None = None,
    now: datetime | None = None,
) -> Row:
    """Renew the lease of a live attempt; raises LeaseLost where it is over."""
    now = now or timezone.now()
    if progress is not None and len(json.dumps(progress)) > PROGRESS_BYTES:
        raise Invalid("/progress", f"progress has at most {PROGRESS_BYTES} bytes.")
    rows = sql.run(
        HEARTBEAT[type(caller)],
        attempt=attempt_id,
        progress=Jsonb(redacted(progress)) if progress is not None else None,
        extend=extend_s,
        now=now,
        **caller.params,
    )
    found = answered(rows, caller, now)
    if not found:
        raise lost(live_row(attempt_id, caller=caller, now=now))
    return found[0]


def release(
    attempt_id: UUID,
    *,
    caller: Caller,
    reason: str = "shutdown",
    note: str = "",
    now: datetime | None = None,
) -> Row:
    """Give a task back unfinished: it is queued again and the attempt does not count.

    The tenth release of a round asks a person. Giving back twice gets the same answer.
    """
    now = now or timezone.now()
    for _ in range(TRIES):
        row = live_row(attempt_id, caller=caller, now=now)
        if row["outcome"] == Outcome.RELEASED:
            return row
        if row["outcome"] is not None:
            raise lost(row)
        decided = Decision(TaskState.QUEUED, reason)
        if row["abort_requested_at"]:
            decided = Decision(TaskState.ABORTED, "user_abort")
        elif row["releases"] + 1 >= MOST_RELEASES:
            decided = Decision(TaskState.ESCALATED, "releases_exhausted")
        said = Report(status="released", message=clean(redacted(note), limit_bytes=MESSAGE_LENGTH))
        case = Case(status="released", number=row["number"], attempt_limit=row["attempt_limit"])
        with transaction.atomic():
            moved = move(row, decided, case, said, delay=0, caller=caller, now=now)
            if moved is None:
                continue
            close(attempt_id, Outcome.RELEASED, digest=None, decision=None, now=now)
            if decided.to == TaskState.ESCALATED:
                lifecycle.open_for_task(
                    moved,
                    decided.reason,
                    actor=actor_of(row),
                    now=now,
                    request_id=caller.params["request_id"],
                )
        return moved | {"agent_name": row["agent_name"]}
    raise LeaseLost("The task changed again and again while it was given back.")


# ---- for callers in the same process


def succeeded(
    attempt_id: UUID, result: Any = None, *, actor: Actor = SYSTEM, now: datetime | None = None
) -> Told:
    """Report success (`mark_done`)."""
    return report(attempt_id, Report(result=result), caller=TrustedCaller(actor), now=now)


def failed(
    attempt_id: UUID,
    error: str,
    *,
    final: bool = False,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
) -> Told:
    """Report a failure (`mark_retry`, or `mark_failed` where it is final)."""
    said = Report(status="failure", message=error, non_retryable=final)
    return report(attempt_id, said, caller=TrustedCaller(actor), now=now)
