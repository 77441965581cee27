"""`state.md` (pure): which tasks people went on without, and what that may cost."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from retries.renderings.labels import moment

EXHAUSTED = "max_retries_exceeded"
# what stands for the reason where the clock answered: its asker had said so
NOBODY = "nobody_answered_in_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A skipped task; `asked` is the reason for which a person was asked about it, if one was."""

    task_id: str
    name: str
    at: datetime
    asked: str | None = None
    failed: int = 0
    dependents: Sequence[str] = ()

    @property
    def reason(self) -> str:
        if self.asked is None:
            return "User request"
        why = "automated recovery failed" if self.asked == EXHAUSTED else self.asked
        return f"User escalation - {why.replace('_', ' ')}"


def document(skipped: Sequence[Skipped]) -> Iterator[str]:
    yield f"# State\n\n```yaml\n{record(skipped)}```\n"
    for each in skipped:
        yield f"\n```\n{entry(each)}```\n"
        if each.dependents:
            many = "depends" if len(each.dependents) == 1 else "depend"
            yield (
                f"\n**Warning:** {', '.join(each.dependents)} {many} on {each.task_id} "
                "and may fail without it.\n"
            )


def record(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return "skipped_tasks: []\n"
    return "skipped_tasks:\n" + "".join(
        f"  - task: {quoted(each.task_id)}\n"
        f"    reason: {quoted(each.reason)}\n"
        f"    timestamp: {quoted(moment(each.at))}\n"
        for each in skipped
    )


def quoted(text: str) -> str:
    """In double quotes, as YAML and JSON both read it."""
    return json.dumps(text, ensure_ascii=False)


def entry(skipped: Skipped) -> str:
    """What the summary's log says of one."""
    lines = [f"[SKIPPED] {skipped.name}", f"  Reason: {after(skipped)}"]
    if skipped.dependents:
        lines.append("  Impact: Dependent tasks may fail")
    return "\n".join(lines) + "\n"


def after(skipped: Skipped) -> str:
    asked = "User request" if skipped.asked is None else "User escalation"
    if not skipped.failed:
        return asked
    return f"{asked} after {skipped.failed} failed attempt{'' if skipped.failed == 1 else 's'}"
