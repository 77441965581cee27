"""The Audit log page: who did what, when and why, with exports of exactly what it shows."""

from dataclasses import dataclass

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import rendering
from dashboard.access import operators_only
from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.audit import export, queries
from dashboard.audit.queries import AuditRecord
from dashboard.navigation import read_scope
from dashboard.pagination import PAGE
from dashboard.query_box import as_id
from dashboard.rendering import Crumb, HtmxRequest, PageContext
from ledger import journal
from ledger.journal import Kind, stamp_of

NOUNS = ("task", "instruction", "escalation", "agent", "plan", "pattern", "token", "operation")
PERIODS = (("24h", "24 h"), ("7d", "7 d"), ("30d", "30 d"))
FORMATS = {
    "csv": ("text/csv; charset=utf-8", export.write_csv),
    "jsonl": ("application/x-ndjson", export.write_json_lines),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A quick filter with the query that sets or lifts it."""

    label: str
    query: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage(PageContext):
    query: EventQuery
    records: list[AuditRecord]
    older: str
    count: int
    count_cap: int
    nouns: list[Choice]
    periods: list[Choice]
    subpage: str = "audit"


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Show what people did, newest first."""
    visit = rendering.begin_visit(request, current="settings")
    text = request.GET.get("q", "")
    query = filters.parse(text, now=visit.now)
    found = queries.list_records(query, visit.scope, before=as_id(request.GET.get("before", "")))
    records = found[:PAGE]
    page = AuditPage(
        title="Audit log",
        heading="Audit log",
        crumbs=(Crumb("Settings", reverse("dashboard:settings")),),
        query=query,
        records=records,
        older=str(records[-1].id) if len(found) > PAGE else "",
        count=queries.count_records(query, visit.scope),
        count_cap=queries.COUNT_CAP,
        nouns=[choose(query, "kind", noun, noun) for noun in NOUNS],
        periods=[choose(query, "since", value, label) for value, label in PERIODS],
    )
    return rendering.respond(visit, "audit/index.html", "audit/_audit.html", page)


def choose(query: EventQuery, key: str, value: str, label: str) -> Choice:
    term = f"{key}:{value}"
    current = term in query.text.split()
    return Choice(label, query.having(key, "" if current else term), current)


@require_safe
@operators_only
def download(request: HtmxRequest, format: str) -> StreamingHttpResponse:
    """Stream the filtered log; the export is an entry of the log itself."""
    if format not in FORMATS:
        raise Http404(f"There is no format “{format}”; choose csv or jsonl.")
    scope, now = read_scope(request), timezone.now()
    query = filters.parse(request.GET.get("q", ""), now=now)
    for project in [scope.project] if scope.project else scope.projects:
        journal.record(
            Kind.AUDIT_EXPORTED,
            subject_type="project",
            subject_id=project.pk,
            project_id=project.pk,
            stamp=stamp_of(request),
            data={"format": format, "query": query.text},
        )
    content_type, write = FORMATS[format]
    response = StreamingHttpResponse(
        write(queries.read_records(query, scope)), content_type=content_type
    )
    name = f"audit-{now:%Y-%m-%d}.{format}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
