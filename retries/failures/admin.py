"""The admin's page of what people decided about fixes."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_lists import ReadOnly
from ledger.errors import NotFound
from ledger.journal import stamp_of
from retries.failures import fix_verdicts
from retries.models import FixVerdict
from retries.states import Verdict


@admin.register(FixVerdict)
class FixVerdictAdmin(ReadOnly):
    project_path = "pattern__project_id"
    list_display = ("fix", "verdict", "pattern", "by_name", "at", "note")
    list_filter = ("verdict", "pattern__project")
    list_select_related = ("pattern",)
    search_fields = ("fix", "note", "by_name", "pattern__template")
    ordering = ("-at", "-id")
    actions = ("promote", "retire", "reset")

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
        self,
        request: HttpRequest,
        chosen: QuerySet[FixVerdict],
        verdict: Verdict | None,
        done: str,
    ) -> None:
        """Give the fixes of these rows a verdict."""
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
