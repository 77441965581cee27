"""The page of one permission rule: what it decided, and for whom."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.actions import build_action_view, by_slug, find_asked, list_allowed
from dashboard.frame.access import may_open
from dashboard.frame.found_rows import require_row
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import SETTINGS, HtmxRequest, begin_visit, compose_page, respond
from dashboard.permissions import queries
from dashboard.permissions.listing import PERMISSION_RULES
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.permissions import rules
from retries.verbs import permission_rules

CRUMBS = (SETTINGS, PERMISSION_RULES.crumb)
VERBS = by_slug(permission_rules.VERBS)
act = build_action_view(__name__, VERBS, page="permission_rule", returns=True)


def detail(request: HtmxRequest, permission_rule_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    row = require_row(queries.find_rule(permission_rule_id), "permission rule", permission_rule_id)
    may_change = may_open(request.user, "permission_rule_act")
    actions = list_allowed(permission_rules.VERBS, row) if may_change else []
    page = compose_page(
        title=f"{str(row)[:60]} · Permission rule",
        heading=str(row)[:120],
        crumbs=CRUMBS[-1:],
        list_steps=PERMISSION_RULES.find_steps(visit, permission_rule_id, with_shift=True),
        row=row,
        actions=actions,
        asked=find_asked(request, actions),
        decided=queries.read_decided(row, request.GET),
        may_change=may_change,
    )
    return respond(visit, "permissions/rule.html", "permissions/_rule.html", page)


def dismiss(request: HtmxRequest) -> HttpResponse:
    # The proposal is not made again for some time.
    scope, posted = read_scope(request), request.POST
    project = scope.find_named(posted.get("in", ""))
    back = reverse("dashboard:permission_rules") + scope.query
    if project is None:
        raise Http404("There is no such project.")
    try:
        rules.dismiss(
            project_id=project.pk,
            tool=posted.get("tool", ""),
            matcher=posted.get("matcher", ""),
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
    else:
        messages.success(request, f"Not proposed again for {rules.TRIED.days} days.")
    return redirect(back)
