"""Give the tasks of a changed plan file the refs of the stored tasks that they are (pure)."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ledger.planfile import PlanFile, PlanTask
from ledger.planfile.model import TASK_REF, complete_task_ref
from ledger.plans.identity import FileTask, Matching, StoredTask, match_tasks
from ledger.plans.similarity import normalize
from ledger.secrets.redaction import redacted, titled

if TYPE_CHECKING:
    from ledger.database.sql import Row  # needs Django's settings, which the benchmark does without


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A task of the file that is a stored one, and why."""

    ref: str
    file_ref: str
    title: str
    stored_title: str
    reason: str
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class Alignment:
    """The file with the refs of the stored plan, and the pairs that a reader should see."""

    file: PlanFile
    matches: list[Match]
    refs: dict[str, str]


def align(
    file: PlanFile,
    *,
    rows: "Mapping[str, Row]",
    source: Mapping[str, Any],
    started: Collection[str],
    pairs: Mapping[str, str],
) -> Alignment:
    """Return the file with the ref of its stored task for each task, and free ones for new tasks.

    `rows` are the stored tasks by ref, `source` the plan's file at its last import.
    """
    tasks = sorted((*file.tasks, *file.done), key=lambda task: task.origin.place)
    known = {task["ref"]: (n, task) for n, task in enumerate(source["tasks"])}
    stored = [
        stored_task(row, *known.get(row["ref"], (-1, {})), is_started=row["ref"] in started)
        for row in rows.values()
    ]
    named = {
        complete_ref(one, file.ref): complete_ref(other, file.ref) for one, other in pairs.items()
    }
    matching = match_tasks([file_task(task) for task in tasks], stored, named=named)
    refs = give_refs(matching, tasks, file.ref)
    matches = [
        Match(
            ref=ref,
            file_ref=matching.file[n].ref,
            title=matching.file[n].title,
            stored_title=matching.stored[ref].title,
            reason=matching.reasons[n],
            is_guess=n in matching.guesses,
        )
        for n, ref in sorted(matching.pairs.items())
        if n in matching.guesses or ref != matching.file[n].ref
    ]
    return Alignment(rename(file, refs), matches, refs)


def complete_ref(text: str, plan: str) -> str:
    """Return the full ref for `2`, `task-2`, or `03-01:task-2`; "new" stays."""
    short = complete_task_ref(text.strip(), plan)
    return f"{plan}:{short}" if TASK_REF.fullmatch(short) else text.strip()


def file_task(task: PlanTask) -> FileTask:
    title = titled(redacted(title_of(task.title, task.payload)))
    origin = task.origin
    # An id in our own form is a ref of this plan; another tool's is a number.
    is_ref = origin.is_id and TASK_REF.fullmatch(origin.number)
    return FileTask(
        ref=task.ref,
        title=title,
        text=normalize(title),
        detail=str(task.payload.get("action", "")),
        number=task.ref if is_ref else origin.number,
        is_id=origin.is_id,
        is_done=origin.is_done,
    )


def stored_task(
    row: "Row", place: int, source: Mapping[str, Any], *, is_started: bool
) -> StoredTask:
    payload = row["payload"] if isinstance(row["payload"], dict) else {}
    titles = [title_of(row["title"], payload)]
    if source:  # a person may have renamed the task here, or in the file once it had started
        known = (source["title"], source.get("file_title") or source["title"])
        titles += [titled(title_of(title, source["payload"])) for title in dict.fromkeys(known)]
    return StoredTask(
        ref=row["ref"],
        title=titles[-1],
        texts=tuple(dict.fromkeys(normalize(title) for title in titles)),
        detail=str((source.get("payload") or payload).get("action", "")),
        number=str(
            source.get("id")
            or source.get("number")
            or payload.get("id")
            or row["ref"].rpartition("-")[2]
        ),
        is_id="id" in source,
        state=row["state"],
        is_started=is_started,
        place=place,
    )


def title_of(title: str, payload: Mapping[str, Any]) -> str:
    text = title or payload.get("question") or payload.get("action") or ""
    return next(iter(str(text).strip().splitlines()), "")


def give_refs(matching: Matching, tasks: Sequence[PlanTask], plan: str) -> dict[str, str]:
    # A new task keeps the file's ref if it is free.
    own = {task.ref for n, task in enumerate(tasks) if n not in matching.pairs}
    used = {*matching.stored}
    free = itertools.count(max((int(ref.rpartition("-")[2]) for ref in used), default=0) + 1)
    refs = {}
    for n, task in enumerate(tasks):
        ref = matching.pairs.get(n) or task.ref
        if n not in matching.pairs and ref in used:
            numbered = (f"{plan}:task-{number}" for number in free)
            ref = next(each for each in numbered if each not in used | own)
        used.add(ref)
        refs[task.ref] = ref
    return refs


def rename(file: PlanFile, refs: Mapping[str, str]) -> PlanFile:
    if all(ref == other for ref, other in refs.items()):
        return file

    short = {one.rpartition(":")[2]: other.rpartition(":")[2] for one, other in refs.items()}

    def renamed(task: PlanTask) -> PlanTask:
        payload = task.payload
        parent = payload.get("parent")
        if isinstance(parent, str) and parent in short:
            payload = payload | {"parent": short[parent]}
        needs = tuple(refs.get(need, need) for need in task.needs)
        return replace(task, ref=refs[task.ref], needs=needs, payload=payload)

    return replace(
        file,
        tasks=tuple(map(renamed, file.tasks)),
        done=tuple(map(renamed, file.done)),
        lines=tuple(replace(line, ref=refs.get(line.ref, line.ref)) for line in file.lines),
    )
