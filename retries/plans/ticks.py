"""Say which boxes of a plan's file the ledger knows to be done."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from ledger.database.sql import Row
from ledger.models import Task
from ledger.planfile import FileLine
from ledger.planfile.model import Became
from ledger.planfile.outline.lines import read_item
from ledger.plans.similarity import normalize
from ledger.secrets.redaction import redacted
from ledger.states import Proof, TaskState


@dataclass(frozen=True, slots=True)
class Ticks:
    """The lines to tick, and what the author of the file should know about others."""

    lines: set[int] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def find_ticks(lines: Iterable[FileLine], rows: Iterable[Row], *, only_proven: bool) -> Ticks:
    """Return the open boxes of done tasks, and of the steps that they had when they ran."""
    # A step that was added to the file since then was not a part of the work, so it stays open.
    done = {row["ref"]: row for row in rows if row["state"] == TaskState.DONE}
    if only_proven:
        proven = find_proven(row["id"] for row in done.values())
        done = {ref: row for ref, row in done.items() if row["id"] in proven}
    steps = {ref: read_steps(row) for ref, row in done.items()}
    ticks = Ticks()
    for each in lines:
        if each.ref not in done:
            continue
        is_new = each.became == Became.STEP and not take_step(each.text, steps[each.ref])
        if each.box is None:
            continue
        if is_new:
            ticks.warnings.append(
                f"Line {each.line}: {each.ref} is done, but this step was added after it started."
            )
        else:
            ticks.lines.add(each.line)
    return ticks


def find_proven(task_ids: Iterable[UUID]) -> set[UUID]:
    # A task is proven if its check passed on the final files, or if a person accepted it.
    rows = Task.objects.filter(id__in=list(task_ids), proof__in=(Proof.PROVEN, Proof.PERSON))
    return set(rows.values_list("id", flat=True))


def read_steps(row: Row) -> Counter[str]:
    # The agent got its steps in the payload's action.
    payload = row["payload"] if isinstance(row["payload"], dict) else {}
    items = map(read_item, str(payload.get("action", "")).splitlines())
    return Counter(normalize(item.text) for item in items if item)


def take_step(text: str, steps: Counter[str]) -> bool:
    # Each step that the agent got accounts for one step of the file.
    words = normalize(redacted(text))
    steps[words] -= 1
    return steps[words] >= 0
