"""The form of an action on many rows: it counts the rows, takes a reason, and starts the action."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import refuse
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import (
    Crumb,
    HtmxRequest,
    PageContext,
    Visit,
    back_to,
    begin_visit,
    compose_page,
    respond,
)
from dashboard.frame.toasts import SHOWN_S, add_message
from dashboard.lists.selection import list_url
from dashboard.operations import queries
from dashboard.operations.escalation_fields import read_fields
from dashboard.operations.selections import NOUNS, ChosenRows, read_chosen
from dashboard.sentences.operations import words_of
from dashboard.wording.formatting import counted
from ledger.authorization.permissions import may
from ledger.database import server_time
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from retries.escalations import typed_answers
from retries.escalations.choices import FIX_LENGTH
from retries.models import Operation
from retries.operations.registry import find_verb
from retries.operations.starting import count_selection, start_operation, undo_time
from retries.verbs.verb import Verb

# fewer rows get a message in the list instead of the operation's page
PAGE_FROM = 25
# the form's fields that keep their values after a refusal
TYPED = ("reason", "priority", "agent", "fix", "user")


def new(request: HtmxRequest, verb_name: str) -> HttpResponse:
    """Show the question about an action on the chosen rows, or start the confirmed action."""
    verb = find_listed_verb(verb_name)
    scope = read_scope(request)
    project = scope.project
    if request.method != "POST":  # a reload of the question, or the way back from signing in
        return redirect(reverse(f"dashboard:{NOUNS[verb.noun].place}") + scope.query)
    if not may(request.user, verb.permission, project.id if project else None):
        return refuse(request, verb.permission, by_script=False)
    chosen = read_chosen(verb.noun, request.POST, now=server_time.now(), viewer=request.user)
    back = list_url(back_to(request, otherwise=reverse(f"dashboard:{place_of(chosen)}")))
    if not chosen:
        noun = "pattern" if chosen.of_patterns else verb.row
        messages.warning(request, f"Select at least one {noun}. Nothing changed.")
        return redirect(back)
    if problems := chosen.list_problems(project):
        messages.warning(request, f"Fix the filter first. {problems[0]} Nothing changed.")
        return redirect(back)
    if "confirmed" not in request.POST:
        return show_question(request, verb, chosen, back=back)
    return start(request, verb, chosen, back=back)


def find_listed_verb(name: str) -> Verb:
    """Return a verb for the rows of a list; raises Http404."""
    try:
        verb = find_verb(name)
    except Refusal as refusal:
        raise Http404(refusal.detail) from None
    # handing over an agent's work starts on the agent's page
    if verb.noun not in NOUNS or verb.action == "hand_over":
        raise Http404(f"No list offers “{name}”.")
    return verb


def place_of(chosen: ChosenRows) -> str:
    return "patterns" if chosen.of_patterns else NOUNS[chosen.noun].place


def show_question(
    request: HtmxRequest, verb: Verb, chosen: ChosenRows, *, back: str, problem: str = ""
) -> HttpResponse:
    visit = begin_visit(request, current=place_of(chosen))
    page = build_question(visit, verb, chosen, back=back, problem=problem)
    return respond(visit, "operations/new.html", "operations/_new.html", page)


def build_question(
    visit: Visit, verb: Verb, chosen: ChosenRows, *, back: str, problem: str
) -> PageContext:
    rows = chosen.rows(visit.scope.project)
    count = count_selection(verb.name, rows)
    agents = queries.list_new_agents(verb, rows, now=visit.now) if "agent" in verb.takes else []
    which = "stuck" if chosen.of_patterns else "matching" if chosen.matching else "selected"
    title = (
        f"{verb.do} {count.matching:,} {which} {verb.row}{'' if count.matching == 1 else 's'}"
        f"{verb.tail}?"
    )
    place = place_of(chosen)
    has_fields = verb.noun == "escalation" or "user" in verb.takes
    return compose_page(
        title=title,
        heading=title.rstrip("?"),
        crumbs=(Crumb(place.replace("deadletters", "dead letters").capitalize(), back),),
        status_code=422 if problem else 200,
        verb=verb,
        words=verb,
        chosen=chosen,
        count=count,
        states=queries.count_by_state(verb, rows),
        held=queries.list_held_agents(verb, rows) if verb.retries else [],
        waiting=queries.count_dependents(verb, rows) if verb.ends else 0,
        takes_dependents="dependents" in verb.takes,
        takes_priority="priority" in verb.takes,
        takes_fix="fix" in verb.takes,
        takes_agent="agent" in verb.takes,
        asked=read_fields(verb, rows, visit) if has_fields else None,
        agents=agents,
        most_characters=FIX_LENGTH,
        is_dangerous=verb.is_dangerous,
        undo_s=int(undo_time().total_seconds()),
        back=back,
        values={name: visit.request.POST.get(name, "") for name in TYPED},
        problem=problem,
        needs_reason=verb.requires_reason(rows),
        can_start=bool(agents if "agent" in verb.takes else count.legal),
    )


def start(request: HtmxRequest, verb: Verb, chosen: ChosenRows, *, back: str) -> HttpResponse:
    scope = read_scope(request)
    try:
        operation = start_operation(
            verb.name,
            chosen.rows(scope.project),
            options=read_options(request.POST),
            query=chosen.source,
            reason=request.POST.get("reason", ""),
            counted_at=chosen.counted_at,
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        # an invalid value's hint is about the API
        hint = "" if isinstance(refusal, Invalid) else f" {refusal.hint}"
        problem = f"{refusal.detail}{hint}"
        return show_question(request, verb, chosen, back=back, problem=problem)
    page = reverse("dashboard:operation", args=[operation.pk]) + scope.query
    undo = reverse("dashboard:operation_act", args=[operation.pk, "undo"]) + scope.query
    seconds = int(undo_time().total_seconds())
    add_message(
        request,
        describe_start(operation),
        undo=undo if seconds else "",
        follow=page if operation.total < PAGE_FROM else "",
        shown_s=seconds or SHOWN_S,
    )
    return redirect(page if operation.total >= PAGE_FROM else back)


def read_options(posted: QueryDict) -> dict[str, Any]:
    # A typed text replaces the chosen one.
    texts = [text for text in posted.getlist("fix") if text.strip()]
    return posted.dict() | {"fix": texts[-1] if texts else ""}


def describe_start(operation: Operation, *, done: str = "") -> str:
    words = words_of(operation.verb)
    wait = int(undo_time().total_seconds())
    when = f"in {wait} s" if wait else "now"
    nouns = counted(operation.total, words.row)
    warning = typed_answers.WARNINGS["tasks"] if operation.sealed else ""
    return f"{nouns} will be {done or words.done}{words.tail} {when}. {warning}".rstrip()
