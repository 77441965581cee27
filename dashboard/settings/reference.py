"""The settings as people read them: what each one means, and its value here."""

from dataclasses import dataclass

from django.conf import settings

from retries.strategy import RetryConfig


@dataclass(frozen=True, slots=True)
class Setting:
    """One of TENFOUR's, in the words of docs/settings.md, where a test looks for them."""

    name: str
    default: str
    says: str

    @property
    def value(self) -> str:
        return value_of(self.name)

    @property
    def is_changed(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit under the name that plans know it by; `setting` holds its value, if one does."""

    name: str
    setting: str
    default: str
    says: str

    @property
    def value(self) -> str:
        return value_of(self.setting) if self.setting else self.default


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What runs again, how often in all by default, and what comes then."""

    name: str
    word: str
    setting: str
    default: int
    counts_first: bool  # whether the first run is one of them
    run: str
    runs: str
    then: str

    @property
    def value(self) -> int:
        return int(value_of(self.setting)) if self.setting else self.default

    @property
    def in_all(self) -> str:
        return self.told(self.value)

    def told(self, limit: int) -> str:
        count = limit if self.counts_first else limit + 1
        return f"{count} {self.run if count == 1 else self.runs}"


def value_of(name: str) -> str:
    """As it stands in the environment."""
    value = settings.TENFOUR[name]
    if isinstance(value, bool):
        return "1" if value else "0"
    return ",".join(value) if isinstance(value, list) else str(value).rstrip("/")


LIMITS = (
    Limit("MAX_RETRIES", "TASK_MAX_ATTEMPTS", "3", "attempts of a plan's task"),
    Limit(
        "RETRY_DELAY",
        "",
        "0",
        "seconds before a plan's task is tried again; the `backoff` of a plan or "
        "task says otherwise",
    ),
    Limit(
        "ESCALATION_THRESHOLD",
        "TASK_MAX_ATTEMPTS",
        "3",
        "failures after which a person is asked: the same setting as MAX_RETRIES, no second limit",
    ),
)
MECHANISMS = (
    Mechanism(
        "instruction",
        "max_retries",
        "INSTRUCTION_MAX_RETRIES",
        3,
        False,
        "delivery",
        "deliveries",
        "failed",
    ),
    Mechanism(
        "task",
        "max_attempts",
        "TASK_MAX_ATTEMPTS",
        3,
        True,
        "attempt",
        "attempts",
        "escalated, or failed with a dead letter",
    ),
    Mechanism(
        "RetryStrategy (any callable)",
        "max_retries",
        "",
        RetryConfig().max_retries,
        False,
        "call",
        "calls",
        "the last exception",
    ),
)
GROUPS = (
    Group(
        "Where it runs",
        (
            Setting(
                "PREPARE",
                "1",
                "0 behind a transaction pooler such as PgBouncer: nothing is prepared",
            ),
            Setting("OPEN_DOCS", "1", "0: no `/v1/docs` and no `/v1/openapi.json`"),
            Setting("ADMIN_PATH", "admin", "where the admin is"),
            Setting(
                "METRICS_ALLOW",
                "127.0.0.1,::1",
                "addresses and networks that may read `/metrics` without a token",
            ),
        ),
    ),
    Group(
        "Instructions and the clock",
        (
            Setting("IDLE_CHECK_SECONDS", "60", "how often ignored instructions are looked for"),
            Setting(
                "INSTRUCTION_MIN_AGE",
                "30",
                "seconds since the last delivery before a reminder; 0 gives the bare rule",
            ),
            Setting(
                "INSTRUCTION_MAX_RETRIES",
                "3",
                "retries of an instruction that does not name its own (0 to 20)",
            ),
            Setting(
                "SILENT_AFTER_SECONDS",
                "300",
                "an agent that has not asked for so long while instructions wait "
                "is shown as silent",
            ),
            Setting(
                "POLL_SECONDS", "2", "what `retry_after_s` tells an agent whose queue is empty"
            ),
        ),
    ),
    Group(
        "Tasks and breakers",
        (
            Setting(
                "TASK_MAX_ATTEMPTS", "3", "attempts of a task that does not name its own (1 to 100)"
            ),
            Setting(
                "TASK_LEASE_SECONDS", "300", "how long a claimed task may go without a heartbeat"
            ),
            Setting("TASK_TIMEOUT_SECONDS", "3600", "how long one attempt may take in all"),
            Setting(
                "BACKOFF_SECONDS",
                "1",
                "how often retries that have come due are noted; no claim waits for it",
            ),
            Setting(
                "EXPIRE_LEASES_SECONDS",
                "5",
                "how often leases that ran out are looked for; after three of "
                "these without a look, 30 s at least, live leases are extended instead",
            ),
            Setting("BREAKERS_SECONDS", "5", "how often open breakers are looked at"),
            Setting("PLANS_SECONDS", "5", "how often it is noted which plans are over"),
            Setting("BREAKER_FAILURES", "5", "failures in a row that open an agent's breaker"),
            Setting("BREAKER_SUCCESSES", "2", "successes that close a half-open one"),
            Setting("BREAKER_OPEN_SECONDS", "60", "how long an open one hands out nothing"),
            Setting(
                "BREAKER_COUNTS",
                "execution_error,timeout",
                "the types of failure that count, with commas",
            ),
        ),
    ),
    Group(
        "Questions to people",
        (
            Setting(
                "ESCALATIONS_SECONDS",
                "15",
                "how often expired escalations and due reminders are looked for",
            ),
            Setting(
                "ESCALATION_REMIND_SECONDS",
                "3600",
                "how long one waits before people are first reminded of it, then "
                "twice as long each time, a day at most; 0: never",
            ),
            Setting(
                "UNDO_SECONDS",
                "5",
                "how long a retry or a fix of a task, given on the page, can be "
                "taken back; 0: not at all (0 to 60)",
            ),
        ),
    ),
    Group(
        "Limits",
        (
            Setting("BODY_BYTES", "262144", "the largest JSON body"),
            Setting("TOKEN_DAYS", "90", "how long a new token is valid"),
            Setting(
                "AUTH_FAILURES_PER_MINUTE",
                "10",
                "failed authentications per address before they get 429; a right "
                "token is never limited",
            ),
        ),
    ),
)
