"""Ask before an admin action that can't be undone, and count what it would change."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from ledger.errors import Refusal

Action = Callable[[Any, HttpRequest, Any], HttpResponse | None]
# Returns a sentence for each effect, an empty list for no effect at all, or None to run the action
# without a question: nothing is lost, or the action says why it refuses.
Effects = Callable[[HttpRequest, Any], list[str] | None]


def confirm(effects: Effects) -> Callable[[Action], Action]:
    """Make an admin action show its effects and run once a person has confirmed them."""

    def decorate(action: Action) -> Action:
        @wraps(action)
        def ask(page: Any, request: HttpRequest, chosen: QuerySet[Any]) -> HttpResponse | None:
            if "confirmed" in request.POST:
                return action(page, request, chosen)
            try:
                found = effects(request, chosen)
            except Refusal as refusal:
                page.message_user(request, refusal.detail, messages.ERROR)
                return None
            if found is None:
                return action(page, request, chosen)
            if not found:
                verb = name_verb(page, request.POST["action"])
                text = f"This would change nothing: no selected row is in a state for “{verb}”."
                page.message_user(request, text, messages.WARNING)
                return None
            return TemplateResponse(
                request, "admin/confirm.html", build_context(page, request, chosen, found)
            )

        return ask

    return decorate


def name_verb(page: Any, name: str) -> str:
    # "Abort…" and "Abort: stop its tasks" are both about the verb "Abort"
    return re.split(r"…|:| \(", str(getattr(page, name).short_description))[0]


def build_context(
    page: Any, request: HttpRequest, chosen: QuerySet[Any], effects: list[str]
) -> dict[str, Any]:
    name = request.POST["action"]
    verb = name_verb(page, name)
    every = request.POST.get("select_across") == "1"
    return {
        **page.admin_site.each_context(request),
        "title": f"{verb}?",
        "opts": page.opts,
        "verb": verb,
        "effects": effects,
        "fields": [
            ("action", name),
            *([("select_across", "1")] if every else []),
            # with `every`, the page's query chooses the rows again: one id stands for them
            *(
                ("_selected_action", id)
                for id in chosen.values_list("pk", flat=True)[: 1 if every else None]
            ),
            *((name, value) for name, value in request.POST.items() if page.is_input(name)),
        ],
    }


def list_effects(*counts: tuple[int, str]) -> list[str]:
    return [text for number, text in counts if number]
