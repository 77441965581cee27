"""The admin's page of operations, which people can undo before they start or stop."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from ledger.admin_pages.confirmation import confirm, list_effects
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly
from ledger.authorization.permissions import may
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.values.text import counted
from retries.models import Operation
from retries.models.operation import UNDER_WAY, OperationState
from retries.operations import ending
from retries.operations.registry import VERBS, find_verb


def describe_stop(request: HttpRequest, chosen: QuerySet[Operation]) -> list[str]:
    rows = list(chosen.filter(state__in=UNDER_WAY))
    left = sum(row.left for row in rows)
    return list_effects(
        (
            len(rows),
            f"{counted(len(rows), 'operation')} will stop. Rows that changed stay changed.",
        ),
        (left, f"{counted(left, 'row')} will stay as {'it is' if left == 1 else 'they are'}."),
    )


@admin.register(Operation)
class OperationAdmin(ReadOnly):
    project_path = "project_ids"
    list_display = (
        "counted_at",
        "verb",
        "state",
        "total",
        "changed",
        "refused",
        "actor_name",
        "reason",
        "ended_at",
    )
    list_filter = ("state", list_values("verb", sorted(VERBS)))
    search_fields = ("verb", "reason", "actor_name")
    actions = ("undo", "stop")
    narrow = {
        "undo": lambda rows: rows.filter(state=OperationState.WAITING),
        "stop": lambda rows: rows.filter(state__in=UNDER_WAY),
    }
    page = "/operations/{0.pk}/"
    links = {"Events": "ledger.Event?subject_id__exact={0.pk}"}

    def match_projects(self, projects: frozenset[UUID]) -> Q:
        # A person must see each project of a row.
        return Q(project_ids__contained_by=list(projects))

    @admin.action(description="Undo: start none of it")
    def undo(self, request: HttpRequest, chosen: QuerySet[Operation]) -> None:
        self.end(request, chosen, ending.undo_operation, "undone")

    @admin.action(description="Stop…")
    @confirm(describe_stop)
    def stop(self, request: HttpRequest, chosen: QuerySet[Operation]) -> None:
        self.end(request, chosen, ending.stop_operation, "stopped")

    def end(
        self,
        request: HttpRequest,
        chosen: QuerySet[Operation],
        end_one: Callable[..., Operation],
        done: str,
    ) -> None:
        changed = 0
        for row in chosen.order_by("id"):
            try:
                needed = find_verb(row.verb).permission
                if not all(may(request.user, needed, project) for project in row.project_ids):
                    raise Refusal(f"You may not end “{row}”.")
                end_one(row.pk, among=Operation.objects.all(), stamp=stamp_of(request))
                changed += 1
            except Refusal as refusal:
                self.message_user(request, refusal.detail, messages.ERROR)
        self.report_changes(request, changed, done)
