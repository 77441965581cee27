"""Know the names that a key of a query box can take: which of some exist, and which to suggest."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from dashboard.lists.query_box import ME, NO_ONE
from dashboard.lists.shared_queries import named_pattern, of_project
from ledger.authorization.permissions import instance_accounts
from ledger.journal import Kind
from ledger.models import Agent, DeadLetter, Event, Instruction, Membership, Plan, Project, Task
from ledger.states import FailureType
from retries.models import Channel, Escalation, FailurePattern, Operation, PermissionRule
from retries.notifications.messages.attempt_names import ATTEMPT_NAMES

NEWEST = 1_000  # the newest rows whose values are known if no index finds a value
NEWEST_EVENTS = 5_000  # the newest events of all projects
NEWEST_PATTERNS = 200  # the newest patterns whose words are suggested
WORD = re.compile(r"[\w-]{3,40}")
TYPO = 0.8  # a word this similar to a failure type was probably meant as one

Lister = Callable[[Project | None], Iterable[str]]
Finder = Callable[[Collection[str], Project | None], Collection[str]]

UNKNOWN = "Unknown {key} “{name}”."
NOT_RECENT = "No recent row has “{key}:{name}”."
SEARCHED = "“{name}” is not a failure type; it is searched as a word."


@dataclass(frozen=True, slots=True)
class NameSource:
    """The names of a key: `list` returns those to suggest, `find` which of some exist.

    `text` says that a name does not exist. Only where it is `UNKNOWN` this is certain.
    """

    key: str
    list: Lister
    find: Finder
    text: str = UNKNOWN


# ---- names that an index finds, or few names


def list_agents(project: Project | None) -> Iterable[str]:
    return of_project(Agent.objects.order_by("name"), project).values_list("name", flat=True)


def find_agents(names: Collection[str], project: Project | None) -> Collection[str]:
    rows = of_project(Agent.objects.filter(name__in=names), project)
    return set(rows.values_list("name", flat=True))


def list_pools(project: Project | None) -> Iterable[str]:
    rows = of_project(Agent.objects.filter(is_pool=True), project).order_by("name")
    return rows.values_list("name", flat=True)


def find_plans(names: Collection[str], project: Project | None) -> Collection[str]:
    rows = of_project(Plan.objects.filter(ref__in=names), project)
    return set(rows.values_list("ref", flat=True))


def find_refs(names: Collection[str], project: Project | None) -> Collection[str]:
    rows = of_project(Task.objects.current().filter(ref__in=names), project)
    return set(rows.values_list("ref", flat=True))


def list_patterns(project: Project | None) -> Iterable[str]:
    """Return the words and the fingerprints of the patterns seen last."""
    rows = of_project(FailurePattern.objects.current(), project).order_by("-last_seen", "-id")
    seen = list(rows.values_list("template", "fingerprint")[:NEWEST_PATTERNS])
    return [*list_words(template for template, _ in seen), *(found for _, found in seen)]


def list_words(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(word for text in texts for word in WORD.findall(text.lower())))


def find_patterns(names: Collection[str], project: Project | None) -> Collection[str]:
    rows = of_project(FailurePattern.objects.current(), project)
    named = {f"n{at}": Count("pk", filter=named_pattern(name)) for at, name in enumerate(names)}
    found = rows.aggregate(**named)
    return {name for at, name in enumerate(names) if found[f"n{at}"]}


def list_projects(project: Project | None) -> Iterable[str]:
    names = Project.objects.order_by("name").values_list("name", flat=True)
    return [project.name] if project else names


def list_people(project: Project | None) -> Iterable[str]:
    """Return the accounts that can act in a project: members, and accounts for all projects."""
    rows = User.objects.order_by("username")
    if project:
        members = Membership.objects.filter(project=project).values("user")
        rows = rows.filter(Q(pk__in=members) | Q(pk__in=instance_accounts()))
    return rows.values_list("username", flat=True)


def list_assignees(project: Project | None) -> Iterable[str]:
    rows = of_project(Escalation.objects.open().exclude(assignee=None), project).order_by("-id")
    return [ME, NO_ONE, *rows.values_list("assignee__username", flat=True)[:NEWEST]]


def find_assignees(names: Collection[str], project: Project | None) -> Collection[str]:
    return {*list_people(project), *list_assignees(project)}


def list_owners(project: Project | None) -> Iterable[str]:
    return [ME, NO_ONE, *list_people(project)]


def list_channels(project: Project | None) -> Iterable[str]:
    rows = Channel.objects.reaching(project) if project else Channel.objects.all()
    return rows.order_by("name").values_list("name", flat=True)


def find_channels(names: Collection[str], project: Project | None) -> Collection[str]:
    known = [each.lower() for each in list_channels(project)]
    return {name for name in names if any(name.lower() in each for each in known)}


def list_kinds(project: Project | None) -> Iterable[str]:
    kinds = (*Kind.values, *ATTEMPT_NAMES)
    nouns = dict.fromkeys(kind.partition(".")[0] for kind in kinds)
    return (*(f"{noun}.*" for noun in nouns), *kinds, "summary", "digest", "test")


def find_kinds(names: Collection[str], project: Project | None) -> Collection[str]:
    # A name such as `task.*` stands for all kinds that begin with it.
    kinds = tuple(list_kinds(project))
    return {
        name
        for name in names
        if name in kinds
        or (name.endswith("*") and any(each.startswith(name[:-1]) for each in kinds))
    }


# ---- names without an index


def newest(rows: Callable[[], QuerySet[Any]], column: str) -> Lister:
    def list_values(project: Project | None) -> Iterable[str]:
        found = of_project(rows(), project).order_by("-id")
        values: Iterable[str] = found.values_list(column, flat=True)[:NEWEST]
        return values

    return list_values


def list_senders(project: Project | None) -> Iterable[str]:
    return [*newest(Instruction.objects.all, "sent_by_name")(project), *list_people(project)]


def list_actors(project: Project | None) -> Iterable[str]:
    """Return who caused the newest events, and the people."""
    # A token that caused none of these events is left out: viewers may not see tokens.
    rows = Event.objects.order_by("-id").values_list("actor_name", "project_id")[:NEWEST_EVENTS]
    recent = dict.fromkeys(name for name, id in rows if project is None or id == project.pk)
    return [*recent, *list_people(project)]


def list_starters(project: Project | None) -> Iterable[str]:
    rows = Operation.objects.order_by("-id")
    if project:
        rows = rows.filter(project_ids__contains=[project.pk])
    return rows.values_list("actor_name", flat=True)[:NEWEST]


def find_listed(known: Lister) -> Finder:
    return lambda names, project: set(known(project))


def list_errors(project: Project | None) -> Iterable[str]:
    return FailureType.values


def find_errors(names: Collection[str], project: Project | None) -> Collection[str]:
    """Return the names that are failure types, and the words that don't resemble one."""
    types = FailureType.values
    return {
        name
        for name in names
        if name in types or not difflib.get_close_matches(name.lower(), types, n=1, cutoff=TYPO)
    }


def recent(key: str, known: Lister) -> NameSource:
    return NameSource(key, known, find_listed(known), NOT_RECENT)


# ---- the keys

# keyed by the field of the query
SOURCES: Mapping[str, NameSource] = {
    "agent": NameSource("agent", list_agents, find_agents),
    "pool": NameSource("pool", list_pools, find_listed(list_pools)),
    "plan": NameSource("plan", newest(Plan.objects.all, "ref"), find_plans),
    "type": recent("type", newest(Task.objects.all, "type")),
    "sender": recent("from", list_senders),
    "assignee": NameSource("assignee", list_assignees, find_assignees),
    "actor": recent("actor", list_actors),
    "task": NameSource("task", newest(lambda: Task.objects.exclude(ref=None), "ref"), find_refs),
    "pattern": NameSource("pattern", list_patterns, find_patterns),
    "error": NameSource("error", list_errors, find_errors, SEARCHED),
    "project": NameSource("project", list_projects, find_listed(list_projects)),
    "channel": NameSource("channel", list_channels, find_channels),
    "event": NameSource("event", list_kinds, find_kinds),
}
OWNERS = NameSource("assignee", list_owners, find_listed(list_owners))
# lists with other names, keyed by the name of the list's URL
OWN: Mapping[str, Mapping[str, NameSource]] = {
    "tasks": {"assignee": OWNERS},
    "patterns": {"assignee": OWNERS},
    "deadletters": {
        "assignee": OWNERS,
        "type": recent("type", newest(DeadLetter.objects.all, "type")),
        "reason": recent("reason", newest(DeadLetter.objects.all, "reason")),
    },
    "operations": {"by": recent("by", list_starters)},
    "permission_rules": {
        "tool": recent("tool", newest(PermissionRule.objects.all, "tool")),
        "by": recent("by", newest(PermissionRule.objects.all, "created_by_name")),
    },
}


def sources_of(place: str) -> Mapping[str, NameSource]:
    return {**SOURCES, **OWN.get(place, {})}
