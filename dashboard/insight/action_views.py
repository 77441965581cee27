"""Set targets, and start and end experiments on the retry context."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import quote_typed, read_whole_number
from dashboard.frame.navigation import Scope, read_scope
from dashboard.frame.rendering import HtmxRequest
from dashboard.lists.query_box import as_id
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, Plan, Project
from retries.insight import targets
from retries.insight.experiments import end_experiment, start_experiment
from retries.insight.targets import Subject
from retries.models import ContextExperiment
from retries.models.figures import Measure


def set_target(request: HtmxRequest) -> HttpResponse:
    scope = read_scope(request)
    measure, stamp = request.POST.get("measure", Measure.ACK), stamp_of(request)
    try:
        subject = find_subject(request.POST.get("subject", ""), scope)
        if request.POST.get("do") == "remove":
            targets.remove_target(subject, measure=measure, stamp=stamp)
            messages.success(request, f"{subject.name} has no such target.")
        else:
            percent, within_s = (read_number(request, name) for name in ("percent", "within_s"))
            targets.set_target(
                subject, measure=measure, percent=percent, within_s=within_s, stamp=stamp
            )
            messages.success(request, f"Target of {subject.name} set. Figures follow soon.")
    except Refusal as refusal:
        messages.warning(request, f"{refusal.detail} Nothing was changed.")
    return redirect(f"{reverse('dashboard:insight')}{scope.query}#targets")


def find_subject(value: str, scope: Scope) -> Subject:
    kind, _, rest = value.partition(":")
    id, _, type = rest.partition(":")
    pk = as_id(id)
    if pk and kind == "agent" and (agent := Agent.objects.filter(pk=pk).first()):
        return Subject.of_agent(agent)
    if pk and kind == "plan" and (plan := Plan.objects.filter(pk=pk).first()):
        return Subject.of_plan(plan)
    # The request's guard finds the projects of rows, and not a project by its own id.
    may = not scope.is_limited or (scope.project and scope.project.pk == pk)
    if pk and may and kind == "type" and Project.objects.filter(pk=pk).exists():
        return Subject.of_type(pk, type)
    raise Http404("There is no such agent, type, or plan.")


def read_number(request: HtmxRequest, name: str) -> int:
    # 0 is always refused, so it can stand for anything that is not a number.
    return read_whole_number(request.POST.get(name, "")) or 0


def start(request: HtmxRequest) -> HttpResponse:
    scope = read_scope(request)
    name, reason = request.POST.get("in", ""), request.POST.get("reason", "")
    project = scope.find_named(name)
    if project is None:
        raise Http404(f"There is no project “{name[:64]}”.")
    try:
        experiment = start_experiment(
            project,
            request.POST.get("element", ""),
            share=read_number(request, "share"),
            reason=reason,
            stamp=stamp_of(request),
        )
    except Refusal as refusal:
        said = f"{refusal.detail} Nothing was changed.{quote_typed(reason)}"
        messages.warning(request, said)
    else:
        element = experiment.get_element_display()
        messages.success(
            request,
            f"Experiment started in {project.name}: {experiment.share}% of the tasks "
            f"without {element}.",
        )
    return redirect(f"{reverse('dashboard:insight')}{scope.query}#experiments")


def end(request: HtmxRequest, experiment_id: UUID) -> HttpResponse:
    scope, reason = read_scope(request), request.POST.get("reason", "")
    try:
        end_experiment(experiment_id, reason=reason, stamp=stamp_of(request))
    except ContextExperiment.DoesNotExist as error:
        raise Http404(f"There is no experiment {experiment_id}.") from error
    except Refusal as refusal:
        said = f"{refusal.detail} Nothing was changed.{quote_typed(reason)}"
        messages.warning(request, said)
    else:
        messages.success(request, "Experiment ended. Every task gets whole contexts again.")
    return redirect(f"{reverse('dashboard:insight')}{scope.query}#experiments")
