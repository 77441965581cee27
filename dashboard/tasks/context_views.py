"""The page that compares what two attempts of a task were told."""

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse, reverse_lazy

from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import Crumb, HtmxRequest, begin_visit, compose_page, respond
from dashboard.tasks import detail_queries
from dashboard.tasks.context_comparison import compare_elements, compare_lines
from ledger.models import Attempt
from retries.models import StoredContext


@dataclass(frozen=True, slots=True)
class ToldContext:
    """An attempt's retry context: the block as its agent got it, and what was stored about it."""

    attempt: Attempt
    text: str

    @property
    def sha256(self) -> str:
        return bytes(self.attempt.context_sha256 or b"").hex()

    @property
    def is_lost(self) -> bool:
        # A hash without a text: the attempt is older than the storage of blocks.
        return bool(self.sha256) and not self.text


def index(request: HtmxRequest, task_id: UUID) -> HttpResponse:
    # By default, the last two attempts are compared.
    visit = begin_visit(request, current="tasks")
    row = require_row(detail_queries.find_task(task_id), "task", task_id)
    attempts = detail_queries.list_attempts(row)
    chosen = [
        find_attempt(attempts, request.GET.get(name, ""), otherwise=place)
        for name, place in (("a", -2), ("b", -1))
    ]
    ids = [each.pk for each in chosen if each]
    texts = dict(StoredContext.objects.filter(attempt__in=ids).values_list("attempt", "text"))
    first, second = (ToldContext(each, texts.get(each.pk, "")) if each else None for each in chosen)
    page = compose_page(
        title=f"What attempts were told · {str(row)[:60]}",
        heading="What attempts were told",
        crumbs=(
            Crumb("Tasks", reverse_lazy("dashboard:tasks")),
            Crumb(
                row.ref or f"…{str(row.pk)[-8:]}",
                reverse("dashboard:task", args=[row.pk]) + visit.scope.query,
            ),
        ),
        row=row,
        attempts=attempts,
        first=first,
        second=second,
        elements=compare_elements(first.attempt.context_elements, second.attempt.context_elements)
        if first and second
        else [],
        lines=compare_lines(first.text, second.text) if first and second else [],
        is_same=bool(first and second and first.sha256 == second.sha256),
    )
    return respond(visit, "tasks/contexts.html", "tasks/_contexts.html", page)


def find_attempt(attempts: list[Attempt], number: str, *, otherwise: int) -> Attempt | None:
    for each in attempts:
        if str(each.number) == number:
            return each
    if not attempts:
        return None
    return attempts[otherwise] if len(attempts) >= -otherwise else attempts[0]
