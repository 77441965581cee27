"""The admin of sessions: read-only lists of sessions, messages and to-dos."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest

from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly
from ledger.models import Event, Message, Session, SessionTask
from ledger.sessions.message_forms import ROLES
from ledger.states import BatchOutcome


@admin.register(Session)
class SessionAdmin(ReadOnly):
    list_display = (
        "title",
        "agent",
        "tracker",
        "message_count",
        "pending_count",
        "failed_count",
        "last_outcome",
        "last_message_at",
    )
    list_filter = (
        "tracker",
        "disable_task_tracking",
        list_values("last_outcome", BatchOutcome.values),
        "project",
    )
    list_select_related = ("agent",)
    search_fields = ("title", "external_id", "agent__name")
    ordering = ("-id",)
    page = "/sessions/{}/"

    def list_links(self, request: HttpRequest, row: Session) -> Iterator[Link]:
        of = {"session__id__exact": row.pk}
        yield from self.link_to_row(request, "Agent", row.agent)
        yield from self.link_to_list(request, "Messages", Message, **of)
        yield from self.link_to_list(
            request, "Failed messages", Message, **of, state__exact="failed"
        )
        yield from self.link_to_list(request, "To-dos", SessionTask, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)


class OfSession(ReadOnly):
    """Rows of a session, whose events are their history."""

    project_path = "session__project_id"
    ordering = ("-id",)

    def list_subjects(self, row: Any) -> list[UUID]:
        return [row.session_id]

    def find_page(self, row: Any) -> str:
        return f"/sessions/{row.session_id}/"

    def list_links(self, request: HttpRequest, row: Any) -> Iterator[Link]:
        of = {"session__id__exact": row.session_id}
        yield from self.link_to_row(request, "Session", row.session)
        yield from self.link_to_list(request, "Messages", Message, **of)
        yield from self.link_to_list(request, "To-dos", SessionTask, **of)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.session_id)


@admin.register(Message)
class MessageAdmin(OfSession):
    list_display = ("session", "order", "role", "state", "sent_at", "planning")
    list_filter = ("state", list_values("role", sorted({*ROLES.values()})), "session__project")
    list_select_related = ("session",)
    search_fields = ("session__title", "session__external_id")
    sortable_by = ()

    def name_row(self, row: Message) -> str:
        return f"Message {row.order} of {row.session}"


@admin.register(SessionTask)
class SessionTaskAdmin(OfSession):
    list_display = ("session", "order", "description", "state", "task", "updated_at")
    list_filter = ("state", "session__project")
    list_select_related = ("session", "task")
    search_fields = ("description", "session__title")
