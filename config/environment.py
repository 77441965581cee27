"""The environment variables with the prefix TENFOUR_, and a warning about any other.

Only the standard library is used: `config.local.up` asks before Django is there.
"""

from collections.abc import Iterable
from difflib import get_close_matches

PREFIX = "TENFOUR_"

# Read by the server. docs/settings.md explains them.
SERVER = {
    "ADMIN_PATH",
    "AGENT_SESSION_MIB_PER_DAY",
    "AGENT_TASKS_PER_DAY",
    "ARCHIVE",
    "AUTH_FAILURES_PER_MINUTE",
    "BACKOFF_SECONDS",
    "BODY_BYTES",
    "BREAKERS_SECONDS",
    "BREAKER_COUNTS",
    "BREAKER_FAILURES",
    "BREAKER_OPEN_SECONDS",
    "BREAKER_SUCCESSES",
    "CONDITIONS_SECONDS",
    "DATA",
    "DB_POOL",
    "DRAIN_SECONDS",
    "DELIVERY_DAYS",
    "ESCALATIONS_SECONDS",
    "ESCALATION_DAYS",
    "ESCALATION_REMIND_SECONDS",
    "EVENT_DAYS",
    "EXPIRE_LEASES_SECONDS",
    "HEARTBEAT_FILE",
    "HOST",
    "HOSTS",
    "IDLE_CHECK_SECONDS",
    "INSIGHT_SECONDS",
    "INSTRUCTION_DAYS",
    "INSTRUCTION_MAX_RETRIES",
    "INSTRUCTION_MIN_AGE",
    "JOURNAL_SECONDS",
    "LLM_KEY",
    "LLM_KEY_FILE",
    "LLM_MAX_RETRIES",
    "LLM_MODEL",
    "LLM_TIMEOUT_SECONDS",
    "LLM_URL",
    "LOG_JSON",
    "LOG_LEVEL",
    "METRICS_ALLOW",
    "METRICS_SECONDS",
    "NOTIFICATIONS_SECONDS",
    "OIDC_CLIENT_ID",
    "OIDC_GROUPS",
    "OIDC_GROUPS_CLAIM",
    "OIDC_ISSUER",
    "OIDC_NAME",
    "OIDC_SECRET",
    "OIDC_SECRET_FILE",
    "OPEN_DOCS",
    "OPERATIONS_SECONDS",
    "PAYLOAD_DAYS",
    "PLANS_SECONDS",
    "POLL_SECONDS",
    "PORT",
    "PREPARE",
    "QUESTION_MIN_SECONDS",
    "REPLICA_LAG_SECONDS",
    "REPLICA_URL",
    "REPLICA_URL_FILE",
    "RETENTION_SECONDS",
    "RUN_AS",
    "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
    "SECRET_KEY_FILE",
    "SESSIONS_SECONDS",
    "SESSION_DAYS",
    "SESSION_MESSAGE_BUFFER_MAX_OVERFLOW",
    "SESSION_MESSAGE_BUFFER_MAX_TURNS",
    "SESSION_MESSAGE_BUFFER_TTL_SECONDS",
    "SESSION_MESSAGE_FLUSH_MAX_RETRIES",
    "SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS",
    "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS",
    "SILENT_AFTER_SECONDS",
    "STANDING_INSTRUCTIONS_SECONDS",
    "TASK_DAYS",
    "TASK_LEASE_SECONDS",
    "TASK_MAX_ATTEMPTS",
    "TASK_TIMEOUT_SECONDS",
    "TOKEN_DAYS",
    "TRACE_URL",
    "TRUSTED_PROXIES",
    "UNDO_SECONDS",
    "URL",
    "WEBHOOK_ALLOW",
    "WEB_THREADS",
    "WEB_WORKERS",
    "WORKER_THREADS",
}
# Set by `make up` for the processes that it starts.
INTERNAL = {"BIND", "GATE", "LOCAL_URL"}
# Written to the credentials file, which a shell may export.
CREDENTIALS = {"AGENT_TOKEN", "LOGIN", "OPERATOR_TOKEN", "PASSWORD", "PRODUCER_TOKEN"}
# Read by the client, or set by `tenfour run` for the command that it runs.
CLIENT = {
    "AGENT",
    "ATTEMPT",
    "ATTEMPT_NUMBER",
    "PROMPT_FILE",
    "RETRY_CONTEXT",
    "RETRY_CONTEXT_FILE",
    "STATE",
    "TASK",
    "TASK_FILE",
    "TOKEN",
    "TOKEN_FILE",
    "TRANSCRIPTS",
    "USAGE_FILE",
}
# Read by the tests.
TESTS = {
    "AGENT_SHAPES",
    "CHROMIUM",
    "CLAUDE",
    "CLAUDE_OLDER",
    "CODEX",
    "CODEX_OLDER",
    "REQUIRE_AGENTS",
    "REQUIRE_BROWSER",
    "REQUIRE_IMAGE",
    "REQUIRE_LANGGRAPH",
    "REQUIRE_PROMTOOL",
    "REQUIRE_PROXIES",
}

KNOWN = frozenset(PREFIX + name for name in SERVER | INTERNAL | CREDENTIALS | CLIENT | TESTS)


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Return a sentence for each variable of ours that nothing reads, with the nearest known name.

    >>> unknown_variables(["TENFOUR_PROT", "TENFOUR_URL", "PATH"])
    ['TENFOUR_PROT is not a setting of Tenfour. Did you mean TENFOUR_PORT?']
    """
    return [
        f"{name} is not a setting of Tenfour. {suggestion(name)}"
        for name in sorted(names)
        if name.startswith(PREFIX) and name not in KNOWN
    ]


def suggestion(name: str) -> str:
    near = get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return f"Did you mean {near[0]}?" if near else "docs/settings.md lists all settings."
