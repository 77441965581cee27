"""Read how much of an account's limits is used, as Claude Code and Codex record it (pure).

Records are lines of a transcript or a rollout, of Claude Code's stream-json and of what its status
line is given, and the headers of a model's answer; the last two with a `timestamp`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ledger.sessions.transcripts.model import parse_time
from ledger.values.account_windows import ALMOST, LimitWindow, WindowFact, newest_facts

# A limit of one model, such as `seven_day_opus`, says nothing about the account's other calls.
CLAUDE_WINDOWS = {"five_hour": LimitWindow.FIVE_HOURS, "seven_day": LimitWindow.WEEK}
REFUSED = 429
# a line of the output that Claude Code prints as stream-json
STREAM_EVENT = "rate_limit_event"
UNIFIED = "anthropic-ratelimit-unified-"
# Codex names its windows by their minutes, and some versions by one less.
CODEX_WINDOWS = (
    (range(270, 331), LimitWindow.FIVE_HOURS),
    (range(10_000, 10_161), LimitWindow.WEEK),
)
CODEX_LIMITS = (None, "codex")
# Other types are of a workspace's credits or budget, which no window shows.
WINDOW_REACHED = (None, "rate_limit_reached")


def read_claude_limits(lines: Iterable[Mapping[str, Any]]) -> list[WindowFact]:
    """Return the newest facts about the account's windows in a transcript of Claude Code."""
    return newest_facts(fact for line in lines for fact in list_claude_facts(line))


def list_claude_facts(line: Mapping[str, Any]) -> list[WindowFact]:
    at = parse_time(line.get("timestamp"))
    if at is None:
        return []
    if line.get("type") == "system" and line.get("subtype") == "api_error":
        error = object_in(line, "error")
        limits = object_in(error, "rateLimits")
        if error.get("status") == REFUSED:
            return [*read_claude_window(limits.get("rateLimitType"), limits, at, used=1.0)]
    if line.get("isApiErrorMessage") is True:
        return read_rate_limit_info(object_in(line, "apiErrorParams", "rate_limit_info"), at)
    if line.get("type") == STREAM_EVENT:
        return read_rate_limit_info(object_in(line, "rate_limit_info"), at)
    if headers := object_in(line, "headers"):
        return read_rate_limit_info(claude_headers(headers), at)
    # what the status line is given
    shown = object_in(line, "rate_limits")
    return [fact for name in CLAUDE_WINDOWS for fact in read_shown_window(name, shown, at)]


def read_shown_window(name: str, shown: Mapping[str, Any], at: datetime) -> Iterator[WindowFact]:
    window = object_in(shown, name)
    used = share_of(window.get("used_percentage"), of=100)
    # It rounds the share, and does not say that calls are refused.
    used = used if used is None else min(used, ALMOST)
    found = read_claude_window(name, {"resetsAt": window.get("resets_at")}, at, used=used)
    yield from (replace(fact, may_be_old=True) for fact in found)


def claude_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rate limits in the headers of an answer, in the form of its stream's event."""
    found = {str(name).lower().removeprefix(UNIFIED): text for name, text in headers.items()}
    return {
        "status": found.get("status"),
        "rateLimitType": found.get("representative-claim"),
        "resetsAt": number_in(found.get("reset")),
        "unifiedWindows": {
            window: {
                "status": found.get(f"{name}-status"),
                "utilization": number_in(found.get(f"{name}-utilization")),
                "resetsAt": number_in(found.get(f"{name}-reset")),
            }
            for name, window in (("5h", "five_hour"), ("7d", "seven_day"))
        },
    }


def read_rate_limit_info(info: Mapping[str, Any], at: datetime) -> list[WindowFact]:
    found: dict[LimitWindow, WindowFact] = {}
    for name, window in object_in(info, "unifiedWindows").items():
        if isinstance(window, Mapping):
            found |= {fact.window: fact for fact in read_claude_window(name, window, at)}
    # The window that decides stands beside the others, and in older versions alone.
    own = read_claude_window(info.get("rateLimitType"), info, at)
    return [*(found | {fact.window: fact for fact in own}).values()]


def read_claude_window(
    name: Any, window: Mapping[str, Any], at: datetime, *, used: float | None = None
) -> Iterator[WindowFact]:
    status = window.get("status")
    if used is None:
        used = 1.0 if status == "rejected" else share_of(window.get("utilization"))
    kind = CLAUDE_WINDOWS.get(name) if isinstance(name, str) else None
    if kind is None or used is None:
        return
    if status not in (None, "rejected"):
        used = min(used, ALMOST)
    yield WindowFact(kind, used, epoch_of(window.get("resetsAt")), at)


def read_codex_limits(lines: Iterable[Mapping[str, Any]]) -> list[WindowFact]:
    """Return the newest facts about the account's windows in a rollout of Codex."""
    found: list[WindowFact] = []
    reached: Any = None
    for line in lines:
        at, payload = parse_time(line.get("timestamp")), object_in(line, "payload")
        if at is not None and (headers := object_in(line, "headers")):
            found = newest_facts([*found, *list_codex_facts(codex_headers(headers), at)])
        if at is None or line.get("type") != "event_msg":
            continue
        if payload.get("type") == "token_count":
            found = newest_facts([*found, *list_codex_facts(payload, at)])
            reached = object_in(payload, "rate_limits").get("rate_limit_reached_type")
        elif (
            object_in(payload, "error").get("codex_error_info") == "usage_limit_exceeded"
            and reached in WINDOW_REACHED
        ):
            found = newest_facts([*found, *fill_reached_window(found, at)])
    return found


def codex_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rate limits in the headers of an answer, in the form of the rollout's record."""
    given = {str(name).lower(): number_in(text) for name, text in headers.items()}
    return {
        "rate_limits": {
            window: {
                "used_percent": given.get(f"x-codex-{window}-used-percent"),
                "window_minutes": given.get(f"x-codex-{window}-window-minutes"),
                "resets_at": given.get(f"x-codex-{window}-reset-at"),
            }
            for window in ("primary", "secondary")
        }
    }


def list_codex_facts(payload: Mapping[str, Any], at: datetime) -> list[WindowFact]:
    limits = object_in(payload, "rate_limits")
    if limits.get("limit_id") not in CODEX_LIMITS:
        return []
    credits = object_in(limits, "credits")
    has_credits = credits.get("has_credits") is True or credits.get("unlimited") is True
    windows = (object_in(limits, name) for name in ("primary", "secondary"))
    found = [fact for window in windows for fact in read_codex_window(window, at)]
    return [replace(fact, used=min(fact.used, ALMOST)) for fact in found] if has_credits else found


def read_codex_window(window: Mapping[str, Any], at: datetime) -> Iterator[WindowFact]:
    minutes, used = window.get("window_minutes"), share_of(window.get("used_percent"), of=100)
    kind = next((kind for each, kind in CODEX_WINDOWS if minutes in each), None)
    if kind is not None and used is not None:
        yield WindowFact(kind, used, epoch_of(window.get("resets_at")), at)


def fill_reached_window(facts: list[WindowFact], at: datetime) -> list[WindowFact]:
    """Return the window whose limit ended a turn, of the windows that the turn was told last.

    The error itself does not name it: most of it is used, and of equal ones it resets first.
    """
    named = [fact for fact in facts if fact.resets_at and fact.resets_at > at]
    if not named:
        return []
    reached = min(named, key=lambda fact: (-fact.used, fact.resets_at))
    return [replace(reached, used=1.0, seen_at=at)]


def number_in(text: Any) -> float | None:
    try:
        return float(text) if isinstance(text, str) else None
    except ValueError:
        return None


def object_in(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = value.get(name)
        value = found if isinstance(found, Mapping) else {}
    return value


def share_of(value: Any, *, of: float = 1) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return None
    return min(value, of) / of


def epoch_of(value: Any) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
