"""Export the rules of a list: exactly those that its filter finds, in its order."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.frame.access import operators_only
from dashboard.frame.navigation import requested_project
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.export import export_records
from dashboard.lists.nearest_names import list_problems
from dashboard.lists.sorting import read_sort
from dashboard.standing_instructions import filters
from dashboard.standing_instructions.queries import ListedRule
from dashboard.standing_instructions.rows import COLUMNS as SORTS
from dashboard.standing_instructions.rows import read_rules, state_of

COLUMNS = (
    *("id", "project", "agent", "state", "content", "event", "signal_type", "match"),
    *("task_type", "plan", "interval_s", "expect_type", "expect_match", "max_retries"),
    *("on_failed", "once_per", "hold_stop", "sent", "followed", "given_up", "stops_held"),
    *("last_sent_at", "created_by", "created_at"),
)


@require_safe
@operators_only
def export(request: HtmxRequest, form: str) -> HttpResponseBase:
    """Stream the list as CSV or JSON lines, with the figures of seven days that it shows."""
    query, now = filters.parse(request.GET.get("q", "")), timezone.now()
    project = requested_project(request)
    found = read_rules(query, project, read_sort(request.GET.get("sort", ""), SORTS, 0), now=now)
    records = (list(cells_of(each)) for each in found.shown)
    problems = list_problems(query, "rules", project)
    return export_records(
        records, COLUMNS, form=form, name="standing-instructions", problems=problems
    )


def cells_of(rule: ListedRule) -> Iterator[Any]:
    row, record = rule.row, rule.record
    yield from (row.pk, row.project.name, row.agent.name if row.agent else "", state_of(rule))
    yield from (row.content, row.event, row.signal_type, row.match, row.task_type)
    yield from (row.plan.ref if row.plan else "", row.interval_s, row.expect_type)
    yield from (row.expect_match, row.max_retries, row.on_failed, row.once_per, row.hold_stop)
    yield from (record.fired, sum(record.followed), record.ignored, record.held)
    yield from (rule.last_fired_at, row.created_by_name, row.created_at)
