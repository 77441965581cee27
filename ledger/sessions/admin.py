"""The admin of sessions: read-only lists of sessions, messages and to-dos."""

from typing import Any
from uuid import UUID

from django.contrib import admin

from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly
from ledger.models import Message, Session, SessionTask
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
    search_fields = ("title", "external_id", "agent__name")
    page = "/sessions/{0.pk}/"
    links = {
        "Agent": "agent",
        "Messages": "ledger.Message?session__id__exact={0.pk}",
        "Failed messages": "ledger.Message?session__id__exact={0.pk}&state__exact=failed",
        "To-dos": "ledger.SessionTask?session__id__exact={0.pk}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
    }


class OfSession(ReadOnly):
    """Rows of a session, whose events are their history."""

    project_path = "session__project_id"
    page = "/sessions/{0.session_id}/"
    links = {
        "Session": "session",
        "Messages": "ledger.Message?session__id__exact={0.session_id}",
        "To-dos": "ledger.SessionTask?session__id__exact={0.session_id}",
        "Events": "ledger.Event?subject_id__exact={0.session_id}",
    }

    def list_subjects(self, row: Any) -> list[UUID]:
        return [row.session_id]


@admin.register(Message)
class MessageAdmin(OfSession):
    list_display = ("session", "order", "role", "state", "sent_at", "planning")
    list_filter = ("state", list_values("role", sorted({*ROLES.values()})), "session__project")
    search_fields = ("session__title", "session__external_id")
    sortable_by = ()

    def name_row(self, row: Message) -> str:
        return f"Message {row.order} of {row.session}"


@admin.register(SessionTask)
class SessionTaskAdmin(OfSession):
    list_display = ("session", "order", "description", "state", "task", "updated_at")
    list_filter = ("state", "session__project")
    search_fields = ("description", "session__title")
