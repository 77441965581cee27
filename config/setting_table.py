"""The table of all settings: each with its name, default, bounds, description, and group.

`config.environment` reads them, and the Settings page and docs/settings.md show them. After a
change, `python -m config.setting_table` writes the tables of docs/settings.md again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

PREFIX = "TENFOUR_"
DOCS = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEAD = "| setting | default | what it means |\n|---|---|---|\n"


class Kind(Enum):
    """The type of a setting's text in the environment."""

    NUMBER = "a whole number"
    DECIMAL = "a number"
    FLAG = "1 or 0"
    NAMES = "names, separated by commas"
    TEXT = "a string"
    SECRET = "a string that is never shown, or the path of a file with it"


@dataclass(frozen=True, slots=True)
class Variable:
    """A setting that an operator can change."""

    name: str
    default: str
    description: str
    kind: Kind = Kind.NUMBER
    low: int = 0
    high: int = 10**9
    described_default: str = ""  # in the docs, where the default is not one text
    is_shown: bool = True  # on the Settings page, and in settings.TENFOUR
    prefix: str = PREFIX

    @property
    def variable(self) -> str:
        return self.prefix + self.name

    @property
    def is_secret(self) -> bool:
        return self.kind is Kind.SECRET

    @property
    def names(self) -> tuple[str, ...]:
        # A secret can be in a file, too.
        return (self.variable, f"{self.variable}_FILE") if self.is_secret else (self.variable,)

    @property
    def row(self) -> str:
        default = self.described_default or self.default
        return f"| `{self.variable}` | {default} | {self.description} |\n"


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    variables: tuple[Variable, ...]

    @property
    def table(self) -> str:
        return HEAD + "".join(each.row for each in self.variables)


number = Variable
decimal = partial(Variable, kind=Kind.DECIMAL)
flag = partial(Variable, kind=Kind.FLAG)
names = partial(Variable, kind=Kind.NAMES)
text = partial(Variable, kind=Kind.TEXT)
secret = partial(Variable, kind=Kind.SECRET)

GROUPS = (
    Group("Deployment", (
        text("DATA", "",
            "the data folder: the embedded servers' data, keys, static files",
            described_default="`.tenfour` in the project", is_shown=False),
        number("PORT", "8000", "the port that `make up` serves on", high=65_535, is_shown=False),
        text("HOST", "127.0.0.1", "the address that `make up` binds", is_shown=False),
        text("URL", "",
            "the address that people and agents use, and that links in responses contain; "
            "`https://…` turns on secure cookies, HSTS and the redirect to https. The client "
            "reads the same variable to find Tenfour", described_default="(none)", is_shown=False),
        names("HOSTS", "",
            "host names that requests may use, separated by commas; empty for only `localhost` "
            "and `127.0.0.1`, which are always accepted; health checks and `/metrics` accept any",
            described_default="the host of `TENFOUR_URL`, else any", is_shown=False),
        secret("SECRET_KEY", "",
            "signs sessions; at least 32 characters; also `TENFOUR_SECRET_KEY_FILE`",
            described_default="generated at the first start"),
        secret("SECRET_KEY_FALLBACKS", "",
            "earlier secret keys, separated by commas: they still verify sessions and decrypt "
            "the secrets of notification channels; also `TENFOUR_SECRET_KEY_FALLBACKS_FILE`, with "
            "commas or a line for each key", described_default="(none)"),
        secret("DATABASE_URL", "",
            "`postgres://user:password@host:port/name`, PostgreSQL 18 or newer; also "
            "`DATABASE_URL_FILE`", described_default="embedded PostgreSQL", prefix=""),
        secret("REDIS_URL", "",
            "`redis://:password@host:port/0`; also `REDIS_URL_FILE`",
            described_default="embedded Redis", prefix=""),
        secret("REPLICA_URL", "",
            "a streaming replica of that database, from which lists, Overview, Insight, the "
            "search and exports are read ([Deployment](deployment.md#a-replica-for-pages)); also "
            "`TENFOUR_REPLICA_URL_FILE`", described_default="(none)"),
        flag("PREPARE", "1",
            "0 turns off prepared statements, and 1 turns them on behind every transaction pooler",
            described_default="1, but 0 behind a pooler that can't prepare statements"),
        number("WEB_WORKERS", "2", "processes that serve HTTP", low=1),
        number("WEB_THREADS", "8", "threads of each process that serves HTTP", low=1),
        decimal("DRAIN_SECONDS", "1",
            "seconds that the web server keeps serving requests after SIGTERM, while `/readyz` "
            'says "stopping" and each connection closes after its response '
            "([Deployment](deployment.md#restarts-without-a-failed-request))"),
        text("RUN_AS", "",
            "the user of PostgreSQL, Redis, the web server, the worker and the clock if root "
            "starts Tenfour ([Running](running.md))", described_default="`nobody`", is_shown=False),
        number("WORKER_THREADS", "4", "threads of the Celery worker", low=1),
        text("HEARTBEAT_FILE", "",
            "a file that the worker or the clock touches while it works; `python -m "
            "config.heartbeat` fails if it was not touched for 120 seconds "
            "([Deployment](deployment.md#health-checks))",
            described_default="(none)", is_shown=False),
        flag("LOG_JSON", "0", "1 logs one JSON object per line"),
        text("LOG_LEVEL", "INFO",
            "least severe level that is logged: DEBUG, INFO, WARNING or ERROR"),
        flag("OPEN_DOCS", "1",
            "0 turns off `/v1/docs`, `/v1/openapi.json`, `/v1/guide` and `/llms.txt`"),
        names("METRICS_ALLOW", "",
            "addresses and networks that may read `/metrics` without a token"),
        number("EVENT_DAYS", "400",
            "days that the journal's events, the audit log's sign-ins, and operations are "
            "stored; a month is deleted when all of its events are older; 0 keeps all"),
        text("TRACE_URL", "",
            "address of a trace, with `{trace_id}` and optionally `{span_id}`: the API and a "
            "task's page link to it from each attempt ([Tracing](tracing.md))"),
        number("TRUSTED_PROXIES", "0",
            "number of proxies in front of Tenfour whose entries in `X-Forwarded-For` are "
            "trusted", high=10),
    )),
    Group("Instructions and the clock", (
        number("IDLE_CHECK_SECONDS", "60", "interval of the check for ignored instructions", low=1),
        number("INSTRUCTION_MIN_AGE", "30",
            "minimum seconds between a delivery and its reminder; 0 turns the minimum off"),
        number("INSTRUCTION_MAX_RETRIES", "3",
            "default retries of an instruction (0 to 20)", high=20),
        number("SILENT_AFTER_SECONDS", "300",
            "an agent with waiting instructions or tasks that has not checked in for this long "
            "is shown as silent", low=1),
        number("POLL_SECONDS", "2",
            "value of `retry_after_s` for an agent that has just worked and whose queue is empty; "
            "without work it grows to a tenth of the time since then, at most 30",
            low=1),
    )),
    Group("Tasks and breakers", (
        number("TASK_MAX_ATTEMPTS", "3", "default attempts of a task (1 to 100)", low=1, high=100),
        number("TASK_LEASE_SECONDS", "300",
            "how long a claimed task may run without a heartbeat", low=5, high=86_400),
        number("TASK_TIMEOUT_SECONDS", "3600", "maximum duration of one attempt", low=1),
        number("BREAKER_FAILURES", "5", "consecutive failures that open an agent's breaker", low=1),
        number("BREAKER_OPEN_SECONDS", "60", "how long an open breaker stops claims"),
        names("BREAKER_COUNTS", "execution_error,timeout",
            "failure types that count, separated by commas"),
    )),
    Group("Escalations", (
        number("ESCALATION_REMIND_SECONDS", "3600",
            "delay before the first reminder of an open escalation; it doubles each time, up to "
            "a day; 0 turns reminders off"),
        number("QUESTION_MIN_SECONDS", "300",
            "minimum time that an agent's question stays open before it can expire"),
        number("UNDO_SECONDS", "10",
            "how long a retry or fix sent from the dashboard, or an action on many rows, can be "
            "undone; 0 turns undo off (0 to 60)", high=60),
    )),
    Group("Notifications", (
        number("DELIVERY_DAYS", "30", "days that deliveries and their responses are stored", low=1),
        names("WEBHOOK_ALLOW", "",
            "hosts and networks that channels may reach even if they are not public, with or "
            "without a port, such as `10.0.0.5:3000,ntfy.lan`; `http://` and other ports are "
            "allowed there, too"),
    )),
    Group("Sessions", (
        number("SESSION_MESSAGE_BUFFER_MAX_TURNS", "16",
            "number of messages at which a session's buffer is full and is processed at once",
            low=1, high=1000),
        number("SESSION_MESSAGE_BUFFER_TTL_SECONDS", "8",
            "how long messages wait in a buffer that is not full", low=1),
        number("SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS", "60",
            "lifetime of a session's lock; while a batch runs, the lock is renewed after a third "
            "of this time", low=1),
        number("SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS", "1",
            "how long a flush waits before it tries again to get the session's lock"),
        number("SESSION_MESSAGE_FLUSH_MAX_RETRIES", "60",
            "how often a flush tries to get the session's lock", low=1, high=3600),
    )),
    Group("Retention", (
        number("TASK_DAYS", "0",
            "days after which an ended task is deleted, with its attempts, failures and "
            "escalations; a plan is deleted whole; 0 keeps them"),
        number("PAYLOAD_DAYS", "0",
            "days after which an ended task's payload, result, outputs and failure details are "
            "deleted; its rows stay; 0 keeps them"),
        number("INSTRUCTION_DAYS", "0",
            "days after which a settled instruction is deleted, with its escalations; 0 keeps it"),
        number("ESCALATION_DAYS", "0",
            "days after which a closed escalation is deleted, if its task or instruction has "
            "ended, and a permission request; 0 keeps it as long as that task or instruction"),
        number("SESSION_DAYS", "0",
            "days after which a session without new messages is deleted; 0 keeps it"),
        text("ARCHIVE", "",
            "folder where rows are archived before they are deleted; by default `archive` in the "
            "data folder; `off` deletes them without an archive"),
    )),
    Group("Language model", (
        text("LLM_URL", "",
            "address of an endpoint that is compatible with OpenAI's chat completions, for "
            "sessions with the tracker `llm`; without it, nothing is sent anywhere"),
        text("LLM_MODEL", "", "name of the model at that address"),
        number("LLM_TIMEOUT_SECONDS", "60",
            "timeout of one request; a model on slow hardware needs more (1 to 600)",
            low=1, high=600),
        secret("LLM_KEY", "",
            "the key for that address; also `TENFOUR_LLM_KEY_FILE`. Tenfour never shows it",
            described_default="(none)"),
    )),
    Group("Single sign-on", (
        text("OIDC_ISSUER", "",
            "address of an OpenID Connect provider to sign in with: https://, or http:// on this "
            "machine"),
        text("OIDC_CLIENT_ID", "", "Tenfour's client ID at that provider"),
        secret("OIDC_SECRET", "",
            "that client's secret; also `TENFOUR_OIDC_SECRET_FILE`. Tenfour never shows it",
            described_default="(none)"),
        text("OIDC_NAME", "single sign-on", "the provider's name on the sign-in page"),
        text("OIDC_GROUPS_CLAIM", "groups", "the claim that holds a person's groups"),
        text("OIDC_GROUPS", "", "roles that groups give, as in `sre=default:admin,qa=web:viewer`"),
    )),
    Group("API limits", (
        number("AGENT_TASKS_PER_DAY", "500",
            "tasks that an agent's own tokens can create in a day (UTC); 0 for no limit"),
        number("AGENT_SESSION_MIB_PER_DAY", "256",
            "MiB that an agent's own tokens can store in sessions in a day (UTC); 0 for no limit"),
    )),
)  # fmt: skip

SETTINGS = {each.name: each for group in GROUPS for each in group.variables}


def shown_groups() -> Iterator[tuple[str, list[Variable]]]:
    for group in GROUPS:
        yield group.title, [each for each in group.variables if is_public(each)]


def is_public(setting: Variable) -> bool:
    return setting.is_shown and not setting.is_secret


def write_tables(page: str) -> str:
    for group in GROUPS:
        before, title, section = page.partition(f"\n## {group.title}\n")
        intro, _, rest = section.partition(HEAD)
        after = rest.partition("\n\n")[2]
        page = f"{before}{title}{intro}{group.table}\n{after}"
    return page


if __name__ == "__main__":
    DOCS.write_text(write_tables(DOCS.read_text()))
