"""A conversation as people read it: turns, folded calls, records, cuts and folds (pure)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard.sessions.conversation import lay_out
from dashboard.sessions.conversation_items import BatchLine, Cut, Fold, Item, Noise, Said, Turn
from dashboard.sessions.tool_lines import describe_argument, describe_result, icon_of
from ledger.sessions.message_parts import Call, Media, Part, Result, Text
from tests.dashboard.sessions.conversations import TOTALS, Line, bash

START = datetime(2026, 11, 22, 13, 12, tzinfo=UTC)


def read(lines: list[Line], **more: int) -> list[Said]:
    """Return the messages; `batch=8` puts the first eight into batch 1."""
    in_batch, pending = more.get("batch", 0), more.get("pending", 0)
    return [
        Said(
            number,
            role,
            tuple(parts),
            "pending" if number > len(lines) - pending else "success",
            START + timedelta(seconds=number),
            batch=1 if number <= in_batch else None,
        )
        for number, (role, parts) in enumerate(lines, 1)
    ]


def items_of(lines: list[Line], **more: int) -> list[Item]:
    return lay_out(read(lines, **more), {1: BatchLine(1, "success", "8 messages")})


def test_a_conversation_is_read_as_prompts_answers_and_folded_calls() -> None:
    items = items_of(TOTALS, batch=8, pending=2)
    kinds = [item.kind for item in items]
    assert kinds == ["prompt", "noise", "agent", "cut", "agent", "agent", "prompt", "agent"]
    prompt, noise, first, cut, second, third, last_prompt, last = items
    assert isinstance(noise, Noise) and isinstance(cut, Cut) and cut.batch.says == "8 messages"
    assert noise.title == "2 system records hidden"
    assert noise.summary == "skill listing, system reminder"
    assert isinstance(first, Turn) and isinstance(second, Turn) and isinstance(third, Turn)
    assert [block.is_thought for block in first.blocks] == [True, False]
    # a call and its result are one line, with both numbers
    assert [(line.number, line.result_number, line.result) for line in first.lines] == [
        (5, 6, "to-do 1"),
        (7, 8, "to-do 2"),
    ]
    read_line, run = second.lines
    assert (read_line.icon, read_line.argument, read_line.result) == (
        "tool-read",
        "src/ledger/totals.py",
        "214 lines",
    )
    assert run.result == "3 failed, 41 passed · 6.0 s" and run.is_error
    # only the first error is open
    assert run.is_open and not any(line.is_open for line in third.lines)
    assert [line.result for line in third.lines] == [
        "+2 −1",
        "exit 2 · ls: No such file or directory",
        "212 passed · 31.1 s",
    ]
    assert isinstance(last_prompt, Turn) and isinstance(last, Turn) and isinstance(prompt, Turn)
    assert (prompt.state, last_prompt.state, last.state) == ("success", "pending", "pending")
    assert last.lines[0].result == "no result yet"


def test_long_runs_and_boxes_fold_and_prompts_and_the_buffer_never_do() -> None:
    lines: list[Line] = [("user", [Text("Go on")])]
    for n in range(40):
        lines.append(("assistant", [Text(f"Step {n}")]))
        lines += bash(f"c{n}", "make", "boom" if n == 20 else "ok", is_error=n == 20)
    items = items_of(lines)
    folds = [item for item in items if isinstance(item, Fold)]
    assert len(folds) == 1 and folds[0].title == "32 turns folded"
    assert folds[0].summary == "#14 to #109: 32 calls, 1 error"
    assert [item.kind for item in items].count("agent") == 8
    assert not any(isinstance(item, Fold) for item in items_of(lines, pending=len(lines)))
    many = [line for n in range(30) for line in bash(f"d{n}", "ls", "ok", is_error=n == 9)]
    turn = items_of([("assistant", [Text("Look")]), *many])[0]
    assert isinstance(turn, Turn)
    assert [(len(box.lines), box.folded) for box in turn.boxes] == [
        (5, ""),
        (20, "20 Bash, 1 error"),
        (5, ""),
    ]


def test_nothing_in_a_message_breaks_the_layout() -> None:
    """Results without calls, calls without results, empty parts, media, unknown tools."""
    odd: list[Line] = [
        ("tool", [Result("lost", "of another page", True)]),
        ("user", [Media("image", "shot.png")]),
        ("user", []),
        ("assistant", [Text("  "), Call("x", "mcp__tenfour__claim_task", {})]),
        ("assistant", [Call("y", "Odd", {"deep": {"er": [1, None]}})]),
        ("assistant", [Call("z", "TodoWrite", {"todos": [{"status": "completed"}, "x"]})]),
        ("user", [Result("y", "")]),
    ]
    items = items_of(odd)
    turns = [item for item in items if isinstance(item, Turn)]
    assert turns[0].lines[0].name == "Result" and turns[0].lines[0].is_error
    assert turns[1].media == ("image shot.png",)
    lines = turns[-1].lines
    assert [line.icon for line in lines] == ["plug", "play", "n-tasks"]
    assert [line.argument for line in lines] == [
        "",
        '{"deep": {"er": [1, null]}}',
        "2 to-dos, 1 done",
    ]
    assert lines[1].result == "no output"
    assert lay_out([], {}) == []


def test_real_calls_of_both_agents_are_named_in_a_line() -> None:
    """Of the transcripts that the agents themselves wrote."""
    folder = Path(__file__).parents[2] / "agents" / "transcripts"
    said = []
    for path in sorted(folder.glob("*.jsonl")) if folder.exists() else []:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record.get("type") == "assistant":
                for part in record["message"]["content"]:
                    if part["type"] == "tool_use":
                        said.append(describe_argument(part["input"]))
            payload = record.get("payload", {})
            if payload.get("type") == "function_call":
                said.append(describe_argument(json.loads(payload["arguments"])))
    assert all(said)
    output = "Chunk ID: a\nWall time: 0.0 s\nProcess exited with code 0\nOutput:\nok\n"
    assert describe_result({}, output, is_error=False) == "ok"
    failed = output.replace("code 0", "code 2").replace("ok", "no such file")
    assert "exit 2" in describe_result({}, failed, is_error=True)
    assert icon_of("exec_command") == icon_of("Bash") == "f-exec"


def test_parts_stay_as_they_are() -> None:
    parts: list[Part] = [Text("a" * 9_000)]
    turn = lay_out(read([("user", parts)]), {})[0]
    assert isinstance(turn, Turn)
    assert len(turn.blocks[0].text) == 4_000 and turn.blocks[0].length == 9_000
