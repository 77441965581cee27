"""Build the results of a search: rows by noun, pages and actions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import resolve, reverse

from dashboard.actions import by_slug
from dashboard.frame.navigation import PLACES, Scope
from dashboard.lists import query_box
from dashboard.search import exact, queries
from dashboard.search.queries import MOST, Hits
from dashboard.wording import badges
from dashboard.wording.badges import Badge
from ledger.models import Agent, Plan
from ledger.states import TaskState
from ledger.values.text import truncate
from retries.models import FailurePattern
from retries.verbs.agents import PAUSE, RESUME

LENGTH = 160
AGENT_ACTIONS = 4
# the noun of a page, by the name of its URL
NOUNS = {
    "instruction": "Instruction",
    "escalation": "Escalation",
    "task": "Task",
    "deadletter": "Dead letter",
    "pattern": "Pattern",
    "agent": "Agent",
    "plan": "Plan",
    "rule": "Standing instruction",
    "session": "Session",
    "operation": "Operation",
}

MayOpen = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Result:
    """A line of the results: a page with its texts."""

    url: str
    icon: str
    text: str
    key: str = ""
    detail: str = ""
    badge: Badge | None = None
    posts: bool = False  # the address changes something


@dataclass(frozen=True, slots=True)
class Shown:
    """A row's texts in its result."""

    id: Any
    text: str
    detail: str
    key: str = ""
    badge: Badge | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The first results of a noun; `more` is the list that shows all of them.

    `are_some` says whether only a part of the rows was searched.
    """

    name: str
    label: str
    results: list[Result]
    count: int = 0
    more: str = ""
    are_some: bool = False

    @property
    def number(self) -> str:
        has_more = self.count > MOST or (self.count and self.are_some)
        return f"{min(self.count, MOST)}+" if has_more else str(self.count or "")


@dataclass(frozen=True, slots=True)
class Command:
    """A page or an action that the palette offers; `words` find it beside its label."""

    label: str
    url_name: str
    icon: str
    words: str = ""


COMMANDS = (
    Command("New instruction", "instruction_new", "n-instructions", "send tell message"),
    Command("New task", "task_new", "n-tasks", "enqueue add create"),
    Command("Import a plan", "plan_import", "upload", "new add file"),
    Command("New standing instruction", "rule_new", "rule", "rule add"),
    Command("Connect an agent", "connect", "plug", "token new add"),
    Command("Import a transcript", "session_import", "upload", "session new add file"),
    Command("Tokens", "tokens", "key", "new create rotate revoke"),
    Command("People", "people", "person", "invite member role"),
    Command("Permission rules", "permission_rules", "f-permission", "may i allow deny remember"),
    Command("Audit log", "audit", "n-settings", "who did export"),
    Command("Operations", "operations", "n-tasks", "bulk running undo"),
    Command("Notifications", "notifications", "n-settings", "channels email chat"),
)


def list_groups(text: str, kind: str, scope: Scope, may: MayOpen) -> list[Group]:
    url = exact.find_url(text, scope.project)
    groups = [Group("exact", "Exact match", [exact_result(url, text, scope)])] if url else []
    return [*groups, *find_groups(text, kind, scope, may)]


def find_groups(text: str, kind: str, scope: Scope, may: MayOpen) -> Iterator[Group]:
    project = scope.project
    own = project.pk if project else None
    words = list(filter(None, query_box.clean(text).split()))[: query_box.MAX_WORDS]
    found = query_box.quote_words(text)
    if not words or query_box.as_id(text):
        return
    search = queries.prepare_search(words)
    finders: dict[str, tuple[Callable[[], Hits], Callable[[Any], Shown]]] = {
        "tasks": (lambda: queries.find_tasks(search, own), describe_task),
        "patterns": (lambda: queries.find_patterns(words, project), describe_pattern),
        "escalations": (lambda: queries.find_escalations(search, own), describe_escalation),
        "instructions": (lambda: queries.find_instructions(search, own), describe_instruction),
        "agents": (lambda: queries.find_agents(words, project), describe_agent),
        "plans": (lambda: queries.find_plans(words, project), describe_plan),
    }
    # A noun's query runs only if its group is needed.
    for name, (find, describe) in finders.items():
        if may(name) and kind in ("", name):
            group = build_group(name, find(), describe, found, scope)
            if group.results:
                yield group


def exact_result(url: str, text: str, scope: Scope) -> Result:
    path, _, query = url.partition("?")
    name = resolve(path).url_name or ""
    separator = "&" if query else "?"
    kept = scope.params.urlencode()
    return Result(
        f"{url}{separator}{kept}" if kept else url,
        "arrow-r",
        text,
        detail=NOUNS.get(name, "All that match"),
    )


def list_actions(text: str, scope: Scope, may: MayOpen, found: list[Group]) -> list[Result]:
    """Return the pages and actions whose label has the text, and filters that use it."""
    lower = text.lower()
    places = [
        Result(reverse(f"dashboard:{each.name}") + scope.query, each.icon, f"Go to {each.label}")
        for group in PLACES
        for each in group
        if may(each.name) and lower in f"go to {each.label}".lower()
    ]
    commands = [
        Result(reverse(f"dashboard:{each.url_name}") + scope.query, each.icon, each.label)
        for each in COMMANDS
        if may(each.url_name) and lower in f"{each.label} {each.words}".lower()
    ]
    if not text:
        return [*commands, *places]
    filters = []
    # A filter is offered only if it finds tasks with the whole text.
    has_tasks = any(group.name == "tasks" for group in found)
    if has_tasks and queries.has_failure(text.replace('"', ""), scope.project):
        term = query_box.term("error", text)
        filters.append(Result(list_url("tasks", term, scope), "filter", f"Filter tasks by {term}"))
    return [*list_agent_actions(text, scope, may), *commands[:3], *places[:3], *filters]


AGENT_VERBS = by_slug((PAUSE, RESUME))


def list_agent_actions(text: str, scope: Scope, may: MayOpen) -> list[Result]:
    """Return the actions on the agents that a text names, such as `pause coder` or `coder`."""
    words = query_box.clean(text).split()[: query_box.MAX_WORDS]
    begun = [verb for verb in AGENT_VERBS if words and verb.startswith(words[0].lower())]
    verbs = begun if words and len(words[0]) > 1 and begun else []
    named = [word for word in words[1 if verbs else 0 :] if word.lower() != "agent"]
    if not named or not may("agents"):
        return []
    results = []
    for agent in queries.find_agents(named, scope.project).rows:
        verb = RESUME if agent.paused else PAUSE
        if may("agent_act") and (not verbs or verb.slug in verbs):
            url = reverse("dashboard:agent_act", args=[agent.pk, verb.slug]) + scope.query
            text = f"{verb.do} agent {agent.name}"
            results.append(Result(url, verb.icon, text, detail=agent.project.name, posts=True))
        if may("instruction_new") and not verbs:
            url = list_url("instruction_new", agent.name, scope, "agent")
            results.append(Result(url, "n-instructions", f"Send {agent.name} an instruction"))
    return results[:AGENT_ACTIONS]


def find_nearest(text: str, scope: Scope, may: MayOpen) -> Result | None:
    """Return the search with each unknown word replaced by the nearest known one, or None."""
    words = query_box.clean(text).lower().split()[: query_box.MAX_WORDS]
    if not words or query_box.as_id(text):
        return None
    known = queries.list_known_words(scope.project.pk if scope.project else None)
    begun = {word: any(each.startswith(word) for each in known) for word in words}
    near = [word if begun[word] else query_box.find_nearest(word, known) for word in words]
    found = " ".join(filter(None, near))
    # If no row has all of the words, there is nothing to suggest.
    if found in ("", " ".join(words)) or not any(find_groups(found, "", scope, may)):
        return None
    return Result(list_url("search", found, scope), "search", found)


def list_url(name: str, text: str, scope: Scope, parameter: str = "q") -> str:
    params = {parameter: text, **scope.params.dict()}
    return f"{reverse(f'dashboard:{name}')}?{urlencode(params)}"


def page_url(name: str, id: Any, scope: Scope) -> str:
    return reverse(f"dashboard:{name}", args=[id]) + scope.query


def build_group(
    name: str, hits: Hits, describe: Callable[[Any], Shown], query: str, scope: Scope
) -> Group:
    results = [
        Result(
            page_url(name[:-1], shown.id, scope),
            f"n-{name}",
            truncate(shown.text, LENGTH),
            shown.key,
            truncate(shown.detail, LENGTH),
            shown.badge,
        )
        for shown in map(describe, hits.rows)
    ]
    more = list_url(name, f"state:all {query}" if name == "patterns" else query, scope)
    if hits.are_some:
        results.append(Result(more, "search", f"Search all open {name}"))
    return Group(name, name.capitalize(), results, hits.count, more, hits.are_some)


def describe_task(row: dict[str, Any]) -> Shown:
    detail = (row["error"] if is_failing(row["state"]) else "") or place_of(row)
    key = row["ref"] or f"…{str(row['id'])[-8:]}"
    badge = badges.task_badge(row["state"])
    return Shown(row["id"], row["title"] or row["type"], detail, key, badge)


def is_failing(state: str) -> bool:
    return state in (TaskState.ESCALATED, TaskState.FAILED, TaskState.RETRY)


def place_of(row: dict[str, Any]) -> str:
    return f"{row['agent']} · {row['project']}"


def describe_escalation(row: dict[str, Any]) -> Shown:
    text = row["question"] or row["title"] or row["type"] or row["content"]
    return Shown(row["id"], text, row["error"] or place_of(row))


def describe_instruction(row: dict[str, Any]) -> Shown:
    badge = badges.STATES.get(row["state"])
    return Shown(row["id"], row["content"], f"to {place_of(row)}", badge=badge)


def describe_pattern(row: FailurePattern) -> Shown:
    return Shown(row.pk, row.template, row.project.name)


def describe_agent(row: Agent) -> Shown:
    return Shown(row.pk, row.name, row.project.name)


def describe_plan(row: Plan) -> Shown:
    return Shown(row.pk, row.title, row.project.name, row.ref)
