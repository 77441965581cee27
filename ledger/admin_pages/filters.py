"""Filters of the admin's lists. To list their choices, they read few rows."""

from collections.abc import Iterable, Iterator
from copy import copy
from datetime import timedelta
from operator import itemgetter
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Field, JSONField, Model, QuerySet
from django.http import HttpRequest

from ledger.database import server_time
from ledger.values.ids import SLACK, first_id

MOST_NAMES = 100  # that a filter lists


class KnownValues(admin.ChoicesFieldListFilter):
    """A filter by a field without choices; Django's own would read every row to find its values."""

    known: ClassVar[list[tuple[str | None, str]]] = []
    name = ""

    def __init__(self, field: "Field[Any, Any]", *args: Any, **more: Any) -> None:
        field = copy(field)
        field.choices = self.known
        super().__init__(field, *args, **more)
        self.title = self.name or self.title

    def choices(self, changelist: Any) -> Iterator[Any]:
        # Django marks "All" as selected beside the choice for null.
        for number, choice in enumerate(super().choices(changelist)):
            if number == 0 and self.lookup_val_isnull:
                choice["selected"] = False
            yield choice


def list_values(
    field: str, values: Iterable[str], *, null: str = "", title: str = ""
) -> tuple[str, type[KnownValues]]:
    known: list[tuple[str | None, str]] = [(value, value) for value in values]
    if null:
        known.append((None, null))
    return field, type("ValuesFilter", (KnownValues,), {"known": known, "name": title})


def list_json_columns(model: type[Model]) -> list[str]:
    # A JSON column may have a MiB in each row.
    return [field.name for field in model._meta.concrete_fields if isinstance(field, JSONField)]


class RelatedNames(admin.RelatedFieldListFilter):
    """A filter by a related row.

    Where there are too many to list, it shows only the row that a link has chosen.
    """

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        model = field.remote_field.model
        rows = model._default_manager.order_by("pk").defer(*list_json_columns(model))
        found: list[Model] = list(rows[: MOST_NAMES + 1])
        if len(found) > MOST_NAMES:
            found = list(rows.filter(pk__in=self.list_chosen(field)))
        return sorted(((row.pk, str(row)) for row in found), key=itemgetter(1))

    def list_chosen(self, field: Any) -> list[Any]:
        ids = []
        for value in self.lookup_val or ():
            try:
                ids.append(field.target_field.to_python(value))
            except ValidationError:
                continue
        return ids

    def has_output(self) -> bool:
        # Django does not apply a filter that it does not show
        return self.lookup_val is not None or super().has_output()


class WithDefault(admin.SimpleListFilter):
    """A filter with a choice of its own at first, or "any" where the list is about one subject."""

    first = ""

    def __init__(
        self, request: HttpRequest, params: Any, model: type[Model], model_admin: Any
    ) -> None:
        self.default = "any" if model_admin.is_about_one(request) else self.first
        super().__init__(request, params, model, model_admin)

    def value(self) -> str:
        found = super().value()
        return found if found in dict(self.lookup_choices) else self.default

    def choices(self, changelist: Any) -> Iterator[Any]:
        # Django's "All" is "any" here.
        yield from list(super().choices(changelist))[1:]


class Period(WithDefault):
    """A filter by time, for rows of the journal.

    A list reads the last week, unless it is about one subject, whose rows an index finds.
    """

    title = "time"
    parameter_name = "when"
    first = "week"
    days: ClassVar[dict[str, int]] = {"day": 1, "week": 7, "month": 30}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("day", "Past 24 hours"),
            ("week", "Past 7 days"),
            ("month", "Past 30 days"),
            ("any", "Any time"),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        days = self.days.get(self.value())
        if days is None:
            return queryset
        # by ids, because they are indexed and bound the partitions that are read
        return queryset.filter(id__gte=first_id(server_time.now() - timedelta(days=days) - SLACK))
