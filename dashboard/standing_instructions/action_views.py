"""Pause, resume or retire a rule."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.actions import find_action
from dashboard.frame.access import operators_only
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from dashboard.frame.toasts import add_message
from dashboard.standing_instructions import queries
from dashboard.standing_instructions.actions import ACTIONS
from ledger.journal import stamp_of
from ledger.standing_instructions import editing

VERBS = {
    "pause": (editing.pause_rules, "Paused. It sends nothing; what it has sent stays open."),
    "resume": (editing.resume_rules, "The rule is on."),
    "retire": (editing.retire_rules, "Retired. Its record stays."),
}

UNDONE_BY = {"pause": "resume", "resume": "pause"}


@require_POST
@operators_only
def act(request: HtmxRequest, rule_id: UUID, verb: str) -> HttpResponse:
    """Act on one rule and return to its page, or to the page that the form names."""
    action, scope = find_action(ACTIONS, verb), read_scope(request)
    if queries.find_rule(rule_id) is None:
        raise Http404(f"There is no rule {rule_id}.")
    page = reverse("dashboard:rule", args=[rule_id]) + scope.query
    if action.question and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if scope.query else '?'}ask={verb}")
    move, said = VERBS[verb]
    if move([rule_id], stamp=stamp_of(request)):
        undo = UNDONE_BY.get(verb, "")
        address = reverse("dashboard:rule_act", args=[rule_id, undo]) if undo else ""
        # The toast posts it and returns to the page that it is on.
        add_message(request, said, undo=address and address + scope.query)
    else:
        messages.warning(request, "Nothing changed: the rule is already in that state.")
    return redirect(back_to(request, otherwise=page))
