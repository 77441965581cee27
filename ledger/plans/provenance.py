"""Store what became of each line of a plan's file: the latest on the plan, each in its event."""

from collections.abc import Collection, Mapping
from typing import Any

from ledger.database.sql import Row
from ledger.models import Plan
from ledger.planfile import PlanFile
from ledger.planfile.model import Became, shorten_title
from ledger.plans.alignment import align, rename
from ledger.plans.identity import PlanAmbiguous
from ledger.plans.import_diff import Diff
from ledger.tasks.spec import read_number


def describe_lines(file: PlanFile, refs: Mapping[str, str]) -> dict[str, Any]:
    """Return what a plan stores of its file's lines, and the refs that the file alone would give.

    `refs` go from those to the stored ones; a file without changes is read with them again.
    """
    return {
        "lines": [
            [each.line, each.became, each.ref, shorten_title(each.text), each.note]
            for each in file.lines
        ],
        "refs": {own: ref for own, ref in refs.items() if own != ref},
    }


def name_lines(file: PlanFile, diff: Diff, *, known: Collection[str] = ()) -> dict[str, Any]:
    """Return what an event stores: ranges of lines that became one thing, and what was dropped.

    A range is its first and last line, what it became, and the number of its task, or null for one
    that is not among the file's open tasks and the `known` ones. A task that has no line has 0.
    """
    stored = {task.ref for task in file.tasks} | {*known}
    ranges: list[list[Any]] = []
    for each in file.lines:
        number = read_number(each.ref) if each.ref in stored else None
        if each.became == Became.TEXT:
            continue
        if ranges and [ranges[-1][1] + 1, *ranges[-1][2:]] == [each.line, each.became, number]:
            ranges[-1][1] = each.line
        else:
            ranges.append([each.line, each.line, each.became, number])
    placed = {each.ref for each in file.lines}
    for became, tasks in ((Became.TASK, file.tasks), (Became.DONE, file.done)):
        refs = [task.ref for task in tasks if task.ref in stored - placed]
        ranges += [[0, 0, became, read_number(ref)] for ref in refs]
    dropped = {
        name: [read_number(ref) for ref in refs]
        for name, refs in (("left", diff.left), ("aborted", diff.aborted))
        if refs
    }
    return {"file": {"lines": ranges} | ({"dropped": dropped} if dropped else {})}


def rename_again(file: PlanFile, plan: Plan, rows: Mapping[str, Row]) -> PlanFile:
    """Return a file that is imported already with the refs that its tasks have here."""
    if "refs" in plan.source:
        own = {task.ref: task.ref for task in (*file.tasks, *file.done)}
        return rename(file, own | plan.source["refs"])
    try:
        return align(file, rows=rows, source=plan.source, started=rows, pairs={}).file
    except PlanAmbiguous:  # settled by the caller's pairs at an import that did not store refs
        return file


def store_lines(plan: Plan, file: PlanFile) -> None:
    # The content is the same, but the lines may have moved.
    lines = describe_lines(file, {})["lines"]
    if plan.source.get("lines") != lines:
        plan.source["lines"] = lines
        Plan.objects.filter(pk=plan.pk).update(source=plan.source)
