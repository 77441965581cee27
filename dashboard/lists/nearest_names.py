"""Suggest the nearest known names for unknown ones in a query."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboard.lists import query_syntax
from dashboard.lists.known_names import UNKNOWN, NameSource, list_agents, sources_of
from dashboard.lists.query_box import ANY, BoxQuery, ListQuery, Values, quote, term
from ledger.models import Project
from ledger.values.text import find_similar
from retries.journal_readers.stored_values import list_keys


@dataclass(frozen=True, slots=True)
class NearName:
    """A term with a known name, and the query that has it instead of the unknown one."""

    term: str
    query: str


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that a query asks for or excludes although it does not exist.

    It finds nothing and excludes nothing, so the rows do not show that it is wrong.
    """

    text: str
    near: Sequence[NearName]
    is_certain: bool

    @property
    def problem(self) -> str:
        near = f" Did you mean “{self.near[0].term}”?" if self.near else ""
        return f"{self.text}{near}"


@dataclass(frozen=True, slots=True)
class NameHints:
    """The unknown names of a query, and suggestions for a key's only value.

    The latter are shown where the query finds nothing.
    """

    unknown: Sequence[UnknownName] = ()
    nearest: Sequence[NearName] = ()


def suggest_names(
    query: BoxQuery, place: str, project: Project | None, *, found: bool
) -> NameHints:
    unknown = list_unknown_names(query, place, project)
    return NameHints(unknown, [] if found or unknown else list_near_names(query, place, project))


def suggest_agents(query: ListQuery, project: Project | None, *, found: bool) -> NameHints:
    hints = suggest_names(query, "agents", project, found=found)
    if found or hints.unknown or hints.nearest:
        return hints
    return NameHints(nearest=list_near_agents(query, project))


def list_problems(query: BoxQuery, place: str, project: Project | None) -> list[str]:
    """Return the problems that forbid an action on all rows of a query."""
    unknown = list_unknown_names(query, place, project)
    return [*query.problems, *(each.problem for each in unknown if each.is_certain)]


def list_unknown_names(query: BoxQuery, place: str, project: Project | None) -> list[UnknownName]:
    """Return the unknown names of keys with several names, with excluded ones, or in groups."""
    # A single wanted name that is unknown finds nothing: then `list_near_names` suggests others.
    found = []
    for field, source in sources_of(place).items():
        values: Values = getattr(query, field, ANY)
        if len(values.wanted) > 1 or values.unwanted:
            unknown, known = find_unknown(values, source, project)
            found += [describe_unknown(query, values, name, source, known) for name in unknown]
        given = [getattr(each, field, ANY) for each in query.alternatives]
        if any(each != ANY for each in given):
            unknown, known = find_unknown(join_values(given), source, project)
            found += [describe_in_group(query, name, source, known) for name in unknown]
    return found + list_undeclared(query, project)


def list_undeclared(query: BoxQuery, project: Project | None) -> list[UnknownName]:
    """Return the keys of stored values that the project doesn't declare: they find nothing."""
    every = (query, *query.alternatives)
    asked = dict.fromkeys(key for each in every for key, _ in getattr(each, "stored", ()))
    declared = list_keys(project) if asked else set()
    text = "“{}” is not declared for search (Settings, Policies)."
    return [
        UnknownName(
            text.format(key),
            [NearName(each, replace_key(query, key, each)) for each in find_similar(key, declared)],
            is_certain=True,
        )
        for key in asked
        if key not in declared
    ]


def replace_key(query: BoxQuery, old: str, new: str) -> str:
    def change(token: str) -> str:
        minus = "-" if token.startswith("-") else ""
        begin = f"{minus}{old}:"
        return f"{minus}{new}:{token[len(begin) :]}" if token.startswith(begin) else token

    return query_syntax.replace_terms(query.text, change)


def join_values(given: Iterable[Values]) -> Values:
    return Values(tuple(name for each in given for name in (*each.wanted, *each.unwanted)))


def describe_in_group(
    query: BoxQuery, name: str, source: NameSource, known: Iterable[str]
) -> UnknownName:
    key = source.key
    near = [
        NearName(term(key, each), query.renaming(key, name, each))
        for each in find_similar(name, known)
    ]
    return UnknownName(source.text.format(key=key, name=name), near, source.text == UNKNOWN)


def find_unknown(
    values: Values, source: NameSource, project: Project | None
) -> tuple[list[str], list[str]]:
    """Return a key's names that do not exist, and the known names to suggest for them."""
    names = list(dict.fromkeys((*values.wanted, *values.unwanted)))
    existing = source.find(names, project) if names else ()
    unknown = [name for name in names if name not in existing]
    return unknown, list(dict.fromkeys(source.list(project))) if unknown else []


def describe_unknown(
    query: BoxQuery, values: Values, name: str, source: NameSource, known: Iterable[str]
) -> UnknownName:
    near = replace_name(query, values, name, source.key, find_similar(name, known))
    text = source.text.format(key=source.key, name=name)
    return UnknownName(text, near, source.text == UNKNOWN)


def list_near_names(query: BoxQuery, place: str, project: Project | None) -> Sequence[NearName]:
    """Return the nearest names for the first unknown one that is the only one of its key."""
    for field, source in sources_of(place).items():
        values: Values = getattr(query, field, ANY)
        if len(values.wanted) != 1 or values.unwanted:
            continue
        unknown, known = find_unknown(values, source, project)
        for name in unknown:
            if near := find_similar(name, known):
                return replace_name(query, values, name, source.key, near)
    return []


def list_near_agents(query: ListQuery, project: Project | None) -> list[NearName]:
    """Return the agents whose names look most like the first word that no name contains."""
    known = list(list_agents(project)) if query.words else []
    for word in query.words:
        if any(word.casefold() in name.casefold() for name in known):
            continue
        if near := find_similar(word, known):
            return [NearName(each, query.with_word(word, each)) for each in near]
    return []


def replace_name(
    query: BoxQuery, values: Values, old: str, key: str, near: Iterable[str]
) -> list[NearName]:
    return [
        NearName(term(key, each), query.having(key, rewrite(key, values, old, each)))
        for each in near
    ]


def rewrite(key: str, values: Values, old: str, new: str) -> str:
    """Return the terms of a key with one of its names replaced.

    >>> rewrite("agent", Values(("coder", "codre"), ("x",)), "codre", "coder")
    'agent:coder -agent:x'
    """
    terms = []
    for sign, names in (("", values.wanted), ("-", values.unwanted)):
        if names:
            renamed = dict.fromkeys(quote(new if each == old else each) for each in names)
            terms.append(f"{sign}{key}:{','.join(renamed)}")
    return " ".join(terms)
