"""Measure redacting agents' output and rendering it into a retry context."""

import random
import re
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from ledger.secrets import redaction
from ledger.secrets.patterns import FORMS
from ledger.secrets.redaction import redact
from retries.attempts.report_fields import Report, clean_report
from retries.failures import fingerprints, known_errors, masks
from retries.failures.outputs.long_lines import break_long_lines
from retries.failures.outputs.salience import rank_all, rank_stored, split_lines
from retries.retry_context.block import FailureRecord, History, render_retry_context

OUTPUT = 65_536
RENDER_MS, REDACT_MS = 20, 50
LONG_OUTPUT = 4 * 1024 * 1024
LONG_OUTPUT_MS, LONG_OUTPUT_MB = 300, 40
LINES = (
    *("\n", "a\n", "ab\n", "error\n", ":\n", "FAIL\n", "FAILED test_a.py::test_b - x\n"),
    "<retry_context x>\n</retry_context>\n",
    "-----BEGIN RSA " + "PRIVATE KEY-----\nabc\n-----END RSA " + "PRIVATE KEY-----\n",
)
WIDE = "\N{GRINNING FACE}"
HEADER = "-----BEGIN RSA " + "PRIVATE KEY-----"
# Repeated near-matches of a secret are the slowest inputs for the patterns.
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


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Measure pure functions; neither server is used."""
    repetitions = 20 if scale.quick else 100
    first_ms, render_ms = [], []
    for seed in range(scale.rounds):
        render = build_rendering(seed)
        rank_stored.cache_clear()
        first_ms.append(measure_ms(render))
        render_ms.append(measure_p95_ms(render, repetitions))
    first, again = statistics.median(first_ms), statistics.median(render_ms)
    say(f"rendering: first {first:.1f} ms, then p95 {again:.2f} ms")
    worst = {unit: statistics.median(time_redaction(unit, scale.rounds)) for unit in UNITS}
    unit = max(worst, key=worst.__getitem__)
    say(f"redaction: worst {unit[:30]!r}, {worst[unit]:.1f} ms")
    test_output_ms = [
        measure_p95_ms(partial(redact, make_output(seed)), 20) for seed in range(scale.rounds)
    ]
    return [
        Figure(
            "retry context of 3 failures with 64 KiB each: p95",
            render_ms,
            unit="ms",
            target=at_most(RENDER_MS),
        ),
        Figure("the first rendering of such a context in a process", first_ms, unit="ms"),
        Figure(
            "redaction of the worst 64 KiB",
            time_redaction(unit, scale.rounds),
            unit="ms",
            target=at_most(REDACT_MS),
            detail={"unit": unit[:40]},
        ),
        Figure("redaction of 64 KiB of test output: p95", test_output_ms, unit="ms"),
        *measure_long_output(scale.rounds),
        *(
            measure_growth(
                name, {each.pattern: partial(time_search, each) for each in patterns}, scale.rounds
            )
            for name, patterns in list_patterns().items()
        ),
        measure_growth("ranking", {"": time_ranking}, scale.rounds),
    ]


def measure_long_output(rounds: int) -> list[Figure]:
    """Measure what it takes to read a report with an output of 4 MiB and to clean it for storage.

    The figures are those of the slowest and of the largest of many kinds of output.
    """
    texts = {unit: unit * (LONG_OUTPUT // len(unit.encode())) for unit in (*UNITS, *LINES)}
    texts["test output"] = repeat(make_output(0), LONG_OUTPUT)
    texts["test output with one wide character"] = WIDE + texts["test output"][: -len(WIDE) * 4]
    screened = {name: measure_ms(partial(read_report, text)) for name, text in texts.items()}
    slow = max(screened, key=screened.__getitem__)
    sizes = {name: measure_peak_mb(partial(read_report, text)) for name, text in texts.items()}
    large = max(sizes, key=sizes.__getitem__)
    return [
        Figure(
            "report with 4 MiB of output: processor time of the slowest kind",
            [measure_ms(partial(read_report, texts[slow])) for _ in range(rounds)],
            unit="ms",
            target=at_most(LONG_OUTPUT_MS),
            detail={"unit": slow[:40]},
        ),
        Figure(
            "report with 4 MiB of output: memory of the largest kind",
            [measure_peak_mb(partial(read_report, texts[large])) for _ in range(rounds)],
            unit="MB",
            target=at_most(LONG_OUTPUT_MB),
            detail={"unit": large[:40]},
        ),
    ]


def read_report(output: str) -> None:
    """Read a report with this output as it arrives at `exit`, and clean it for storage."""
    clean_report(Report(status="failure", details=output.encode().decode(errors="replace")))


def measure_peak_mb(work: Callable[[], Any]) -> float:
    """Return how much memory the work takes at most, in MB."""
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1_000_000


def list_patterns() -> dict[str, list[re.Pattern[Any]]]:
    """Return the patterns that search agent output, by purpose."""
    return {
        "redaction": [
            *(form.pattern for form in FORMS),
            *(value for value in vars(redaction).values() if isinstance(value, re.Pattern)),
        ],
        "fingerprints": [
            value
            for module in (fingerprints, masks)
            for value in vars(module).values()
            if isinstance(value, re.Pattern)
        ],
        "known errors": [error.pattern for error in known_errors.KNOWN_ERRORS],
    }


def measure_growth(
    name: str, searches: Mapping[Any, Callable[[str, int], float]], rounds: int
) -> Figure:
    """Compare 256 KiB with 64 KiB for the worst search on its worst unit.

    `searches` return by name the milliseconds that a unit takes when it is repeated to a length.
    """
    worst: tuple[list[float], str, str] = ([], "", "")
    for pattern, search in searches.items():
        small = {unit: search(unit, SCREENED) for unit in UNITS}
        unit = max(small, key=small.__getitem__)
        ratios = [
            # shorter times measure the clock rather than the pattern
            search(unit, LARGER * OUTPUT) / max(search(unit, OUTPUT), MEASURABLE_MS)
            for _ in range(rounds)
        ]
        if not worst[0] or statistics.median(ratios) > statistics.median(worst[0]):
            worst = ratios, str(pattern), unit
    return Figure(
        f"{name}: 256 KiB of the worst repeat / 64 KiB",
        worst[0],
        target=at_most(GROWTH),
        detail={"pattern": worst[1][:60], "unit": worst[2][:40]},
    )


def time_search(pattern: re.Pattern[Any], unit: str, length: int) -> float:
    """Return the milliseconds that the pattern takes to search `unit` repeated to `length`."""
    text = repeat(unit, length)
    if isinstance(pattern.pattern, bytes):
        data = text.encode()
        return measure_ms(lambda: pattern.sub(b"", data))
    return measure_ms(lambda: pattern.sub("", text))


def time_ranking(unit: str, length: int) -> float:
    """Return the milliseconds to rank the lines of `unit` repeated to `length`.

    Most patterns of the ranking are matched at the start of lines that are cut, so that the time of
    searching a whole text with them would say nothing.
    """
    text = repeat(unit, length)
    return measure_ms(lambda: rank_all(broken := break_long_lines(text), split_lines(broken)))


def build_rendering(seed: int) -> Callable[[], Any]:
    """Return a function that renders three failures with 64 KiB of details and of output each."""
    failures = [
        FailureRecord(
            attempt=attempt,
            at=datetime(2026, 1, 26, 14, 30, tzinfo=UTC),
            type="verification_failed",
            message=make_output(seed)[:2_000],
            details=make_output(seed + attempt),
            verification={"command": "npm test", "exit_code": 1, "output": make_output(attempt)},
            suggested_fix="Trim before validation. " * 40,
            files=[{"path": f"src/{n}.ts", "status": "modified"} for n in range(200)],
            learnings=[f"learned {attempt} {n} " + "l" * 280 for n in range(20)],
        )
        for attempt in (1, 2, 3)
    ]
    history = History(failures=failures, fix="Trim before validation. " * 160)
    return lambda: render_retry_context(history, attempt=4, max_attempts=4)


def make_output(seed: int) -> str:
    """Return 64 KiB that resemble the output of a test run: words, numbers, paths, and markup."""
    rng = random.Random(seed)
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
    text = " ".join(rng.choice(words) for _ in range(OUTPUT // 4))
    return text[:OUTPUT]


def time_redaction(unit: str, rounds: int) -> list[float]:
    """Return the milliseconds, round by round, to redact 64 KiB of the repeated `unit`."""
    text = repeat(unit, OUTPUT)
    return [measure_ms(lambda: redact(text)) for _ in range(rounds)]


def repeat(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def measure_p95_ms(work: Callable[[], Any], repetitions: int) -> float:
    return statistics.quantiles([measure_ms(work) for _ in range(repetitions)], n=20)[-1]


def measure_ms(work: Callable[[], Any]) -> float:
    """Return the processor time in milliseconds, which excludes other load on the machine."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000
