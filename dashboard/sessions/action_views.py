"""Handle the buttons of a session: process its messages, make a task of a to-do, or link it."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import takes_form
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to, begin_visit, respond
from dashboard.sessions.detail_views import build_page, find_or_404
from dashboard.sessions.task_form import build_form
from dashboard.wording.formatting import counted
from ledger.errors import Invalid, NotFound, Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, SessionTask
from ledger.models.session import TrackerName
from ledger.sessions import task_links
from ledger.sessions.task_links import NewTask
from retries.sessions import retrying
from retries.sessions.flushing import FlushExhausted, flush_from_web


@takes_form("session", "session_id")
def flush(request: HtmxRequest, session_id: UUID) -> HttpResponse:
    # The flush waits for a held lock.
    row = find_or_404(session_id)
    before = row.task_count
    page_url = reverse("dashboard:session", args=[session_id]) + read_scope(request).query
    target = back_to(request, otherwise=page_url)
    try:
        processed = flush_from_web(session_id)
    except FlushExhausted as refusal:
        if "next" in request.POST:
            messages.warning(request, f"The buffer was not flushed. {refusal.detail}")
            return redirect(target)
        visit = begin_visit(request, current="sessions")
        row.refresh_from_db()
        page = build_page(visit, row, gave_up=refusal.detail, status_code=503)
        response = respond(visit, "sessions/detail.html", "sessions/_session.html", page)
        response["Retry-After"] = str(refusal.more["retry_after_s"])
        return response
    row.refresh_from_db()
    messages.success(request, describe_flush(processed, row.task_count - before))
    return redirect(target)


def describe_flush(processed: int, found: int) -> str:
    if not processed:
        return "The buffer was empty already."
    more = f": {counted(found, 'new to-do')}" if found > 0 else ""
    return f"Processed {counted(processed, 'message')}{more}."


def retry(request: HtmxRequest, session_id: UUID) -> HttpResponse:
    row = find_or_404(session_id)
    tracker = TrackerName.TODO if request.POST.get("tracker") == TrackerName.TODO else None
    returned = retrying.retry_failed(row, tracker=tracker, stamp=stamp_of(request))
    if returned:
        messages.success(request, f"{counted(returned, 'message')} will be processed again.")
    else:
        messages.warning(request, "No message of this session is marked as failed.")
    return redirect(reverse("dashboard:session", args=[session_id]) + read_scope(request).query)


@takes_form("session", "session_id")
def make_task(request: HtmxRequest, session_id: UUID, order: int) -> HttpResponse:
    row = find_or_404(session_id)
    try:
        todo = task_links.find_todo(session_id, order)
    except NotFound as error:
        raise Http404(error.detail) from error
    try:
        said = link(request, todo) if "link" in request.POST else make(request, todo)
        messages.success(request, said)
    except Invalid as error:
        visit = begin_visit(request, current="sessions")
        data = {name: str(value)[:1_000] for name, value in request.POST.items()}
        form = build_form(row, todo, data, errors=errors_of(error))
        page = build_page(visit, row, task_form=form, status_code=422)
        return respond(visit, "sessions/detail.html", "sessions/_session.html", page)
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
    page_url = reverse("dashboard:session", args=[session_id]) + read_scope(request).query
    return redirect(f"{page_url}#todo-{order}")


def make(request: HtmxRequest, todo: SessionTask) -> str:
    data = request.POST
    agent = find_agent(todo, data.get("agent", ""))
    asked = NewTask(
        title=data.get("title", "").strip(), type=data.get("type", "").strip(), agent=agent
    )
    task_links.make_task(todo, asked, stamp=stamp_of(request))
    return f"Made a task of to-do {todo.order} for {agent.name}."


def link(request: HtmxRequest, todo: SessionTask) -> str:
    text = request.POST.get("task", "").strip()
    if not text:
        raise Invalid("/task", "Enter the ID or the ref of a task.")
    task = task_links.find_task(text, project_id=todo.session.project_id)
    task_links.link_task(todo, task, stamp=stamp_of(request))
    return f"Linked to-do {todo.order} to the task {task}."


def find_agent(todo: SessionTask, name: str) -> Agent:
    rows = Agent.objects.filter(project=todo.session.project_id, name=name.replace("\0", ""))
    if found := rows.first():
        return found
    raise Invalid("/agent", f"There is no agent “{name[:80]}” in this project. Choose another one.")


def errors_of(error: Invalid) -> dict[str, list[str]]:
    """Return the messages of an error by the last part of their pointers."""
    found: dict[str, list[str]] = {}
    for each in error.more["errors"]:
        found.setdefault(str(each["pointer"]).rpartition("/")[2], []).append(str(each["detail"]))
    return found
