"""How long an error says to wait, in the forms of real services."""

from datetime import UTC, datetime

import pytest

from retries.failures.waits import find_wait_s

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
        # neither a duration nor a time that is certain
        ("429 Too Many Requests", None),
        ("Your limit resets 3pm", None),
        ("resets at 15:30", None),
        ("wait 3 times and see", None),
        ("retry 2 of 5", None),
        ("try again later", None),
        ("Retry-After: Xyz, 99 Foo 2026 12:02:00 GMT", None),
        ("resets at 2026-99-99T12:10:00Z", None),
        ("", None),
    ],
)
def test_the_wait_that_a_text_names(text: str, seconds: float | None) -> None:
    assert find_wait_s(text, now=NOW) == seconds
