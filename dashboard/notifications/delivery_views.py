"""The list of deliveries: what left, what came back, and a range to send once more."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.urls import reverse, reverse_lazy

from dashboard.date_range import DateRange, find_dates, open_dates
from dashboard.frame.access import may_open
from dashboard.frame.navigation import here_of
from dashboard.frame.rendering import Crumb, PageContext, Visit, live_page
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, suggest_names
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import as_id
from dashboard.lists.sorting import Heading, build_headings, read_sort
from dashboard.notifications import delivery_filters, delivery_queries, redelivery
from dashboard.notifications.delivery_filters import DeliveryQuery
from dashboard.notifications.delivery_queries import OpenedDelivery
from dashboard.notifications.icons import icon_of
from dashboard.notifications.redelivery import Range, RedeliveryProgress
from dashboard.saved_views.strip import ViewStrip, read_views
from retries.models import Delivery
from retries.models.notification_delivery import DeliveryState
from retries.notifications.deliveries.retry_schedule import MOST_TRIES

SETTINGS = Crumb("Settings", reverse_lazy("dashboard:settings"))
STATES = {
    "all": "All",
    "retrying": "Retrying",
    "gave-up": "Gave up",
    "delivered": "Delivered",
    "not-sent": "Not sent",
    "held": "Held back",
}
LABELS = {"channel": "Channel", "tries": "Tries", "sent": "Sent"}
# the pages of what an event is about, by the name of its subject
SUBJECTS = {
    "escalation": ("escalation", "Open the escalation"),
    "task": ("task", "Open the task"),
    "instruction": ("instruction", "Open the instruction"),
    "plan": ("plan", "Open the plan"),
    "agent": ("agent", "Open the agent"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list, with its details if it is open."""

    row: Delivery
    icon: str
    tries: str
    answer: str
    is_bad: bool
    opened: OpenedDelivery | None
    toggle: str  # the query string that opens or closes it
    subject_url: str  # of the page of what it is about
    subject_label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesPage(PageContext):
    query: DeliveryQuery
    views: ViewStrip
    states: list[Facet]
    total: int | None
    dates: DateRange
    sort: str
    headings: dict[str, Heading]
    page: Page[Delivery]
    entries: list[Entry]
    range: Range | None
    progress: RedeliveryProgress | None
    chosen: set[str]
    hints: NameHints


@live_page(
    "notifications/deliveries.html",
    "notifications/_deliveries.html",
    current="settings",
    read_key=delivery_queries.read_key,
)
def index(visit: Visit) -> DeliveriesPage | HttpResponse:
    """Show the deliveries that the query asks for, newest first."""
    request, project, now = visit.request, visit.scope.project, visit.now
    query = delivery_filters.parse(request.GET.get("q", ""))
    if (dated := open_dates(request, query, "sent")) is not None:
        return dated
    counts = delivery_queries.count_by_state(query, project, now=now)
    total = counts.get(query.one_state)
    sort = read_sort(
        request.GET.get("sort", ""),
        delivery_queries.COLUMNS,
        counts["all"] if total is None else total,
    )
    page = delivery_queries.list_deliveries(
        query,
        project,
        sort,
        before=as_id(request.GET.get("before", "")),
        after=as_id(request.GET.get("after", "")),
        now=now,
    )
    opened = delivery_queries.find_opened(as_id(request.GET.get("open", "")))
    here = here_of(request)
    here.pop("open", None)
    may_act = may_open(request.user, "deliveries_redeliver")
    return DeliveriesPage(
        title=f"{query.text} · Deliveries" if query.text else "Deliveries",
        heading="Deliveries",
        crumbs=(SETTINGS,),
        query=query,
        views=read_views(visit, "deliveries", query.text, sort),
        states=build_state_facets(STATES, counts, query.one_state, query),
        total=total,
        dates=find_dates("sent", query.sent),
        sort=sort,
        headings=build_headings(
            delivery_queries.COLUMNS, LABELS, sort, delivery_queries.DEFAULT_SORT
        ),
        page=page,
        entries=[build_entry(row, opened, here.urlencode()) for row in page.rows],
        range=redelivery.read_range(request.GET, project, now=now) if may_act else None,
        progress=redelivery.read_progress(request.GET, project),
        chosen=set(request.GET.getlist("id")),
        hints=suggest_names(query, "deliveries", project, found=bool(page.rows)),
    )


def build_entry(row: Delivery, opened: OpenedDelivery | None, collapsed: str) -> Entry:
    is_open = opened is not None and opened.row.pk == row.pk
    name, label = SUBJECTS.get(row.subject_type, ("", ""))
    return Entry(
        row=row,
        icon=icon_of(row.channel),
        tries=describe_tries(row),
        answer=describe_answer(row),
        is_bad=row.state in (DeliveryState.RETRYING, DeliveryState.GAVE_UP),
        opened=opened if is_open else None,
        toggle=f"?{collapsed}" if is_open else f"?{collapsed}{'&' * bool(collapsed)}open={row.pk}",
        subject_url=reverse(f"dashboard:{name}", args=[row.subject_id])
        if name and row.subject_id
        else "",
        subject_label=label,
    )


def describe_tries(row: Delivery) -> str:
    """Return the number of tries, of all while there may be more."""
    unfinished = row.state in (DeliveryState.RETRYING, DeliveryState.GAVE_UP)
    return f"{row.tries}/{MOST_TRIES}" if unfinished else str(row.tries)


def describe_answer(row: Delivery) -> str:
    """Return what came back at the last try, in a word."""
    if row.code:
        return str(row.code)
    if row.tries == 0:
        return {
            DeliveryState.HELD: "waits",
            DeliveryState.SUMMARIZED: "in a summary",
            DeliveryState.PENDING: "waits",
        }.get(DeliveryState(row.state), "not sent")
    if row.state == DeliveryState.DELIVERED:
        return "accepted"
    return "no answer"
