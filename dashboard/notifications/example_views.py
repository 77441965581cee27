"""Send an example of what a rule would say: to the channel of a form, or of a saved rule."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.access import takes_form
from dashboard.frame.rendering import HtmxRequest, Visit, begin_visit
from dashboard.notifications import queries, views
from dashboard.notifications.message_views import list_examples
from dashboard.wording.formatting import duration
from ledger.errors import RateLimited
from ledger.journal import stamp_of
from retries.models import NotificationRule
from retries.notifications.deliveries import trials


@takes_form("notifications")
def of_form(request: HtmxRequest) -> HttpResponse:
    # The form stays open, and the rule is not saved.
    visit = begin_visit(request, current="settings")
    editor = views.read_editor(visit)
    if editor.rule:
        send(visit, editor.rule)
    return views.show(visit, editor=editor, status_code=200 if editor.rule else 422)


def of_rule(request: HtmxRequest, rule_id: UUID) -> HttpResponse:
    visit = begin_visit(request, current="settings")
    send(visit, views.find_rule_or_404(rule_id))
    preview = reverse("dashboard:notification_preview", args=[rule_id])
    return redirect(f"{preview}?{request.GET.urlencode()}" if request.GET else preview)


def send(visit: Visit, rule: NotificationRule) -> None:
    channel, request = rule.channel, visit.request
    if not channel.is_on:
        messages.warning(request, f"{channel.name} is off. Turn it on first. Nothing was sent.")
        return
    example = list_examples(rule)[0].message
    try:
        _, answer = trials.send_example(
            channel, example, pause=queries.TEST_PAUSE, stamp=stamp_of(request)
        )
    except RateLimited as refusal:
        messages.warning(request, refusal.detail)
        return
    if answer.succeeded:
        took = duration(answer.latency_ms / 1000)
        said = f"{channel.name} accepted the example in {took}. Look for “Example:”."
        messages.success(request, said)
    else:
        messages.warning(request, f"{channel.name} did not take it: {answer.error}")
