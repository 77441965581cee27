"""The page of a project's policies: their effects, their effects in the past, and switches."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import quote_typed, read_whole_number
from dashboard.frame.access import may_open
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import SETTINGS, HtmxRequest, begin_visit, compose_page, respond
from dashboard.settings import policy_queries
from dashboard.settings.policy_queries import Figures, ListedPolicy, ProofShare
from dashboard.settings.policy_wording import BY_NAME, PolicyText, describe_lost
from ledger.access import reasons
from ledger.errors import Refusal, VersionMismatch
from ledger.journal import stamp_of
from ledger.states import EvidenceLevel
from retries.journal_readers import stored_values
from retries.models import RetryPolicy
from retries.policies import editing, replay
from retries.states import PolicyScope


@dataclass(frozen=True, slots=True)
class Question:
    """A switch that has to be confirmed, with the figures for the tasks that it is for."""

    policy: PolicyText
    scope: str
    figures: Figures | None
    proofs: ProofShare | None
    is_off: bool

    @property
    def is_required(self) -> bool:
        return self.scope == EvidenceLevel.REQUIRE

    @property
    def is_of_files(self) -> bool:
        return self.policy.name == editing.EXCLUSIVE_FILES

    @property
    def choice(self) -> str:
        return self.policy.choices[self.scope]

    @property
    def lost(self) -> str:
        if self.figures is None:
            return ""
        found = self.figures.replay
        return describe_lost(len(found.lost), found.done)


@dataclass(frozen=True, slots=True)
class ReasonChoice:
    """A verb for which a project can require a reason."""

    verb: str
    text: str
    is_required: bool


def index(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    project = visit.scope.only
    row = editing.read_policies(project.pk) if project else RetryPolicy()
    listed = policy_queries.list_policies(project, row, now=visit.now) if project else []
    may_switch = may_open(request.user, "policy_switch")
    page = compose_page(
        title="Policies",
        crumbs=(SETTINGS,),
        project=row.project if project else None,
        projects=visit.scope.projects,
        policies=listed,
        version=row.version,
        asked=find_question(request, listed) if may_switch else None,
        may_switch=may_switch,
        least=replay.LEAST_TASKS,
        reason_choices=list_reason_choices(row) if project else [],
        most_keys=stored_values.MOST_KEYS,
        days=replay.DAYS,
    )
    return respond(visit, "settings/policies.html", "settings/_policies.html", page)


def list_reason_choices(row: RetryPolicy) -> list[ReasonChoice]:
    required = row.project.reason_verbs
    return [ReasonChoice(verb, reasons.describe(verb), verb in required) for verb in reasons.VERBS]


def require_reasons(request: HtmxRequest) -> HttpResponse:
    verbs = request.POST.getlist("verb")
    return save(request, "Saved for which actions people must give a reason.", reason_verbs=verbs)


def declare_keys(request: HtmxRequest) -> HttpResponse:
    # a page's keys are separated by spaces, commas, or lines
    keys = request.POST.get("keys", "").replace(",", " ").split()
    said = "Saved the keys. The clock adds the older tasks, the newest first."
    return save(request, said, search_keys=keys)


def save(request: HtmxRequest, said: str, **chosen: list[str]) -> HttpResponse:
    scope = read_scope(request)
    project = scope.only
    if project is None:
        raise Http404("Choose a project first.")
    page = redirect(reverse("dashboard:policies") + scope.query)
    reason = request.POST.get("reason", "").strip()
    typed = " ".join(filter(None, (request.POST.get("keys", "").strip(), reason)))
    if not reason:
        messages.warning(request, "Give a reason. Nothing was changed." + quote_typed(typed))
        return page
    try:
        editing.change_policies(
            project,
            {},
            **chosen,
            version=read_whole_number(request.POST.get("version", "")),
            reason=reason,
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        messages.warning(request, f"{refusal.detail} Nothing was changed." + quote_typed(typed))
    else:
        messages.success(request, said)
    return page


def find_question(request: HtmxRequest, listed: list[ListedPolicy]) -> Question | None:
    """Return the switch that the address asks about, or None."""
    # A switch that would change nothing is no question.
    name, scope = request.GET.get("ask", ""), request.GET.get("scope", "")
    for each in listed:
        if each.text.name == name and scope in each.text.choices and scope != each.scope:
            shown = each.figures
            if shown:
                shown = Figures(shown.replay.narrow_to(scope), shown.effects)
            is_off = scope == PolicyScope.OFF
            return Question(each.text, scope, shown, each.proofs, is_off=is_off)
    return None


def switch(request: HtmxRequest, name: str) -> HttpResponse:
    scope, text = read_scope(request), BY_NAME.get(name)
    project, chosen = scope.only, request.POST.get("scope", "")
    if text is None or project is None or chosen not in text.choices:
        raise Http404(f"There is no policy {name[:64]} to switch.")
    page = reverse("dashboard:policies") + scope.query
    reason = request.POST.get("reason", "").strip()
    if not reason:
        messages.warning(request, "Give a reason. Nothing was changed.")
        return redirect(f"{page}{'&' if scope.query else '?'}ask={name}&scope={chosen}")
    try:
        editing.change_policies(
            project,
            {name: chosen},
            version=read_whole_number(request.POST.get("version", "")),
            reason=reason,
            stamp=stamp_of(request),
        )
    except VersionMismatch:
        said = "Someone else changed the policies. Nothing was changed." + quote_typed(reason)
        messages.warning(request, said)
    else:
        messages.success(request, f"{text.title}: {text.states[chosen].lower()}.")
    return redirect(page)
