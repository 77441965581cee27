"""Imports of plans: write the tasks, ask checkpoints, and compare the file's boxes with them."""

from dataclasses import replace

from ledger.database import sql
from ledger.journal import Stamp
from ledger.models import Project
from ledger.planfile import PlanFile
from ledger.plans import editing, import_writer
from ledger.plans.import_diff import DEFAULT_OPTIONS, ImportOptions, ImportResult
from ledger.tasks import steps
from retries.plans import ticks
from retries.tasks import actions as task_actions
from retries.tasks import checkpoints

TICKED = "The plan's file marks it as done."


@sql.atomic
def import_plan(
    project: Project, planfile: PlanFile, *, options: ImportOptions = DEFAULT_OPTIONS, stamp: Stamp
) -> ImportResult:
    """Import a plan with `ledger.plans.import_writer`, and do what follows from it."""
    # Checkpoints without needs ask at once. A waiting task that the file marks as done is done: no
    # agent does it again, and nothing claims that an attempt has proven it.
    done = import_writer.import_plan(project, planfile, options=options, stamp=stamp)
    for step in () if done.unchanged else steps.AFTER_IMPORT:
        done = replace(done, warnings=[*done.warnings, *step(done, options, stamp)])
    if not options.dry_run and not done.unchanged:
        new = {*done.diff.added, *done.diff.changed}
        asking = [
            row for row in done.tasks if row["ref"] in new and checkpoints.waits_for_answer(row)
        ]
        checkpoints.open_questions(asking, stamp=stamp)
        if done.ticked:
            task_actions.complete_ticked(done.ticked, note=TICKED, stamp=stamp)
            done = replace(done, tasks=editing.list_tasks(done.plan))
    found = ticks.find_ticks(done.lines, done.tasks, only_proven=options.only_proven)
    agrees = not found.lines and not found.warnings
    if done.lines and agrees and not options.dry_run:
        editing.note_agreement(done.plan, now=stamp.at)
    return replace(done, ticks=found.lines, warnings=[*done.warnings, *found.warnings])
