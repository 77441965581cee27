"""Read the settings from the environment, and warn about other variables with their prefix.

Only the standard library is used: `config.local.up` asks before Django is there.
"""

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from config.setting_table import PREFIX, SETTINGS, Kind, Variable

FLAGS = {"1": True, "true": True, "yes": True, "on": True}
FLAGS |= {"0": False, "false": False, "no": False, "off": False, "": False}

# Settings of earlier versions -> their value now. An installation that still sets one starts, with
# a warning.
REMOVED = {
    "ADMIN_PATH": "admin",
    "AUTH_FAILURES_PER_MINUTE": "10",
    "BACKOFF_SECONDS": "1",
    "BODY_BYTES": "262144",
    "BREAKERS_SECONDS": "5",
    "BREAKER_SUCCESSES": "2",
    "CONDITIONS_SECONDS": "15",
    "DB_POOL": "1 in workers and the clock, 0 elsewhere",
    "ESCALATIONS_SECONDS": "15",
    "EXPIRE_LEASES_SECONDS": "5",
    "INSIGHT_SECONDS": "1800",
    "JOURNAL_SECONDS": "600",
    "LLM_MAX_RETRIES": "2",
    "METRICS_SECONDS": "15",
    "NOTIFICATIONS_SECONDS": "1",
    "OPERATIONS_SECONDS": "2",
    "PLANS_SECONDS": "5",
    "REPLICA_LAG_SECONDS": "10",
    "RETENTION_SECONDS": "600",
    "SESSIONS_SECONDS": "5",
    "SESSION_MESSAGE_BUFFER_MAX_OVERFLOW": "16",
    "STANDING_INSTRUCTIONS_SECONDS": "15",
    "TOKEN_DAYS": "90",
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

KNOWN = frozenset(
    [PREFIX + name for name in INTERNAL | CREDENTIALS | CLIENT | TESTS]
    + [name for each in SETTINGS.values() for name in each.names if name.startswith(PREFIX)]
)


class BadSetting(ValueError):
    """A value that a setting can't have, in a sentence for the operator."""


def read_text(name: str) -> str:
    setting = SETTINGS[name]
    return os.environ.get(setting.variable) or setting.default


def is_set(name: str) -> bool:
    return any(os.environ.get(each) for each in SETTINGS[name].names)


def read(name: str, default: str | None = None) -> Any:
    """Return a setting's value; raises BadSetting for one that it can't have.

    A `default` replaces the table's, for a setting that another one decides.
    """
    setting = SETTINGS[name]
    raw = os.environ.get(setting.variable, setting.default if default is None else default)
    match setting.kind:
        case Kind.NUMBER:
            return read_bounded(setting, raw or setting.default, int)
        case Kind.DECIMAL:
            return read_bounded(setting, raw or setting.default, float)
        case Kind.FLAG:
            return read_flag(setting, raw)
        case Kind.NAMES:
            return split_names(raw)
        case Kind.SECRET:
            return read_secret(setting)
        case Kind.TEXT:
            return raw.strip()


def split_names(text: str) -> list[str]:
    """Return the names in a text, which are separated by commas or lines.

    >>> split_names("one, two\\nthree,")
    ['one', 'two', 'three']
    """
    return [each.strip() for each in text.replace("\n", ",").split(",") if each.strip()]


def read_bounded(setting: Variable, raw: str, convert: Callable[[str], float]) -> float:
    try:
        value = convert(raw)
    except ValueError:
        value = setting.low - 1
    if not setting.low <= value <= setting.high:
        raise BadSetting(
            f"{setting.variable} must be {setting.kind.value} from {setting.low} to "
            f"{setting.high}, not {raw!r}."
        )
    return value


def read_flag(setting: Variable, raw: str) -> bool:
    if raw.lower() not in FLAGS:
        raise BadSetting(f"{setting.variable} must be 1 or 0, not {raw!r}.")
    return FLAGS[raw.lower()]


def read_secret(setting: Variable) -> str:
    """Return the variable's value, or the content of the file that its `_FILE` names."""
    variable, in_file = setting.names
    path = os.environ.get(in_file)
    try:
        value = Path(path).read_text().strip() if path else os.environ.get(variable, "")
    except OSError as error:
        raise BadSetting(f"{in_file}={path} can't be read: {error.strerror}.") from error
    if not value:
        raise BadSetting(
            f"{variable} is not set. Start Tenfour with 'make up', which brings its own servers, "
            f"or set {variable} (or {in_file}) in the environment."
        )
    return value


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Return a sentence for each variable of ours that nothing reads, with the nearest known name.

    >>> unknown_variables(["TENFOUR_PROT", "TENFOUR_URL", "PATH"])
    ['TENFOUR_PROT is not a setting of Tenfour. Did you mean TENFOUR_PORT?']
    >>> unknown_variables(["TENFOUR_TOKEN_DAYS"])
    ['TENFOUR_TOKEN_DAYS is no longer a setting: its value is always 90. Unset it.']
    """
    return [
        describe_unknown(name)
        for name in sorted(names)
        if name.startswith(PREFIX) and name not in KNOWN
    ]


def describe_unknown(name: str) -> str:
    if value := REMOVED.get(name.removeprefix(PREFIX)):
        return f"{name} is no longer a setting: its value is always {value}. Unset it."
    return f"{name} is not a setting of Tenfour. {suggestion(name)}"


def suggestion(name: str) -> str:
    near = get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return f"Did you mean {near[0]}?" if near else "docs/settings.md lists all settings."
