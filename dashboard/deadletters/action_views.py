"""Replay or dismiss one dead letter."""

from uuid import UUID

from django.http import HttpResponse
from django.views.decorators.http import require_POST

from dashboard.actions import act_on, by_slug
from dashboard.frame.access import operators_only
from dashboard.frame.rendering import HtmxRequest
from retries.verbs import dead_letters

VERBS = by_slug(dead_letters.VERBS)


@require_POST
@operators_only
def act(request: HtmxRequest, letter_id: UUID, verb: str) -> HttpResponse:
    """Act on one dead letter and return to its page."""
    return act_on(request, letter_id, verb, verbs=VERBS, page="deadletter")
