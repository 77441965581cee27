"""Which errors are equal: headlines, templates and fingerprints (S1.13)."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retries.failures.fingerprints import compute_fingerprint, identify, make_template
from retries.failures.masks import LINE_LENGTH


def print_of(line: str) -> str:
    return compute_fingerprint(make_template(line))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Error: Cannot find module 'uuid'", "Error: Cannot find module ‹text›"),
        ("HTTP 404 for https://api.test/v1/x?y=1", "HTTP404 for ‹url›"),
        ("src/app.ts(12,5): error TS2345: no", "‹path›(‹number›): error TS2345: no"),
        ("commit 3f2a9bc1d by deploy-7", "commit ‹id› by deploy-‹n›"),
        ("took 1.5 s at 2026-11-21T20:00:01.5Z", "took ‹amount› at ‹time›"),
        ("dial 10.0.0.7:5432 and db.acme.com:1", "dial ‹address› and ‹address›"),
        ("retries=3 error=ECONNRESET", "retries=‹value› error=ECONNRESET"),
        ('"GET /v1/a/7 HTTP/1.1" failed, again', '"GET ‹path›" failed, again'),
        ("0xdeadbeef is_ok: true", "‹hex› is_ok: ‹truth›"),
        ("Invalid user bob from 10.0.0.7", "Invalid user ‹name› from ‹address›"),
    ],
)
def test_variable_parts_become_placeholders(line: str, expected: str) -> None:
    assert make_template(line) == expected
    assert make_template(expected) == expected


@pytest.mark.parametrize(
    "lines",
    [
        ("Cannot find module 'uuid'", "Cannot find module 'left-pad'", "cannot find module `x`."),
        ("ENOENT: no such file, open '/a/b.json'", "ENOENT: no such file, open 'c d.txt'"),
        ("timeout after 300 s in job-1", "timeout after 1.5 min in job-22"),
        ("fetch 10.0.0.7 failed", "fetch db.acme.com:80 failed", "fetch http://x/y failed"),
        ("killed 1, 2, 3", "killed 4", "killed 5 6"),
        ("worker 3f2a9bc1d died", "worker 12345678 died"),
        ("Jan  2 03:04:05 2026 down", "2026-01-02 03:04:05,678 down"),
    ],
)
def test_one_error_has_one_fingerprint(lines: tuple[str, ...]) -> None:
    assert len({print_of(line) for line in lines}) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ("error TS2345: no", "error TS2307: no"),
        ("status code 404", "status code 500"),
        ("error=ECONNRESET", "error=ENOTFOUND"),
        ("bash: pnpm: command not found", "bash: cargo: command not found"),
        ('"GET /a" failed with this', '"POST /a" failed with this'),
        ("'disk is full on the build host'", "'nobody may write on the build host'"),
    ],
)
def test_different_errors_have_different_fingerprints(lines: tuple[str, ...]) -> None:
    assert len({print_of(line) for line in lines}) == len(lines)


@settings(deadline=None)
@given(st.integers(0, 10**9), st.uuids(), st.ip_addresses(v=4), st.text("abcxyz", min_size=1))
def test_the_fingerprint_ignores_the_values(number: int, id: object, ip: object, name: str) -> None:
    line = f"job {number} ({id}) of /srv/{name}/run.py at {ip}:80 failed: no '{name}'"
    plain = "job 1 (00000000-0000-4000-8000-000000000000) of /a/b.py at 1.1.1.1 failed: no 'x'"
    assert print_of(line) == print_of(plain)


@settings(deadline=None)
@given(st.text(max_size=2 * LINE_LENGTH))
def test_any_text_gives_a_short_template(line: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", print_of(line))
    # a mark is longer than one digit
    assert len(make_template(line)) <= LINE_LENGTH * len("‹number›")


@pytest.mark.parametrize(
    "part", ["a-", "a.", "/", "a/", "1", "1.", "'", "\\", "a=b", "‹", "ab:", "a:b:aaaa"]
)
def test_every_text_is_fast(part: str) -> None:
    start = time.process_time()
    make_template(part * LINE_LENGTH)
    assert time.process_time() - start < 0.2


def test_a_failing_test_is_part_of_the_fingerprint() -> None:
    output = "E   assert {} == 30\nFAILED tests/test_a.py::test_{}[7] - assert {} == 30"
    first, same, other = (
        identify(output.format(value, name, value))
        for value, name in ((27, "total"), (31, "total"), (27, "tax"))
    )
    assert first.template == "test_total: assert ‹number› == ‹number›"
    assert first.fingerprint == same.fingerprint != other.fingerprint


def test_the_order_of_the_texts_does_not_matter_for_the_cause() -> None:
    """S1.13: a report with the output, and one with the output's last lines as its message."""
    output = "setup\nsrc/a.c:3:5: error: no member x\ndone\nmake: *** [a.o] Error 1"
    message = "done\nmake: *** [a.o] Error 1"
    assert identify(output, message) == identify("", output, message)
