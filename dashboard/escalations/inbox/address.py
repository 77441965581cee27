"""The parameters of the inbox's address."""

from dataclasses import dataclass
from typing import Any

from django.utils.http import urlencode

from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox.selection import GROUPS, SORTS
from dashboard.form_values import read_whole_number
from dashboard.frame.rendering import Visit

MOST_PAGES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parameters of the inbox's address; links change some and keep the others."""

    scope: dict[str, str]
    q: str = ""
    group: str = "pattern"
    sort: str = SORTS[0]
    page: int = 0  # 0: the page with the shown escalation
    whole: str = ""

    @property
    def shown_sort(self) -> str:
        # The usual order needs no name in the address.
        return self.sort if self.sort != SORTS[0] else ""

    def build(self, **changes: Any) -> str:
        params = {
            "q": self.q,
            "group": self.group if self.group != GROUPS[0] else "",
            "sort": self.shown_sort,
            "page": self.page if self.page > 1 else "",
            "whole": self.whole,
        } | changes
        known = {name: value for name, value in params.items() if value}
        given = self.scope | known
        return f"?{urlencode(given)}" if given else ""


def read_address(visit: Visit) -> Address:
    given = visit.request.GET
    group, sort = read_order(given.get("group", ""), given.get("sort", ""))
    page = read_whole_number(given.get("page", "")) or int("list" in given)
    return Address(
        scope={str(name): str(value) for name, value in visit.scope.params.items()},
        q=filters.parse(given.get("q", "")).text,
        group=group,
        sort=sort,
        page=page if page < MOST_PAGES else 0,
        whole=given.get("whole", "").replace("\0", "")[:64],
    )


def read_order(group: str, sort: str) -> tuple[str, str]:
    # An unknown grouping or order becomes the usual one.
    return group if group in GROUPS else GROUPS[0], sort if sort in SORTS else SORTS[0]
