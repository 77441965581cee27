"""The query language of all lists."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.lists.query_box import (
    Keys,
    Names,
    Parsed,
    Values,
    find_nearest,
    parse,
    split_ids,
    term,
)
from dashboard.lists.query_values import Period, read_age, read_bound, read_period

KEYS: Keys = {
    "agent": Names(),
    "state": Names(("queued", "running", "retry")),
    "older": read_age("older"),
    "changed": read_period("changed"),
    "attempts": read_bound("attempts"),
}


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("agent:coder", Values(("coder",))),
        ("AGENT:coder", Values(("coder",))),
        ("agent:a,b agent:c", Values(("a", "b", "c"))),
        ("-agent:a,b", Values((), ("a", "b"))),
        ("agent:a -agent:b", Values(("a",), ("b",))),
        ('agent:"a b"', Values(("a b",))),
        ('agent:"a, b",c', Values(("a, b", "c"))),
        ('agent:a"b c"', Values(("ab c",))),
        ("agent:,,a,", Values(("a",))),
        ('agent:"', Values(())),
        ('agent:""', Values(())),
        ("agent:a:b", Values(("a:b",))),
        ("agent:-1", Values(("-1",))),
        ("agent:%_\\'; drop", Values(("%_\\';",))),
    ],
)
def test_names(text: str, means: Values) -> None:
    found = parse(text, KEYS)
    assert (found.names["agent"], found.problems) == (means, [])


NOVEMBER_20 = datetime(2026, 11, 20, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("older:90s", {"older": timedelta(seconds=90)}),
        ('older:"2h"', {"older": timedelta(hours=2)}),
        ("older:2w", {"older": 14 * DAY}),
        ("changed:7d", {"changed": Period(7 * DAY)}),
        ("changed:2026-11-20", {"changed": Period(NOVEMBER_20, NOVEMBER_20 + DAY)}),
        (
            "changed:2026-11-19..2026-11-20",
            {"changed": Period(NOVEMBER_20 - DAY, NOVEMBER_20 + DAY)},
        ),
        ("changed:2026-11-20..", {"changed": Period(NOVEMBER_20)}),
        ("changed:..1h", {"changed": Period(None, timedelta(hours=1))}),
        ("changed:2026-11-20T00:00+00:00..2h", {"changed": Period(NOVEMBER_20, 2 * DAY / 24)}),
        ("attempts:>2", {"attempts_over": 2}),
        ("attempts:2", {"attempts_over": 1, "attempts_under": 3}),
    ],
)
def test_values(text: str, means: dict[str, object]) -> None:
    found = parse(text, KEYS)
    assert (found.read, found.problems) == (means, [])


@pytest.mark.parametrize(
    "text",
    ["03-01:task-11", "https://example.com/a", "12:30", "agent:", ":", "-", "a-b:c", '"agnet:x"'],
)
def test_words_that_only_look_like_a_key(text: str) -> None:
    found = parse(text, KEYS)
    assert (found.rest, found.problems) == ([text.strip('"')], [])


def test_quotes_keep_words_together() -> None:
    found = parse('one "two three" "" four"five', KEYS)
    ids, words = split_ids(found.rest, found.problems)
    assert (ids, words) == ((), ("one", "two three", 'four"five'))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agnet:coder", "There is no filter “agnet”. Did you mean “agent:coder”?"),
        ("-AGNET:coder", "There is no filter “AGNET”. Did you mean “agent:coder”?"),
        ("st:retry", "There is no filter “st”. Did you mean “state:retry”?"),
        ("zz:1", "There is no filter “zz”. Use agent, state, older, changed, attempts."),
        ("state:runing", "Unknown state “runing”. Did you mean “running”?"),
        ("state:r", "Unknown state “r”. Did you mean “running”?"),
        ("state:zz", "Unknown state “zz”. Use one of: queued, running, retry."),
        ("older:soon", "“older:soon” is not a duration. Try older:30m"),
        ("older:99999999d", "“older:99999999d” is not a duration."),
        ("-older:2h", "“older:” can’t be excluded."),
        ("changed:yesterday", "“changed:yesterday” is not a time range. Try changed:24h"),
        ("changed:..", "“changed:..” is not a time range."),
        ("changed:2026-13-01", "“changed:2026-13-01” is not a time range."),
        ("changed:9999-12-31", "“changed:9999-12-31” is not a time range."),
        ("attempts:=3", "“attempts:=3” is not a number. Try attempts:>1"),
    ],
)
def test_a_problem_names_what_is_nearest(text: str, problem: str) -> None:
    found = parse(f"{text} kept", KEYS)
    assert found.problems[0].startswith(problem)
    assert len(found.problems) == 1 and found.rest == ["kept"]


@pytest.mark.parametrize(
    "text",
    [
        '"' * 5_000,
        'agent:"' * 2_000,
        "agent:" + "a," * 5_000,
        "\x00\x01\ud800agent:\x00",
        "‮agent:x‬ 💥" * 100,
        "x:" * 3_000,
        "older:" + "9" * 4_000 + "d",
        "changed:" + "." * 4_000,
        "-" * 5_000,
    ],
)
def test_hostile_text_is_only_text(text: str) -> None:
    found = parse(text, KEYS)
    assert isinstance(found, Parsed) and len(found.text) <= 300 and "\0" not in found.text


@pytest.mark.parametrize("value", ["coder", "a b", "a,b", "x:y", 'quo"ted', "‹name›"])
def test_a_term_reads_back_as_its_value(value: str) -> None:
    found = parse(term("agent", value), KEYS)
    assert (found.names["agent"].wanted, found.problems) == ((value.replace('"', ""),), [])


def test_the_nearest_name_begins_or_reads_alike() -> None:
    assert find_nearest("gem", ["coder", "gemini"]) == "gemini"
    assert find_nearest("gmeini", ["coder", "gemini"]) == "gemini"
    assert find_nearest("", ["coder"]) == find_nearest("zzz", ["coder"]) == ""
