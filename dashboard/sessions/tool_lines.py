"""Describe a tool call in one line: its icon, its argument and its result (pure)."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 160
ICONS = {
    "f-exec": ("bash", "exec_command", "shell", "local_shell", "run_command", "write_stdin"),
    "tool-read": ("read", "read_file", "notebookread", "view", "cat"),
    "search": ("grep", "glob", "search", "ls", "list_dir", "grep_files", "find", "toolsearch"),
    "pen": ("edit", "multiedit", "write", "notebookedit", "apply_patch", "write_file"),
    "n-tasks": (
        "taskcreate",
        "taskupdate",
        "taskget",
        "tasklist",
        "todowrite",
        "update_plan",
        "create_goal",
        "update_goal",
        "get_goal",
    ),
    "n-agents": ("task", "agent", "spawn_agent"),
    "link": ("webfetch", "websearch", "web_search", "fetch"),
}
ICON_OF = {name: icon for icon, names in ICONS.items() for name in names}
# the most telling arguments of a call; the first that it has is shown
TELLING = (
    "command",
    "cmd",
    "file_path",
    "path",
    "notebook_path",
    "pattern",
    "subject",
    "objective",
    "query",
    "url",
    "description",
    "prompt",
    "explanation",
)
TODO_TOOLS = ICONS["n-tasks"]

EXITED = re.compile(r"(?:Exit code|[Pp]rocess exited with code|exit(?:ed with)? status) (\d{1,3})")
TESTED = re.compile(
    r"(?m)^=* ?((?:\d+ (?:failed|passed|skipped|errors?|warnings?|xfailed|xpassed|deselected)"
    r"(?:, )?)+) in ([0-9.]+)s"
)
CREATED = re.compile(r"Task #(\d{1,6}) created successfully")
WRAPPED = re.compile(r"(?s)^Chunk ID: .*?\nOutput:\n")


def icon_of(name: str) -> str:
    """Return the symbol of a tool.

    >>> icon_of("Bash"), icon_of("TodoWrite"), icon_of("mcp__tenfour__claim_task")
    ('f-exec', 'n-tasks', 'plug')
    """
    lower = name.lower()
    if lower in ICON_OF:
        return ICON_OF[lower]
    return "plug" if lower.startswith("mcp_") else "play"


def describe_argument(arguments: Mapping[str, Any]) -> str:
    """Return the most telling argument of a call, in one line.

    >>> describe_argument({"command": "make test", "timeout": 5})
    'make test'
    >>> describe_argument({"taskId": "2", "status": "completed"})
    '2 → completed'
    >>> describe_argument({"todos": [{"status": "completed"}, {}]})
    '2 to-dos, 1 done'
    """
    todos = arguments.get("todos", arguments.get("plan"))
    if isinstance(todos, Sequence) and not isinstance(todos, str):
        return describe_todos(todos)
    if "taskId" in arguments:
        status = str(arguments.get("status", ""))
        return one_line(f"{arguments['taskId']} → {status}" if status else arguments["taskId"])
    for key in TELLING:
        if arguments.get(key):
            return one_line(joined(arguments[key]))
    for value in arguments.values():
        if isinstance(value, str) and value.strip():
            return one_line(value)
    return one_line(json.dumps(arguments, ensure_ascii=False)) if arguments else ""


def joined(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def describe_todos(todos: Sequence[Any]) -> str:
    done = sum(isinstance(each, dict) and each.get("status") == "completed" for each in todos)
    count = f"{len(todos)} to-do{'' if len(todos) == 1 else 's'}"
    return f"{count}, {done} done" if done else count


def describe_result(
    arguments: Mapping[str, Any], text: str, *, is_error: bool, length: int | None = None
) -> str:
    """Return a short text about a call's result; `length` is the length of the uncut text.

    >>> describe_result({}, "Exit code 2\\nls: no such file", is_error=True)
    'exit 2 · ls: no such file'
    >>> describe_result({}, "..\\n== 3 failed, 41 passed in 6.02s ==", is_error=False)
    '3 failed, 41 passed · 6.0 s'
    >>> describe_result({"old_string": "a", "new_string": "a\\nb"}, "ok", is_error=False)
    '+2 −1'
    """
    if not is_error and (created := CREATED.match(text)):
        return f"to-do {created[1]}"
    text = WRAPPED.sub("", text) if not is_error else text
    parts = []
    if is_error and (exited := EXITED.search(text[:400])):
        parts.append(f"exit {exited[1]}")
    if tested := find_last(TESTED, text):
        parts += [tested[1].rstrip(", "), f"{float(tested[2]):.1f} s"]
    elif is_error:
        parts.append(first_line(text))
    elif changed := describe_change(arguments):
        parts.append(changed)
    else:
        parts.append(describe_output(text, length))
    return one_line(" · ".join(filter(None, parts))) or ("failed" if is_error else "no output")


def find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    # Test runners write their summary near the end.
    found = None
    for match in pattern.finditer(text[-2_000:]):
        found = match
    return found if found and re.fullmatch(r"\d+(\.\d+)?", found[2]) else None


def describe_change(arguments: Mapping[str, Any]) -> str:
    """Return how many lines an edit adds and removes, or nothing if the call is no edit."""
    edits = arguments.get("edits")
    pairs = edits if isinstance(edits, list) else [arguments]
    added = removed = 0
    for each in pairs:
        if not isinstance(each, Mapping) or not isinstance(each.get("new_string"), str):
            return ""
        added += count_lines(each["new_string"])
        removed += count_lines(str(each.get("old_string", "")))
    return f"+{added} −{removed}" if added or removed else ""


def describe_output(text: str, length: int | None) -> str:
    if length is not None and length > len(text):
        return f"{length:,} characters"
    lines = count_lines(text.strip())
    return text.strip() if lines <= 1 else f"{lines:,} lines"


def count_lines(text: str) -> int:
    return len(text.splitlines())


def first_line(text: str) -> str:
    for line in text.splitlines():
        rest = EXITED.sub("", line).strip()
        if rest:
            return rest
    return ""


def one_line(text: object) -> str:
    """Return a text without line breaks, cut to LONGEST characters."""
    line = " ".join(str(text)[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
