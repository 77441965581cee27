"""Start and end experiments on the retry context, and count how their attempts ended."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid, InvalidTransition
from ledger.journal import Kind, Stamp
from ledger.models import Project
from ledger.secrets.notes import clean_note
from retries.insight.intervals import Difference, count_needed, newcombe_difference
from retries.models import ContextExperiment
from retries.models.experiment import DEFAULT_SHARE, LEAST_SHARE, MOST_SHARE
from retries.states import ContextElement

REASON_LENGTH = 500
# the attempts that each side needs before its figures are shown
LEAST_ATTEMPTS = 50
# after this time, the last attempt of an ended experiment is over, too
LONG_OVER = timedelta(days=7)
# the differences, in points, that are compared before a start
POINTS = (20, 10, 5)


def start_experiment(
    project: Project, element: str, *, share: int = DEFAULT_SHARE, reason: str, stamp: Stamp
) -> ContextExperiment:
    """Start to leave an element out for `share` percent of the project's tasks."""
    reason = check_reason(reason)
    check_share(share)
    if element not in ContextElement.values:
        known = ", ".join(ContextElement.values)
        raise Invalid("/element", f"There is no element '{element}'. Choose one of: {known}.")
    try:
        with transaction.atomic():
            experiment = ContextExperiment.objects.create(
                project=project,
                element=element,
                share=share,
                started_at=stamp.at,
                started_by_name=stamp.actor.name,
                start_reason=reason,
            )
            record(Kind.PROJECT_EXPERIMENT_STARTED, experiment, reason, stamp)
    except IntegrityError as error:
        raise InvalidTransition(
            f"An experiment is running in {project.name} already. End it first."
        ) from error
    return experiment


@sql.atomic
def end_experiment(id: UUID, *, reason: str, stamp: Stamp) -> ContextExperiment:
    reason = check_reason(reason)
    experiment = ContextExperiment.objects.select_for_update().get(pk=id)
    if experiment.ended_at:
        raise InvalidTransition("This experiment has ended already. Reload the page.")
    experiment.ended_at, experiment.ended_by_name = stamp.at, stamp.actor.name
    experiment.end_reason = reason
    experiment.save(update_fields=["ended_at", "ended_by_name", "end_reason"])
    record(Kind.PROJECT_EXPERIMENT_ENDED, experiment, reason, stamp)
    return experiment


def check_share(share: int) -> None:
    if not LEAST_SHARE <= share <= MOST_SHARE:
        raise Invalid(
            "/share", f"The share is a whole percentage from {LEAST_SHARE} to {MOST_SHARE}."
        )


def list_needed(share: int) -> dict[int, int]:
    """Return the attempts that each difference in points takes if `share` percent do without."""
    # There are at least so many that both sides are shown.
    least = -(-LEAST_ATTEMPTS * 100 // share)
    return {points: max(least, count_needed(points / 100, share / 100)) for points in POINTS}


def check_reason(reason: str) -> str:
    text = clean_note(reason, limit=REASON_LENGTH)
    if not text or len(reason.strip()) > REASON_LENGTH:
        raise Invalid("/reason", f"Give a reason of 1 to {REASON_LENGTH} characters.")
    return text


def record(kind: Kind, experiment: ContextExperiment, reason: str, stamp: Stamp) -> None:
    journal.record(
        kind,
        subject_type="project",
        subject_id=experiment.project_id,
        project_id=experiment.project_id,
        stamp=stamp,
        data={
            "experiment": str(experiment.pk),
            "element": str(experiment.element),
            "share": experiment.share,
            "reason": reason,
        },
    )


# Only the first attempt of each task counts: the later ones depend on how it ended. Released and
# aborted attempts say nothing about their contexts.
COUNT = """with firsts as (
    select distinct on (a.task_id) a.context_variant, a.outcome
    from ledger_attempt a join ledger_task t on t.id = a.task_id
    where t.project_id = %(project)s and a.context_variant like 'with%%'
        and a.context_variant = any(%(variants)s) and a.started_at >= %(since)s
        and (%(until)s::timestamptz is null or a.started_at < %(until)s)
        and a.outcome not in ('released', 'aborted')
    order by a.task_id, a.number
)
select context_variant, count(*) as attempts,
    count(*) filter (where outcome = 'success') as successes
from firsts group by context_variant"""


def count_experiments(project: Project, *, now: datetime) -> int:
    """Count the attempts of the project's experiments; return how many experiments there are."""
    experiments = list(ContextExperiment.objects.filter(project=project))
    for each in experiments:
        if each.ended_at and each.counted_at and each.counted_at - each.ended_at > LONG_OVER:
            continue
        variants = {f"{side}:{each.element}": side for side in ("with", "without")}
        counts: dict[str, Any] = {"counted_at": now}
        for row in sql.run(
            COUNT,
            project=project.pk,
            variants=list(variants),
            since=each.started_at,
            until=each.ended_at,
        ):
            side = variants[row["context_variant"]]
            counts[f"{side}_attempts"] = row["attempts"]
            counts[f"{side}_successes"] = row["successes"]
        ContextExperiment.objects.filter(pk=each.pk).update(**counts)
    return len(experiments)


def is_shown(experiment: ContextExperiment) -> bool:
    return min(experiment.with_attempts, experiment.without_attempts) >= LEAST_ATTEMPTS


def measure_difference(experiment: ContextExperiment) -> Difference | None:
    """Return the success without the element minus that with it; None with too few attempts."""
    if not is_shown(experiment):
        return None
    return newcombe_difference(
        experiment.without_successes,
        experiment.without_attempts,
        experiment.with_successes,
        experiment.with_attempts,
    )
