"""List the values that complete a key: those with the typed beginning, some with counts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Q, QuerySet

from dashboard.lists.known_names import Lister
from dashboard.lists.query_box import term
from dashboard.lists.shared_queries import CountOf, find_patterns, of_project
from dashboard.wording.formatting import COUNT_CAP, capped
from ledger.models import Agent, Plan, Project
from ledger.values.text import truncate
from retries.journal_readers.stored_values import list_keys

SHOWN = 8
# for keys whose values are not names
AGES = ("30m", "2h", "1d", "7d")
PERIODS = ("1h", "24h", "7d", "2026-01-01..2026-01-31")
EXAMPLES = {
    "older": AGES,
    "newer": AGES,
    "since": ("30m", "2h", "24h", "7d"),
    "until": ("30m", "2h", "24h", "7d"),
    "changed": PERIODS,
    "created": PERIODS,
    "sent": PERIODS,
    "seen": PERIODS,
    "first": PERIODS,
    "failed": PERIODS,
    "fired": PERIODS,
    "opened": PERIODS,
    "started": PERIODS,
    "used": PERIODS,
    "attempts": (">1", ">2", "<3"),
    "ack": (">30s", ">2m", "<10s"),
    "code": ("5xx", "4xx", "none"),
    "followed": ("<70%", "<90%", ">90%"),
}
Option = dict[str, str]


@dataclass(frozen=True, slots=True)
class Typed:
    """The typed beginning of a value, and the rest of the query."""

    key: str
    prefix: str
    text: str
    project: Project | None
    person: Any


Source = Callable[[Typed], list[Option]]
Rows = Callable[[Typed], QuerySet[Any]]


def option(key: str, value: str, detail: str = "", count: int | None = None) -> Option:
    number = "" if count is None else capped(count)
    return {"term": term(key, value), "detail": truncate(detail, 120), "count": number}


def list_choices(typed: Typed, choices: Iterable[str]) -> list[Option]:
    begun = (each for each in choices if each.lower().startswith(typed.prefix.lower()))
    return [option(typed.key, each) for each in begun]


def list_examples(typed: Typed) -> list[Option]:
    return list_choices(typed, EXAMPLES.get(typed.key, ()))


def list_declared(typed: Typed) -> list[Option]:
    # a key keeps its case, and begins a term
    begin = f"{typed.key}{typed.prefix}".lower()
    found = sorted(each for each in list_keys(typed.project) if each.lower().startswith(begin))
    return [{"term": f"{each}:", "detail": "", "count": ""} for each in found]


def states(count: Callable[[Typed], Mapping[str, int | None]]) -> Source:
    def list_states(typed: Typed) -> list[Option]:
        counts = count(typed)
        begun = (each for each in counts if each.startswith(typed.prefix.lower()))
        return [option(typed.key, each, count=counts[each]) for each in begun]

    return list_states


def agents(rows: Rows | None = None) -> Source:
    # Each agent comes with the number of its rows, if the list counts them.
    def list_agents(typed: Typed) -> list[Option]:
        found = Agent.objects.filter(name__istartswith=typed.prefix, removed_at=None)
        of_list = of_project(found, typed.project).order_by("name", "id")
        if rows is None:
            names = dict.fromkeys(of_list.values_list("name", flat=True)[: SHOWN * SHOWN])
            return [option(typed.key, name) for name in names]
        counted = count_each(of_list, rows(typed).filter(agent=OuterRef("pk")), "name")
        return [option(typed.key, row["name"], count=row["n"]) for row in counted]

    return list_agents


def plans(rows: Rows | None = None) -> Source:
    # Each plan comes with the number of its rows, if the list counts them.
    def list_plans(typed: Typed) -> list[Option]:
        named = Q(ref__istartswith=typed.prefix) | Q(title__icontains=typed.prefix)
        of_list = of_project(Plan.objects.filter(named), typed.project).order_by("-id")
        if rows is None:
            found = of_list.values_list("ref", "title")[:SHOWN]
            return [option(typed.key, ref, title) for ref, title in found]
        counted = count_each(of_list, rows(typed).filter(plan=OuterRef("pk")), "ref", "title")
        return [option(typed.key, row["ref"], row["title"], row["n"]) for row in counted]

    return list_plans


def count_each(of: QuerySet[Any], rows: QuerySet[Any], *columns: str) -> list[dict[str, Any]]:
    counted = CountOf(rows.order_by().values("pk")[:COUNT_CAP])
    found: list[dict[str, Any]] = list(of.annotate(n=counted).values(*columns, "n")[:SHOWN])
    return found


def list_patterns(typed: Typed) -> list[Option]:
    rows = find_patterns(typed.prefix, typed.project)
    found = rows.order_by("-last_seen", "-id").values_list("fingerprint", "template")[:SHOWN]
    return [option(typed.key, fingerprint, template) for fingerprint, template in found]


def known(names: Lister) -> Source:
    return lambda typed: list_choices(typed, filter(None, dict.fromkeys(names(typed.project))))
