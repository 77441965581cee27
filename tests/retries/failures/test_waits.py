"""How long an error says to wait, in the forms of real services."""

from datetime import UTC, datetime

import pytest

from retries.failures.outputs.waits import find_wait_s

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Rate limit reached on tokens per min. Please try again in 20s. Visit https://x", 20),
        ("Limit 30000, Used 29111. Please try again in 2.846s.', 'type': 'tokens'", 2.846),
        ("Please try again in 1m26.4s.", 86.4),
        ("Please try again in 6m0s.", 360),
        ("try again in 250ms", 0.25),
        ("Please retry after 30 seconds.", 30),
        ("retry after 30", 30),
        ("You exceeded your quota. Please retry in 38.5s.", 38.5),
        ("Request was throttled. Expected available in 2 s; wait 7 minutes", 420),
        ("HTTP/1.1 429 Too Many Requests\nRetry-After: 120\nServer: x", 120),
        ("< retry-after: 17", 17),
        ('{"retry_after_s": 45, "code": "rate_limited"}', 45),
        ('{"retry_after": 1.337, "global": false}', 1.337),
        ('{"retry_after_ms": 1500}', 1.5),
        ('"retryDelay": "34s"', 34),
        ("Retry-After: Sun, 22 Nov 2026 12:02:00 GMT", 120),
        ("Your limit resets at 2026-11-22T12:10:00Z", 600),
        ("limit will reset at 2026-11-22 13:05:00 UTC", 3900),
        ("quota resets at 12:30 UTC", 1800),
        ("resets at 11:30 UTC", 23.5 * 3600),
        ("Retry-After: Sun, 22 Nov 2026 11:00:00 GMT", 0),
        ("x-ratelimit-reset: 1795348860", 60),
        # F07: the next time that a clock shows in the named zone, in UTC without one
        ("You've hit your session limit · resets 3:45pm (Europe/Berlin)", 2.75 * 3600),
        ("5-hour limit reached ∙ resets 7pm", 7 * 3600),
        ("You've hit your 5-hour limit · resets 9:06pm (UTC)", 9.1 * 3600),
        ("Your limit resets 3pm", 3 * 3600),
        ("resets at 15:30", 3.5 * 3600),
        ("Your limit will reset at 3pm (America/Santiago).", 6 * 3600),
        ("usage limit, resets at 9:15 AM PST", 5.25 * 3600),
        ("resets at 15:30 UTC+2", 1.5 * 3600),
        ("resets at 15:30 GMT-05:30", 9 * 3600),
        ("resets 12am (Asia/Kolkata)", 6.5 * 3600),
        ("resets 12:30 p.m.", 1800),
        ("Weekly limit reached ∙ resets Monday 9am (UTC)", 21 * 3600),
        ("Weekly limit reached · resets Sunday at 11am (UTC)", 7 * 86400 - 3600),
        ("You've hit your weekly limit · resets Nov 29, 3pm (America/New_York)", 176 * 3600),
        ("You've hit your usage limit. Try again at Nov 24th, 2026 9:12 AM.", 45.2 * 3600),
        ("resets tomorrow at 9am (Asia/Tokyo)", 12 * 3600),
        ("limit resets on Nov 25", 60 * 3600),
        ("resets Jan 2, 6am", (40 * 24 + 18) * 3600),
        # a report may come some minutes after the time that it names
        ("resets 11:55am", 0),
        ("resets 11:45am", 23.75 * 3600),
        # durations of several parts
        ("Please try again in 3 days 4 hours.", 76 * 3600),
        ("or try again in 3 days 4 hours 5 minutes.", 76 * 3600 + 300),
        ("try again in 2h 30m", 2.5 * 3600),
        ("available again in 1 hour, 5 minutes and 3 seconds", 3903),
        ("Limit resets in 1 week", 7 * 86400),
        ("resets in 45 min", 2700),
        # epochs, and the fields and headers of vendors
        ("Claude AI usage limit reached|1795348860", 60),
        ('{"type":"usage_limit_reached","resets_at":1795352400,"resets_in_seconds":9}', 3600),
        ('"resetsAt":1795352400,"unifiedWindows":{"seven_day":{"resetsAt":1795999999}}', 3600),
        ('"resets_in_seconds": 3600', 3600),
        ("anthropic-ratelimit-requests-reset: 2026-11-22T12:10:00Z", 600),
        ("anthropic-ratelimit-unified-reset: 1795352400", 3600),
        ("anthropic-ratelimit-unified-7d-reset: 1795752400", None),
        ("retry-after: 30\nanthropic-ratelimit-tokens-reset: 2026-11-22T12:10:00Z", 30),
        ("x-ratelimit-reset-requests: 1s\nx-ratelimit-reset-tokens: 6m0s", 360),
        ("x-codex-primary-reset-after-seconds: 77", 77),
        ("RateLimit-Reset: 45", 45),
        ('"retryInMs": 1500', 1.5),
        # neither a duration nor a time that is certain
        ("429 Too Many Requests", None),
        ("wait 3 times and see", None),
        ("retry 2 of 5", None),
        ("try again later", None),
        ("resets 7pm (Mars/Phobos)", None),
        ("resets 15pm", None),
        ("resets at 25:00", None),
        ("resets Nov 31", None),
        ("git reset --hard 3", None),
        ("reset the counter to 7", None),
        ("Retry-After: Xyz, 99 Foo 2026 12:02:00 GMT", None),
        ("resets at 2026-99-99T12:10:00Z", None),
        ("", None),
    ],
)
def test_the_wait_that_a_text_names(text: str, seconds: float | None) -> None:
    """RTY-4"""
    assert find_wait_s(text, now=NOW) == seconds


@pytest.mark.parametrize(
    ("now", "text", "until"),
    [
        # a night with 23 hours and one with 25
        ("2026-03-28T20:00:00Z", "resets 9am (Europe/Berlin)", "2026-03-29T07:00:00Z"),
        ("2026-10-24T20:00:00Z", "resets 9am (Europe/Berlin)", "2026-10-25T08:00:00Z"),
        # an hour that comes twice, before the first and between both
        ("2026-10-24T22:00:00Z", "resets 2:30am (Europe/Berlin)", "2026-10-25T00:30:00Z"),
        ("2026-10-25T00:50:00Z", "resets 2:30am (Europe/Berlin)", "2026-10-25T01:30:00Z"),
        ("2026-11-01T01:00:00Z", "resets 3am (America/New_York)", "2026-11-01T08:00:00Z"),
        # the day of the zone, not of the server
        ("2026-11-22T23:30:00Z", "resets 1am (Asia/Tokyo)", "2026-11-23T16:00:00Z"),
        ("2026-12-31T23:00:00Z", "resets Jan 1, 9am (UTC)", "2027-01-01T09:00:00Z"),
        ("2027-01-01T01:00:00Z", "resets Dec 31 at 9pm (UTC)", "2027-01-01T01:00:00Z"),
    ],
)
def test_clocks_that_change(now: str, text: str, until: str) -> None:
    at = datetime.fromisoformat(now)
    wait = (datetime.fromisoformat(until) - at).total_seconds()
    assert find_wait_s(text, now=at) == wait
