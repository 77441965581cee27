"""Filters beside a list: the values of a key, with the number of rows for each (pure)."""

from dataclasses import dataclass

from dashboard.query_box import BoxQuery, term


@dataclass(frozen=True, slots=True)
class Facet:
    """A value of a key, with the query that adds or removes it."""

    label: str
    query: str
    count: int
    current: bool
    icon: str = ""
    css: str = ""


def value_facets(
    key: str, counted: list[tuple[str, int]], one: str, query: BoxQuery
) -> list[Facet]:
    """Return the most frequent values of a key, and the one that is asked for."""
    known = dict(counted)
    names = list(known) + ([one] if one and one not in known else [])
    return [
        Facet(
            name,
            query.having(key, "" if name == one else term(key, name)),
            known.get(name, 0),
            name == one,
        )
        for name in names
    ]
