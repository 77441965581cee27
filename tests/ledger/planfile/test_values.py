"""JSON and YAML: values that cost too much time, and values that a plan can't contain."""

from time import process_time
from typing import Any

import pytest

from ledger import planfile
from ledger.errors import BadRequest, Refusal
from ledger.planfile.values import load_json, read_yaml


def measure(text: str, media: str) -> float:
    started = process_time()
    with pytest.raises(Refusal):
        planfile.parse(text.encode(), media=media, agent="coder")
    return process_time() - started


def duplicate_keys(n: int) -> str:
    keys = [f'"k{key}": 1' for key in range(n)]
    return "{" + ", ".join([*keys, keys[-1]]) + "}"


@pytest.mark.parametrize(
    ("media", "repeat"),
    [
        ("json", duplicate_keys),
        ("yaml", lambda n: "ref: 1" + ":1" * 3 * n),
        ("yaml", lambda n: "ref: 1" + ":1" * 3 * n + ".5"),
        ("yaml", lambda n: "ref: !!int 1" + ":1" * 3 * n),
        ("yaml", lambda n: "".join(f"%TAG !a{k}! b\n" for k in range(n)) + "---\nref: 1"),
    ],
)
def test_four_times_the_text_costs_at_most_six_times_the_time(media: str, repeat: Any) -> None:
    small, large = repeat(15_000), repeat(60_000)
    assert len(large) > 256 * 1024
    media = f"application/{media}"
    fastest = min(measure(small, media) for _ in range(3))
    assert measure(large, media) < max(6 * fastest, 1.0)


@pytest.mark.parametrize("text", ["1:30", "12:30:45", "12:30:45.5", "2026-01-02", "08"])
def test_times_and_dates_are_text(text: str) -> None:
    assert read_yaml(f"title: {text}").value == {"title": text}


def test_numbers_are_numbers() -> None:
    text = "[1, -2, 0x1F, 017, 1_000, .5, 1.5e+3]"
    assert read_yaml(text).value == [1, -2, 31, 15, 1000, 0.5, 1500.0]


@pytest.mark.parametrize(
    "value",
    [
        "!!int foo",
        "!!int ''",
        "!!float ''",
        "!!bool foo",
        "!!timestamp foo",
        "!!binary x",
        "!!set {a}",
        "!own x",
    ],
)
def test_a_tag_is_refused_with_its_line(value: str) -> None:
    with pytest.raises(BadRequest, match=r"YAML tag '.*' \(line 2\)"):
        read_yaml(f"ref: 03-01\ntitle: {value}")


@pytest.mark.parametrize("value", ["!!str 5", '"5"'])
def test_a_string_may_say_so(value: str) -> None:
    assert read_yaml(f"title: {value}").value == {"title": "5"}


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "0x" + "9" * 5000])
def test_a_huge_number_is_refused(number: str) -> None:
    with pytest.raises(Refusal):
        planfile.parse(f"priority: {number}".encode(), media="application/yaml")


def test_a_duplicate_key_is_named() -> None:
    with pytest.raises(BadRequest, match="duplicate key 'b'"):
        load_json('{"a": 1, "b": {"b": 1, "b": 2}}')
