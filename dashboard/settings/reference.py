"""The settings: each with its description, default and current value."""

from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of settings.TENFOUR; a test holds its description to docs/settings.md."""

    name: str
    default: str
    description: str

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


def value_of(name: str) -> str:
    """Return a setting's value in the notation of the environment."""
    value = settings.TENFOUR[name]
    value = int(value) if isinstance(value, bool) else value
    return ",".join(value) if isinstance(value, list) else str(value).rstrip("/")


GROUPS = (
    Group(
        "Deployment",
        (
            Setting(
                "PREPARE",
                "1",
                "0 turns off prepared statements, for use behind a transaction pooler such as "
                "PgBouncer",
            ),
            Setting(
                "REPLICA_LAG_SECONDS",
                "10",
                "seconds that the replica may be behind; beyond that, pages read the primary and "
                "say so (1 to 3600)",
            ),
            Setting(
                "OPEN_DOCS",
                "1",
                "0 turns off `/v1/docs`, `/v1/openapi.json`, `/v1/guide` and `/llms.txt`",
            ),
            Setting("ADMIN_PATH", "admin", "path of the admin site"),
            Setting(
                "METRICS_ALLOW",
                "",
                "addresses and networks that may read `/metrics` without a token",
            ),
            Setting(
                "METRICS_SECONDS",
                "15",
                "interval at which events are counted for `/metrics`, Overview, Agents and "
                "Patterns, and new rows are indexed for the search",
            ),
            Setting(
                "EVENT_DAYS",
                "400",
                "days that the journal's events, the audit log's sign-ins, and operations are "
                "stored; a month is deleted when all of its events are older; 0 keeps all",
            ),
            Setting(
                "JOURNAL_SECONDS",
                "600",
                "interval at which the journal's next months are created and old ones deleted",
            ),
            Setting(
                "TRACE_URL",
                "",
                "address of a trace, with `{trace_id}` and optionally `{span_id}`: the API and "
                "a task's page link to it from each attempt ([Tracing](tracing.md))",
            ),
            Setting(
                "TRUSTED_PROXIES",
                "0",
                "number of proxies in front of Tenfour whose entries in `X-Forwarded-For` are "
                "trusted",
            ),
        ),
    ),
    Group(
        "Instructions and the clock",
        (
            Setting("IDLE_CHECK_SECONDS", "60", "interval of the check for ignored instructions"),
            Setting(
                "INSTRUCTION_MIN_AGE",
                "30",
                "minimum seconds between a delivery and its reminder; 0 turns the minimum off",
            ),
            Setting(
                "INSTRUCTION_MAX_RETRIES",
                "3",
                "default retries of an instruction (0 to 20)",
            ),
            Setting(
                "SILENT_AFTER_SECONDS",
                "300",
                "an agent with waiting instructions or tasks that has not checked in for this "
                "long is shown as silent",
            ),
            Setting(
                "POLL_SECONDS", "2", "value of `retry_after_s` for an agent whose queue is empty"
            ),
            Setting(
                "STANDING_INSTRUCTIONS_SECONDS",
                "15",
                "interval of the check for standing instructions that are sent regularly",
            ),
            Setting(
                "INSIGHT_SECONDS",
                "1800",
                "interval at which the figures of the Insight page are computed",
            ),
        ),
    ),
    Group(
        "Tasks and breakers",
        (
            Setting("TASK_MAX_ATTEMPTS", "3", "default attempts of a task (1 to 100)"),
            Setting(
                "TASK_LEASE_SECONDS", "300", "how long a claimed task may run without a heartbeat"
            ),
            Setting("TASK_TIMEOUT_SECONDS", "3600", "maximum duration of one attempt"),
            Setting(
                "BACKOFF_SECONDS",
                "1",
                "interval of the check for retries that are due; claims do not wait for it",
            ),
            Setting(
                "EXPIRE_LEASES_SECONDS",
                "5",
                "interval of the check for expired leases; if the check was down for three "
                "intervals (at least 30 s), live leases are extended instead",
            ),
            Setting("BREAKERS_SECONDS", "5", "interval of the check of open breakers"),
            Setting("PLANS_SECONDS", "5", "interval of the check for plans that have ended"),
            Setting("BREAKER_FAILURES", "5", "consecutive failures that open an agent's breaker"),
            Setting("BREAKER_SUCCESSES", "2", "successes that close a half-open breaker"),
            Setting("BREAKER_OPEN_SECONDS", "60", "how long an open breaker stops claims"),
            Setting(
                "BREAKER_COUNTS",
                "execution_error,timeout",
                "failure types that count, separated by commas",
            ),
        ),
    ),
    Group(
        "Escalations",
        (
            Setting(
                "ESCALATIONS_SECONDS",
                "15",
                "interval of the check for expired escalations and due reminders",
            ),
            Setting(
                "ESCALATION_REMIND_SECONDS",
                "3600",
                "delay before the first reminder of an open escalation; it doubles each time, "
                "up to a day; 0 turns reminders off",
            ),
            Setting(
                "QUESTION_MIN_SECONDS",
                "300",
                "minimum time that an agent's question stays open before it can expire",
            ),
            Setting(
                "UNDO_SECONDS",
                "10",
                "how long a retry or fix sent from the dashboard, or an action on many rows, can "
                "be undone; 0 turns undo off (0 to 60)",
            ),
            Setting(
                "OPERATIONS_SECONDS",
                "2",
                "interval of the check for actions on many rows that should start or continue",
            ),
        ),
    ),
    Group(
        "Notifications",
        (
            Setting(
                "NOTIFICATIONS_SECONDS",
                "1",
                "interval of the check for new events that channels are notified of, and for "
                "deliveries that are due",
            ),
            Setting(
                "CONDITIONS_SECONDS",
                "15",
                "interval of the check for silent agents and stuck plans",
            ),
            Setting("DELIVERY_DAYS", "30", "days that deliveries and their responses are stored"),
            Setting(
                "WEBHOOK_ALLOW",
                "",
                "hosts and networks that channels may reach even if they are not public, with "
                "or without a port, such as `10.0.0.5:3000,ntfy.lan`; `http://` and other ports "
                "are allowed there, too",
            ),
        ),
    ),
    Group(
        "Sessions",
        (
            Setting(
                "SESSION_MESSAGE_BUFFER_MAX_TURNS",
                "16",
                "number of messages at which a session's buffer is full and is processed at once",
            ),
            Setting(
                "SESSION_MESSAGE_BUFFER_MAX_OVERFLOW",
                "16",
                "number of messages beyond a full buffer that a batch may include",
            ),
            Setting(
                "SESSION_MESSAGE_BUFFER_TTL_SECONDS",
                "8",
                "how long messages wait in a buffer that is not full",
            ),
            Setting(
                "SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS",
                "60",
                "lifetime of a session's lock; while a batch runs, the lock is renewed after a "
                "third of this time",
            ),
            Setting(
                "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS",
                "1",
                "how long a flush waits before it tries again to get the session's lock",
            ),
            Setting(
                "SESSION_MESSAGE_FLUSH_MAX_RETRIES",
                "60",
                "how often a flush tries to get the session's lock",
            ),
            Setting(
                "SESSIONS_SECONDS",
                "5",
                "interval of the check for messages that were left unprocessed",
            ),
        ),
    ),
    Group(
        "Retention",
        (
            Setting(
                "TASK_DAYS",
                "0",
                "days after which an ended task is deleted, with its attempts, failures and "
                "escalations; a plan is deleted whole; 0 keeps them",
            ),
            Setting(
                "PAYLOAD_DAYS",
                "0",
                "days after which an ended task's payload, result, outputs and failure details "
                "are deleted; its rows stay; 0 keeps them",
            ),
            Setting(
                "INSTRUCTION_DAYS",
                "0",
                "days after which a settled instruction is deleted, with its escalations; 0 "
                "keeps it",
            ),
            Setting(
                "ESCALATION_DAYS",
                "0",
                "days after which a closed escalation is deleted, if its task or instruction "
                "has ended; 0 keeps it as long as that task or instruction",
            ),
            Setting(
                "SESSION_DAYS",
                "0",
                "days after which a session without new messages is deleted; 0 keeps it",
            ),
            Setting(
                "ARCHIVE",
                "",
                "folder where rows are archived before they are deleted; by default `archive` in "
                "the data folder; `off` deletes them without an archive",
            ),
            Setting(
                "RETENTION_SECONDS",
                "600",
                "interval of the check for rows that are old enough to archive and delete",
            ),
        ),
    ),
    Group(
        "Language model",
        (
            Setting(
                "LLM_URL",
                "",
                "address of an endpoint that is compatible with OpenAI's chat completions, for "
                "sessions with the tracker `llm`; without it, nothing is sent anywhere",
            ),
            Setting("LLM_MODEL", "", "name of the model at that address"),
            Setting(
                "LLM_TIMEOUT_SECONDS",
                "60",
                "timeout of one request to the model (1 to 600)",
            ),
            Setting(
                "LLM_MAX_RETRIES",
                "2",
                "how often a request is repeated after a lost connection, 429 or a server error "
                "(0 to 10)",
            ),
        ),
    ),
    Group(
        "Single sign-on",
        (
            Setting(
                "OIDC_ISSUER",
                "",
                "address of an OpenID Connect provider to sign in with: https://, or http:// on "
                "this machine",
            ),
            Setting("OIDC_CLIENT_ID", "", "Tenfour's client ID at that provider"),
            Setting("OIDC_NAME", "single sign-on", "the provider's name on the sign-in page"),
            Setting("OIDC_GROUPS_CLAIM", "groups", "the claim that holds a person's groups"),
            Setting(
                "OIDC_GROUPS", "", "roles that groups give, as in `sre=default:admin,qa=web:viewer`"
            ),
        ),
    ),
    Group(
        "API limits",
        (
            Setting(
                "BODY_BYTES",
                "262144",
                "maximum size of a JSON body; reports, plans, sessions and hooks have limits of "
                "their own",
            ),
            Setting(
                "AGENT_TASKS_PER_DAY",
                "500",
                "tasks that an agent's own tokens can create in a day (UTC); 0 for no limit",
            ),
            Setting(
                "AGENT_SESSION_MIB_PER_DAY",
                "256",
                "MiB that an agent's own tokens can store in sessions in a day (UTC); 0 for no "
                "limit",
            ),
            Setting("TOKEN_DAYS", "90", "default lifetime of a new token"),
            Setting(
                "AUTH_FAILURES_PER_MINUTE",
                "10",
                "failed authentications per address before it gets 429; valid tokens are not "
                "rate-limited",
            ),
        ),
    ),
)
