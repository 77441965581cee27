"""The task of an agent's session: claimed for it, given again, and found when the agent stops."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, F
from django.db.models.expressions import RawSQL

from ledger.api.parameters import find_by_id
from ledger.authorization.permissions import may
from ledger.authorization.principal import Principal
from ledger.database import optional_cache, sql
from ledger.errors import InvalidTransition, NotFound
from ledger.models import Attempt, Task
from ledger.states import Outcome
from ledger.tokens import Bearer
from retries import claims
from retries.agent_hooks.answers import TEXT_LENGTH, fit
from retries.attempts import heartbeats
from retries.attempts.finishing import verify_of
from retries.attempts.live_attempt import LeaseLost, is_spent
from retries.claiming.session_names import LAST_ATTEMPT, name_session, name_worker
from retries.claims import ClaimResult
from retries.retry_context.block import BUDGET, LEAST_BUDGET, render_retry_context
from retries.retry_context.history import load_histories, render_prompt
from retries.retry_context.storing import store_contexts

# A hook can't send heartbeats while a tool runs, so the lease outlasts a long test run. But until
# the session shows that it works on the task, nothing may ever follow.
LEASE_S, FIRST_LEASE_S = 1800, 300
HEARTBEAT_EVERY = timedelta(seconds=30)
SESSION_SECONDS = 7 * 24 * 3600
# The agent needs the id to ask a person, or to report that it is blocked.
NAME = "\n\n(Your attempt is {id}. Tenfour reports it when you stop.)"


@dataclass(frozen=True, slots=True)
class HookCaller:
    """An agent whose hook calls: what its token may do, and its session."""

    principal: Principal
    agent_id: UUID
    bearer: Bearer
    session: str
    # the server's public address, for links
    base_url: str

    def may(self, scope: str) -> bool:
        return may(self.principal, scope)

    def scoped(self, scope: str) -> Bearer:
        return replace(self.bearer, scope=scope)

    @property
    def session_name(self) -> str:
        return name_session(self.session)

    @property
    def worker_id(self) -> str:
        return name_worker(self.session)


# ---- the session's calls


def count_call(caller: HookCaller) -> int | None:
    """Count a tool call of the session; return its number, or None without Redis or a session."""
    if not caller.worker_id:
        return None
    return optional_cache.increment(call_key(caller), seconds=SESSION_SECONDS) or None


def read_calls(caller: HookCaller) -> int | None:
    found = optional_cache.read(call_key(caller)) if caller.worker_id else None
    return found if isinstance(found, int) else None


def note_folder(caller: HookCaller, folder: str) -> None:
    # No later HTTP hook sends the folder in which the session began.
    optional_cache.write(folder_key(caller), folder, seconds=SESSION_SECONDS)


def read_folder(caller: HookCaller) -> str:
    """Return the folder in which the session began; empty if it is unknown."""
    return str(optional_cache.read(folder_key(caller)) or "")


def folder_key(caller: HookCaller) -> str:
    return f"hook-folder:{caller.agent_id}:{caller.worker_id}"


def call_key(caller: HookCaller) -> str:
    return f"hook-calls:{caller.agent_id}:{caller.worker_id}"


# ---- the session's task


@dataclass(frozen=True, slots=True)
class Given:
    """An attempt that the session holds, with the text for its agent."""

    attempt_id: UUID
    task: Mapping[str, Any]
    prompt: str
    retry_context: str


IS_SPENT = RawSQL(  # noqa: S611 - only our own SQL
    is_spent("ledger_task", now="statement_timestamp()"), (), BooleanField()
)


def find_attempt(caller: HookCaller) -> Attempt | None:
    """Return the session's live attempt, or else its last one, with its task."""
    if not caller.worker_id:
        return None
    # Most calls are of sessions without one: a row of all columns takes longer to read.
    found = sql.run(LAST_ATTEMPT, agent=caller.agent_id, worker=caller.worker_id)
    rows = Attempt.objects.select_related("task").annotate(is_spent=IS_SPENT)
    return rows.get(pk=found[0]["id"]) if found else None


def find_live_attempt(caller: HookCaller) -> Attempt | None:
    attempt = find_attempt(caller)
    return attempt if attempt and attempt.outcome is None else None


def is_unused(attempt: Attempt) -> bool:
    """Return whether an attempt was released because its session did not begin in time."""
    is_released = attempt.outcome == Outcome.RELEASED and attempt.report_digest is None
    is_over = attempt.ended_at is not None and attempt.ended_at >= attempt.lease_expires_at
    return is_released and is_over and attempt.heartbeat_at is None


def take_task(caller: HookCaller, *, task: str, now: datetime) -> Given | None:
    """Give the session the task that it has or continues, or else its first one.

    `task` is the id or ref of the task that the session was started for.
    """
    # A session whose task is over gets no other: a person may keep talking with the agent.
    if not caller.worker_id:
        return None
    last = find_attempt(caller)
    if last and last.outcome is None:
        return give(claim(caller, task=None, now=now))
    if last:
        return give(claim(caller, task=last.task_id, now=now))
    return give(claim(caller, task=find_task_id(caller, task) if task else None, now=now))


def find_task_id(caller: HookCaller, id_or_ref: str) -> UUID:
    own = Task.objects.visible_to(caller.principal)
    # A task that a restart or a replay has replaced keeps its ref, and comes last.
    current_first = own.order_by(F("replaced_by").asc(nulls_first=True))
    found = find_by_id(current_first, id_or_ref, ref=id_or_ref)
    if found is None:
        raise NotFound(f"No task with the id or ref '{id_or_ref}' is visible to this token.")
    id: UUID = found.id
    return id


def claim(caller: HookCaller, *, task: UUID | None, now: datetime) -> ClaimResult:
    """Claim for the session; the result is empty if the task can't be started now."""
    try:
        return claims.claim(
            caller.scoped("tasks:work"),
            worker_id=caller.worker_id,
            task=task,
            lease_s=FIRST_LEASE_S,
            now=now,
        )
    except (InvalidTransition, NotFound):
        return ClaimResult()


def renew(
    attempt: Attempt,
    *,
    caller: HookCaller,
    now: datetime,
    progress: dict[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
) -> None:
    # If the attempt is over, the next event reports it.
    with suppress(LeaseLost):
        heartbeats.renew_lease(
            attempt.id,
            caller=caller.scoped("tasks:work"),
            progress=progress,
            extend_s=LEASE_S,
            usage=usage,
            now=now,
        )


def give(claimed: ClaimResult) -> Given | None:
    """Return the text about a claimed task, as long as a hook may add."""
    if not claimed.rows:
        return None
    row = claimed.rows[0]
    history = load_histories([row["id"]], typed=True)[row["id"]]
    prompt = context = ""
    for budget in (BUDGET, LEAST_BUDGET):
        context = render_retry_context(
            history, attempt=row["attempt_number"], max_attempts=row["attempt_limit"], budget=budget
        )
        prompt = render_prompt(row, context, system=claimed.system_text)
        if len(prompt) <= TEXT_LENGTH:
            break
    store_contexts([(row, history, context)], budget=budget)
    rest = f"the rest is in 'tenfour task show {row['id']}'"
    name = NAME.format(id=row["attempt_id"])
    length = TEXT_LENGTH - len(name)
    texts = [fit(text, length=length, rest=rest) + name for text in (prompt, context) if text]
    return Given(row["attempt_id"], row, texts[0], texts[1] if context else "")


def describe_check(payload: Any) -> dict[str, Any] | None:
    verify = verify_of({"payload": payload})
    if not isinstance(verify, Mapping) or not verify.get("command"):
        return None
    names = ("command", "cwd", "timeout_s", "expect_exit")
    return {name: verify[name] for name in names if verify.get(name) is not None}
