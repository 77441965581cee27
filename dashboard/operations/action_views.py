"""Undo an operation before it starts, or stop it while it runs."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import refuse
from dashboard.frame.found_rows import require_row
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from dashboard.operations.listing import OPERATIONS
from dashboard.sentences.operations import words_of
from dashboard.wording.formatting import counted
from ledger.authorization.permissions import may
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.models import Operation
from retries.operations import ending
from retries.operations.registry import find_verb


def act(request: HtmxRequest, operation_id: UUID, verb: str) -> HttpResponse:
    if verb not in ("undo", "stop"):
        raise Http404(f"There is no action “{verb}”.")
    scope = read_scope(request)
    among = OPERATIONS.rows(scope.project)
    row = require_row(among.filter(pk=operation_id).first(), "operation", operation_id)
    permission = find_verb(row.verb).permission
    # An operation on several projects needs the permission in each of them.
    if not all(may(request.user, permission, project) for project in row.project_ids):
        return refuse(request, permission, by_script=False)
    page = reverse("dashboard:operation", args=[operation_id])
    if verb == "stop" and row.is_under_way and "confirmed" not in request.POST:
        return redirect(f"{page}{scope.query}{'&' if scope.query else '?'}ask=stop")
    end = ending.undo_operation if verb == "undo" else ending.stop_operation
    try:
        row = end(operation_id, among=among, stamp=stamp_of(request))
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
    else:
        messages.success(request, describe_end(row, verb))
    return redirect(back_to(request, otherwise=page + scope.query))


def describe_end(row: Operation, verb: str) -> str:
    noun = words_of(row.verb).row
    if verb == "undo":
        return f"Undone. No {noun} was changed."
    return f"Stopped. {counted(row.changed, noun)} changed, {row.left:,} left as they were."
