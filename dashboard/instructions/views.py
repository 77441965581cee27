"""The page of one instruction."""

from uuid import UUID

from dashboard.actions import find_asked, list_allowed
from dashboard.escalations import queries as escalation_queries
from dashboard.escalations.outcome import describe_outcome
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.instructions import queries
from dashboard.instructions.action_views import CRUMB
from dashboard.instructions.details import describe_details
from dashboard.instructions.listing import INSTRUCTIONS
from retries.verbs.instructions import PAGE


@live_page(
    "instructions/detail.html",
    "instructions/_instruction.html",
    current="instructions",
    row="instruction_id",
)
def detail(visit: Visit, instruction_id: UUID) -> PageContext:
    listed = require_row(queries.find_instruction(instruction_id), "instruction", instruction_id)
    row = listed.row
    escalation = escalation_queries.find_by_instruction(row.id)
    is_closed = escalation is not None and not escalation.is_open
    return compose_page(
        title=f"{row.content[:60]} · Instruction",
        heading=row.content[:120],
        crumbs=(CRUMB,),
        list_steps=INSTRUCTIONS.find_steps(visit, row.pk),
        row=row,
        details=describe_details(listed, queries.read_clock(), now=visit.now),
        asked=find_asked(visit.request, list_allowed(PAGE, row)),
        escalation=escalation,
        outcome=describe_outcome(escalation) if escalation and is_closed else None,
    )
