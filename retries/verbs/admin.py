"""The admin's actions on rows, derived from their verbs."""

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_pages.confirmation import confirm
from ledger.admin_pages.lists import ReadOnly
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.escalations.choices import FIX_LENGTH
from retries.states import Dependents
from retries.verbs.verb import Options, Verb

Action = Callable[[Any, HttpRequest, QuerySet[Any]], Any]
# the inputs of verbs, by the options that they take
FIELDS: dict[str, forms.Field] = {
    "dependents": forms.ChoiceField(
        required=False, choices=Dependents.choices, label="Dependents of skipped tasks"
    ),
    # text, because the admin shows no errors of an action form
    "concurrency": forms.CharField(required=False, label="Maximum concurrent attempts for 'Limit'"),
    "system_text": forms.CharField(
        required=False, label="System text for 'Brief'", widget=forms.Textarea({"rows": 1})
    ),
    "fix": forms.CharField(
        required=False,
        max_length=FIX_LENGTH,
        label="Text for 'Fix' or 'Answer'",
        widget=forms.Textarea({"rows": 2}),
    ),
    "reason": forms.CharField(required=False, max_length=500, label="Reason"),
}


class VerbAdmin(ReadOnly):
    """Rows with the actions of their `verbs`."""

    verbs: ClassVar[tuple[Verb, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.actions = tuple(verb.action for verb in cls.verbs)
        cls.narrow = {verb.action: verb.narrow for verb in cls.verbs}
        cls.action_form = build_form(cls.verbs)
        for verb in cls.verbs:
            setattr(cls, verb.action, build_action(verb))


def build_form(verbs: tuple[Verb, ...]) -> type[ActionForm]:
    takers = {
        name: tuple(v.action for v in verbs if name in v.takes or is_reason_of(v, name))
        for name in FIELDS
    }
    inputs = {name: some for name, some in takers.items() if some}
    fields = {name: FIELDS[name] for name in inputs}
    return type("VerbForm", (ActionForm,), {**fields, "inputs": inputs})


def is_reason_of(verb: Verb, name: str) -> bool:
    return name == "reason" and verb.may_require_reason


def build_action(verb: Verb) -> Action:
    """Return the admin action that asks about the verb's effects and carries it out."""

    def run(page: VerbAdmin, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        ids = list(chosen.order_by("pk").values_list("pk", flat=True))
        try:
            options = read_options(verb, request)
        except Refusal as refusal:
            page.message_user(request, refusal.detail, messages.ERROR)
            return
        found = []
        for some in [[id] for id in ids] if verb.each else [ids]:
            try:
                found.append(verb.change(some, options, stamp_of(request)))
            except Refusal as refusal:
                page.message_user(request, refusal.detail, messages.ERROR)
        if not found and not verb.each:  # refused, as the message says
            return
        changed = found[0] if len(found) == 1 else [id for some in found for id in some]
        done = verb.admin_done or verb.done
        done = done(changed, options) if callable(done) else done
        page.report_changes(request, len(changed), done)

    action: Action = run
    if effects := verb.effects:
        action = confirm(
            lambda request, chosen: effects(
                verb.narrow(chosen.order_by()), read_options(verb, request)
            )
        )(run)
    return admin.action(action, description=verb.admin)


def read_options(verb: Verb, request: HttpRequest) -> Options:
    return verb.read_form(request.POST) | {"channel": "admin"}
