"""The Audit log page: who did what, when and why, with exports of exactly what it shows."""

from dataclasses import dataclass
from operator import attrgetter

from django.http import HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import rendering
from dashboard.access import operators_only
from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.audit import queries
from dashboard.audit.queries import AuditRecord
from dashboard.export import export_records
from dashboard.navigation import read_scope
from dashboard.nearest_names import NameHints, list_problems, suggest_names
from dashboard.pagination import PAGE
from dashboard.query_box import as_id
from dashboard.rendering import Crumb, HtmxRequest, PageContext
from dashboard.saved_views.strip import ViewStrip, read_views
from ledger import journal
from ledger.journal import Kind, stamp_of
from ledger.models import Project

NOUNS = ("task", "instruction", "escalation", "agent", "plan", "pattern", "token", "operation")
ACTORS = (("people", "People"), ("tokens", "Tokens"), ("", "Anyone"))
PERIODS = (("24h", "24 h"), ("7d", "7 d"), ("30d", "30 d"))
COLUMNS = (
    *("at", "who", "did", "what", "reason", "source", "kind"),
    *("subject_type", "subject_id", "from_state", "to_state", "request_id"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A quick filter with the query that sets or lifts it."""

    label: str
    query: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage(PageContext):
    query: EventQuery
    views: ViewStrip
    records: list[AuditRecord]
    older: str
    count: int
    count_cap: int
    actors: list[Choice]
    nouns: list[Choice]
    periods: list[Choice]
    hints: NameHints
    subpage: str = "audit"


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Show what people and tokens did, newest first."""
    visit = rendering.begin_visit(request, current="settings")
    text = request.GET.get("q", "")
    query = filters.parse(text, now=visit.now)
    before = as_id(request.GET.get("before", ""))
    found = queries.list_records(query, visit.scope, before=before)
    records, is_whole = found[:PAGE], before is None and len(found) <= PAGE
    page = AuditPage(
        title="Audit log",
        heading="Audit log",
        crumbs=(Crumb("Settings", reverse("dashboard:settings")),),
        query=query,
        views=read_views(visit, "audit", query.text),
        records=records,
        older=str(records[-1].id) if len(found) > PAGE else "",
        count=len(records) if is_whole else queries.count_records(query, visit.scope),
        count_cap=queries.COUNT_CAP,
        actors=[choose(query, "by", value, label) for value, label in ACTORS],
        nouns=[choose(query, "kind", noun, noun) for noun in NOUNS],
        hints=suggest_names(query, "audit", visit.scope.project, found=bool(records)),
        periods=[choose(query, "since", value, label) for value, label in PERIODS],
    )
    return rendering.respond(visit, "audit/index.html", "audit/_audit.html", page)


def choose(query: EventQuery, key: str, value: str, label: str) -> Choice:
    """Return the choice of a value; without one, of everything."""
    if not value:
        return Choice(label, query.having(key, ""), f"{key}:" not in query.text)
    term = f"{key}:{value}"
    current = term in query.text.split()
    return Choice(label, query.having(key, "" if current else term), current)


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the filtered log; the export is an entry of the log itself."""
    scope, now = read_scope(request), timezone.now()
    query = filters.parse(request.GET.get("q", ""), now=now)
    values_of = attrgetter(*COLUMNS)
    response = export_records(
        map(values_of, queries.read_records(query, scope)),
        COLUMNS,
        form=form,
        name=f"audit-{now:%Y-%m-%d}",
        problems=list_problems(query, "audit", scope.project),
    )
    if response.status_code == 200:
        for project in [scope.project] if scope.project else Project.objects.order_by("pk"):
            journal.record(
                Kind.AUDIT_EXPORTED,
                subject_type="project",
                subject_id=project.pk,
                project_id=project.pk,
                stamp=stamp_of(request),
                data={"format": form, "query": query.text},
            )
    return response
