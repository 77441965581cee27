"""A list page, declared once.

A list is a subclass of `Listing` with one instance, as the page of a model in Django's admin is one
of `ModelAdmin`. Its attributes say which keys its query box has, which rows they find, and what the
page and the export show. The instance serves the page, its live part, and the export. It finds the
same rows for operations on all rows of a query, for completion, and for steps from row to row.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django.contrib.auth import get_permission_codename
from django.db.models import Count, F, Model, Q, QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.urls import URLPattern, reverse_lazy
from django.utils.text import slugify

from dashboard import steps
from dashboard.date_range import DateRange, find_dates, open_dates
from dashboard.frame.access import list_pages, may_open
from dashboard.frame.navigation import here_of, requested_project
from dashboard.frame.rendering import (
    Crumb,
    HtmxRequest,
    PageContext,
    Steps,
    Visit,
    begin_visit,
    live_page,
    respond,
)
from dashboard.lists.branches import find_page
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.conditions import Condition
from dashboard.lists.conditions import any_of as any_of
from dashboard.lists.conditions import equals as equals
from dashboard.lists.conditions import older_than as older_than
from dashboard.lists.conditions import within as within
from dashboard.lists.export import export_records, read_values
from dashboard.lists.facets import Facet, build_state_facets
from dashboard.lists.nearest_names import NameHints, list_problems, suggest_names
from dashboard.lists.pagination import Page, read_page, slice_rows
from dashboard.lists.query_box import ANY, Keys, StateQuery, Values, as_id
from dashboard.lists.shared_queries import hash_of, match_any, match_groups, of_project
from dashboard.lists.sorting import (
    Heading,
    SortColumn,
    build_headings,
    read_sort,
    read_sort_of,
    slice_sorted,
    sort_rows,
)
from dashboard.saved_views.columns import name_hidden, read_columns
from dashboard.saved_views.strip import ViewStrip, read_views
from dashboard.steps import Beside
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Project

B = TypeVar("B", bound=StateQuery)
View = Callable[..., HttpResponseBase]
Cut = Callable[[QuerySet[Any]], QuerySet[Any]]


@dataclass(frozen=True, slots=True)
class State:
    """A button above a list, and the values of the rows' state that it finds.

    A state without a label has no button.
    """

    label: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; one with a name and an order is sorted by a click on its heading."""

    label: str
    css: str = ""
    name: str = ""
    order: SortColumn | None = None
    template: str = ""  # for a heading that is more than its label
    heading: Heading | None = None
    is_hidden: bool = False

    @property
    def key(self) -> str:
        return self.name or slugify(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(PageContext):
    """The template variables of a list page, beside the `extra` ones of a list."""

    listing: "Listing[Any]"
    query: StateQuery
    views: ViewStrip
    counts: Any  # as `count_states` returns them
    states: list[Facet]
    total: int | None
    dates: DateRange | None
    sort: str
    is_newest_first: bool
    columns: list[Column]
    hidden: str  # the CSS classes that hide columns
    page: Page[Any]
    entries: list[Any]
    may_act: bool  # whether the person may act on selected rows
    hints: NameHints


class Listing(Generic[B]):
    """The declaration of a list; a list that differs in one point overrides that method."""

    name: ClassVar[str]  # names the page's URL, its saved views, and its completion
    row_page: ClassVar[str] = ""  # the name of the URL of a row's own page
    current: ClassVar[str]  # the page's place in the sidebar
    heading: ClassVar[str]
    label: ClassVar[str] = ""  # the table's label, if it is not the heading
    nouns: ClassVar[str]
    file_name: ClassVar[str] = ""  # the export's name, if it is not `nouns`
    crumbs: ClassVar[Sequence[Crumb]] = ()

    # ---- the query
    model: ClassVar[type[Model]]
    query: type[B]
    keys: ClassVar[Keys]
    conditions: ClassVar[Mapping[str, Condition]] = {}  # keyed by the query's fields
    searched: ClassVar[Sequence[str]] = ()  # the columns in which words are searched
    states: ClassVar[Mapping[str, State]] = {}
    default_state: ClassVar[str] = "all"  # what a query without a state shows
    dates: ClassVar[str] = ""  # the key that the menu of dates sets

    # ---- the page
    template: ClassVar[str]
    part: ClassVar[str]
    row: ClassVar[str]  # the template of a row
    empty: ClassVar[str]  # the template of a list without rows
    example: ClassVar[str]  # an example of a query
    columns: ClassVar[Sequence[Column]]
    default_sort: ClassVar[str] = ""
    verbs: ClassVar[Sequence[str]] = ()  # the URLs that a person needs to act on selected rows
    has_column_menu: ClassVar[bool] = True
    bar: ClassVar[str] = "listing__bar"  # the CSS classes of the filter bar and the table
    table: ClassVar[str] = "tbl rows"
    holds: ClassVar[str | None] = None  # the rows' order: "pointer" while over a row, "" always
    is_live: ClassVar[bool] = True
    # Whether the SQL of the newest rows is built once; see the limits of `compiled`.
    is_compiled: ClassVar[bool] = True

    export_columns: ClassVar[Mapping[str, str]]

    # ---- rows

    def parse(self, text: str, viewer: Any = None) -> B:
        query = self.query.read(text, self.keys)
        return query.seen_by(viewer) if viewer and "assignee" in self.keys else query

    def rows(self, project: Project | None) -> QuerySet[Any]:
        return of_project(self.model._default_manager.all(), project)

    def find(self, query: B, project: Project | None) -> QuerySet[Any]:
        asked = {name: getattr(query, name) for name in self.conditions}
        conditions = [
            self.conditions[name](value)
            for name, value in asked.items()
            if value is not None and value != ANY
        ]
        words = [self.has_word(word) for word in query.words]
        rows = self.rows(project).filter(*conditions, match_any(self.wanted(query), self.in_state))
        rows = self.narrow(rows.filter(*words), query, project)
        rows = self.with_ids(rows, query.ids) if query.ids else rows
        either = match_groups(query, lambda each: self.condition(each, project))
        return rows.filter(either) if either else rows

    def find_page(self, query: B, project: Project | None, cut: Cut) -> QuerySet[Any]:
        """Return rows among which are those of a page, without a look at all rows."""
        if self.default_state != "all" and query.groups and query.names_any("state", "ids"):
            return self.find(query, project)  # a branch without a state would get the default one
        return find_page(query, lambda each: self.find(each, project), self.rows(project), cut)

    def condition(self, query: B, project: Project | None) -> Q:
        """Return the condition of an alternative, apart from its own groups."""
        found = match_any(query.state, self.in_state)
        for name, build in self.conditions.items():
            value = getattr(query, name)
            found &= Q() if value is None or value == ANY else build(value)
        for word in query.words:
            found &= self.has_word(word)
        every = self.rows(project).order_by()
        narrowed = self.narrow(every, query, project)
        if narrowed.query.where != every.query.where:
            found &= Q(pk__in=narrowed.values("pk"))
        if query.ids:
            found &= Q(pk__in=self.with_ids(every, query.ids).values("pk"))
        return found

    def select(self, text: str, project: Project | None, viewer: Any) -> QuerySet[Any]:
        return self.find(self.parse(text, viewer), project)

    def narrow(self, rows: QuerySet[Any], query: B, project: Project | None) -> QuerySet[Any]:
        """Apply the parts of a query that are more than one condition for one field."""
        return rows

    def wanted(self, query: B) -> Values:
        """Return the states of a query; the default one without a state and without ids."""
        is_default = self.default_state != "all" and not query.names_any("state", "ids")
        return Values((self.default_state,)) if is_default else query.state

    def in_state(self, name: str) -> Q:
        return Q(state__in=self.states[name].values)

    def has_word(self, word: str) -> Q:
        found = Q()
        for column in self.searched:
            found |= Q(**{f"{column}__icontains": word})
        return found

    def with_ids(self, rows: QuerySet[Any], ids: Sequence[UUID]) -> QuerySet[Any]:
        return rows.filter(id__in=ids)

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        return rows

    # ---- order

    @cached_property
    def sorts(self) -> Mapping[str, SortColumn]:
        return {each.name: each.order for each in self.columns if each.order}

    def order_of(self, sort: str) -> str:
        """Return the order in an address, or an empty string for the newest first."""
        by = sort or self.default_sort
        column = self.sorts.get(by.removeprefix("-"))
        is_newest = column is None or (by.startswith("-") and column.value == F("id"))
        return "" if is_newest else by

    # ---- the page

    def list_page(
        self,
        query: B,
        project: Project | None,
        sort: str = "",
        *,
        before: UUID | None = None,
        after: UUID | None = None,
        opened: UUID | None = None,
    ) -> Page[Any]:
        by = self.order_of(sort)

        def fetch(*, before: UUID | None, after: UUID | None) -> list[Any]:
            if not by:
                return self.fetch_newest(query, project, opened, before, after)
            cut = partial(slice_sorted, sort=by, columns=self.sorts, before=before, after=after)
            return list(cut(self.load(self.find_page(query, project, cut), opened)))

        return read_page(fetch, before=before, after=after)

    @cached_property
    def fetch_newest(self) -> Callable[..., list[Any]]:
        def build(
            query: B,
            project: Project | None,
            opened: UUID | None,
            before: UUID | None,
            after: UUID | None,
        ) -> QuerySet[Any]:
            cut = partial(slice_rows, before=before, after=after)
            return cut(self.load(self.find_page(query, project, cut), opened))

        return compiled(build) if self.is_compiled else lambda *given: list(build(*given))

    def count_states(self, query: B, project: Project | None) -> Any:
        # Each button has a count, whatever state the query asks for.
        anything = self.stateless(query)
        where = project.id if project else "all"
        return get_or_compute_slow(
            f"{self.name}:{where}:{hash_of(anything)}",
            lambda: self.read_counts(self.find(anything, project).order_by()),
        )

    def stateless(self, query: B) -> B:
        """Return the query for any state."""
        if self.default_state == "all":
            return query.stateless()
        return replace(query.stateless(), state=Values(tuple(self.states)))

    def read_counts(self, rows: QuerySet[Any]) -> dict[str, int]:
        found = dict(rows.values_list("state").annotate(n=Count("pk")))
        counts = {
            name: sum(found.get(value, 0) for value in state.values)
            for name, state in self.states.items()
        }
        return counts | {"all": sum(found.values())}

    def find_total(self, counts: Any, query: B) -> int | None:
        """Return the number of the query's rows, or None if the counts don't say it."""
        total: int | None = counts.get(self.state_of(query))
        return total

    def state_of(self, query: B) -> str:
        """Return the button that is pressed, or an empty string for a query of several states."""
        if query.state == ANY and any(each.names_any("state") for each in query.alternatives):
            return "all"
        return self.default_state if query.state == ANY else query.one_state

    def build_page(self, visit: Visit) -> ListPage | HttpResponse:
        project = visit.scope.project
        query = self.parse(visit.request.GET.get("q", ""), visit.request.user)
        dated = open_dates(visit.request, query, self.dates) if self.dates else None
        if dated is not None:
            return dated
        counts, sort, page = self.read_rows(query, visit)
        columns = self.build_columns(sort, hidden=read_columns(visit, self.name))
        shown = ListPage(
            title=self.build_title(query, counts),
            heading=self.heading,
            crumbs=self.crumbs,
            listing=self,
            query=query,
            views=read_views(visit, self.name, query.text, sort),
            counts=counts,
            states=self.build_facets(counts, query),
            total=self.find_total(counts, query),
            dates=find_dates(self.dates, getattr(query, self.dates)) if self.dates else None,
            sort=sort,
            is_newest_first=not self.order_of(sort),
            columns=columns,
            hidden=name_hidden(columns, 1 + bool(self.verbs)),
            page=page,
            entries=[],
            may_act=bool(self.verbs)
            and all(may_open(visit.request.user, each) for each in self.verbs),
            hints=self.suggest(query, project, found=bool(page.rows)),
        )
        shown = replace(shown, extra=self.read_extra(shown, visit))
        return replace(shown, entries=self.build_entries(shown, visit))

    def read_rows(self, query: B, visit: Visit) -> tuple[Any, str, Page[Any]]:
        given, project = visit.request.GET, visit.scope.project
        counts = self.count_states(query, project)
        total = self.find_total(counts, query)
        # The length of the list decides which orders it can have.
        length = counts.get("all", sum(counts.values())) if total is None else total
        sort = read_sort(self.asked_sort(visit), self.sorts, length)
        page = self.list_page(
            query,
            project,
            sort,
            before=as_id(given.get("before", "")),
            after=as_id(given.get("after", "")),
            opened=as_id(given.get("open", "")),
        )
        return counts, sort, page

    def asked_sort(self, visit: Visit) -> str:
        return visit.request.GET.get("sort", "")

    def build_title(self, query: B, counts: Any) -> str:
        return f"{query.text} · {self.heading}" if query.text else self.title_of(counts)

    def title_of(self, counts: Any) -> str:
        return self.heading

    def suggest(self, query: B, project: Project | None, *, found: bool) -> NameHints:
        return suggest_names(query, self.name, project, found=found)

    def build_facets(self, counts: Any, query: B) -> list[Facet]:
        labels = {name: state.label for name, state in self.states.items() if state.label}
        if self.default_state == "all":
            labels = {"all": "All"} | labels
        return build_state_facets(
            labels, counts, self.state_of(query), query, default=self.default_state
        )

    def build_columns(self, sort: str, *, hidden: Collection[str] = ()) -> list[Column]:
        labels = {each.name: each.label for each in self.columns}
        headings = build_headings(self.sorts, labels, sort, self.default_sort)
        # the first two name the row, and lead to it
        return [
            replace(each, heading=headings.get(each.name), is_hidden=n > 1 and each.key in hidden)
            for n, each in enumerate(self.columns)
        ]

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        return {}

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        """Return what the row template shows as `entry`, for each row."""
        return page.page.rows

    @property
    def read_key(self) -> Callable[[datetime], str] | None:
        """The function of the page's live key, if the model's own key is not enough."""
        return None

    @cached_property
    def index(self) -> View:
        if self.is_live:
            live = live_page(
                self.template,
                self.part,
                current=self.current,
                of=self.model,
                read_key=self.read_key,
            )
            return live(self.build_page)

        def index(request: HtmxRequest) -> HttpResponse:
            visit = begin_visit(request, current=self.current)
            page = self.build_page(visit)
            if isinstance(page, HttpResponse):
                return page
            return respond(visit, self.template, self.part, page)

        return index

    def pages(self, address: str, *, replica: bool = False) -> list[URLPattern]:
        """Return the URLs of the page and its export, for people who may view the model."""
        options = self.model._meta
        permission = f"{options.app_label}.{get_permission_codename('view', options)}"
        return list_pages(address, self.index, self.export, self.name, permission, replica=replica)

    @property
    def crumb(self) -> Crumb:
        """The breadcrumb to this list."""
        return Crumb(self.heading, reverse_lazy(f"dashboard:{self.name}"))

    # ---- the export

    @property
    def export_page(self) -> str:
        return f"dashboard:{self.name}_export"

    @cached_property
    def export(self) -> View:
        # The export has exactly the rows of the list, in its order.
        def export(request: HtmxRequest, form: str) -> HttpResponseBase:
            query = self.parse(request.GET.get("q", ""), request.user)
            project = requested_project(request)
            return export_records(
                self.read_records(query, project, request),
                list(self.export_columns),
                form=form,
                name=self.file_name or self.nouns,
                problems=list_problems(query, self.name, project),
            )

        return export

    def read_records(
        self, query: B, project: Project | None, request: HtmxRequest
    ) -> Iterable[Sequence[Any]]:
        sort = read_sort(request.GET.get("sort", ""), self.sorts, 0)
        rows = sort_rows(
            self.for_export(self.find(query, project)), self.order_of(sort), self.sorts
        )
        return read_values(rows, self.export_columns.values())

    def for_export(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows with the columns that only the export has."""
        return rows

    # ---- steps

    def find_steps(self, visit: Visit, id: UUID, *, with_shift: bool = False) -> Steps | None:
        """Return the links from a row's page to its neighbors in the list of the address."""
        if not steps.are_shown(visit):
            return None
        query = self.parse(visit.request.GET.get("q", ""), visit.request.user)
        beside = self.find_beside(query, visit, id)
        return steps.build_steps(
            visit, beside, place=self.name, page=self.row_page, with_shift=with_shift
        )

    def find_beside(self, query: B, visit: Visit, id: UUID) -> Beside:
        rows = self.find(query, visit.scope.project)
        sort = read_sort_of(visit.request.GET.get("sort", ""), self.sorts, rows)
        return steps.find_beside(rows, id, self.order_of(sort), self.sorts)


def build_toggle(visit: Visit, id: UUID, *, is_open: bool) -> str:
    """Return the query string that opens a row in its place, or closes the open one."""
    given = here_of(visit.request)
    given.pop("open", None)
    if not is_open:
        given["open"] = str(id)
    return f"?{given.urlencode()}"
