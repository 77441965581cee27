"""The admin's pages of failure patterns, and of what people decided about fixes."""

from collections.abc import Iterator
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_pages.confirmation import confirm
from ledger.admin_pages.details import Link
from ledger.admin_pages.lists import ReadOnly
from ledger.admin_pages.records import OF_PATTERN
from ledger.errors import NotFound
from ledger.journal import stamp_of
from ledger.models import Event, Failure
from ledger.states import Who
from retries.admin_pages import effects as admin_effects
from retries.failures import patterns
from retries.failures.fixes import verdicts as fix_verdicts
from retries.models import FailurePattern, FixVerdict
from retries.states import PATTERN_MOVES, PatternState, Verdict


@admin.register(FailurePattern)
class FailurePatternAdmin(ReadOnly):
    list_display = ("template", "state", "ignored_until", "first_seen", "last_seen", "project")
    list_filter = ("state", "project")
    list_select_related = ("project",)
    search_fields = ("template", "fingerprint")
    ordering = ("-last_seen", "-id")
    actions = ("resolve", "ignore", "reopen", "retry")
    narrow = {
        "resolve": lambda rows: rows.filter(state__in=states_before(PatternState.RESOLVED)),
        "ignore": lambda rows: rows.filter(state__in=states_before(PatternState.IGNORED)),
        "reopen": lambda rows: rows.filter(state__in=states_before(PatternState.OPEN)),
    }
    page = "/patterns/{}/"

    def list_links(self, request: HttpRequest, row: FailurePattern) -> Iterator[Link]:
        yield from self.link_to_list(request, "Failures", Failure, **{OF_PATTERN: row.pk})
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pk)
        yield from self.link_to_list(
            request, "Verdicts on its fixes", FixVerdict, pattern__id__exact=row.pk
        )

    @admin.action(description="Resolve: the next failure is a regression")
    def resolve(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(
            request, len(patterns.resolve(ids, stamp=stamp_of(request))), "resolved"
        )

    @admin.action(description="Ignore permanently")
    def ignore(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(request, len(patterns.ignore(ids, stamp=stamp_of(request))), "ignored")

    @admin.action(description="Reopen")
    def reopen(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = chosen.values_list("pk", flat=True)
        self.report_changes(request, len(patterns.reopen(ids, stamp=stamp_of(request))), "reopened")

    @admin.action(description="Retry all: dead letters, retries and questions")
    @confirm(admin_effects.retry_patterns)
    def retry(self, request: HttpRequest, chosen: QuerySet[FailurePattern]) -> None:
        ids = list(chosen.values_list("pk", flat=True))
        again = patterns.retry(ids, stamp=stamp_of(request), channel="admin")
        self.report_changes(request, len(again), "retried")


def states_before(state: PatternState) -> list[PatternState]:
    """Return the states from which a person can move a pattern to this one."""
    return [
        each
        for each, moves in PATTERN_MOVES.items()
        if each != state and Who.PERSON in moves.get(state, ())
    ]


@admin.register(FixVerdict)
class FixVerdictAdmin(ReadOnly):
    project_path = "pattern__project_id"
    list_display = ("fix", "verdict", "pattern", "by_name", "at", "note")
    list_filter = ("verdict", "pattern__project")
    list_select_related = ("pattern",)
    search_fields = ("fix", "note", "by_name", "pattern__template")
    ordering = ("-at", "-id")
    actions = ("promote", "retire", "reset")

    def find_page(self, row: FixVerdict) -> str:
        return f"/patterns/{row.pattern_id}/"

    def list_subjects(self, row: FixVerdict) -> list[UUID]:
        return [row.pattern_id]

    def list_links(self, request: HttpRequest, row: FixVerdict) -> Iterator[Link]:
        yield from self.link_to_row(request, "Pattern", row.pattern)
        yield from self.link_to_list(request, "Events", Event, subject_id__exact=row.pattern_id)

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
        """Record a verdict about the fixes of these rows."""
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
