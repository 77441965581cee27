"""The admin's page of one row: its verbs, its links, and the journal as its history."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.forms import BoundField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from ledger.admin_pages.paging import LimitedPaginator
from ledger.models import Event
from ledger.values.text import truncate

TITLE_LENGTH = 80
PAGE = 100  # events of a history
DATA_LENGTH = 400  # characters of an event's data
VERB_FORM = "verb-form"  # the id of the form that the buttons of the verbs send
# keeps the rows that a verb can change now; each model has its own methods
Narrow = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Link:
    """A link from a row to related ones."""

    label: str
    url: str


@dataclass(frozen=True, slots=True)
class VerbButton:
    """A verb that changes a row now, as a button."""

    name: str
    label: str
    explanation: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in the history of a row."""

    event: Event

    @property
    def action(self) -> str:
        """Return the entry's text, such as "task: retry scheduled"."""
        noun, _, verb = self.event.kind.partition(".")
        return f"{noun}: {verb}".replace("_", " ")

    @property
    def move(self) -> str:
        before, after = self.event.from_state, self.event.to_state
        return f"{before or 'new'} → {after}" if after and before != after else ""

    @property
    def data(self) -> str:
        pairs = (f"{name}: {value}" for name, value in self.event.data.items() if value != "")
        return truncate(" · ".join(" ".join(each.split()) for each in pairs), DATA_LENGTH)


class DetailPage(admin.ModelAdmin):  # type: ignore[type-arg]
    """The page of one row, with the verbs of the list as buttons.

    A verb has a button if its function in `narrow` keeps the row, or if it has no such function.
    The action form's `inputs` name the verbs that read each of its fields.
    """

    change_form_template = "admin/detail.html"
    object_history_template = "admin/journal.html"
    narrow: ClassVar[Mapping[str, Narrow]] = {}
    # by their labels, a column of a row, or a list of rows with the values that it filters by
    links: ClassVar[Mapping[str, str]] = {}
    # the path of the row's page outside the admin, with places for values of the row
    page = ""

    # ---- the verbs

    def list_verbs(self, request: HttpRequest, row: Any) -> list[VerbButton]:
        rows = self.model._default_manager.filter(pk=row.pk)
        actions: dict[str, Any] = self.get_actions(request)
        return [
            VerbButton(name, *split_description(str(description)))
            for name, (_, _, description) in actions.items()
            if name not in self.narrow or self.narrow[name](rows).exists()
        ]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        if object_id and request.method == "POST" and "action" in request.POST:
            return self.act(request, unquote(object_id))
        return super().changeform_view(request, object_id, form_url, extra_context)

    def act(self, request: HttpRequest, object_id: str) -> HttpResponse:
        verb = self.get_actions(request).get(request.POST["action"])
        row = self.get_object(request, object_id)
        if verb is None or row is None:
            raise PermissionDenied
        chosen = self.get_queryset(request).filter(pk=row.pk)
        run: Any = verb[0]
        answer: HttpResponse | None = run(self, request, chosen)
        return answer or redirect(request.path)

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **more: Any
    ) -> Any:
        if obj:
            title = shorten(self.name_row(obj))
            verbs = self.list_verbs(request, obj)
            context |= {
                "subtitle": title,
                "row_title": title,
                "verbs": verbs,
                "verb_fields": self.list_verb_fields(obj, [verb.name for verb in verbs]),
                "links": list(self.list_links(request, obj)),
                "outside": self.find_page(obj),
            }
        return super().render_change_form(  # type: ignore[misc]
            request, context, *args, obj=obj, **more
        )

    def list_verb_fields(self, row: Any, verbs: Sequence[str]) -> list[BoundField]:
        form = self.action_form(auto_id="verb-%s")
        inputs: Mapping[str, Sequence[str]] = getattr(form, "inputs", {})
        for field in form.fields.values():
            field.widget.attrs["form"] = VERB_FORM
        return [
            form[name] for name, takers in inputs.items() if any(each in verbs for each in takers)
        ]

    def is_input(self, name: str) -> bool:
        # A confirmation repeats the inputs of a verb.
        return name in self.action_form.base_fields and name not in ("action", "select_across")

    def name_row(self, row: Any) -> str:
        # Pages without a name of their own say what the row is about.
        return str(row)

    # ---- the links

    def find_page(self, row: Any) -> str:
        return self.page.format(row)

    def list_links(self, request: HttpRequest, row: Any) -> Iterator[Link]:
        # Subclasses add links of their own.
        for label, target in self.links.items():
            model, _, lookups = target.partition("?")
            if lookups:
                found = dict(parse_qsl(lookups.format(row)))
                yield from self.link_to_list(request, label, apps.get_model(model), **found)
            else:
                yield from self.link_to_row(request, label, getattr(row, target, None))

    def link_to_list(
        self, request: HttpRequest, label: str, model: type[Model], **lookups: Any
    ) -> Iterator[Link]:
        page = self.admin_site._registry.get(model)
        if page and page.has_view_permission(request):
            url = reverse(f"admin:{page.opts.app_label}_{page.opts.model_name}_changelist")
            yield Link(label, f"{url}?{urlencode(lookups)}")

    def link_to_row(self, request: HttpRequest, label: str, row: Model | None) -> Iterator[Link]:
        page = self.admin_site._registry.get(type(row)) if row else None
        if row and page and page.has_view_permission(request):
            name = f"admin:{page.opts.app_label}_{page.opts.model_name}_change"
            yield Link(label, reverse(name, args=[row.pk]))

    # ---- the history

    def list_subjects(self, row: Any) -> list[UUID]:
        return [row.pk] if isinstance(row.pk, UUID) else []

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined,no-any-return]
                request, self.opts, object_id
            )
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        events = Event.objects.about_any(self.list_subjects(row)).order_by("-id")
        shown = LimitedPaginator(events.defer("tx"), PAGE).get_page(request.GET.get("p"))
        title = shorten(self.name_row(row))
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {title}",
            "subtitle": None,
            "row_title": title,
            "object": row,
            "opts": self.opts,
            "shown": shown,
            "entries": [Entry(event) for event in shown],
            **(extra_context or {}),
        }
        return TemplateResponse(request, self.object_history_template, context)


def split_description(description: str) -> tuple[str, str]:
    """Return an action's label and its explanation.

    >>> split_description("Retry: start over"), split_description("Limit (empty: no limit)")
    (('Retry', 'start over'), ('Limit', 'empty: no limit'))
    """
    label, *rest = re.split(r": | \(", description, maxsplit=1)
    return label, "".join(rest).removesuffix(")")


def shorten(text: str, length: int = TITLE_LENGTH) -> str:
    return truncate(" ".join(text.split()), length)
