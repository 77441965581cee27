"""The admin of sessions: read-only lists of sessions, messages and to-dos."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_lists import ReadOnly
from ledger.models import Message, Session, SessionTask


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
    list_filter = ("tracker", "disable_task_tracking", "last_outcome", "project")
    list_select_related = ("agent",)
    search_fields = ("title", "external_id", "agent__name")
    ordering = ("-id",)


@admin.register(Message)
class MessageAdmin(ReadOnly):
    project_path = "session__project_id"
    list_display = ("session", "order", "role", "state", "sent_at", "planning")
    list_filter = ("state", "role", "session__project")
    list_select_related = ("session",)
    search_fields = ("session__title", "session__external_id")
    ordering = ("-id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # the list shows no contents, of which one can have a MiB
        rows = super().get_queryset(request)
        match = request.resolver_match
        is_list = bool(match and (match.url_name or "").endswith("_changelist"))
        return rows.defer("content") if is_list else rows


@admin.register(SessionTask)
class SessionTaskAdmin(ReadOnly):
    project_path = "session__project_id"
    list_display = ("session", "order", "description", "state", "task", "updated_at")
    list_filter = ("state", "session__project")
    list_select_related = ("session", "task")
    search_fields = ("description", "session__title")
    ordering = ("-id",)
