"""Read-only lists in the admin, which ask for the same permissions as the pages."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from ledger.permissions import may, projects_where

# filters on these list the names of every project's rows
OTHERS_NAMES = {"project", "agent", "plan", "channel", "user"}


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that staff can view but not edit."""

    show_full_result_count = False
    list_per_page = 50

    # the lookup of a row's project; None for what belongs to the instance
    project_path: str | None = None

    def verb_of(self, verb: str) -> str:
        return f"{self.opts.app_label}.{verb}_{self.opts.model_name}"

    def may(self, request: HttpRequest, verb: str) -> bool:
        """Return whether the user may view, add or change such rows, in some project at least.

        `get_queryset` leaves only the rows of the projects in which the user may. Forms let one
        choose any project, so adding needs the permission in every project.
        """
        if verb == "add":
            return may(request.user, self.verb_of("add"))
        projects = projects_where(request.user, self.verb_of(verb))
        return projects is None or (bool(projects) and self.find_project_path() is not None)

    def find_project_path(self) -> str | None:
        names = {field.attname for field in self.opts.concrete_fields}
        return "project_id" if "project_id" in names else self.project_path

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows that the user may view, or for an action, may change."""
        rows = super().get_queryset(request)
        acts = request.method == "POST" and "action" in request.POST
        for verb in ("view", "change") if acts else ("view",):
            projects = projects_where(request.user, self.verb_of(verb))
            if projects is None or (verb == "view" and may(request.user, self.verb_of("change"))):
                continue
            path = self.find_project_path()
            rows = rows.filter(**{f"{path}__in": projects}) if path else rows.none()
        return rows

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "view") or self.may(request, "change")

    def get_list_filter(self, request: HttpRequest) -> Any:
        """Return the filters, without those that would list other projects' names."""
        found = super().get_list_filter(request)
        if may(request.user, self.verb_of("view")) or may(request.user, self.verb_of("change")):
            return found
        return [each for each in found if str(each).rpartition("__")[2] not in OTHERS_NAMES]

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the actions; all of them change rows."""
        return super().get_actions(request) if self.may(request, "change") else {}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find a row by a pasted id, or search the search fields."""
        try:
            return queryset.filter(pk=UUID(search_term.strip())), False
        except ValueError:
            return super().get_search_results(request, queryset, search_term.replace("\x00", ""))

    def report_changes(self, request: HttpRequest, changed: int, what: str) -> None:
        """Show how many rows changed."""
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{changed} {what}." if changed else f"None {what}.", level)
