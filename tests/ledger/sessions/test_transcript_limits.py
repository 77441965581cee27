"""What Claude Code and Codex record about an account's limits, in the shapes that they write."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.sessions.transcripts.limits import read_claude_limits, read_codex_limits
from ledger.sessions.transcripts.reading import read_transcript
from ledger.values.account_windows import LimitWindow, WindowFact

AT = datetime(2026, 11, 28, 12, 46, 23, 851_000, UTC)
FIVE, SEVEN = 1_795_900_000, 1_796_300_000
Facts = list[tuple[str, float, int | None]]


def api_error(status: int = 429, **limits: Any) -> dict[str, Any]:
    return {
        "parentUuid": "612fac56-0424-4229-82c5-8d919c40890e",
        "isSidechain": False,
        "type": "system",
        "subtype": "api_error",
        "level": "error",
        "error": {
            "status": status,
            "formatted": "429 This request would exceed your account's rate limit.",
            "isNetworkDown": False,
            "rateLimits": limits or None,
        },
        "retryInMs": 1180,
        "retryAttempt": 1,
        "timestamp": "2026-11-28T12:46:23.851Z",
        "uuid": "f8c3cda5-a762-43af-a247-a5af4f36cdb2",
        "sessionId": "060cbeb1-cded-432d-ba75-b9dcfabbb8b3",
    }


def last_message(info: Any) -> dict[str, Any]:
    return {
        "type": "assistant",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "Limit reached"}]},
        "isApiErrorMessage": True,
        "error": "rate_limit",
        "apiErrorStatus": 429,
        "apiError": "usage_limit_reached",
        "apiErrorParams": {"rate_limit_info": info},
        "timestamp": "2026-11-28T12:46:23.851Z",
        "uuid": "a8c3cda5-a762-43af-a247-a5af4f36cdb2",
        "sessionId": "060cbeb1-cded-432d-ba75-b9dcfabbb8b3",
    }


def rate_limit_info(status: str, **more: Any) -> dict[str, Any]:
    return {
        "status": status,
        "resetsAt": FIVE,
        "rateLimitType": "five_hour",
        "utilization": 0.93,
        "isUsingOverage": False,
        "unifiedWindows": {
            "five_hour": {"utilization": 0.93, "resetsAt": FIVE, "status": "allowed_warning"},
            "seven_day": {"utilization": 0.41, "resetsAt": SEVEN, "status": "allowed"},
        },
    } | more


def token_count(**limits: Any) -> dict[str, Any]:
    known = {"limit_id": "codex", "limit_name": None, "primary": None, "secondary": None}
    return {
        "timestamp": "2026-11-28T12:46:23.851Z",
        "ordinal": 13,
        "type": "event_msg",
        "payload": {"type": "token_count", "info": None, "rate_limits": known | limits},
    }


def window(used: Any, minutes: Any = 300, at: Any = FIVE) -> dict[str, Any]:
    return {"used_percent": used, "window_minutes": minutes, "resets_at": at}


CREDITS = {"has_credits": True, "unlimited": False, "balance": "12"}
REACHED = {"rate_limit_reached_type": "rate_limit_reached"}
DEPLETED = {"rate_limit_reached_type": "workspace_owner_credits_depleted"}
USAGE_LIMIT = {
    "timestamp": "2026-11-28T12:46:24.851Z",
    "ordinal": 15,
    "type": "event_msg",
    "payload": {
        "type": "task_complete",
        "error": {
            "message": "You’ve hit your usage limit. Try again at 9:06 PM.",
            "codex_error_info": "usage_limit_exceeded",
        },
    },
}


def read(*lines: Any) -> list[WindowFact]:
    data = "\n".join(map(json.dumps, lines)).encode()
    return list(read_transcript(data + b"\n").limits)


def brief(facts: list[WindowFact]) -> Facts:
    return [
        (fact.window.value, fact.used, int(fact.resets_at.timestamp()) if fact.resets_at else None)
        for fact in facts
    ]


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (api_error(rateLimitType="five_hour", resetsAt=FIVE), [("five_hours", 1, FIVE)]),
        (api_error(rateLimitType="seven_day", resetsAt=SEVEN), [("week", 1, SEVEN)]),
        # the limit of one model, another error, and nothing to read
        (api_error(rateLimitType="seven_day_opus", resetsAt=SEVEN), []),
        (api_error(529, rateLimitType="five_hour", resetsAt=FIVE), []),
        (api_error(), []),
        (api_error(rateLimitType=["five_hour"], resetsAt=FIVE), []),
        (api_error(rateLimitType="five_hour", resetsAt="soon"), [("five_hours", 1, None)]),
        (api_error(rateLimitType="five_hour", resetsAt=10**30), [("five_hours", 1, None)]),
        # the session's last line: the window that decides, and the other one beside it
        (
            last_message(rate_limit_info("rejected")),
            [("five_hours", 1, FIVE), ("week", 0.41, SEVEN)],
        ),
        (
            last_message(rate_limit_info("allowed_warning")),
            [("five_hours", 0.93, FIVE), ("week", 0.41, SEVEN)],
        ),
        # calls that still pass are paid by credits
        (
            last_message(rate_limit_info("allowed", utilization=1.0, unifiedWindows=None)),
            [("five_hours", 0.99, FIVE)],
        ),
        (last_message(rate_limit_info("rejected", rateLimitType=None, unifiedWindows=[])), []),
        (last_message(None), []),
        (last_message("rejected"), []),
    ],
)
def test_the_limits_in_a_line_of_claude_code(line: dict[str, Any], facts: Facts) -> None:
    """F07"""
    found = read(line)
    assert brief(found) == facts
    assert all(fact.seen_at == AT for fact in found)


CLAUDE_HEADERS = {
    "Anthropic-Ratelimit-Unified-Status": "rejected",
    "anthropic-ratelimit-unified-reset": "1795903200",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "anthropic-ratelimit-unified-5h-utilization": "0.97",
    "anthropic-ratelimit-unified-7d-utilization": "0.31",
    "anthropic-ratelimit-unified-7d-status": "allowed",
    "anthropic-ratelimit-unified-7d-reset": "soon",
}
CODEX_HEADERS = {
    "x-codex-primary-used-percent": "42.5",
    "x-codex-primary-window-minutes": "300",
    "X-Codex-Primary-Reset-At": "1795903200",
    "x-codex-secondary-used-percent": "nan",
    "x-codex-secondary-window-minutes": "10080",
}
STATUS_LINE = {
    "five_hour": {"used_percentage": 42.5, "resets_at": 1_795_903_200},
    "seven_day": {"used_percentage": None},
    "seven_day_opus": {"used_percentage": 99},
}


@pytest.mark.parametrize(
    ("record", "facts"),
    [
        ({"headers": CLAUDE_HEADERS}, [("five_hours", 1.0), ("week", 0.31)]),
        ({"headers": CODEX_HEADERS}, [("five_hours", 0.425)]),
        ({"headers": {"retry-after": "3", "x-codex-primary-used-percent": ["7"]}}, []),
        ({"rate_limits": STATUS_LINE}, [("five_hours", 0.425)]),
        # It rounds, and does not say that calls are refused.
        (
            {"rate_limits": {"five_hour": STATUS_LINE["five_hour"] | {"used_percentage": 100}}},
            [("five_hours", 0.99)],
        ),
        ({"rate_limits": {"five_hour": 7, "seven_day": {"used_percentage": True}}}, []),
        (
            {"type": "rate_limit_event", "rate_limit_info": rate_limit_info("rejected")},
            [("five_hours", 1.0), ("week", 0.41)],
        ),
    ],
)
def test_the_limits_in_headers_the_status_line_and_the_stream(
    record: dict[str, Any], facts: list[tuple[str, float]]
) -> None:
    lines = [{"timestamp": AT.isoformat(), **record}]
    found = [*read_claude_limits(lines), *read_codex_limits(lines)]
    assert [(fact.window, fact.used) for fact in found] == facts
    assert all(fact.resets_at for fact in found if fact.window == "five_hours")
    assert all(fact.may_be_old == ("rate_limits" in record) for fact in found)


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (
            [token_count(primary=window(42.5), secondary=window(81.0, 10_080, SEVEN))],
            [("five_hours", 0.425, FIVE), ("week", 0.81, SEVEN)],
        ),
        ([token_count(primary=window(100), secondary=None)], [("five_hours", 1, FIVE)]),
        ([token_count(primary=window(140, 299))], [("five_hours", 1, FIVE)]),
        ([token_count(primary=window(100), credits=CREDITS)], [("five_hours", 0.99, FIVE)]),
        # a provider that sends no headers, another limit, another window, and wrong values
        ([token_count()], []),
        ([token_count(limit_id="codex_mini", primary=window(100))], []),
        ([token_count(primary=window(100, 1440))], []),
        ([token_count(primary=window("100"), secondary=window(True, 10_080))], []),
        ([token_count(primary=window(-1), secondary=window(float("nan"), 10_080))], []),
        ([token_count(primary=window(10**400, "300"), secondary=7)], []),
        ([token_count(primary=window(10**400, at=None))], [("five_hours", 1, None)]),
        ([token_count(primary=window(1)) | {"timestamp": "today"}], []),
        # the turn that a limit ended: the window that is used most, or else that resets first
        (
            [token_count(primary=window(42.5), secondary=window(99.6, 10_080, SEVEN)), USAGE_LIMIT],
            [("five_hours", 0.425, FIVE), ("week", 1, SEVEN)],
        ),
        (
            [token_count(primary=window(42.5), secondary=window(81.0, 10_080, SEVEN)), USAGE_LIMIT],
            [("five_hours", 0.425, FIVE), ("week", 1, SEVEN)],
        ),
        (
            [token_count(primary=window(96), secondary=window(96, 10_080, SEVEN)), USAGE_LIMIT],
            [("five_hours", 1, FIVE), ("week", 0.96, SEVEN)],
        ),
        ([token_count(primary=window(50), **REACHED), USAGE_LIMIT], [("five_hours", 1, FIVE)]),
        # a workspace's credits are no window
        ([token_count(primary=window(50), **DEPLETED), USAGE_LIMIT], [("five_hours", 0.5, FIVE)]),
        ([token_count(), USAGE_LIMIT], []),
        # the newest line counts
        (
            [token_count(primary=window(90)), token_count(primary=window(2))],
            [("five_hours", 0.02, FIVE)],
        ),
    ],
)
def test_the_limits_in_a_rollout_of_codex(lines: list[dict[str, Any]], facts: Facts) -> None:
    """F07"""
    assert brief(read(*lines)) == facts


@pytest.mark.parametrize(
    ("used", "resets_at", "until"),
    [
        (1.0, "2026-11-28T17:00:00Z", "2026-11-28T17:00:00Z"),
        (0.99, "2026-11-28T17:00:00Z", None),
        (1.0, None, None),
        # no wait is longer than 8 days
        (1.0, "2026-12-31T00:00:00Z", "2026-12-06T12:46:23.851Z"),
    ],
)
def test_a_window_makes_calls_wait_if_it_is_full_and_resets(
    used: float, resets_at: str | None, until: str | None
) -> None:
    """F07"""
    at = datetime.fromisoformat(resets_at) if resets_at else None
    found = WindowFact(LimitWindow.WEEK, used, at, AT).waits_until
    assert found == (datetime.fromisoformat(until) if until else None)
