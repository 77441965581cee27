"""Send deliveries once more: one, a selection, or a range."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from dashboard.lists.selection import read_selection
from dashboard.notifications import redelivery
from dashboard.wording.formatting import counted
from ledger.database import server_time
from ledger.errors import Refusal


def redeliver(request: HtmxRequest) -> HttpResponse:
    """Send the selected deliveries, or a range of deliveries, again."""
    scope = read_scope(request)
    page = back_to(request, otherwise=reverse("dashboard:deliveries") + scope.query)
    try:
        rows = redelivery.find_wanted(request.POST, read_selection(request.POST), scope.project)
        now = server_time.now()
        done = redelivery.send_again(rows, now=now)
    except (ValueError, Refusal) as problem:
        said = problem.detail if isinstance(problem, Refusal) else str(problem)
        messages.warning(request, f"{said} Nothing was changed.")
        return redirect(page)
    if done and "to" in request.POST:  # the page shows the progress of a range
        query = scope.params.copy()
        query["again"] = now.isoformat()
        return redirect(f"{reverse('dashboard:deliveries')}?{query.urlencode()}")
    if done:
        messages.success(request, f"{counted(done, 'delivery', 'deliveries')} will be sent again.")
    else:
        messages.warning(request, "Select at least one delivery. Nothing was changed.")
    return redirect(page)
