"""What agents print: how long it takes to hide secrets in it, and to tell the next attempt of it."""

import random
import re
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Ground
from ledger import redaction
from ledger.redaction import redact
from ledger.secret_patterns import FORMS
from retries.failures import fingerprints, known_errors
from retries.retry_context.block import FailureRecord, History, render_retry_context

OUTPUT = 65_536
RENDER_MS, REDACT_MS = 20, 50
HEADER = "-----BEGIN RSA " + "PRIVATE KEY-----"
# What looks like the beginning of a secret again and again is what patterns spend their time on.
UNITS = (
    HEADER,
    f"{HEADER}a ",
    f"{HEADER}\n{'A' * 64}\n",
    "password ",
    "password: ",
    "password=",
    "password_",
    "--pwd",
    "passwordsecret",
    "token: ",
    "token='",
    "api_key=" + "a" * 60 + " ",
    "bearer ",
    "bearer " + "a" * 60,
    "authorization: ",
    "authorization: basic ",
    "cookie:a=",
    "://a:b ",
    "://" + "a" * 120,
    "://a:" + "b" * 250 + "/",
    "--a-b-c-",
    "--token ",
    "sk-aaaaaaa",
    "sk-" + "a" * 70,
    ".eyJaaaaaa",
    "eyJ-",
    "--eyJ",
    "eyJ" + "a" * 4_000 + ".",
    "\x1b]0;",
    "\x1b[" + "1" * 70,
    "\x9d",
    "\x90a",
    "pwd-",
    "passwd_",
    "secret:'",
    "secret=[",
    "password:\n",
    "<password>",
    "<" + "a" * 60,
    "curl ",
    "curl -u a:",
    "mysql -u ",
    "docker login ",
    "machine a login ",
    "auth: " + "a" * 60,
    "password%3D",
    "a:100:",
    "${${",
    "the ",
    "a",
    "a.",
    "a-",
    "a@",
    "a/",
    "a=",
    "0",
    "1.",
    "1,",
    "_1",
    "/",
    "\\",
    "$",
    "'",
    "“",
    "‹",
    "error ",
    "for a from ",
    "exit code ",
    "Caused by: ",
)
# Four times the text may take at most six times as long. A pattern whose time grows faster lets
# one hostile output stop a server.
GROWTH, LARGER = 6, 4
SCREENED = 1_024
MEASURABLE_MS = 5.0


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    """Needs neither server: all of it is pure."""
    times = 20 if scale.quick else 100
    rendered = [p95_ms(rendering(seed), times) for seed in range(scale.rounds)]
    say(f"rendering: p95 {statistics.median(rendered):.2f} ms")
    worst = {unit: statistics.median(spent(unit, scale.rounds)) for unit in UNITS}
    unit = max(worst, key=worst.__getitem__)
    say(f"redaction: worst {unit[:30]!r}, {worst[unit]:.1f} ms")
    ordinary = [p95_ms(partial(redact, printed(seed)), 20) for seed in range(scale.rounds)]
    return [
        Figure(
            "retry context of 3 failures with 64 KiB each: p95",
            rendered,
            unit="ms",
            target=at_most(RENDER_MS),
        ),
        Figure(
            "redaction of the worst 64 KiB",
            spent(unit, scale.rounds),
            unit="ms",
            target=at_most(REDACT_MS),
            detail={"unit": unit[:40]},
        ),
        Figure("redaction of 64 KiB of a test's output: p95", ordinary, unit="ms"),
        *(growth(name, patterns, scale.rounds) for name, patterns in list_patterns().items()),
    ]


def list_patterns() -> dict[str, list[re.Pattern[str]]]:
    """Return the patterns that search what agents print, by what they are for."""
    return {
        "redaction": [
            *(form.pattern for form in FORMS),
            *(value for value in vars(redaction).values() if isinstance(value, re.Pattern)),
        ],
        "fingerprints": [
            value for value in vars(fingerprints).values() if isinstance(value, re.Pattern)
        ],
        "known errors": [error.pattern for error in known_errors.KNOWN_ERRORS],
    }


def growth(name: str, patterns: list[re.Pattern[str]], rounds: int) -> Figure:
    """Return how much longer 256 KiB take than 64 KiB: the worst pattern on its worst unit."""
    worst: tuple[list[float], str, str] = ([], "", "")
    for pattern in patterns:
        small = {unit: search_ms(pattern, unit, SCREENED) for unit in UNITS}
        unit = max(small, key=small.__getitem__)
        ratios = [
            # a shorter time says more about the clock than about the pattern
            search_ms(pattern, unit, LARGER * OUTPUT)
            / max(search_ms(pattern, unit, OUTPUT), MEASURABLE_MS)
            for _ in range(rounds)
        ]
        if not worst[0] or statistics.median(ratios) > statistics.median(worst[0]):
            worst = ratios, pattern.pattern, unit
    return Figure(
        f"{name}: 256 KiB of the worst repeat / 64 KiB",
        worst[0],
        target=at_most(GROWTH),
        detail={"pattern": worst[1][:60], "unit": worst[2][:40]},
    )


def search_ms(pattern: re.Pattern[str], unit: str, length: int) -> float:
    """Return how long the pattern takes to search all of a repeated unit."""
    text = repeat(unit, length)
    return ms(lambda: pattern.sub("", text))


def rendering(seed: int) -> Callable[[], Any]:
    """Render a past of three failures that printed 64 KiB each, twice."""
    failures = [
        FailureRecord(
            attempt=attempt,
            at=datetime(2026, 1, 26, 14, 30, tzinfo=UTC),
            type="verification_failed",
            message=printed(seed)[:2_000],
            details=printed(seed + attempt),
            verification={"command": "npm test", "exit_code": 1, "output": printed(attempt)},
            suggested_fix="Trim before validation. " * 40,
            files=[{"path": f"src/{n}.ts", "status": "modified"} for n in range(200)],
            learnings=[f"learnt {attempt} {n} " + "l" * 280 for n in range(20)],
        )
        for attempt in (1, 2, 3)
    ]
    past = History(failures=failures, fix="Trim before validation. " * 160)
    return lambda: render_retry_context(past, attempt=4, max_attempts=4)


def printed(seed: int) -> str:
    """64 KiB as a test run prints them: words, numbers, paths, and an eighth of markup."""
    chance = random.Random(seed)
    words = (
        "FAIL",
        "src/app.ts:12",
        "<div>",
        "&&",
        "expected",
        "0x7f3a",
        "ok",
        "=>",
        "token",
        "\n",
    )
    text = " ".join(chance.choice(words) for _ in range(OUTPUT // 4))
    return text[:OUTPUT]


def spent(unit: str, rounds: int) -> list[float]:
    """Milliseconds of redacting 64 KiB of `unit`, again and again, round by round."""
    text = repeat(unit, OUTPUT)
    return [ms(lambda: redact(text)) for _ in range(rounds)]


def repeat(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def p95_ms(work: Callable[[], Any], times: int) -> float:
    return statistics.quantiles([ms(work) for _ in range(times)], n=20)[-1]


def ms(work: Callable[[], Any]) -> float:
    """Of the processor: what else the machine does is not counted."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000
