"""The page of one instruction."""

from dataclasses import dataclass
from uuid import UUID

from django.http import Http404

from dashboard.actions import find_asked, list_allowed
from dashboard.escalations import queries as escalation_queries
from dashboard.escalations.outcome import AnswerOutcome, describe_outcome
from dashboard.frame.rendering import PageContext, Visit, live_page
from dashboard.instructions import queries
from dashboard.instructions.action_views import CRUMB
from dashboard.instructions.details import InstructionDetails, describe_details
from dashboard.instructions.listing import INSTRUCTIONS
from ledger.models import Instruction
from retries.models import Escalation
from retries.verbs.instructions import PAGE
from retries.verbs.verb import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionPage(PageContext):
    row: Instruction
    details: InstructionDetails
    asked: Verb | None
    escalation: Escalation | None
    outcome: AnswerOutcome | None


@live_page(
    "instructions/detail.html",
    "instructions/_instruction.html",
    current="instructions",
    row="instruction_id",
)
def detail(visit: Visit, instruction_id: UUID) -> InstructionPage:
    listed = queries.find_instruction(instruction_id)
    if listed is None:
        raise Http404(f"There is no instruction {instruction_id}.")
    row = listed.row
    escalation = escalation_queries.find_by_instruction(row.id)
    is_closed = escalation is not None and not escalation.is_open
    return InstructionPage(
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
