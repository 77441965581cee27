"""The inbox as a page shows it: groups with their lines, filters with counts, and their links."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse

from dashboard.date_range import DateRange, find_dates
from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox.address import Address
from dashboard.escalations.inbox.filters import REASONS, InboxQuery
from dashboard.escalations.inbox.labels import (
    CHIPS,
    GROUP_LABELS,
    KINDS,
    REASON_LABELS,
    SORT_LABELS,
)
from dashboard.escalations.inbox.lines import fetch_lines
from dashboard.escalations.inbox.outline import MOST_LINES, Outline, Window, read_outline
from dashboard.escalations.inbox.selection import ASKS, MAY_I, NO_ANSWER, SINGLES, SORTS, Request
from dashboard.escalations.queries import SNIPPET
from dashboard.frame.live_updates import escalations_in, read_inbox_live_key
from dashboard.frame.rendering import Visit
from dashboard.lists.facets import Facet, build_value_facets
from dashboard.lists.query_box import ME, NO_ONE, only_value, term
from dashboard.lists.query_values import Period
from dashboard.question_lines import find_failure_headline
from dashboard.wording.badges import failure_icon, tool_icon
from dashboard.wording.formatting import monogram
from retries.states import Reason

SAME = (f"{ASKS}-", f"{NO_ANSWER}-", f"{MAY_I}-")  # the beginning of a key of equal escalations
# the parts of the list, in the usual order
PARTS = {"ends": "Ends by itself", "new": "New in the last hour", "old": "Waiting longer"}
WHY_NOT = "These differ: select the equal ones with X, or Shift A all of a filter, then press B."
SHORT_WAIT, LONG_WAIT = timedelta(hours=1), timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry of a menu."""

    label: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An escalation in the list."""

    id: UUID
    version: int
    title: str
    icon: str
    label: str
    text: str  # the headline of its last failure, or its question
    is_error: bool
    key: str
    agent: str
    project: str
    waiting: int
    opened_at: datetime
    tone: str
    assignee: str
    held_until: datetime | None  # when its policy's next step is due
    is_overdue: bool
    current: bool
    # for a permission request
    is_call: bool = False
    more_lines: int = 0  # lines of its command that are not shown
    seconds_left: int = 0

    @property
    def initials(self) -> str:
        return monogram(self.assignee).upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of escalations with its figures and its first lines."""

    key: str
    name: str
    is_code: bool
    icon: str
    label: str
    count: int
    agents: int
    waiting: int
    oldest: datetime
    tone: str
    is_severe: bool
    growth: int  # new in the last hour
    heading: str  # the heading of the list's part that begins here
    part: str  # the part of the list: "ends", "new" or "old"
    is_calls: bool  # whether they are permission requests
    seconds_left: int  # until the first of these requests ends
    lines: list[Line]
    before: int  # hidden lines before and after the shown ones
    after: int
    is_open: bool
    answer_url: str  # the page for one answer to the whole pattern
    answer_query: str  # finds identical escalations, which one operation answers
    why_not: str  # why there is no single answer for all

    @property
    def is_answerable(self) -> bool:
        return bool(self.answer_url or self.answer_query)

    before_url: str
    after_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """The open escalations that match a query, in groups."""

    address: Address
    link_query: str  # the query string of a link to an escalation
    query: InboxQuery
    total: int
    all: int
    snoozed: int
    closed: int
    groups: list[Group]
    group_count: int
    chips: list[Facet]
    agents: list[Facet]
    plans: list[Facet]
    assignees: list[Facet]
    group_choices: list[Choice]
    sort_choices: list[Choice]
    first: UUID | None
    place: int  # the current line's place; 0 if it is not in the list
    before: str
    after: str
    next: UUID | None
    newer: str
    older: str

    @property
    def params(self) -> QueryDict:
        return QueryDict(self.address.build(q="", page="", whole="").removeprefix("?"))

    @property
    def is_flat(self) -> bool:
        # Without groups, or with the group of single escalations alone, no headings are needed.
        return [group.key for group in self.groups] in ([SINGLES], [""])

    @property
    def shown_chips(self) -> list[Facet]:
        return [each for each in self.chips if each.count or each.current]

    @property
    def dates(self) -> DateRange:
        return find_dates("opened", self.query.opened)

    @property
    def is_small(self) -> bool:
        # So few lines need no filter.
        return self.all <= 1 and not self.query.text

    @property
    def clear_url(self) -> str:
        return reverse("dashboard:escalations") + self.address.build(q="", page="", whole="")


def read_request(visit: Visit, address: Address) -> Request:
    return Request(
        query=filters.parse(address.q),
        project=visit.scope.project,
        viewer=visit.request.user,  # type: ignore[arg-type]
        group=address.group,
        sort=address.sort,
        page=max(1, address.page) if address.group != "none" else 1,
    )


def find_next(visit: Visit, address: Address, current: UUID) -> UUID | None:
    place = read_visit_outline(visit, read_request(visit, address)).find_place(current)
    return place.next if place else None


def read_visit_outline(visit: Visit, wanted: Request) -> Outline:
    key = visit.live_key or read_inbox_live_key(now=visit.now)
    return read_outline(wanted, changes=escalations_in(key), now=visit.now)


def read_inbox(visit: Visit, address: Address, current: UUID | None) -> Inbox:
    """Return the inbox that the address asks for, with `current` or else the first line shown."""
    wanted = read_request(visit, address)
    outline = read_visit_outline(visit, wanted)
    page = find_page(outline, address.page, current)
    # Groups are read for one page only, so another page needs another outline.
    if page != wanted.page and not outline.is_flat:
        outline = read_visit_outline(visit, replace(wanted, page=page))
    first = outline.first_of(page)
    chosen = current or first
    place = outline.find_place(chosen) if chosen else None
    shown = outline.list_shown(page, place=place, whole=address.whole)
    rows = fetch_lines((id for window in shown.values() for id in window.ids), now=visit.now)
    address, query = replace(address, page=page), wanted.query
    builder = Builder(visit, address, query, chosen)
    return Inbox(
        address=address,
        link_query=address.build(page=""),
        query=query,
        total=outline.total,
        all=outline.all,
        snoozed=outline.snoozed,
        closed=outline.closed,
        groups=[
            builder.build_group(
                each,
                shown[each["key"]],
                rows,
                is_here=place is not None and each["key"] == place.key,
            )
            for each in outline.groups
        ],
        group_count=len(outline.sizes),
        chips=build_chips(outline, query, wanted.viewer.pk),
        agents=build_facets("agent", outline.agents, query),
        plans=build_facets("plan", outline.plans, query),
        assignees=build_facets("assignee", outline.assignees, query),
        group_choices=builder.build_choices("group", GROUP_LABELS, address.group),
        sort_choices=builder.build_choices("sort", SORT_LABELS, address.sort),
        first=first,
        place=place.number if place else 0,
        before=builder.link(place.before if place else None),
        after=builder.link(place.after if place else None),
        next=place.next if place else None,
        newer=address.build(page=page - 1) if page > 1 else "",
        older=address.build(page=page + 1) if page < outline.pages else "",
    )


def find_page(outline: Outline, wanted: int, current: UUID | None) -> int:
    if wanted:
        return min(wanted, outline.pages)
    # Without a page in the address, the page with the current line is shown.
    place = outline.find_place(current) if current else None
    return outline.find_page(place) if place else 1


def build_chips(outline: Outline, query: InboxQuery, viewer: object) -> list[Facet]:
    counts = outline.counts | {"assignee:me": outline.assigned.get(str(viewer), 0)}
    return [build_chip(*chip, count=counts[chip[0]], query=query) for chip in CHIPS]


def build_chip(term: str, label: str, icon: str, *, count: int, query: InboxQuery) -> Facet:
    key, _, value = term.partition(":")
    if key == "older":
        current = query.older == SHORT_WAIT
    elif key == "opened":
        current = query.opened == Period(SHORT_WAIT)
    else:
        current = only_value(getattr(query, key)) == value
    return Facet(label, query.having(key, "" if current else term), count, current, icon)


def build_facets(key: str, counted: list[tuple[str, int]], query: InboxQuery) -> list[Facet]:
    one = only_value(getattr(query, key))
    return build_value_facets(key, counted, "" if one in (ME, NO_ONE) else one, query)


def part_of(row: dict[str, Any]) -> str:
    """Return the part of the list that a group belongs to in the usual order."""
    return "ends" if row["ends_at"] else "new" if row["growth"] > 0 else "old"


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the parts of the list for one visit."""

    visit: Visit
    address: Address
    query: InboxQuery
    current: UUID | None
    headed: set[str] = field(default_factory=set)

    def link(self, id: UUID | None, **changes: str) -> str:
        if id is None:
            return ""
        # The address names no page: the list opens at the page with the escalation.
        query = self.address.build(**{"page": ""} | changes)
        return reverse("dashboard:escalation", args=[id]) + query

    def build_choices(self, name: str, labels: dict[str, str], current: str) -> list[Choice]:
        page = reverse("dashboard:escalations")
        default = next(iter(labels))
        return [
            Choice(
                label,
                page
                + self.address.build(
                    **{name: "" if each == default else each, "page": "", "whole": ""}
                ),
                each == current,
            )
            for each, label in labels.items()
        ]

    def tone_of(self, at: datetime) -> str:
        waited = self.visit.now - at
        return "is-red" if waited >= LONG_WAIT else "is-amber" if waited >= SHORT_WAIT else ""

    def build_line(self, row: dict[str, Any]) -> Line:
        id, opened_at = row["id"], row["opened_at"]
        label, icon = REASON_LABELS[Reason(row["reason"])]
        if row["failed_by"] and icon == "s-escalated":
            icon = failure_icon(row["failed_by"])
        if row["tool"]:
            icon, label = tool_icon(row["tool"]), f"{label} {row['tool']}"
        deliveries = row["deliveries"] or 0
        unanswered = f"{deliveries} deliver{'y' if deliveries == 1 else 'ies'}, no answer"
        headline = find_failure_headline(row) if row["message"] else ""
        text = row["question"] or headline or (unanswered if row["deliveries"] else label)
        scope = self.visit.scope
        return Line(
            id=id,
            version=row["version"],
            title=row["title"] or "",
            icon=icon,
            label=label,
            text=" ".join(text.split())[:SNIPPET],
            is_error=bool(headline and not row["question"]),
            key=row["ref"] or "",
            agent=row["agent_name"],
            project=row["project"] if scope.is_choice and not scope.project else "",
            waiting=row["waiting"],
            opened_at=opened_at,
            tone=self.tone_of(opened_at),
            assignee=row["assignee_name"] or "",
            held_until=row["held_until"],
            is_overdue=row["is_overdue"],
            current=id == self.current,
            is_call=row["tool"] is not None,
            more_lines=row["more_lines"] or 0,
            seconds_left=max(0, round(row["seconds_left"] or 0)) if row["tool"] else 0,
        )

    def build_group(
        self, row: dict[str, Any], window: Window, rows: dict[UUID, Any], *, is_here: bool
    ) -> Group:
        lines = [self.build_line(rows[id]) for id in window.ids if id in rows]
        key, count = row["key"], row["n"]
        same = term("same", key) if key.startswith(SAME) else ""
        is_pattern = self.address.group == "pattern" and key == row["pattern"]
        label, icon = REASON_LABELS[Reason(row["reason"])]
        oldest = datetime.fromisoformat(row["oldest"])
        name = KINDS.get(key) or self.name_group(row, label)
        if same and lines:
            name = lines[0].text if key.startswith(ASKS) else lines[0].title
        icons = {line.icon for line in lines}
        return Group(
            key=key,
            name=name,
            is_code=is_pattern,
            icon=icons.pop() if len(icons) == 1 else "s-escalated" if key == SINGLES else icon,
            label="" if key in KINDS or same else label,
            count=count,
            agents=row["agents"],
            waiting=row["waiting"],
            oldest=oldest,
            tone=self.tone_of(oldest),
            is_severe=row["severity"] > 1,
            growth=row["growth"],
            heading=self.head(row),
            part=part_of(row),
            is_calls=bool(row["ends_at"]),
            seconds_left=self.count_seconds(row["ends_at"]),
            lines=lines,
            before=window.before,
            after=window.after,
            is_open=is_here or key == self.address.whole,
            answer_url=self.answer_url(key) if is_pattern and count > 1 else "",
            answer_query=self.query.having("same", same) if same else "",
            why_not="" if is_pattern or same else WHY_NOT,
            before_url=self.more_url(row, window.previous),
            after_url=self.more_url(row, window.following),
        )

    def head(self, row: dict[str, Any]) -> str:
        # Only the usual order has parts, and each part has one heading.
        part = part_of(row)
        if self.address.sort != SORTS[0] or part in self.headed:
            return ""
        self.headed.add(part)
        return f"{PARTS[part]} · {row['of_section']:,}"

    def count_seconds(self, ends_at: str | None) -> int:
        left = datetime.fromisoformat(ends_at) - self.visit.now if ends_at else timedelta()
        return max(0, round(left.total_seconds()))

    def name_group(self, row: dict[str, Any], label: str) -> str:
        match self.address.group:
            case "agent":
                return str(row["agent"])
            case "plan":
                return str(row["plan"] or "No plan")
            case "pattern" if row["template"]:
                return str(row["template"])
        return label

    def answer_url(self, key: str) -> str:
        page = reverse("dashboard:escalations_answer_all")
        return page + self.address.build(pattern=key, page="", whole="")

    def more_url(self, row: dict[str, Any], neighbor: UUID | None) -> str:
        """Return the address that shows more of a group than its lines up to a neighbor."""
        # A short group is shown whole, and a long one in pages. If no term of the query finds the
        # group alone, the lines around the neighbor are shown.
        if neighbor is None:
            return ""
        key, page = row["key"], reverse("dashboard:escalations")
        if row["n"] <= MOST_LINES:
            return f"{page}{self.address.build(whole=key)}#group-{key}"
        if own := self.find_term(row):
            query = self.query.having(own.partition(":")[0], own)
            return page + self.address.build(q=query, group="none", page="", whole="")
        return f"{self.link(neighbor, whole=key)}#group-{key}"

    def find_term(self, row: dict[str, Any]) -> str:
        """Return the term of the query that finds a group, or an empty string without one."""
        match self.address.group:
            case "pattern" if row["key"].startswith(SAME):
                return term("same", row["key"])
            case "pattern" if row["fingerprint"]:
                return term("pattern", row["fingerprint"])
            case "pattern" if row["key"] in REASONS and row["key"] in KINDS:
                return term("reason", row["key"])
            case "reason":
                return term("reason", row["reason"])
            case "agent":
                return term("agent", row["agent"])
            case "plan" if row["plan"]:
                return term("plan", row["plan"])
        return ""
