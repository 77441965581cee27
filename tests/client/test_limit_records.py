"""What a hook sends of a program's record: what tells the limits, and nothing of the conversation."""

import json
from pathlib import Path
from typing import Any

import pytest
from tenfour.sessions import limit_records
from tenfour.sessions.limit_records import find_limit_event, read_limit_records

from ledger.sessions.transcripts.limits import read_claude_limits, read_codex_limits
from tests.ledger.sessions.test_transcript_limits import (
    USAGE_LIMIT,
    api_error,
    brief,
    last_message,
    rate_limit_info,
    token_count,
    window,
)

NOISE: dict[str, Any] = {"type": "assistant", "message": {"content": 'says "rate_limits" too'}}


def write(folder: Path, *lines: Any) -> str:
    file = folder / "session.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(file)


@pytest.mark.parametrize(
    "lines",
    [
        [api_error(rateLimitType="five_hour", resetsAt=1_795_900_000)],
        [api_error(), last_message(rate_limit_info("rejected"))],
        [token_count(primary=window(42.5)), token_count(primary=window(7)), NOISE],
        [token_count(primary=window(42.5)), NOISE, USAGE_LIMIT],
    ],
)
def test_the_server_reads_the_reduced_records_as_it_does_the_whole(
    tmp_path: Path, lines: list[Any]
) -> None:
    """F07"""
    sent = read_limit_records(write(tmp_path, *lines))
    text = json.dumps(sent)
    for word in (
        "message",
        "session",
        "uuid",
        "says",
        "Try again",
        "Limit reached",
        "would exceed",
    ):
        assert word not in text
    for read in (read_claude_limits, read_codex_limits):
        assert brief(read(sent)) == brief(read(lines))


def test_the_newest_records_of_a_long_file_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_records, "LONGEST_LINE", 900)
    lines = [token_count(primary=window(n)) for n in range(9)]
    huge = token_count(primary=window(99), limit_name="x" * 900)
    path = write(tmp_path, *lines, huge, "rate_limits", {"payload": '"rate_limits"'})
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"torn "rate_limits"\n{"payload": {"rate_limits"')
    used = [
        each["payload"]["rate_limits"]["primary"]["used_percent"]
        for each in read_limit_records(path)
    ]
    assert used == [5, 6, 7, 8]
    assert read_limit_records(str(tmp_path / "none.jsonl")) == []


def test_the_last_event_about_limits_in_a_stream_is_found() -> None:
    first, last = (
        {"type": "rate_limit_event", "rate_limit_info": rate_limit_info(status), "uuid": "u"}
        for status in ("allowed_warning", "rejected")
    )
    said = {"type": "user", "message": "a rate_limit_event"}
    lines = [json.dumps(line) for line in (first, last, said)]
    found = find_limit_event("\n".join(['{"torn rate_limit_event"', *lines, "rate_limit_event"]))
    assert found == {"type": "rate_limit_event", "rate_limit_info": rate_limit_info("rejected")}
    assert find_limit_event("") is None


@pytest.mark.parametrize("number", ["1e999", "-Infinity", "NaN"])
def test_records_with_numbers_that_cannot_be_sent_are_left_out(tmp_path: Path, number: str) -> None:
    event = json.dumps({"type": "rate_limit_event", "rate_limit_info": {"resetsAt": 7}})
    assert find_limit_event(f"{event}\n{event.replace('7', number)}") == json.loads(event)
    path = write(tmp_path, token_count(primary=window(77)))
    assert len(read_limit_records(path)) == 1
    Path(path).write_text(Path(path).read_text().replace("77", number))
    assert read_limit_records(path) == []
