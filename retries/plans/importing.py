"""Imports of plans: the tasks are written, and checkpoints without needs ask at once."""

from ledger import sql
from ledger.journal import Stamp
from ledger.models import Project
from ledger.planfile import PlanFile
from ledger.plans import import_writer
from ledger.plans.import_diff import DEFAULT_OPTIONS, ImportOptions, ImportResult
from retries import checkpoints


@sql.atomic
def import_plan(
    project: Project, planfile: PlanFile, *, options: ImportOptions = DEFAULT_OPTIONS, stamp: Stamp
) -> ImportResult:
    """Import a plan with `ledger.plans.import_writer`, and open its checkpoints' questions."""
    done = import_writer.import_plan(project, planfile, options=options, stamp=stamp)
    if not options.dry_run and not done.unchanged:
        new = {*done.diff.added, *done.diff.changed}
        asking = [
            row for row in done.tasks if row["ref"] in new and checkpoints.waits_for_answer(row)
        ]
        checkpoints.open_questions(asking, stamp=stamp)
    return done
