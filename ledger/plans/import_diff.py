"""Compare a plan file with the stored plan: the options of an import, its diff, and its result."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from ledger.database.sql import Row
from ledger.errors import Refusal
from ledger.models import Plan
from ledger.moves import CHECKPOINT
from ledger.planfile import FileLine, PlanFile, PlanTask
from ledger.plans.alignment import Match
from ledger.secrets.redaction import redacted
from ledger.states import FINAL, BlockedReason, TaskState

CREATE, MERGE, REPLACE = "create", "merge", "replace"
MODES = (CREATE, MERGE, REPLACE)


class PlanChanged(Refusal):
    """The plan exists with different content"""

    code = "plan_changed"
    hint = "Import it with mode 'merge' or 'replace'. A dry run shows what would change."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import; `warnings` come from reading the file.

    `pairs` names which task of the file is which stored one: see `ledger.plans.identity`. With
    `only_proven` only tasks that are proven, or that a person accepted, tick boxes. Without
    `changes_budgets` the file sets only budgets that are not there yet.
    """

    mode: str = CREATE
    dry_run: bool = False
    only_proven: bool = False
    register: bool = False
    allow_missing_needs: bool = False
    changes_budgets: bool = False
    warnings: Sequence[str] = ()
    pairs: Mapping[str, str] = field(default_factory=dict)


DEFAULT_OPTIONS = ImportOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The effect of an import on each task, by ref; `changed` lists the fields that differ."""

    added: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    same: list[str] = field(default_factory=list)
    # The file differs, but the task has started or is over.
    untouched: list[str] = field(default_factory=list)
    # Not in the file, and kept.
    left: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    @property
    def effects(self) -> dict[str, str]:
        return {ref: name for name, refs in asdict(self).items() for ref in refs}

    def __str__(self) -> str:
        counts = {name: len(refs) for name, refs in asdict(self).items() if refs}
        return ", ".join(f"{count} {name}" for name, count in counts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The plan and its current tasks (rows of `list_tasks`) after an import, and the diff.

    After a dry run they show what the import would do; the database is unchanged.
    """

    plan: Plan
    # The file with the refs of the stored plan.
    file: PlanFile
    tasks: list[Row]
    diff: Diff
    warnings: list[str] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    # Ids of waiting tasks that the file marks as done.
    ticked: list[UUID] = field(default_factory=list)
    unchanged: bool = False
    # The file names another budget for the plan than its version before.
    has_new_budget: bool = False
    # What became of the file's lines; `ticks` are those whose boxes the ledger knows to be done.
    lines: Sequence[FileLine] = ()
    ticks: Collection[int] = ()


def compare(
    file: PlanFile, *, source: Mapping[str, Any], rows: Mapping[str, Row], mode: str
) -> Diff:
    """Return what importing `file` changes; `source` and `rows` are the stored plan and tasks."""
    before = {task["ref"]: task for task in source["tasks"]}
    first = {task.ref for task in file.first_tasks}
    # A plan's own needs apply to its first tasks, so these changed if the set or the needs did.
    moved = first_refs(source) ^ first
    if list(source["needs"]) != list(file.needs):
        moved |= first
    diff = Diff()
    for task in file.tasks:
        row = rows.get(task.ref)
        if row is None:
            diff.added.append(task.ref)
            continue
        fields = changed_fields(before.get(task.ref, {}), redacted(to_json(task)))
        if task.ref in moved and "needs" not in fields:
            fields.append("needs")
        if not fields:
            diff.same.append(task.ref)
        elif can_change(row):
            diff.changed[task.ref] = fields
        else:
            diff.untouched.append(task.ref)
    in_file = {task.ref for task in (*file.tasks, *file.done)}
    for ref, row in rows.items():
        if ref not in in_file:
            aborts = mode == REPLACE and can_abort(row)
            (diff.aborted if aborts else diff.left).append(ref)
    return diff


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    # A file can take a time back by leaving it out; its other keys are always written.
    return [name for name in {**new, "not_before": None} if old.get(name) != new.get(name)]


def first_refs(source: Mapping[str, Any]) -> set[str]:
    own = {task["ref"] for task in source["tasks"]}
    return {task["ref"] for task in source["tasks"] if own.isdisjoint(task["needs"])}


def can_change(row: Row) -> bool:
    # An import may change a task only before its first attempt.
    waits = row["state"] == TaskState.QUEUED or (
        row["state"] == TaskState.BLOCKED and row["blocked_reason"] != BlockedReason.REPORTED
    )
    return waits and not row["attempts"]


def becomes_checkpoint(row: Row, task: PlanTask) -> bool:
    return task.type.startswith(CHECKPOINT) and not row["type"].startswith(CHECKPOINT)


def can_abort(row: Row) -> bool:
    # An import may not abort a task while it runs or a person is asked about it.
    asked = row["state"] == TaskState.ESCALATED or row["blocked_reason"] == BlockedReason.REPORTED
    return row["state"] not in (TaskState.RUNNING, *FINAL) and not asked


def to_json(value: PlanFile | PlanTask) -> dict[str, Any]:
    return {name: to_lists(each) for name, each in value.source.items()}


def source_of(file: PlanFile) -> dict[str, Any]:
    source = to_json(file)
    for task, stored in zip(file.tasks, source["tasks"], strict=True):
        if number := task.origin.number:
            stored["id" if task.origin.is_id else "number"] = number
    return source


def to_lists(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [to_lists(each) for each in value]
    if isinstance(value, dict):
        return {name: to_lists(each) for name, each in value.items()}
    return value


def keep_untouched(source: dict[str, Any], *, before: Mapping[str, Any], diff: Diff) -> None:
    """Write the stored content of the untouched tasks into a plan's new source."""
    # The next import sees the difference, and recognizes the tasks by the titles in the file.
    untouched = {task["ref"]: task for task in before["tasks"] if task["ref"] in diff.untouched}
    source["tasks"] = [
        task | untouched[task["ref"]] | {"file_title": task["title"]}
        if task["ref"] in untouched
        else task
        for task in source["tasks"]
    ]
