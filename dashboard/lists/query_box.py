"""Parse the text of a query box (pure): `agent:gemini -type:test older:2h "some words"`.

This is the query language of every list. Each page declares its keys once. A key takes several
values with commas (or), and a minus before it excludes them. Quotes keep spaces, commas and colons
in one value or one word. Words without a key are searched. OR and parentheses combine terms: see
`query_syntax`. A term that makes no sense, such as an unknown key, becomes a sentence in
`problems`; the rest still counts.
"""

import re
import unicodedata
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Self, TypeVar

from dashboard.lists import query_syntax
from dashboard.lists.query_syntax import TOKEN, All, Group, Tree
from dashboard.lists.query_values import Reader

MAX_CHARACTERS = 300
MAX_WORDS = 8

VALUE = re.compile(r'(?:"[^"]*"|[^,])++')
ID = re.compile(
    r"(?:urn:uuid:)?\{?(?P<id>[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12})\}?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a key must have one of, and those it must not have."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


ANY = Values()
ME, NO_ONE = "me", "none"  # stand in for a person's name


@dataclass(frozen=True, slots=True)
class Names:
    """A key whose values are names: any, or only the `choices`.

    `suggest` returns the choices to show for an unknown name; without it, all of them are shown.
    `field` is the query's field if it has another name than the key.
    """

    choices: tuple[str, ...] = ()
    suggest: Callable[[str], tuple[str, ...]] | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class Paths:
    """Keys such as `payload.order`, whose values are those stored at a path."""


# the key under which a list has `payload.order` and the others of its source
NAMED = "{}.NAME".format

Keys = Mapping[str, Names | Reader | Paths]


@dataclass(slots=True)
class Parsed:
    """The terms of a query box before a page makes its query of them."""

    text: str
    # the page's query fields: values of names, and the readers' results
    names: dict[str, Values] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)  # words without a key
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxQuery:
    """A parsed query; `text` is what the box shows."""

    text: str = ""
    problems: tuple[str, ...] = field(default=(), compare=False)
    # one alternative of each group must fit, beside the query's own fields
    groups: "tuple[tuple[Self, ...], ...]" = ()

    def seen_by(self, person: Any) -> Self:
        """Return the query with a person's name for `me` as an assignee, also in groups."""
        groups = tuple(tuple(each.seen_by(person) for each in group) for group in self.groups)
        assignee: Values = getattr(self, "assignee", ANY)
        changes: dict[str, Any] = {"groups": groups}
        if ME in (*assignee.wanted, *assignee.unwanted):
            own = {ME: person.get_username()}
            names = (assignee.wanted, assignee.unwanted)
            changes["assignee"] = Values(*(tuple(own.get(n, n) for n in each) for each in names))
        return replace(self, **changes)

    def having(self, key: str, term: str) -> str:
        """Return the query's text with `term` for `key`, or without the key if it is empty."""
        return query_syntax.add_term(self.without(key), term)

    def with_word(self, old: str, new: str) -> str:
        def change(token: str) -> str:
            match = TOKEN.fullmatch(token)
            word = (match and match["words"]) or token
            return quote_word(new) if word == old else token

        return query_syntax.replace_terms(self.text, change)

    def renaming(self, key: str, old: str, new: str) -> str:
        """Return the query's text with another name for one of a key, also in groups."""

        def change(token: str) -> str:
            match = TOKEN.fullmatch(token)
            if not (match and match["key"] and match["key"].lower() == key):
                return token
            names = [part.replace('"', "") for part in VALUE.findall(match["value"])]
            value = ",".join(quote(new if name == old else name) for name in names)
            return f"{match['minus'] or ''}{match['key']}:{value}"

        return query_syntax.replace_terms(self.text, change)

    def without(self, *keys: str) -> str:
        return query_syntax.drop_terms(self.text, lambda token: has_key(token, keys))

    @property
    def terms(self) -> list[str]:
        """The terms that all rows fit."""
        return query_syntax.list_terms(self.text)

    @property
    def alternatives(self) -> "tuple[Self, ...]":
        """The queries in the groups, with those in their own groups."""
        found: list[Self] = []
        for group in self.groups:
            for each in group:
                found += (each, *each.alternatives)
        return tuple(found)

    def names_any(self, *fields: str) -> bool:
        """Return whether the query or an alternative has a value for one of the fields."""
        return any(
            getattr(each, name) not in (ANY, None, ())
            for each in (self, *self.alternatives)
            for name in fields
        )


Q = TypeVar("Q", bound=BoxQuery)


def read_query(text: str, read: Callable[[str], Q]) -> Q:
    """Return the query in a text; `read` returns the one of terms without groups."""
    typed = clean(text)
    if not query_syntax.has_groups(query_syntax.split_pieces(typed)):
        return read(typed)
    tree, problems = query_syntax.parse_tree(typed)

    def read_terms(terms: str) -> Q:
        found = read(terms)
        problems.extend(found.problems)
        return found

    found = read_tree(tree, read_terms)
    # A text that makes no sense stays as it was typed.
    shown = typed if problems else query_syntax.print_tree(tree)
    return replace(found, text=shown, problems=query_syntax.join_problems(problems))


def read_tree(tree: Tree, read: Callable[[str], Q]) -> Q:
    if len(tree) != 1:
        alternatives = read_alternatives(tree, read)
        return replace(read(""), groups=(alternatives,) if alternatives else ())
    return read_all(tree[0], read)


def read_all(items: All, read: Callable[[str], Q]) -> Q:
    own = read(" ".join(item for item in items if isinstance(item, str)))
    within = (item for item in items if isinstance(item, Group))
    groups = (read_alternatives(item.alternatives, read) for item in within)
    return replace(own, text="", groups=tuple(filter(None, groups)))


def read_alternatives(tree: Tree, read: Callable[[str], Q]) -> tuple[Q, ...]:
    # An alternative whose terms make no sense fits no row.
    none = replace(read(""), text="")
    found = (read_all(items, read) for items in tree)
    return tuple(each for each in found if each != none)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery(BoxQuery):
    """A parsed query whose words without a key are ids and words to search for."""

    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, keys: Keys) -> Self:
        """Return the query in `text`; never fails. Each key or its reader names a field."""
        return read_query(text, lambda terms: cls.read_terms(terms, keys))

    @classmethod
    def read_terms(cls, text: str, keys: Keys) -> Self:
        parsed = parse(text, keys)
        ids, words = split_ids(parsed.rest, parsed.problems)
        values: dict[str, Any] = {**parsed.names, **parsed.read}
        return cls(
            text=parsed.text, **values, ids=ids, words=words, problems=tuple(parsed.problems)
        )

    @property
    def sought(self) -> tuple[str, ...]:
        """The words to highlight in a row."""
        found: list[str] = []
        for each in (self, *self.alternatives):
            error: Values = getattr(each, "error", ANY)
            found += (*each.words, *error.wanted)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuery(ListQuery):
    """A parsed query with the key `state`."""

    state: Values = ANY

    @property
    def one_state(self) -> str:
        """The state if the query has exactly one, "all" if it has none, else an empty string."""
        return "all" if self.state == ANY else only_value(self.state)

    def stateless(self) -> Self:
        return replace(self, text="", state=ANY)


def parse(text: str, keys: Keys) -> Parsed:
    """Split a query's text into the terms of its keys and other words; never fails."""
    parsed = Parsed(clean(text))
    for match in TOKEN.finditer(parsed.text):
        if match["key"] is None:
            parsed.rest.append(match["words"] if match["words"] is not None else match[0])
            continue
        source, _, path = match["key"].partition(".")
        key = source.lower()
        kind = keys.get(NAMED(key) if path else key)
        if kind is None:
            parsed.problems.append(describe_unknown_key(match["key"], match["value"], keys))
        elif isinstance(kind, Paths):
            add_stored(parsed, f"{key}.{path}", match["value"], unwanted=bool(match["minus"]))
        elif isinstance(kind, Names):
            names = read_names(match["value"], key, kind, parsed.problems)
            name = kind.field or key
            before = parsed.names.get(name, ANY)
            parsed.names[name] = merge(before, names, unwanted=bool(match["minus"]))
        # Only names can be excluded.
        elif match["minus"]:
            parsed.problems.append(f"“{key}:” can’t be excluded. Remove the minus before it.")
        else:
            try:
                parsed.read |= kind(match["value"].replace('"', ""))
            except ValueError as problem:
                parsed.problems.append(str(problem))
    return parsed


def add_stored(parsed: Parsed, key: str, value: str, *, unwanted: bool) -> None:
    stored: dict[str, Values] = dict(parsed.read.get("stored", ()))
    names = tuple(filter(None, (part.replace('"', "") for part in VALUE.findall(value))))
    stored[key] = merge(stored.get(key, ANY), names, unwanted=unwanted)
    parsed.read["stored"] = tuple(stored.items())


def describe_unknown_key(key: str, value: str, keys: Collection[str]) -> str:
    near = find_nearest(key.lower(), keys)
    advice = f"Did you mean “{near}:{value}”?" if near else f"Use {', '.join(keys)}."
    return f"There is no filter “{key}”. {advice} To search for the words, put them in quotes."


def find_nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that is most like another, or an empty string."""
    # A name that begins with the text is nearer than any other.
    begun = [each for each in known if name and each.startswith(name)]
    return next(iter(begun or get_close_matches(name, known, n=1)), "")


def read_names(value: str, key: str, kind: Names, problems: list[str]) -> tuple[str, ...]:
    """Return the names in a value; an unknown one becomes a problem instead."""
    names = [part.replace('"', "") for part in VALUE.findall(value)]
    if not kind.choices:
        return tuple(filter(None, names))
    names = [name.lower() for name in names]
    for name in names:
        if name not in kind.choices:
            near = "" if kind.suggest else find_nearest(name, kind.choices)
            advice = f"Did you mean “{near}”?" if near else describe_choices(name, kind)
            problems.append(f"Unknown {key} “{name}”. {advice}")
    return tuple(name for name in names if name in kind.choices)


def describe_choices(name: str, kind: Names) -> str:
    choices = kind.suggest(name) if kind.suggest else kind.choices
    return f"Use one of: {', '.join(choices)}."


def merge(before: Values, names: tuple[str, ...], *, unwanted: bool) -> Values:
    if unwanted:
        return replace(before, unwanted=before.unwanted + names)
    return replace(before, wanted=before.wanted + names)


def split_ids(
    words: list[str], problems: list[str]
) -> tuple[tuple[uuid.UUID, ...], tuple[str, ...]]:
    """Split the words without a key into ids and words to search for, up to MAX_WORDS."""
    if len(words) > MAX_WORDS:
        problems.append(f"Only the first {MAX_WORDS} words are searched.")
    ids = tuple(each for each in map(as_id, words) if each)
    return ids, tuple(word for word in words if word and not as_id(word))[:MAX_WORDS]


def has_value(values: Values, name: str) -> bool:
    return (not values.wanted or name in values.wanted) and name not in values.unwanted


def only_value(values: Values) -> str:
    """Return the value if exactly one is wanted, else an empty string."""
    return values.wanted[0] if len(values.wanted) == 1 and not values.unwanted else ""


def has_key(token: str, keys: tuple[str, ...]) -> bool:
    return token.removeprefix("-").lower().startswith(tuple(f"{key}:" for key in keys))


def clean(text: str) -> str:
    """Return the text as one line without control characters, cut to MAX_CHARACTERS."""
    line = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in text)
    return " ".join(line.split())[:MAX_CHARACTERS].strip()


def term(key: str, value: str) -> str:
    return f"{key}:{quote(value)}"


def quote(value: str) -> str:
    # A quoted value can't contain quotes itself.
    plain = value.replace('"', "")
    return f'"{plain}"' if re.search(r"[\s,]", plain) else plain


def as_id(word: str) -> uuid.UUID | None:
    """Return the id that a word is, or None."""
    # `uuid.UUID` accepts more notations, in which `project_access` would not find the id.
    match = ID.fullmatch(word)
    return uuid.UUID(match["id"]) if match else None


def quote_words(text: str) -> str:
    """Return the text as a query for each of its words, even if a word looks like a term.

    >>> quote_words("KeyError:'EUR' in main")
    '"KeyError:\\'EUR\\'" in main'
    """
    return " ".join(quote_word(word) for word in text.split())


def quote_word(word: str) -> str:
    """Return a word as the box takes it, also one that looks like a term.

    >>> quote_word("coder"), quote_word("a:b")
    ('coder', '"a:b"')
    """
    match = TOKEN.fullmatch(word)
    is_plain = match and match["key"] is None and match["words"] is None and not has_sign(word)
    plain = word.replace('"', "")
    return word if is_plain else f'"{plain}"'


def has_sign(word: str) -> bool:
    return any(piece.is_sign for piece in query_syntax.split_pieces(word))
