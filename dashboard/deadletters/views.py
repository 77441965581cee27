"""The page of one dead letter."""

from uuid import UUID

from dashboard.actions import find_asked, list_allowed
from dashboard.assignment import read_comments
from dashboard.deadletters import queries
from dashboard.deadletters.listing import DEADLETTERS
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.tasks import detail_queries
from dashboard.wording.json_tree import build_tree, json_size
from ledger.models import DeadLetter
from retries.verbs import dead_letters


@live_page(
    "deadletters/detail.html",
    "deadletters/_deadletter.html",
    current="deadletters",
    of=DeadLetter,
    row="letter_id",
)
def detail(visit: Visit, letter_id: UUID) -> PageContext:
    letter = require_row(queries.find_deadletter(letter_id), "dead letter", letter_id)
    actions = list_allowed(dead_letters.VERBS, letter)
    return compose_page(
        title=f"{str(letter.task)[:60]} · Dead letter",
        heading=f"…{str(letter.pk)[-8:]}",
        crumbs=(DEADLETTERS.crumb,),
        list_steps=DEADLETTERS.find_steps(visit, letter.pk),
        letter=letter,
        row=letter.task,
        actions=actions,
        asked=find_asked(visit.request, actions),
        comments=read_comments(letter),
        failures=detail_queries.failures_of(detail_queries.list_attempts(letter.task)),
        waiting=letter.waiting,
        payload=build_tree(letter.payload),
        payload_size=json_size(letter.payload),
    )
