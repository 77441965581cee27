"""Records as frozen values: events, dead letters, rules, tokens, sessions, channels and others."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tenfour.http.values import Json, Value, instant


@dataclass(frozen=True)
class Event(Value):
    """An entry of the journal."""

    id: str
    type: str = ""
    subject: str = ""
    subject_type: str = ""
    agent: str | None = None
    agent_id: str | None = None
    actor: Json = field(default_factory=dict)
    from_state: str | None = None
    to_state: str | None = None
    data: Json = field(default_factory=dict)
    request_id: str = ""
    at: datetime | None = field(default=None, metadata={"read": instant})


@dataclass(frozen=True)
class Marker(Value):
    """A deploy or another change, drawn on charts of time."""

    id: str
    name: str = ""
    kind: str = ""
    link: str = ""
    text: str = ""
    created_by: str = ""
    at: datetime | None = None
    created_at: datetime | None = None


@dataclass(frozen=True)
class DeadLetter(Value):
    """A task that failed permanently; `closed_as` is a person's decision."""

    id: str
    task: str = ""
    agent: str = ""
    agent_id: str = ""
    type: str = ""
    payload: Any = None
    error: str = ""
    reason: str = ""
    retry_count: int = 0
    assignee: str | None = None
    note: str = ""
    closed_as: str | None = None
    closed_by: str | None = None
    replayed_as: str | None = None
    failed_at: datetime | None = None
    closed_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_as is None


@dataclass(frozen=True)
class StandingInstruction(Value):
    """A rule that sends an instruction when something happens."""

    id: str
    state: str = ""
    on: Json = field(default_factory=dict)
    content: str = ""
    expect: Json | None = None
    max_retries: int = 0
    on_failed: str = ""
    agent: str | None = None
    agent_id: str | None = None
    once_per: str = ""
    hold_stop: bool = False
    created_by: Json = field(default_factory=dict)
    activated_at: datetime | None = None
    retired_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class Trial(Value):
    """The result of trying a rule on a sample: each condition, and what the agent would read."""

    fires: bool = False
    conditions: list[Json] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hold(Value):
    """The answer to an agent that wants to stop: `text` says what is left to do."""

    hold: bool = False
    text: str = ""
    instructions: list[Json] = field(default_factory=list)
    let_go: list[str] = field(default_factory=list)
    escalations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Permission(Value):
    """A request for leave to make a tool call; `allowed` is None without a decision."""

    id: str
    state: str = ""
    answer: Json | None = field(
        default=None, metadata={"read": lambda given: given if isinstance(given, dict) else None}
    )
    tool: str = ""
    title: str = ""
    # what to call the tool with, where a person has changed it
    input: Json = field(default_factory=dict)
    agent: str = ""
    agent_id: str = ""
    task: str | None = None
    rules: list[str] = field(default_factory=list)
    escalation: str | None = None
    url: str | None = None
    asked_at: datetime | None = None
    expires_at: datetime | None = None
    taken_at: datetime | None = None
    closed_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.state == "waiting"

    @property
    def allowed(self) -> bool | None:
        """Return the decision; None, which is neither yes nor no, without one."""
        allow = (self.answer or {}).get("allow")
        return allow if isinstance(allow, bool) else None

    @property
    def message(self) -> str:
        """Return what a denied agent is told."""
        return (self.answer or {}).get("message") or ""

    @property
    def by(self) -> str:
        """Return who decided: a user's name, or "rule"; empty without a decision."""
        return (self.answer or {}).get("by") or ""


@dataclass(frozen=True)
class Pattern(Value):
    """Failures with the same cause, and what people decided about them."""

    id: str
    state: str = ""
    template: str = ""
    example: str = ""
    failures: int = 0
    agents: list[str] = field(default_factory=list)
    assignee: str | None = None
    note: str = ""
    state_by: str | None = None
    ignored_until: datetime | None = None
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    state_at: datetime | None = None


@dataclass(frozen=True)
class PatternFailure(Value):
    """One failure of a pattern."""

    id: str
    type: str = ""
    agent: str = ""
    message: str = ""
    task: str = ""
    at: datetime | None = field(default=None, metadata={"read": instant})


@dataclass(frozen=True)
class Token(Value):
    """A token and its rights; `secret` is there only in the answer that creates it."""

    id: str
    kind: str = ""
    name: str = ""
    agent: str | None = None
    agent_id: str | None = None
    account: str = ""
    prefix: str = ""
    scopes: list[str] = field(default_factory=list)
    created_by: str = ""
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    secret: str = field(default="", repr=False)


@dataclass(frozen=True)
class Session(Value):
    """A conversation of an agent; `messages` and `tasks` count them by state."""

    id: str
    title: str = ""
    agent: str = ""
    agent_id: str = ""
    external_id: str | None = None
    tracker: str = ""
    disable_task_tracking: bool = False
    locked: bool = False
    last_outcome: str | None = None
    messages: Json = field(default_factory=dict)
    tasks: Json = field(default_factory=dict)
    preferences: list[str] = field(default_factory=list)
    metadata: Json = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_message_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class Message(Value):
    """A message of a session; `content` has its parts, such as text, tool_call, tool_result."""

    id: str
    order: int = 0
    role: str = ""
    content: list[Json] = field(default_factory=list)
    state: str = ""
    attempt: str | None = None
    task_order: int | None = None
    planning: bool = False
    sent_at: datetime | None = None
    created_at: datetime | None = None


@dataclass(frozen=True)
class SessionTask(Value):
    """A to-do that was found in a session."""

    id: str
    order: int = 0
    description: str = ""
    state: str = ""
    task: str | None = None
    progress: list[str] = field(default_factory=list)
    message_orders: list[int] = field(default_factory=list)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class SessionStatus(Value):
    """A session's messages, counted by state."""

    total: int = 0
    pending: int = 0
    running: int = 0
    success: int = 0
    failed: int = 0
    disabled: int = 0
    locked: bool = False


@dataclass(frozen=True)
class StoredMessages(Value):
    """The ids of stored messages, and how many wait to be processed."""

    message_ids: list[str] = field(default_factory=list)
    pending: int = 0


@dataclass(frozen=True)
class ImportedSession(Value):
    """The rows that an import of a transcript added to its session."""

    session: Session = field(metadata={"read": Session.read})
    created: bool = False
    added: int = 0
    messages: int = 0
    lines: int = 0
    format: str = ""
    cut_line: int | None = None


@dataclass(frozen=True)
class BulkOperation(Value):
    """A change of many rows, which a person started."""

    id: str
    verb: str = ""
    state: str = ""
    query: str = ""
    reason: str = ""
    started_by: str = ""
    matching: int = 0
    total: int = 0
    changed: int = 0
    refused: int = 0
    left: int = 0
    refusals: list[Json] = field(default_factory=list)
    counted_at: datetime | None = None
    starts_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Policies(Value):
    """The scope of each policy: off, plans or all; `evidence` is needed before a task is done."""

    ask_on_same_failure: str = ""
    ask_at_once: str = ""
    obey_waits: str = ""
    evidence: str | None = None
    exclusive_files: str = ""
    reason_verbs: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    search_keys: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    search_filled_to: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class EscalationPolicy(Value):
    """The people to tell of an escalation, in steps; `answer_by` wrote the default answer."""

    id: str
    name: str = ""
    position: int = 0
    conditions: str = ""
    answer_within_s: int = 0
    steps: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    enabled: bool = True
    answer_by: str | None = None
    changed_by: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class Rota(Value):
    """The people on call by weekday and local time; `on_call` covers the next 7 days."""

    id: str
    name: str = ""
    timezone: str = ""
    shifts: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    fallback: tuple[str, ...] = field(default=(), metadata={"read": tuple})
    on_call: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    changed_by: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class Budget(Value):
    """A limit of a task, a plan or the project, with what is used of it."""

    id: str
    scope: str = ""
    plan: str | None = None
    plan_ref: str | None = None
    task: str | None = None
    period: str = ""
    zone: str = ""
    unit: str = ""
    limit: float = 0
    granted: float = 0
    used: float = 0
    share: float = 0
    at_limit: str = ""
    used_up: bool = False
    until: datetime | None = field(default=None, metadata={"read": instant})
    # reports of models without a price, which count for no dollars
    unpriced: int = 0
    unpriced_model: str = ""
    escalation: str | None = None
    created_by: str = ""
    created_at: datetime | None = field(default=None, metadata={"read": instant})
    updated_at: datetime | None = field(default=None, metadata={"read": instant})
    version: int = 0


@dataclass(frozen=True)
class Price(Value):
    """The price of a model in USD per million tokens; one that Tenfour ships has no id."""

    model: str
    id: str | None = None
    starts_on: str = ""
    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    set_by: str | None = None


@dataclass(frozen=True)
class Target(Value):
    """The share of cases that should be in time; without `percent`, it is removed."""

    measure: str
    agent: str | None = None
    type: str | None = None
    plan: str | None = None
    percent: int | None = None
    within_s: int | None = None
    set_by: str = ""
    set_at: datetime | None = None


@dataclass(frozen=True)
class Channel(Value):
    """A way to reach people; `address` shows the part of its URL that is no secret."""

    id: str
    name: str = ""
    service: str = ""
    address: str = ""
    state: str = ""
    include_details: bool = False
    digest: str = "off"
    digest_hour: int = 8
    digest_timezone: str = ""
    digest_due_at: datetime | None = None
    failures: int = 0
    last_error: str | None = None
    disabled_because: str | None = None
    created_by: Json = field(default_factory=dict)
    failing_since: datetime | None = field(default=None, metadata={"read": instant})
    succeeded_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class Webhook(Channel):
    """A program that gets events; `secret` is there only in the answer that creates it."""

    events: list[str] = field(default_factory=list)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True)
class Delivery(Value):
    """A message to a channel or a webhook, and how its last try went."""

    id: str
    channel: str = ""
    channel_id: str = ""
    state: str = ""
    kind: str = ""
    role: str = ""
    tries: int = 0
    code: int | None = None
    error: str | None = None
    response: str | None = None
    latency_ms: int | None = None
    message_id: str = ""
    event_id: str | None = None
    rule_id: str | None = None
    subject: Json | None = None
    created_at: datetime | None = None
    first_try_at: datetime | None = None
    next_try_at: datetime | None = None
    delivered_at: datetime | None = None
