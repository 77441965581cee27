"""The limits of repetition: each with its setting, default and current value."""

from dataclasses import dataclass

from dashboard.settings.reference import value_of
from retries.strategy import RetryConfig


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a plan's tasks, and the setting that holds its value, if there is one."""

    name: str
    setting: str
    default: str
    description: str

    @property
    def value(self) -> str:
        return value_of(self.setting) if self.setting else self.default


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism that repeats something: its limit, and the outcome at the limit."""

    name: str
    limit: str
    setting: str
    default: int
    counts_first: bool  # whether the limit includes the first run
    run: str
    runs: str
    outcome: str

    @property
    def value(self) -> int:
        return int(value_of(self.setting)) if self.setting else self.default

    @property
    def total_runs(self) -> str:
        return self.count_runs(self.value)

    def count_runs(self, limit: int) -> str:
        count = limit if self.counts_first else limit + 1
        return f"{count} {self.run if count == 1 else self.runs}"


LIMITS = (
    Limit("MAX_RETRIES", "TASK_MAX_ATTEMPTS", "3", "maximum attempts for a task in a plan"),
    Limit(
        "RETRY_DELAY",
        "",
        "0",
        "seconds before a task in a plan is retried, unless the plan or task sets `backoff`",
    ),
    Limit(
        "ESCALATION_THRESHOLD",
        "TASK_MAX_ATTEMPTS",
        "3",
        "failures before Tenfour escalates to a person; the same setting as MAX_RETRIES, not a "
        "second limit",
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
        "RetryStrategy, tenfour.retry (any callable)",
        "max_retries",
        "",
        RetryConfig().max_retries,
        False,
        "call",
        "calls",
        "the last exception",
    ),
    Mechanism(
        "tenfour.run_cli (a command, fixed between tries)",
        "MAX_CLI_RETRIES",
        "",
        3,
        True,
        "call",
        "calls",
        "Err with the last error",
    ),
    Mechanism(
        "session flush",
        "session_message_flush_max_retries",
        "SESSION_MESSAGE_FLUSH_MAX_RETRIES",
        60,
        True,
        "lock try",
        "lock tries",
        "503",
    ),
)
