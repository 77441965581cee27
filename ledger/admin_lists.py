"""Read-only lists in the admin, which ask for the same permissions as the pages."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from ledger.permissions import may


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that staff can view but not edit."""

    show_full_result_count = False
    list_per_page = 50

    def may(self, request: HttpRequest, verb: str) -> bool:
        """Return whether the user has a permission on the model: view, add or change."""
        return may(request.user, f"{self.opts.app_label}.{verb}_{self.opts.model_name}")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may(request, "view") or self.may(request, "change")

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
