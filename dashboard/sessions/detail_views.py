"""The page of one session: its conversation, and the tasks found in it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import Http404, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse_lazy

from dashboard.form_values import read_whole_number
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import (
    Crumb,
    HtmxRequest,
    PageContext,
    Visit,
    begin_visit,
    compose_page,
    live_page,
    respond,
    wants_part,
)
from dashboard.lists.query_box import clean
from dashboard.sessions import detail_queries
from dashboard.sessions.conversation import format_arguments, lay_out
from dashboard.sessions.conversation_items import BatchLine
from dashboard.sessions.detail_queries import TABS, Todo, Window
from dashboard.sessions.listing import SESSIONS
from dashboard.sessions.rows import derive_state, describe_buffer, describe_todos, join_numbers
from dashboard.sessions.task_form import TaskForm, asked_form
from dashboard.wording.formatting import clock_time, counted, duration
from ledger.models import Session, SessionBatch, SessionTask
from ledger.sessions.message_parts import Call, Part, Result, parts_from_json
from ledger.states import BatchOutcome, MessageState
from ledger.values.text import truncate

BATCHES_BESIDE = 3
REASON = 160


@dataclass(frozen=True, slots=True)
class Tab:
    name: str
    label: str
    count: int | None


@dataclass(frozen=True, slots=True)
class TodoLine:
    """A to-do beside the conversation, with links to its messages."""

    row: SessionTask
    css: str
    icon: str
    label: str
    links: list[tuple[int, str]]
    more: int

    @property
    def notes(self) -> str:
        return str(self.row.progress[-1]) if self.row.progress else ""

    @property
    def task_key(self) -> str:
        task = self.row.task
        return (task.ref or f"…{str(task.pk)[-8:]}") if task else ""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch beside the conversation."""

    number: int
    row: SessionBatch
    state: str
    says: str


@live_page(
    "sessions/detail.html",
    "sessions/_session.html",
    current="sessions",
    of=Session,
    row="session_id",
)
def detail(visit: Visit, session_id: UUID) -> PageContext:
    return build_page(visit, find_or_404(session_id))


def build_page(
    visit: Visit,
    row: Session,
    *,
    task_form: TaskForm | None = None,
    gave_up: str = "",
    status_code: int = 200,
) -> PageContext:
    now, window = visit.now, read_window(visit.request)
    batches = number_batches(detail_queries.list_batches(row), now)
    page = detail_queries.list_messages(row, window, {each.row.pk: each.number for each in batches})
    state, began = derive_state(row, now), detail_queries.find_start(row)
    is_end = page.later is None and window.is_whole
    todos = detail_queries.list_todos(row)
    lines = {each.number: BatchLine(each.number, each.state, each.says) for each in batches}
    return compose_page(
        title=f"{str(row)[:60]} · Session",
        heading=truncate(str(row), 60),
        crumbs=(SESSIONS.crumb,),
        list_steps=SESSIONS.find_steps(visit, row.pk, with_shift=True),
        row=row,
        state=state,
        span=describe_span(row, began),
        began=began,
        window=window,
        tabs=build_tabs(row),
        page=page,
        items=lay_out(
            page.messages,
            lines,
            deliveries=detail_queries.list_deliveries(row, page.messages)
            if window.is_whole
            else (),
            is_end=is_end,
            folds=window.is_whole,
        ),
        first=page.messages[0].number if page.messages and is_end else None,
        buffer=describe_buffer(row, state),
        todos=[describe_todo(each) for each in todos],
        todo_counts=describe_todos(row),
        planning=detail_queries.list_planning(row),
        batches=batches[::-1][: None if "batches" in visit.request.GET else BATCHES_BESIDE],
        batch_count=len(batches),
        failed_batch=find_failed(batches) if state == "failed" or row.failed_count else None,
        linked=detail_queries.find_attempt(page.messages),
        is_end=is_end,
        task_form=task_form or asked_form(visit.request, row, [each.row for each in todos]),
        gave_up=gave_up,  # why a flush did not happen
        status_code=status_code,
    )


def find_or_404(session_id: UUID) -> Session:
    return require_row(detail_queries.find_session(session_id), "session", session_id)


def read_window(request: HtmxRequest) -> Window:
    # Anything that is not a number counts as absent.
    def bound(name: str) -> int | None:
        return read_whole_number(request.GET.get(name, ""))

    tab = request.GET.get("show", "")
    return Window(
        tab=tab if tab in TABS else "",
        state=wanted if (wanted := request.GET.get("state", "")) in MessageState.values else "",
        find=clean(request.GET.get("find", "")) if tab not in TABS else "",
        before=bound("before"),
        after=bound("after"),
        at=bound("at"),
        start=bound("start"),
    )


def build_tabs(row: Session) -> list[Tab]:
    counts = detail_queries.count_tabs(row)
    return [
        Tab("", "Conversation", None),
        Tab("errors", "Errors", counts["errors"]),
        Tab("prompts", "Prompts", counts["prompts"]),
        Tab("todos", "To-dos", counts["todos"]),
    ]


def describe_span(row: Session, began: datetime) -> str:
    lasted = duration(row.last_message_at - began)
    return f"{lasted}, {counted(row.message_count, 'message')}"


TODO_LOOKS = {
    "pending": ("", "s-queued", "Pending"),
    "running": ("todo--running", "s-running", "Running"),
    "success": ("todo--done", "s-done", "Done"),
    "failed": ("todo--failed", "s-failed", "Failed"),
    "dropped": ("", "s-aborted", "Dropped"),
}


def describe_todo(todo: Todo) -> TodoLine:
    css, icon, label = TODO_LOOKS[todo.row.state]
    links = join_numbers(todo.numbers)
    every = len(join_numbers(todo.numbers, most=len(todo.numbers)))
    return TodoLine(todo.row, css, icon, label, links, every - len(links))


def number_batches(batches: list[SessionBatch], now: datetime) -> list[BatchRow]:
    return [
        BatchRow(number, batch, batch.outcome or "running", describe_batch(batch, now))
        for number, batch in enumerate(batches, 1)
    ]


def find_failed(batches: list[BatchRow]) -> BatchRow | None:
    failed = [each for each in batches if each.state in (BatchOutcome.FAILED, BatchOutcome.LOST)]
    return failed[-1] if failed else None


def describe_batch(batch: SessionBatch, now: datetime) -> str:
    said = [counted(batch.message_count, "message")]
    if batch.ended_at is None:
        return f"{said[0]}, since {clock_time(batch.started_at, now=now)}"
    said.append(duration(batch.ended_at - batch.started_at))
    if batch.outcome == BatchOutcome.SUCCESS:
        said.append(counted(batch.calls, "tool call"))
        return ", ".join(said)
    return f"{', '.join(said)}: {truncate(' '.join(batch.reason.split()), REASON)}"


# ---- one message


def message(request: HtmxRequest, session_id: UUID, number: int) -> HttpResponseBase:
    """Show a message whole, or for a script only the input and output of its calls."""
    row = find_or_404(session_id)
    found = detail_queries.find_message(row, number)
    if found is None:
        raise Http404(f"There is no message {number} in the session {session_id}.")
    parts = list(parts_from_json(found.content))
    calls = {part.id for part in parts if isinstance(part, Call)}
    answer = detail_queries.find_result(row, calls, number) if calls else None
    results = parts_from_json(answer.content) if answer else ()
    bodies = [body for part in parts if (body := describe_part(part, results))]
    if wants_part(request):
        return render(request, "sessions/_bodies.html", {"bodies": bodies})
    visit = begin_visit(request, current="sessions")
    page = compose_page(
        title=f"Message {number} · Session",
        heading=f"Message {number}",
        crumbs=(SESSIONS.crumb, Crumb(truncate(str(row), 40), link_to(row, number))),
        row=row,
        number=number,
        bodies=bodies,  # heading, input, output
    )
    return respond(visit, "sessions/message.html", "sessions/_message.html", page)


def link_to(row: Session, number: int) -> str:
    return f"{reverse_lazy('dashboard:session', args=[row.pk])}?at={number}#m-{number}"


def describe_part(part: Part, results: tuple[Part, ...]) -> tuple[str, str, str] | None:
    if isinstance(part, Call):
        output = next((r.text for r in results if isinstance(r, Result) and r.id == part.id), "")
        return (part.name, format_arguments(part), output)
    if isinstance(part, Result):
        return ("Result", "", part.text)
    text = getattr(part, "text", "")
    return (part.type.capitalize(), "", text) if text else None
