"""The tokens in a transcript: of real sessions, of replies in parts, and of a broken file."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tenfour.attempts.usage import clean_usage, read_usage
from tenfour.sessions.transcript_usage import sum_usage

TRANSCRIPTS = Path(__file__).parents[1] / "ledger/sessions/transcripts"
BEGIN = datetime(2026, 11, 22, 6, 0, tzinfo=UTC).timestamp()


def reply(id: str, at: int, **usage: int) -> str:
    """A line of Claude Code's, so many minutes after the begin."""
    message: dict[str, Any] = {"id": id, "model": "opus", "usage": usage}
    stamp = f"2026-11-22T06:{at:02}:00.000Z"
    return json.dumps({"type": "assistant", "timestamp": stamp, "message": message})


def test_real_transcripts_tell_their_tokens() -> None:
    claude = sum_usage(str(TRANSCRIPTS / "claude.jsonl"), since=BEGIN)
    assert claude == {
        "input_tokens": 7,
        "cached_tokens": 0,
        "output_tokens": 7,
        "model": "claude-opus-4-8",
    }
    codex = sum_usage(str(TRANSCRIPTS / "codex.jsonl"), since=BEGIN)
    assert codex is not None and (codex["input_tokens"], codex["output_tokens"]) == (5, 5)
    assert sum_usage(str(TRANSCRIPTS / "claude.jsonl"), since=BEGIN + 86_400) is None


def test_a_reply_in_parts_counts_once_and_cached_tokens_are_input(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    cached = {"cache_read_input_tokens": 50, "cache_creation_input_tokens": 20}
    lines = [
        reply("before", 0, input_tokens=900, output_tokens=900),
        reply("one", 2, input_tokens=5, output_tokens=1, **cached),
        reply("one", 2, input_tokens=5, output_tokens=30, **cached),
        reply("two", 3, input_tokens=7, output_tokens=-4),
        '{"usage": {"timestamp": "torn',
        '{"type": "assistant", "message": {"usage": 7}, "timestamp": 9}',
        reply("three", 4, output_tokens=2),
    ]
    file.write_text("\n".join(lines))
    assert sum_usage(str(file), since=BEGIN + 60) == {
        "input_tokens": 82,
        "cached_tokens": 50,
        "cache_write_tokens": 20,
        "output_tokens": 32,
        "model": "opus",
    }


def count(at: int, total: int | None, last: int, **more: int) -> str:
    """A count of Codex's: what the session has used so far, and what the last reply used."""
    info: dict[str, Any] = {"last_token_usage": {"input_tokens": last, "output_tokens": 1, **more}}
    if total is not None:
        info["total_token_usage"] = {"total_tokens": total}
    payload = {"type": "token_count", "info": info}
    stamp = f"2026-11-22T06:{at:02}:00.000Z"
    return json.dumps({"type": "event_msg", "timestamp": stamp, "payload": payload})


@pytest.mark.parametrize(
    ("lines", "input_tokens"),
    [
        pytest.param([(1, 101, 100), (2, 101, 100), (3, 101, 100), (4, 302, 200)], 300, id="F08"),
        # what was repeated is from before
        ([(0, 101, 100), (2, 101, 100), (3, 302, 200)], 200),
        # an older count comes again
        ([(1, 101, 100), (2, 302, 200), (3, 101, 100)], 300),
        # The program sets the total back when the context is full, and counts on from there.
        ([(1, 9_000, 100), (2, 2_000, 0), (3, 2_300, 300)], 400),
        # without a total, nothing tells that it is a repetition
        ([(1, None, 100), (2, None, 100)], 200),
        ([(1, 101, 100), (1, 302, 200), (1, 302, 200), (1, 302, 200)], 300),
    ],
)
def test_a_repeated_count_of_codex_counts_once(
    lines: list[tuple[int, int | None, int]], input_tokens: int, tmp_path: Path
) -> None:
    """F08, AGT-17: the session's total has not grown."""
    file = tmp_path / "rollout.jsonl"
    file.write_text("\n".join(count(*line) for line in lines))
    found = sum_usage(str(file), since=BEGIN + 60)
    assert found is not None and found["input_tokens"] == input_tokens


def test_what_a_command_leaves_is_read_with_care(tmp_path: Path) -> None:
    file = tmp_path / "usage.json"
    file.write_text('{"input_tokens": 5, "cost_usd": 0.5, "output_tokens": true, "more": 1}')
    assert read_usage(str(file)) == {"input_tokens": 5, "cost_usd": 0.5}
    for text in ("", "[]", "{", '{"model": "opus"}', '{"cost_usd": NaN}', '{"input_tokens": -1}'):
        file.write_text(text)
        assert read_usage(str(file)) is None
    assert read_usage(str(tmp_path / "none")) is None
    assert clean_usage({"cost_usd": 1e300}) is None
