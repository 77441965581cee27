"""Filters above and beside a list: the values of a key, with the number of rows for each (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.lists.query_box import BoxQuery, term
from dashboard.wording.formatting import capped


@dataclass(frozen=True, slots=True)
class Facet:
    """A value of a key, with the query that adds or removes it.

    The count is None where the rows are too many to count.
    """

    label: str
    query: str
    count: int | None
    current: bool
    icon: str = ""
    css: str = ""
    are_some: bool = False  # whether only some of the rows were counted
    title: str = ""  # the whole label, in case it is cut

    @property
    def number(self) -> str:
        """The count, with a plus where there may be more rows, or nothing without one.

        >>> Facet("coder", "", 12, current=False, are_some=True).number
        '12+'
        """
        if self.count is None:
            return ""
        number = capped(self.count)
        return f"{number}+" if self.are_some and not number.endswith("+") else number


def build_value_facets(
    key: str,
    counted: list[tuple[str, int]],
    one: str,
    query: BoxQuery,
    *,
    are_some: bool = False,
    total: int = 0,
) -> list[Facet]:
    """Return the facets of a key: its most frequent values, and the chosen one."""
    # All of the query's rows have the chosen value, so `total` is its count.
    known = dict(counted)
    names = list(known) + ([one] if one and one not in known else [])
    return [
        Facet(
            name,
            query.having(key, "" if name == one else term(key, name)),
            known.get(name, total),
            name == one,
            are_some=are_some,
        )
        for name in names
    ]


def build_state_facets(
    labels: Mapping[str, str],
    counts: Mapping[str, int],
    one: str,
    query: BoxQuery,
    *,
    default: str = "all",
) -> list[Facet]:
    # `default` is what a query without a state shows.
    return [
        Facet(
            label,
            query.having("state", "" if name == default else f"state:{name}"),
            counts[name],
            name == one,
        )
        for name, label in labels.items()
    ]
