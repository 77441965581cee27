"""Describe rules in words (pure); code is between backticks, for the filter `ticked`."""

import json
from collections.abc import Mapping
from typing import Any

from dashboard.wording.formatting import counted, duration
from ledger.models import StandingInstruction
from ledger.models.instruction import OnFailed
from ledger.models.standing_instruction import OncePer, Trigger

ONCE_PER = {
    OncePer.TRIGGER: "each time",
    OncePer.SESSION: "once per session",
    OncePer.ATTEMPT: "once per attempt",
    OncePer.DAY: "once per day",
}


def code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text.replace('`', '′')}`"


def describe_match(match: Mapping[str, Any]) -> str:
    """Return the conditions of a match, beginning with the path.

    >>> describe_match({"tool": "Edit", "path": {"glob": "src/**"}})
    ' in `src/**`, `tool` `Edit`'
    """
    path = match.get("path")
    first = f" in {code(path['glob'])}" if isinstance(path, dict) else ""
    if path is not None and not first:
        first = f" of {code(path)}"
    rest = [f"{code(name)} {code(value)}" for name, value in match.items() if name != "path"]
    return first + "".join(f", {part}" for part in rest)


def describe_when(row: StandingInstruction) -> str:
    """Return when a rule sends its instruction: `after fs_write in src/**`."""
    match row.event:
        case Trigger.EVERY:
            return f"every {duration(row.interval_s or 0)}"
        case Trigger.TASK_CLAIMED:
            type = f", type {code(row.task_type)}" if row.task_type else ""
            plan = f", plan {code(row.plan.ref)}" if row.plan else ""
            return f"after task claimed{type}{plan}"
        case Trigger.SESSION_START:
            return f"after session start{describe_match(row.match)}"
    return f"after {code(row.signal_type)}{describe_match(row.match)}"


def describe_expect(row: StandingInstruction) -> str:
    """Return what settles a rule's instruction: `fs_command make test`."""
    if not row.expect_type:
        return "an acknowledgment"
    values = " ".join(code(value) for value in (row.expect_match or {}).values())
    return f"{code(row.expect_type)} {values}".strip()


def describe_end(row: StandingInstruction) -> str:
    """Return what follows when the instruction is ignored: `3 reminders, then an escalation`."""
    last = "an escalation" if row.on_failed == OnFailed.ESCALATE else "a record"
    return f"{counted(row.max_retries, 'reminder')}, then {last}"


def describe_rule(row: StandingInstruction, *, project: str) -> str:
    agent = row.agent.name if row.agent else f"every agent in {project}"
    expects = describe_expect(row)
    does = f"has to report {expects}" if row.expect_type else "has to acknowledge it"
    hold = " The agent can’t stop while it is open." if row.hold_stop else ""
    when = describe_when(row)
    return (
        f"{when[:1].upper()}{when[1:]}, {agent} is told this and {does}. "
        f"If ignored: {describe_end(row)}.{hold}"
    )
