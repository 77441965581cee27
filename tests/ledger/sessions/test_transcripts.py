"""Transcripts of Claude Code and Codex are read into messages; an error names its line."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from ledger.errors import Invalid, UnsupportedMediaType
from ledger.sessions.message_parts import Call, Media, Result, Text, Thinking
from ledger.sessions.transcripts.reading import check_media, read_transcript
from tests.ledger.sessions.transcript_files import (
    CLAUDE_SESSION,
    CODEX_SESSION,
    as_lines,
    claude_line,
    old_codex_call,
    recorded,
    todo_write,
)


def test_claude_transcript() -> None:
    found = read_transcript(recorded("claude"))
    assert (found.format, found.session, found.lines) == ("claude", CLAUDE_SESSION, 20)
    assert found.cut_line is None
    # Lines for the program itself are left out; each message knows its line.
    assert [m.line for m in found.messages] == [3, *range(7, 20)]
    first, create, created, *_, failed, _, _, _, _, last = found.messages
    assert (first.role, first.parts) == ("user", (Text("Write a parser"),))
    assert first.sent_at is not None
    assert first.sent_at.isoformat() == "2026-11-22T06:38:53.330000+00:00"
    arguments = {
        "subject": "Write the parser",
        "description": "Parse ids from a file",
        "activeForm": "Writing the parser",
    }
    assert create.role == "assistant"
    assert create.parts == (Call("toolu_0001", "TaskCreate", arguments),)
    assert created.role == "tool"
    assert created.parts == (
        Result("toolu_0001", "Task #1 created successfully: Write the parser"),
    )
    (result,) = failed.parts
    assert isinstance(result, Result)
    assert result.is_error
    assert (last.role, last.parts) == ("assistant", (Text("Parser written."),))


def test_codex_rollout() -> None:
    found = read_transcript(recorded("codex"))
    assert (found.format, found.session, found.lines) == ("codex", CODEX_SESSION, 33)
    # What the program writes in the name of the user is no prompt.
    assert [m.role for m in found.messages[:4]] == ["system", "system", "user", "system"]
    assert found.messages[2].parts == (Text("Write a parser"),)
    plan = found.messages[4].parts[0]
    assert isinstance(plan, Call)
    assert plan.name == "update_plan"
    assert plan.arguments["plan"][0] == {"step": "Write the parser", "status": "in_progress"}
    failed = [p for m in found.messages for p in m.parts if isinstance(p, Result) and p.is_error]
    # The program has no tool `update_plan` any more.
    assert [each.id for each in failed] == ["call_0001", "call_0002", "call_0004"]
    assert found.messages[-1].parts == (Text("Parser written."),)


def test_older_forms() -> None:
    claude = as_lines(
        {"type": "summary", "summary": "A parser", "leafUuid": "u9"},
        claude_line(1, "user", "Write a parser"),
        claude_line(2, "user", "Caveat: …", isMeta=True),
        claude_line(3, "assistant", [{"type": "text", "text": "subagent"}], isSidechain=True),
        todo_write(4, ("Write it", "in_progress"), ("Test it", "pending")),
        claude_line(
            5,
            "user",
            [
                {"type": "tool_result", "tool_use_id": "t4", "content": [{"type": "image"}]},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
            ],
        ),
        claude_line(
            6,
            "assistant",
            [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "new kind"}],
        ),
    )
    found = read_transcript(claude)
    assert [(m.line, m.role) for m in found.messages] == [
        (2, "user"),
        (3, "system"),
        (5, "assistant"),
        (6, "user"),
        (7, "assistant"),
    ]
    assert found.messages[3].parts == (Result("t4", "[image]"), Media("image", "image/png"))
    assert found.messages[4].parts == (Thinking("Hm."),)

    codex = as_lines(
        {"id": "codex-1", "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context>\n</…>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]},
        old_codex_call(1, "update_plan", {"plan": [{"step": "Go", "status": "pending"}]}),
        old_codex_call(2, "apply_patch", "not JSON"),
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": json.dumps({"output": "no such file", "metadata": {"exit_code": 1}}),
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Why"}]},
        {"type": "local_shell_call", "call_id": "c3", "action": {"command": ["ls"]}},
    )
    found = read_transcript(codex)
    assert (found.format, found.session) == ("codex", "codex-1")
    assert [m.role for m in found.messages[:2]] == ["system", "user"]
    assert [m.parts[0] for m in found.messages[3:]] == [
        Call("call_2", "apply_patch", {"input": "not JSON"}),
        Result("call_2", "no such file", is_error=True),
        Thinking("Why"),
        Call("c3", "local_shell", {"command": ["ls"]}),
    ]


def test_digests_are_stable_and_tell_equal_lines_apart() -> None:
    grown = recorded("claude")
    start = b"".join(grown.splitlines(keepends=True)[:10])
    before = [m.digest for m in read_transcript(start).messages]
    after = [m.digest for m in read_transcript(grown).messages]
    assert after[: len(before)] == before
    assert len(set(after)) == len(after)
    # A part of the file gives its lines the same digests and numbers.
    rest = b"".join(grown.splitlines(keepends=True)[10:])
    parts = read_transcript(rest, format="claude", first_line=11).messages
    assert [(m.line, m.digest) for m in parts] == [
        (m.line, m.digest) for m in read_transcript(grown).messages[len(before) :]
    ]
    # An old rollout has no ids: the content counts, and equal lines count by their order.
    again = {"type": "message", "role": "user", "content": "Go on"}
    other = {"type": "message", "role": "user", "content": "Stop"}
    digests = [m.digest for m in read_transcript(as_lines(again, other, again)).messages]
    assert len(set(digests)) == 3
    assert digests[:2] == [m.digest for m in read_transcript(as_lines(again, other)).messages]


def test_cut_in_the_middle_of_the_last_line() -> None:
    whole = recorded("codex")
    lines = whole.splitlines(keepends=True)
    start = sum(map(len, lines[:29]))  # the last message is line 30
    for cut in (start + 1, start + len(lines[29]) // 2, start + len(lines[29]) - 2):
        found = read_transcript(whole[:cut])
        assert (found.cut_line, found.lines) == (30, 29)
        assert found.messages[-1].line == 27
    # Only the end of the line is missing: it is whole.
    found = read_transcript(whole[: start + len(lines[29]) - 1])
    assert (found.cut_line, found.messages[-1].line) == (None, 30)
    umlaut = json.dumps(claude_line(2, "user", "ü"), ensure_ascii=False).encode()
    cut_character = as_lines(claude_line(1, "user", "Go")) + umlaut[: umlaut.index(b"\xc3") + 1]
    assert read_transcript(cut_character).cut_line == 2


def test_bad_lines_are_named() -> None:
    good = claude_line(1, "user", "Go")

    def line_of(data: bytes) -> tuple[int, str]:
        found = read_transcript(data)
        assert (found.skipped, found.messages[0].line) == (1, 1)
        (bad,) = found.bad_lines
        return bad.line, bad.detail

    assert line_of(as_lines(good) + b'{"type": \n' + as_lines(good))[0] == 2
    assert line_of(as_lines(good) + b"\n\n[1, 2]\n" + as_lines(good))[0] == 4
    assert line_of(as_lines(good) + b'{"cut": "but ended\n')[0] == 2
    assert line_of(as_lines(good) + b"\xff\xfe\n" + as_lines(good))[0] == 2
    assert "nested" in line_of(as_lines(good) + b"[" * 200_000 + b"\n")[1]
    bad: list[tuple[dict[str, Any], str]] = [
        (good | {"message": None}, "no message"),
        (claude_line(2, "user", "Go") | {"message": {"role": "king", "content": "Go"}}, "king"),
        (claude_line(2, "user", 3), "no content"),
        (claude_line(2, "user", ["Go"]), "not an object"),
    ]
    for line, words in bad:
        number, detail = line_of(as_lines(good, line))
        assert number == 2
        assert words in detail
    codex = recorded("codex").replace(b'"role": "developer"', b'"role": "king"')
    first, *_ = read_transcript(codex).bad_lines
    assert (first.line, "'king'" in first.detail) == (3, True)
    for foreign in (b'{"type": "us', as_lines({"a": 1}, {"b": 2})):
        with pytest.raises(Invalid, match="No line of it is a message of Claude Code or Codex"):
            read_transcript(foreign)
    for empty in (b"", b" \n\n"):
        with pytest.raises(Invalid, match="no lines"):
            read_transcript(empty)


@pytest.mark.parametrize(
    ("media", "fits"),
    [
        ("application/x-ndjson", True),
        ("Application/JSONL; charset=utf-8", True),
        ("text/plain", True),
        ("", True),
        ("application/xml", False),
        ("multipart/form-data; boundary=x", False),
    ],
)
def test_media_types(media: str, fits: bool) -> None:
    refused = pytest.raises(UnsupportedMediaType, match="not one of a transcript")
    with nullcontext() if fits else refused:
        check_media(media)
