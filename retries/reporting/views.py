"""The views for people who write SQL: their columns, and the rows that they read.

They show no payload, result, output, or answer, and no token. `docs/sql.md` lists them.
"""

from dataclasses import dataclass

SCHEMA = "reporting"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    value: str
    about: str


@dataclass(frozen=True, slots=True)
class View:
    name: str
    about: str
    source: str
    columns: tuple[Column, ...]

    @property
    def statement(self) -> str:
        columns = ",\n    ".join(f"{each.value} as {each.name}" for each in self.columns)
        return f"create view {SCHEMA}.{self.name} as select\n    {columns}\nfrom {self.source}"


def column(name: str, about: str, value: str = "") -> Column:
    """Return a column of the view's main row `r`, or of another expression."""
    return Column(name, value or f"r.{name}", about)


def seconds_between(start: str, end: str) -> str:
    return f"extract(epoch from {end} - {start})::float8"


PROJECT = column("project", "the project's name", "p.name")
AGENT = column("agent", "the agent's name", "a.name")
OF_PROJECT = "join ledger_project p on p.id = r.project_id"
OF_AGENT = f"join ledger_agent a on a.id = r.agent_id {OF_PROJECT}"

TASKS = View(
    "tasks",
    "one row for each task",
    f"ledger_task r {OF_AGENT} left join ledger_plan l on l.id = r.plan_id",
    (
        column("id", "the task's ID"),
        PROJECT,
        AGENT,
        column("plan", "the plan's name, or null", "l.ref"),
        column("ref", "the task's name in its plan"),
        column("title", "its title"),
        column("type", "its type"),
        column(
            "state", "queued, running, retry, blocked, escalated, done, failed, skipped, aborted"
        ),
        column("blocked_reason", "why it is blocked, or null"),
        column("proof", "proven, stale, claimed, or person; null if it is not done"),
        column("priority", "higher is claimed first"),
        column("attempts", "number of attempts that have begun"),
        column("attempt_limit", "number of attempts that it may have"),
        column("not_before", "no attempt starts before it"),
        column("created_at", "when it was created"),
        column("started_at", "when its first attempt began"),
        column("completed_at", "when it ended"),
        column("updated_at", "when it last changed"),
    ),
)
ATTEMPTS = View(
    "attempts",
    "one row for each attempt, with the tokens and the cost that its report gave",
    "ledger_attempt r join ledger_task t on t.id = r.task_id"
    " join ledger_agent a on a.id = r.agent_id join ledger_project p on p.id = t.project_id"
    " left join ledger_failure f on f.attempt_id = r.id",
    (
        column("id", "the attempt's ID"),
        PROJECT,
        AGENT,
        column("task_id", "its task's ID"),
        column("number", "1 for the task's first attempt"),
        column("worker", "the worker's name", "r.worker_id"),
        column("outcome", "how it ended; null while it runs"),
        column(
            "failure_type",
            "execution_error, verification_failed, timeout, or "
            "architect_rejected; null if it did not fail",
            "f.type",
        ),
        column(
            "headline",
            "the line that tells its failure; untrusted text",
            "split_part(f.telling_lines, chr(10), 1)",
        ),
        column("started_at", "when it began"),
        column("ended_at", "when it ended"),
        column("seconds", "how long it took", seconds_between("r.started_at", "r.ended_at")),
        column("model", "the model's name, as reported", "r.usage ->> 'model'"),
        column(
            "input_tokens", "tokens that the model read", "(r.usage ->> 'input_tokens')::bigint"
        ),
        column(
            "output_tokens", "tokens that the model wrote", "(r.usage ->> 'output_tokens')::bigint"
        ),
        column(
            "cost_usd",
            "what it cost in US dollars, as reported",
            "(r.usage ->> 'cost_usd')::numeric",
        ),
    ),
)
ESCALATIONS = View(
    "escalations",
    "one row for each question to a person",
    f"retries_escalation r {OF_AGENT} left join auth_user u on u.id = r.assignee_id",
    (
        column("id", "the escalation's ID"),
        PROJECT,
        AGENT,
        column("task_id", "the task that it is about, or null"),
        column("instruction_id", "the instruction that it is about, or null"),
        column("state", "open, resolved, expired, or withdrawn"),
        column("reason", "why a person is needed"),
        column("severity", "how urgent it is"),
        column("assignee", "who it is assigned to, or null", "u.username"),
        column("opened_at", "when it was opened"),
        column("closed_at", "when it was answered, expired, or was withdrawn"),
        column(
            "seconds_open",
            "how long it was open, until now if it still is",
            seconds_between("r.opened_at", "coalesce(r.closed_at, now())"),
        ),
        column("action", "the answer's kind, or null"),
        column("answered_by", "who answered", "r.answered_by_name"),
    ),
)
INSTRUCTIONS = View(
    "instructions",
    "one row for each instruction",
    f"ledger_instruction r {OF_AGENT}",
    (
        column("id", "the instruction's ID"),
        PROJECT,
        AGENT,
        column("task_id", "the task that it belongs to, or null"),
        column("state", "queued, delivered, acknowledged, failed, or cancelled"),
        column("tracked", "whether it must be acknowledged"),
        column("reminders", "how often it was queued again", "r.retry_count"),
        column("sent_by", "who sent it", "r.sent_by_name"),
        column("queued_at", "when it was queued"),
        column("delivered_at", "when it was last delivered"),
        column("read_at", "when the agent made its first step after a delivery"),
        column("acknowledged_at", "when it was acknowledged"),
        column("failed_at", "when it was given up"),
    ),
)
PLANS = View(
    "plans",
    "one row for each plan; count its tasks in `tasks`",
    f"ledger_plan r {OF_PROJECT}",
    (
        column("id", "the plan's ID"),
        PROJECT,
        column("ref", "the plan's name"),
        column("title", "its title"),
        column("run", "1, and one more for each restart"),
        column("paused_at", "since when it is paused, or null"),
        column("created_at", "when it was created"),
        column("completed_at", "when it ended"),
        column("aborted_at", "when it was aborted"),
    ),
)
AGENTS = View(
    "agents",
    "one row for each agent",
    f"(select * from ledger_agent where not is_pool) r {OF_PROJECT}"
    " left join ledger_breaker b on b.agent_id = r.id",
    (
        column("id", "the agent's ID"),
        PROJECT,
        column("name", "its name"),
        column("account", "the account that its calls are billed to"),
        column("paused", "whether a person has paused it"),
        column("breaker", "closed, open, or half_open", "coalesce(b.state, 'closed')"),
        column("waits_until", "when the limit of its account resets, or null"),
        column("last_seen_at", "its last call"),
        column("created_at", "when it was registered"),
    ),
)
PATTERNS = View(
    "failure_patterns",
    "one row for each pattern of failures; merged ones are left out",
    f"(select * from retries_failurepattern where merged_into_id is null) r {OF_PROJECT}",
    (
        column("id", "the pattern's ID"),
        PROJECT,
        column("template", "what its failures have in common; untrusted text"),
        column("state", "open, ignored, resolved, or regressed"),
        column("first_seen", "its first failure"),
        column("last_seen", "its last failure, to the minute"),
    ),
)
EVENTS = View(
    "events",
    "one row for each entry of the journal, which is large: give a range of `at`",
    "ledger_event r left join ledger_project p on p.id = r.project_id"
    " left join ledger_agent a on a.id = r.agent_id",
    (
        column("id", "the event's ID"),
        PROJECT,
        column("at", "when it happened"),
        column("kind", "its kind, such as task.claimed"),
        column("subject_type", "what it is about"),
        column("subject_id", "the ID of its subject"),
        AGENT,
        column("from_state", "the state before, or null"),
        column("to_state", "the state after, or null"),
        column("actor_type", "user, agent, orchestrator, or tenfour"),
        column("actor", "the actor's name", "r.actor_name"),
    ),
)
VIEWS = (TASKS, ATTEMPTS, ESCALATIONS, INSTRUCTIONS, PLANS, AGENTS, PATTERNS, EVENTS)
