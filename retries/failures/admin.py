"""The admin's pages of failure patterns, and of what people decided about fixes."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_pages.lists import ReadOnly
from ledger.admin_pages.records import OF_PATTERN
from ledger.errors import NotFound
from ledger.journal import stamp_of
from retries.failures.figures import FAILURES
from retries.failures.fixes import verdicts as fix_verdicts
from retries.models import FailurePattern, FixVerdict
from retries.states import Verdict
from retries.verbs import patterns
from retries.verbs.admin import VerbAdmin


@admin.register(FailurePattern)
class FailurePatternAdmin(VerbAdmin):
    list_display = (
        "template",
        "failures",
        "state",
        "ignored_until",
        "first_seen",
        "last_seen",
        "project",
    )
    list_filter = ("state", "project")
    search_fields = ("template", "fingerprint")
    ordering = ("-last_seen", "-id")
    verbs = patterns.ADMIN
    page = "/patterns/{0.pk}/"
    links = {
        "Failures": f"ledger.Failure?{OF_PATTERN}={{0.pk}}",
        "Events": "ledger.Event?subject_id__exact={0.pk}",
        "Verdicts on its fixes": "retries.FixVerdict?pattern__id__exact={0.pk}",
    }

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).annotate(total=FAILURES)
        return found

    @admin.display(description="Failures")
    def failures(self, row: Any) -> str:
        return f"{row.total:,}"


@admin.register(FixVerdict)
class FixVerdictAdmin(ReadOnly):
    project_path = "pattern__project_id"
    list_display = ("fix", "verdict", "pattern", "by_name", "at", "note")
    list_filter = ("verdict", "pattern__project")
    search_fields = ("fix", "note", "by_name", "pattern__template")
    ordering = ("-at", "-id")
    actions = ("promote", "retire", "reset")
    page = "/patterns/{0.pattern_id}/"
    links = {"Pattern": "pattern", "Events": "ledger.Event?subject_id__exact={0.pattern_id}"}

    def list_subjects(self, row: FixVerdict) -> list[UUID]:
        return [row.pattern_id]

    @admin.action(description="Promote: advice whatever its counts")
    def promote(self, request: HttpRequest, chosen: QuerySet[FixVerdict]) -> None:
        self.judge(request, chosen, Verdict.PROMOTED, "promoted")

    @admin.action(description="Retire: neither offered nor told")
    def retire(self, request: HttpRequest, chosen: QuerySet[FixVerdict]) -> None:
        self.judge(request, chosen, Verdict.RETIRED, "retired")

    @admin.action(description="Reset: its counts decide again")
    def reset(self, request: HttpRequest, chosen: QuerySet[FixVerdict]) -> None:
        self.judge(request, chosen, None, "reset")

    def judge(
        self, request: HttpRequest, chosen: QuerySet[FixVerdict], verdict: Verdict | None, done: str
    ) -> None:
        changed = 0
        for row in chosen.exclude(verdict=verdict or "").select_related("pattern"):
            try:
                fix_verdicts.judge(
                    row.pattern,
                    signature=row.signature,
                    key=row.fix_key,
                    verdict=verdict,
                    stamp=stamp_of(request),
                )
                changed += 1
            except NotFound:
                continue  # too many newer answers came since
        self.report_changes(request, changed, done)
