"""The admin's actions on rows, derived from their verbs."""

from collections.abc import Callable, Collection
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger.admin_lists import ReadOnly
from ledger.confirmation import confirm
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.states import Dependents
from retries.verbs.verb import Options, Verb

Action = Callable[[Any, HttpRequest, QuerySet[Any]], Any]
# the inputs of verbs, by the options that they take
FIELDS: dict[str, forms.Field] = {
    "dependents": forms.ChoiceField(
        required=False, choices=Dependents.choices, label="Dependents of skipped tasks"
    ),
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
    """Return the list of actions with the inputs that some of them take."""
    inputs = {
        name: tuple(verb.action for verb in verbs if name in verb.takes)
        for name in FIELDS
        if any(name in verb.takes for verb in verbs)
    }
    fields = {name: FIELDS[name] for name in inputs}
    return type("VerbForm", (ActionForm,), {**fields, "inputs": inputs})


def build_action(verb: Verb) -> Action:
    """Return the admin's action that asks about the verb's effects and carries it out."""

    def run(page: VerbAdmin, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        ids = list(chosen.order_by("pk").values_list("pk", flat=True))
        found = [
            change(page, request, verb, some)
            for some in ([[id] for id in ids] if verb.each else [ids])
        ]
        changed = found[0] if len(found) == 1 else [id for some in found for id in some]
        done = verb.admin_done or verb.done
        page.report_changes(request, len(changed), done(changed) if callable(done) else done)

    action: Action = run
    if effects := verb.effects:
        action = confirm(
            lambda request, chosen: effects(
                verb.narrow(chosen.order_by()), read_options(verb, request)
            )
        )(run)
    return admin.action(action, description=verb.admin)


def change(page: VerbAdmin, request: HttpRequest, verb: Verb, ids: list[UUID]) -> Collection[UUID]:
    """Change rows, or show why it is refused; return the ids of those that changed."""
    try:
        return verb.change(ids, read_options(verb, request), stamp_of(request))
    except Refusal as refusal:
        page.message_user(request, refusal.detail, messages.ERROR)
        return ()


def read_options(verb: Verb, request: HttpRequest) -> Options:
    return verb.read_form(request.POST) | {"channel": "admin"}
