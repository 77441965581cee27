"""The Audit log page: who did what, when and why, with exports of exactly what it shows."""

# Not a `Listing`: its rows are merged from five sources, so they belong to no one model. Its pages
# begin after any place of the merged log, and its filters are counted in the newest rows.

from operator import attrgetter

from django.http import HttpResponse, HttpResponseBase

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.audit import queries
from dashboard.audit.counts import ChoiceCounts, Choices, count_choices
from dashboard.audit.queries import Walk
from dashboard.frame import rendering
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import SETTINGS, HtmxRequest, compose_page
from dashboard.lists.export import export_records
from dashboard.lists.facets import Facet
from dashboard.lists.nearest_names import list_problems, suggest_names
from dashboard.lists.pagination import PAGE
from dashboard.lists.query_box import ANY, as_id
from dashboard.lists.query_values import parse_age
from dashboard.lists.sorting import read_time_order
from dashboard.saved_views.strip import read_views
from ledger import journal
from ledger.database import server_time
from ledger.journal import Kind, stamp_of
from ledger.models import Project

NOUNS = ("task", "instruction", "escalation", "agent", "plan", "pattern", "token", "operation")
PERIODS = {"24h": "24 h", "7d": "7 d", "30d": "30 d"}
AGES = {name: age for name in PERIODS if (age := parse_age(name))}
ACTORS = (("people", "People"), ("tokens", "Tokens"), ("", "Anyone"))
COLUMNS = (
    *("at", "who", "did", "what", "reason", "source", "kind"),
    *("subject_type", "subject_id", "from_state", "to_state", "request_id"),
)


def index(request: HtmxRequest) -> HttpResponse:
    visit = rendering.begin_visit(request, current="settings")
    text = request.GET.get("q", "")
    query = filters.parse(text, now=visit.now)
    order = read_time_order(request.GET)
    walk = Walk(as_id(request.GET.get("before", "")), order.is_reversed)
    found = queries.list_records(query, visit.scope, walk)
    records, is_whole = found[:PAGE], walk.after is None and len(found) <= PAGE
    choices = Choices(NOUNS, AGES, [value for value, _ in ACTORS])
    counts = count_choices(query, visit.scope, choices, now=visit.now)
    page = compose_page(
        title="Audit log",
        crumbs=(SETTINGS,),
        query=query,
        order=order,
        views=read_views(visit, "audit", query.text, order.sort),
        records=records,
        older=str(records[-1].id) if len(found) > PAGE else "",
        count=len(records) if is_whole else queries.count_records(query, visit.scope),
        count_cap=queries.COUNT_CAP,
        actors=[choose_actor(query, *each, counts) for each in ACTORS],
        nouns=[build_choice(query, "kind", noun, noun, counts) for noun in NOUNS],
        hints=suggest_names(query, "audit", visit.scope.project, found=bool(records)),
        periods=[build_choice(query, "since", *each, counts) for each in PERIODS.items()],
        subpage="audit",
    )
    return rendering.respond(visit, "audit/index.html", "audit/_audit.html", page)


def choose_actor(query: EventQuery, value: str, label: str, counts: ChoiceCounts) -> Facet:
    """Return the quick filter of who acted; without a value, of anyone."""
    if value:
        return build_choice(query, "by", value, label, counts)
    text, current = query.having("by", ""), query.by == ANY
    return Facet(label, text, counts.of[value], current, are_some=counts.are_some)


def build_choice(
    query: EventQuery, key: str, value: str, label: str, counts: ChoiceCounts
) -> Facet:
    """Return a quick filter with the query that sets or lifts it, and the number of its records."""
    term = f"{key}:{value}"
    current = term in query.terms
    text = query.having(key, "" if current else term)
    return Facet(label, text, counts.of[value], current, are_some=counts.are_some)


def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the filtered log; the export is an entry of the log itself."""
    scope, now = read_scope(request), server_time.now()
    query = filters.parse(request.GET.get("q", ""), now=now)
    walk = Walk(is_oldest_first=read_time_order(request.GET).is_reversed)
    values_of = attrgetter(*COLUMNS)
    response = export_records(
        map(values_of, queries.read_records(query, scope, walk)),
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
