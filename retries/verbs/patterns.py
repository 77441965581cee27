"""The verbs of failure patterns: resolve, ignore, reopen, and retry what is stuck."""

from collections.abc import Collection
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db.models import Q

from ledger.admin_pages.confirmation import list_effects
from ledger.journal import Stamp
from ledger.states import TaskState, Who
from ledger.values.text import counted
from retries.assignment.rows import PATTERN
from retries.failures import patterns
from retries.failures.stuck_tasks import stuck_tasks
from retries.models import FailurePattern
from retries.states import PATTERN_MOVES, PatternState
from retries.verbs.assignment import make_assign, make_comment
from retries.verbs.verb import Options, Rows, Verb, call

# seconds for which a pattern can be ignored, with a label
IGNORE_TIMES = {3600: "1 hour", 86_400: "1 day", 7 * 86_400: "1 week", 30 * 86_400: "30 days"}


def can_become(state: PatternState) -> Q:
    before = [
        each
        for each, moves in PATTERN_MOVES.items()
        if each != state and Who.PERSON in moves.get(state, ())
    ]
    return Q(state__in=before)


def read_seconds(text: str) -> int | None:
    # None ignores the pattern forever.
    return int(text) if text.isdecimal() and int(text) in IGNORE_TIMES else None


def ignore(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
    seconds = options["for"]
    until = stamp.at + timedelta(seconds=seconds) if seconds else None
    return patterns.ignore(ids, until=until, stamp=stamp)


def tell_ignored(changed: Collection[UUID], ids: list[UUID], options: Options) -> str:
    seconds = options["for"]
    long = f"for {IGNORE_TIMES[seconds]}" if seconds else "indefinitely"
    return f"{counted(len(changed), 'pattern')} ignored {long}."


def retry(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
    again = patterns.retry(ids, stamp=stamp, channel=options.get("channel", "page"))
    rows = (*again.replayed, *again.answered)
    return [*again.made_due, *(row.pk for row in rows)]


def describe_retry(rows: Rows, options: Options) -> list[str]:
    ids = list(rows.values_list("pk", flat=True))
    states = [task.state for task in stuck_tasks(ids)[: patterns.BATCH_SIZE]]
    dead, waiting, asked = map(
        states.count, (TaskState.FAILED, TaskState.RETRY, TaskState.ESCALATED)
    )
    return list_effects(
        (dead, f"{counted(dead, 'dead letter')} will be replayed."),
        (waiting, f"{counted(waiting, 'pending retry', 'pending retries')} will start at once."),
        (asked, f"{counted(asked, 'open question')} will be answered with “retry”."),
    )


pattern_verb = partial(Verb, model=FailurePattern)
RESOLVE = pattern_verb(
    name="pattern.resolve",
    where=can_become(PatternState.RESOLVED),
    run=call(patterns.resolve),
    words=("Resolve", "", "resolved"),
    icon="check",
    slug="resolve",
    key="s",
    admin="Resolve: the next failure is a regression",
)
IGNORE = pattern_verb(
    name="pattern.ignore",
    where=can_become(PatternState.IGNORED),
    takes={"for": read_seconds},
    run=ignore,
    words=("Ignore", "", "ignored"),
    icon="s-skipped",
    slug="ignore",
    key="i",
    said=tell_ignored,
    admin="Ignore permanently",
)
REOPEN = pattern_verb(
    name="pattern.reopen",
    where=can_become(PatternState.OPEN),
    run=call(patterns.reopen, note=""),
    words=("Reopen", "", "reopened"),
    icon="undo",
    slug="reopen",
    key="o",
    admin="Reopen",
)
# the page starts an operation on the tasks instead
RETRY = pattern_verb(
    name="pattern.retry",
    where=Q(),
    run=retry,
    words=("Retry all…", "", "retried"),
    icon="undo",
    slug="retry",
    key="r",
    admin="Retry all: dead letters, retries and questions",
    effects=describe_retry,
)
ASSIGN = make_assign("pattern.assign", PATTERN, FailurePattern)
COMMENT = make_comment("pattern.comment", PATTERN, FailurePattern)
PAGE = (RESOLVE, IGNORE, REOPEN)
PEOPLE = (ASSIGN, COMMENT)
ADMIN = (*PAGE, RETRY)
