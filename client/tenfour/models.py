"""Responses of the API as frozen values; unknown fields are in `raw`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tenfour.http.values import Json, Value, instant


@dataclass(frozen=True)
class Instruction(Value):
    """Text sent to an agent. The agent reads `text`; the producer sent `content`."""

    id: str
    content: str = ""
    text: str = ""
    state: str = ""
    urgency: str = ""
    agent: str = ""
    agent_id: str = ""
    tracked: bool = True
    retry_count: int = 0
    max_retries: int = 3
    deliveries: int = 0
    expect: Json | None = None
    on_failed: str = ""
    outcome: str | None = None
    note: str | None = None
    deduplicated: bool = False
    late: bool = False
    sent_by: Json | None = None
    acknowledged_by: Json | None = None
    queued_at: datetime | None = None
    first_delivered_at: datetime | None = None
    delivered_at: datetime | None = None
    # by which way, to which session, and at which of its tool calls it came last
    delivered_via: str | None = None
    delivered_session: str | None = None
    delivered_call: int | None = None
    # the agent's first step after a delivery
    read_at: datetime | None = None
    acknowledged_at: datetime | None = None
    failed_at: datetime | None = None
    cancelled_at: datetime | None = None
    late_ack_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.state == "acknowledged"

    @property
    def is_open(self) -> bool:
        """Return whether it is still waiting for its agent."""
        return self.state in {"queued", "delivered"}

    @property
    def data(self) -> Json:
        """Return the data of the signal that acknowledged it, or an empty mapping."""
        return (self.acknowledged_by or {}).get("data") or {}


@dataclass(frozen=True)
class Pulled(Value):
    """The instructions of one pull, in order; `retry_after_s` is 0 if more are waiting."""

    data: tuple[Instruction, ...] = field(default=(), metadata={"read": Instruction.read_all})
    retry_after_s: float = 0

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Acked(Value):
    """The result for one id of a list of acknowledgments."""

    id: str
    status: int
    instruction: Instruction | None = field(
        default=None, metadata={"read": lambda row: row and Instruction.read(row)}
    )


@dataclass(frozen=True)
class Task(Value):
    """A unit of work for one agent."""

    id: str
    ref: str | None = None
    plan: str | None = None
    run: int | None = None
    needs: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    skipped_needs: tuple[Mapping[str, Any], ...] = field(default=(), metadata={"read": tuple})
    title: str = ""
    type: str = ""
    state: str = ""
    blocked_reason: str | None = None
    agent: str = ""
    # the pool that it was sent to, and which of its members may retry it
    pool: str | None = None
    retry_on: str | None = None
    assignee: str | None = None
    priority: int = 0
    payload: Any = None
    result: Any = None
    error: str | None = None
    # of a task that is done: proven, stale, claimed or person
    proof: str | None = None
    unmet: int = 0
    attempts: int = 0
    attempt_limit: int = 0
    max_attempts: int = 0
    retry_count: int = 0
    on_exhausted: str = ""
    evidence: str | None = None
    idempotent: bool = True
    lease_s: float = 0
    timeout_s: float = 0
    current_attempt: str | None = None
    abort_requested: bool = False
    allowed_moves: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    escalation: str | None = None
    replay_of: str | None = None
    version: int = 0
    due_at: datetime | None = None
    not_before: datetime | None = None
    # the task that it waits for, because both name the same files
    files_held_by: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def is_final(self) -> bool:
        return self.state in {"done", "failed", "skipped", "aborted"}


@dataclass(frozen=True)
class Plan(Value):
    """Tasks that depend on each other, known by a ref; `counts` by state."""

    id: str | None = None
    ref: str = ""
    title: str = ""
    objective: str = ""
    state: str = ""
    run: int = 1
    tasks: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    not_before: datetime | None = None
    exclusive_files: bool = False
    version: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    paused_at: datetime | None = None
    aborted_at: datetime | None = None
    completed_at: datetime | None = None
    file_agreed_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.state in {"completed", "aborted"}


@dataclass(frozen=True)
class PlanTask(Value):
    """A task in its plan; `needs` are refs, `proposed_command` waits for a confirmation."""

    id: str | None = None
    ref: str = ""
    run: int = 1
    title: str = ""
    type: str = ""
    agent: str = ""
    state: str = ""
    blocked_reason: str | None = None
    not_before: datetime | None = None
    priority: int = 0
    attempts: int = 0
    attempt_limit: int = 0
    retry_count: int = 0
    needs: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    proposed_command: str | None = None


@dataclass(frozen=True)
class PlanWithTasks(Value):
    """A plan and its tasks in order; an agent sees only its own."""

    plan: Plan = field(metadata={"read": Plan.read})
    tasks: tuple[PlanTask, ...] = field(default=(), metadata={"read": PlanTask.read_all})


@dataclass(frozen=True)
class PlanForecast(Value):
    """When a plan will be done and what it will cost; `reason` says why there is no interval."""

    plan: str
    made_at: datetime | None = None
    reason: str | None = None
    sentence: str | None = None
    cases: int = 0
    # each low, median, and high: four of five plans are between the first and the last
    ends_at: Json | None = field(default=None, metadata={"read": lambda data: data})
    cost: Json | None = None
    cost_unit: str = "usd"
    spent: float = 0
    # of the project's plans, how many ended inside their intervals
    calibration: Json = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedPlan(PlanWithTasks):
    """The result of an import: `diff` names the refs that were added, changed, left or aborted."""

    warnings: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    diff: Json = field(default_factory=dict)
    # why a task of the file is a stored one, where another ref or a similar text says so
    matches: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    # refs of waiting tasks that are done now because the file marks them as done
    ticked: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    # what became of each line that looks like work, and its box
    lines: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    # of a dry run: the file's tasks as a tree, each with its line
    preview: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    unchanged: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Attempt(Value):
    """One execution of a task; while it is live, it has a lease and no `outcome`."""

    id: str
    number: int = 1
    attempt_limit: int = 0
    worker_id: str = ""
    outcome: str | None = None
    resumed: bool = False
    heartbeat_every_s: float = 0
    previous_progress: Json | None = None
    progress: Json | None = None
    # the last lines of the command's output
    last_output: str = ""
    failure: Json | None = None
    decision: Json | None = None
    # input_tokens, cached_tokens, output_tokens, cost_usd and model, as far as they were reported
    usage: Json | None = None
    # how the commands ended that checked its work, and the files that it left
    checks: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    tree: Json | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    lease_expires_at: datetime | None = None
    deadline_at: datetime | None = None


@dataclass(frozen=True)
class Claim(Value):
    """A claimed task and its live attempt.

    The model reads `prompt`: the `retry_context`, empty on the first attempt, then the task.
    """

    attempt: Attempt = field(metadata={"read": Attempt.read})
    task: Task = field(metadata={"read": Task.read})
    retry_context: str = ""
    prompt: str = ""
    next_action: str = ""


@dataclass(frozen=True)
class Claimed(Value):
    """The result of a claim; if it is empty, `reason` says why."""

    data: tuple[Claim, ...] = field(default=(), metadata={"read": Claim.read_all})
    reason: str | None = None
    next_due_in_ms: int | None = None
    retry_after_s: float = 0
    pending_instructions: int = 0
    # the task that was created to be claimed; it stays queued if it could not start
    made: str | None = None

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Heartbeat(Value):
    """The response to a heartbeat: how long the lease lasts, and whether to stop."""

    lease_expires_at: datetime | None = None
    deadline_at: datetime | None = None
    abort_requested: bool = False
    pending_instructions: int = 0


@dataclass(frozen=True)
class AttemptOutput(Value):
    """What an attempt has printed: pieces with `at`, `size`, `left_out` and `text`."""

    data: tuple[Mapping[str, Any], ...] = ()
    next: int = 0
    is_live: bool = False


@dataclass(frozen=True)
class Decision(Value):
    """The outcome of a report: done, wait, escalated, blocked, failed or aborted."""

    decision: str
    reason: str = ""
    verdict: Json | None = None
    delay_s: float = 0
    # when it can be claimed again
    not_before: datetime | None = field(default=None, metadata={"read": instant})
    # the next attempt, if it is open already, with its context
    retry: Json | None = None
    retry_context: str | None = None
    prompt: str | None = None
    next_action: str | None = None
    escalation: Json | None = None
    task: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Escalation(Value):
    """A question to a person; `resolution` is the answer, once there is one."""

    id: str
    state: str = ""
    reason: str = ""
    severity: str = ""
    title: str = ""
    message: str = ""
    task: str | None = None
    plan: str | None = None
    instruction: str | None = None
    agent: str = ""
    agent_id: str = ""
    raised_by: Json | None = None
    question: str | None = None
    choices: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    options: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    response_schema: Json | None = None
    client_state: Any = None
    assignee: str | None = None
    policy: str | None = None
    told: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    on_expiry: str | None = None
    url: str = ""
    resolution: Json | None = None
    outcome: Json | None = None
    version: int = 0
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    expires_at: datetime | None = None
    snoozed_until: datetime | None = None
    notify_again_at: datetime | None = None
    next_step_at: datetime | None = None
    answer_due_at: datetime | None = None
    warnings: tuple[str, ...] = field(default=(), metadata={"read": tuple})

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def action(self) -> str:
        """Return what was decided: answer, fix, retry, skip, abort; empty without an answer."""
        return str((self.resolution or {}).get("action") or "")

    @property
    def answer(self) -> Any:
        """Return the values of an answer to a question with a schema, else the answer's text."""
        resolution = self.resolution or {}
        return resolution.get("response") or resolution.get("instruction") or ""


@dataclass(frozen=True)
class Agent(Value):
    """A named worker."""

    id: str
    name: str = ""
    paused: bool = False
    silent: bool = False
    waits_until: datetime | None = field(default=None, metadata={"read": instant})
    waits_for: str = ""
    account: str = ""
    limits: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    concurrency: int | None = None
    running: int = 0
    waiting: int = 0
    awaiting_ack: int = 0
    breaker: Json | None = None
    system_text: str = ""
    last_seen_at: datetime | None = None
    created_at: datetime | None = None


@dataclass(frozen=True)
class Account(Value):
    """What agents' calls are billed to; each limit is a window with its used share and reset."""

    name: str
    agents: int = 0
    waits_until: datetime | None = field(default=None, metadata={"read": instant})
    limits: tuple[Json, ...] = field(default=(), metadata={"read": tuple})


@dataclass(frozen=True)
class Pool(Value):
    """A name that tasks are sent to instead of one agent; each member with its state."""

    id: str
    name: str = ""
    paused: bool = False
    retry_on: str = "any"
    queued: int = 0
    retries: int = 0
    running: int = 0
    # in the last 24 hours
    done: int = 0
    oldest_at: datetime | None = field(default=None, metadata={"read": instant})
    members: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    created_at: datetime | None = None


@dataclass(frozen=True)
class Me(Value):
    """The token's identity."""

    kind: str
    name: str = ""
    project: Json = field(default_factory=dict)
    agent: str | None = None
    agent_id: str | None = None
    scopes: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    limits: Json = field(default_factory=dict)
    token: Json = field(default_factory=dict)
    poll_every_s: float = 0
    poll_max_s: float = 0
    server_time: datetime | None = field(default=None, metadata={"read": instant})
    version: str = ""


@dataclass(frozen=True)
class Numbers(Value):
    """Figures about the instructions of a project, or of one agent."""

    name: str = ""
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    cancelled: int = 0
    waiting: int = 0
    retry_rate: float | None = None
    # seconds from sending to delivery, to the agent's next step, and to the acknowledgment
    delivery_p50_s: float | None = None
    delivery_p95_s: float | None = None
    read_p50_s: float | None = None
    read_p95_s: float | None = None
    ack_p50_s: float | None = None
    ack_p95_s: float | None = None
    levels: tuple[Json, ...] = field(default=(), metadata={"read": tuple})


@dataclass(frozen=True)
class Stats(Value):
    """The figures of a project and of each of its agents."""

    window_s: float = 0
    project: Numbers = field(default_factory=Numbers, metadata={"read": Numbers.read})
    agents: tuple[Numbers, ...] = field(default=(), metadata={"read": Numbers.read_all})
