"""Render `state.md` (pure): the skipped tasks, and the dependents that this may affect."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from retries.tasks.labels import format_timestamp, quote

EXHAUSTED = "max_retries_exceeded"
# the reason if the escalation expired and its `on_expiry` skipped the task
NO_ANSWER = "no_answer_in_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedTask:
    """A skipped task, with the reason of its escalation if it had one."""

    task_id: str
    name: str
    at: datetime
    escalation_reason: str | None = None
    failures: int = 0
    dependents: Sequence[str] = ()

    @property
    def reason(self) -> str:
        if self.escalation_reason is None:
            return "User request"
        exhausted = self.escalation_reason == EXHAUSTED
        why = "automated recovery failed" if exhausted else self.escalation_reason
        return f"User escalation - {why.replace('_', ' ')}"


def render_document(skipped: Sequence[SkippedTask]) -> Iterator[str]:
    yield f"# State\n\n```yaml\n{render_record(skipped)}```\n"
    for each in skipped:
        yield f"\n```\n{render_entry(each)}```\n"
        if each.dependents:
            verb = "depends" if len(each.dependents) == 1 else "depend"
            yield (
                f"\n**Warning:** {', '.join(each.dependents)} {verb} on {each.task_id} "
                "and may fail without it.\n"
            )


def render_record(skipped: Sequence[SkippedTask]) -> str:
    if not skipped:
        return "skipped_tasks: []\n"
    return "skipped_tasks:\n" + "".join(
        f"  - task: {quote(each.task_id)}\n"
        f"    reason: {quote(each.reason)}\n"
        f"    timestamp: {quote(format_timestamp(each.at))}\n"
        for each in skipped
    )


def render_entry(skipped: SkippedTask) -> str:
    lines = [f"[SKIPPED] {skipped.name}", f"  Reason: {describe_reason(skipped)}"]
    if skipped.dependents:
        lines.append("  Impact: Dependent tasks may fail")
    return "\n".join(lines) + "\n"


def describe_reason(skipped: SkippedTask) -> str:
    cause = "User request" if skipped.escalation_reason is None else "User escalation"
    if not skipped.failures:
        return cause
    return f"{cause} after {skipped.failures} failed attempt{'' if skipped.failures == 1 else 's'}"
