"""Imports of plans: the tasks are written, and checkpoints without needs ask at once."""

from datetime import datetime

from django.utils import timezone

from ledger import sql
from ledger.journal import SYSTEM, Actor
from ledger.models import Project
from ledger.planfile import PlanFile
from ledger.plans import import_writer
from ledger.plans.import_diff import DEFAULT_OPTIONS, ImportOptions, ImportResult
from retries import checkpoints


@sql.atomic
def import_plan(
    project: Project,
    planfile: PlanFile,
    *,
    options: ImportOptions = DEFAULT_OPTIONS,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> ImportResult:
    """Import a plan with `ledger.plans.import_writer`, and open its checkpoints' questions."""
    now = now or timezone.now()
    done = import_writer.import_plan(
        project, planfile, options=options, actor=actor, now=now, request_id=request_id
    )
    if not options.dry_run and not done.unchanged:
        new = {*done.diff.added, *done.diff.changed}
        asking = [
            row for row in done.tasks if row["ref"] in new and checkpoints.waits_for_answer(row)
        ]
        checkpoints.ask(asking, actor=actor, now=now, request_id=request_id)
    return done
