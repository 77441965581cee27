"""Whether a call is sent again: a table."""

import json

import pytest
from tenfour.http.exchange import Answer, NoAnswer
from tenfour.http.resend import retry_after, wait_before_next

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


def answer(status: int, code: str = "", *, retryable: bool | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"code": code} | ({} if retryable is None else {"retryable": retryable})
    return Answer(status, named, json.dumps(body).encode())


CASES = [
    # what came back, how often it was sent, seconds until the next try
    (NoAnswer("refused", connected=False), 1, 0.25),
    (NoAnswer("refused", connected=False), 2, 0.5),
    (NoAnswer("refused", connected=False), 3, None),
    (NoAnswer("it timed out", connected=True), 1, None),
    (answer(200), 1, None),
    (answer(201), 1, None),
    (answer(301), 1, None),
    (answer(400, "bad_request"), 1, None),
    (answer(401, "token_revoked"), 1, None),
    (answer(404, "not_found"), 1, None),
    (answer(409, "invalid_transition"), 1, None),
    (answer(409, "idempotency_in_progress"), 1, 0.25),
    (answer(422, "idempotency_key_reused"), 1, None),
    (answer(429, "rate_limited"), 1, 0.25),
    (answer(429, "rate_limited", retry_after="7"), 1, 7),
    (answer(429, "rate_limited", retry_after="60"), 2, 60),
    (answer(429, "rate_limited", retry_after="61"), 1, None),
    (answer(429, "rate_limited", retry_after="0"), 1, 0.25),
    (answer(429, "rate_limited", retry_after="soon"), 1, 0.25),
    (answer(429, "rate_limited", retryable=True, retry_after="7"), 1, 7),
    (answer(429, "too_many_auth_failures", retryable=False, retry_after="60"), 1, None),
    (answer(500), 1, 0.25),
    (answer(502), 2, 0.5),
    (answer(408, "request_timeout", retry_after="1"), 1, 1),
    (answer(411, "length_required"), 1, None),
    (answer(503, "temporarily_unavailable", retry_after="2"), 2, 2),
    (answer(503, "temporarily_unavailable", retry_after="2"), 3, None),
    (Answer(409, {}, b"<html>"), 1, None),
    (Answer(409, {}, b"[1]"), 1, None),
    (Answer(502, {}, b"<html>"), 1, 0.25),
]


@pytest.mark.parametrize(("reply", "sent", "expected"), CASES)
def test_only_what_was_surely_not_carried_out_or_is_asked_for_is_sent_again(
    reply: Answer | NoAnswer, sent: int, expected: float | None
) -> None:
    assert wait_before_next(reply, sent=sent, retries=2, rand=0.0) == expected


def test_jitter_stretches_the_wait_up_to_twice() -> None:
    reply = NoAnswer("refused", connected=False)
    waits = [wait_before_next(reply, sent=1, rand=rand) for rand in (0.0, 0.5, 0.999999)]
    assert waits == pytest.approx([0.25, 0.375, 0.5], abs=1e-4)


def test_the_wait_stops_growing() -> None:
    reply = NoAnswer("refused", connected=False)
    assert wait_before_next(reply, sent=40, retries=50, rand=1.0) == 8.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry_after": "120"}, 120.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:09 GMT", "date": DATE}, 9.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": DATE}, 0.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:09 GMT"}, None),
        ({"retry_after": "-1", "date": DATE}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_by_the_servers_clock(
    headers: dict[str, str], expected: float | None
) -> None:
    assert retry_after(answer(503, **headers)) == expected
