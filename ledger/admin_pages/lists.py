"""Read-only lists in the admin, which ask for the same permissions as the pages."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import (
    CharField,
    F,
    Field,
    ForeignKey,
    Func,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    UUIDField,
)
from django.db.models import Value as V
from django.db.models.functions import Coalesce, NullIf
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from ledger import search_words
from ledger.admin_pages.details import DetailPage, shorten
from ledger.admin_pages.filters import RelatedNames, list_json_columns
from ledger.admin_pages.paging import LimitedPaginator
from ledger.authorization.permissions import may, projects_where
from ledger.models import Failure, Task

# filters on these list the names of every project's rows
OTHERS_NAMES = {"project", "agent", "plan", "channel", "user"}


COLUMN_LENGTH = 60  # characters of a text in a list
NARROW = 20  # characters of a text that needs no wide column

# of the newest failure of a task: its headline, or its message until the headline is stored
HEADLINE = Func(F("telling_lines"), V("\n"), V(1), function="split_part", output_field=TextField())
LAST_ERROR = Subquery(
    Failure.objects.filter(task=OuterRef("shown_task"))
    .order_by("-id")
    .values(text=Coalesce(NullIf(HEADLINE, V("", TextField())), "message"))[:1]
)


class ReadOnly(DetailPage):
    """Rows that staff can view but not edit."""

    # no page of a list reads or counts every row
    paginator = LimitedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = list_max_show_all = 50  # no list is read whole
    # without an `ordering`, the newest rows come first: Django sorts by falling ids

    # the lookup of a row's project; None for what belongs to the instance
    project_path: str | None = None
    # the lookups of a row's task and instruction, whose words the search finds
    task_path = ""
    instruction_path = ""
    # the JSON columns that a list reads
    json_columns: tuple[str, ...] = ()

    def verb_of(self, verb: str) -> str:
        return f"{self.opts.app_label}.{verb}_{self.opts.model_name}"

    def may(self, request: HttpRequest, verb: str) -> bool:
        """Return whether the user may view, add, or change such rows, in some project at least."""
        # `get_queryset` leaves only the rows of the projects in which the user may. A form offers
        # every project, so adding needs the permission in every project.
        if verb == "add":
            return may(request.user, self.verb_of("add"))
        projects = projects_where(request.user, self.verb_of(verb))
        return projects is None or (bool(projects) and self.find_project_path() is not None)

    def find_project_path(self) -> str | None:
        names = {field.attname for field in self.opts.concrete_fields}
        return "project_id" if "project_id" in names else self.project_path

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # An action applies only to rows that the user may change.
        rows = super().get_queryset(request)
        acts = request.method == "POST" and "action" in request.POST
        for verb in ("view", "change") if acts else ("view",):
            projects = projects_where(request.user, self.verb_of(verb))
            if projects is None or (verb == "view" and may(request.user, self.verb_of("change"))):
                continue
            rows = rows.filter(self.match_projects(projects))
        match = request.resolver_match
        is_list = bool(match and (match.url_name or "").endswith("_changelist"))
        return (
            rows.defer(*self.list_unread(request)) if is_list and request.method == "GET" else rows
        )

    def get_list_select_related(self, request: HttpRequest) -> Any:
        columns = {each.name for each in self.opts.fields if isinstance(each, ForeignKey)}
        shown = tuple(name for name in self.list_display if name in columns)
        return self.list_select_related or shown

    def list_unread(self, request: HttpRequest) -> list[str]:
        models: dict[str, Any] = {"": self.model}
        for name in self.get_list_select_related(request):
            models[f"{name}__"] = self.opts.get_field(name).related_model
        return [
            f"{path}{name}"
            for path, model in models.items()
            for name in list_json_columns(model)
            if name not in self.json_columns
        ]

    def match_projects(self, projects: frozenset[UUID]) -> Q:
        path = self.find_project_path()
        return Q(**{f"{path}__in": projects}) if path else Q(pk__in=[])

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "view") or self.may(request, "change")

    def get_list_filter(self, request: HttpRequest) -> Any:
        # Some filters would list other projects' names.
        everywhere = any(may(request.user, self.verb_of(verb)) for verb in ("view", "change"))
        found: list[Any] = []
        for each in super().get_list_filter(request):
            if str(each).rpartition("__")[2] not in OTHERS_NAMES:
                found.append(each)
            elif everywhere:
                found.append((each, RelatedNames))
        return found

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # All actions change rows.
        return super().get_actions(request) if self.may(request, "change") else {}

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *more: Any
    ) -> HttpResponse | None:
        # An action can't cover all rows of a list that is too long to count.
        is_about_all = request.POST.get("select_across") == "1"
        if is_about_all and LimitedPaginator(queryset, self.list_per_page).has_more:
            text = f"Nothing changed. An action changes at most {LimitedPaginator.limit:,} rows."
            self.message_user(
                request, f"{text} Select fewer with a search or a filter.", messages.ERROR
            )
            return None
        return super().response_action(request, queryset, *more)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_list_display(self, request: HttpRequest) -> Any:
        # A long text is cut, and its title shows all of it.
        return [self.cut_column(name) for name in super().get_list_display(request)]

    def cut_column(self, name: Any) -> Any:
        if name == "__str__":
            return make_column(name, self.opts.verbose_name, None, str)
        field = next((each for each in self.opts.get_fields() if each.name == name), None)
        if not isinstance(field, Field) or not is_long(field):
            return name
        return make_column(name, field.verbose_name, name, lambda row: getattr(row, name))

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        # Without search fields, a list still finds a pasted id.
        found = tuple(super().get_search_fields(request))
        return found or (("pk",) if isinstance(self.opts.pk, UUIDField) else ())

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        try:
            return queryset.filter(pk=UUID(search_term.strip())), False
        except ValueError:
            pass
        term = search_term.replace("\x00", "")
        if not self.task_path and not self.instruction_path:
            return super().get_search_results(request, queryset, term)
        for word in term.split():
            queryset = queryset.filter(self.match_word(word))
        return queryset, False

    def match_word(self, word: str) -> Q:
        either = Q()
        for name in self.search_fields:
            either |= Q(**{f"{name}__icontains": word})
        if self.task_path:
            either |= search_words.match_task(word, self.task_path)
        if self.instruction_path:
            either |= search_words.match_instruction(word, self.instruction_path)
        return either

    def report_changes(self, request: HttpRequest, changed: int, what: str) -> None:
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{changed} {what}." if changed else f"None {what}.", level)


class WithErrors(ReadOnly):
    """Rows that show the newest error of their task."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).alias(shown_task=F(self.task_path))
        found: QuerySet[Any] = rows.annotate(last_error=LAST_ERROR)
        return found

    @admin.display(description="Last error", empty_value="-")
    def error(self, row: Any) -> str | None:
        return cut(row.last_error) if row.last_error else None


def is_long(field: "Field[Any, Any]") -> bool:
    if isinstance(field, CharField):
        return (field.max_length or 0) > COLUMN_LENGTH
    return isinstance(field, TextField | ForeignKey)


def make_column(
    name: str, title: Any, ordering: str | None, read: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    @admin.display(description=title, ordering=ordering, empty_value="-")
    def column(row: Any) -> Any:
        value = read(row)
        return None if value is None else cut(str(value))

    column.__name__ = name
    return column


def cut(text: str) -> str:
    """Return a text on one short line; a cut text shows all of it as its title."""
    line = shorten(text, COLUMN_LENGTH)
    wide = " wide" if len(line) > NARROW else ""
    if line == text:
        return format_html('<bdi class="cut{}">{}</bdi>', wide, text)
    return format_html('<bdi class="cut{}" title="{}">{}</bdi>', wide, text, line)


def name_task(task: Task) -> str:
    return " ".join(filter(None, (task.ref, task.title or task.type)))
