"""Edit the text of a given-up instruction and send it as a new one."""

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect

from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import Crumb, HtmxRequest, begin_visit, compose_page, respond
from dashboard.instructions.action_views import CRUMB, address
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import Instruction
from ledger.states import InstructionState
from ledger.values.text import normalize_newlines
from retries.escalations import answering
from retries.models import Escalation


class EditForm(forms.Form):
    """The new text; what the ledger refuses becomes its error."""

    content = forms.CharField(strip=False, widget=forms.Textarea)

    def send(self, request: HtmxRequest, old: Instruction) -> UUID | None:
        """Send the text and return the new instruction's id, or None after adding the error."""
        text = normalize_newlines(self.cleaned_data["content"])
        try:
            return answering.send_edited(old, text, channel="page", stamp=stamp_of(request))
        except Invalid as refusal:
            self.add_error("content", refusal.detail)
        return None


def edit(request: HtmxRequest, instruction_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="instructions")
    rows = Instruction.objects.select_related("agent").filter(pk=instruction_id)
    row = require_row(rows.first(), "instruction", instruction_id)
    page = address(instruction_id, visit.scope)
    if row.state != InstructionState.FAILED:
        messages.warning(request, "Only an instruction that was given up can be edited and sent.")
        return redirect(page)
    posted = request.method == "POST"
    form = EditForm(request.POST) if posted else EditForm(initial={"content": row.content})
    try:
        sent = form.send(request, row) if posted and form.is_valid() else None
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
        return redirect(page)
    if sent:
        text = "Sent with your text, at the front of the queue."
        messages.success(request, f"{text} {row.agent.name} gets it if it checks in.")
        return redirect(address(sent, visit.scope))
    context = compose_page(
        title="Edit and send",
        crumbs=(CRUMB, Crumb(str(row.pk)[:8], page)),
        status_code=422 if posted else 200,
        row=row,
        form=form,
        # an open escalation is answered with the text
        is_asked=Escalation.objects.open().filter(instruction=row).exists(),
    )
    return respond(visit, "instructions/form.html", "instructions/_edit.html", context)
