"""The form of one answer for all escalations of a pattern, with their differences."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import QueryDict

from dashboard.agents.presence import breaker_state
from dashboard.agents.targets import describe_hold
from dashboard.escalations.groups import queries as group_queries
from dashboard.escalations.groups.queries import MOST
from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox.address import Address, read_address
from dashboard.frame.rendering import Visit
from dashboard.lists.query_box import as_id
from dashboard.wording.badges import failure_icon
from dashboard.wording.formatting import counted
from ledger.models import Failure
from ledger.states import BreakerState
from ledger.values.text import normalize_newlines
from retries.escalations import typed_answers
from retries.failures.fixes.reading import FixState, LearnedFix, find_learned_fixes, normalize_fix
from retries.failures.fixes.suggestions import FixOffer, find_offers, suggest
from retries.failures.grouping import headline_of
from retries.models import FailurePattern
from retries.states import Answer

FIRST_ROWS = 10
VARIANTS = 20
SUGGESTIONS = 5
ACTIONS = {Answer.FIX: "Send a fix", Answer.RETRY: "Retry", Answer.SKIP: "Skip"}


@dataclass(frozen=True, slots=True)
class Variant:
    """An error of the group, how many have it, and whether they are answered."""

    key: str
    text: str
    count: int
    failure_id: UUID
    picked: bool = True


@dataclass(frozen=True, slots=True)
class AgentShare:
    """One agent's part of the answer, and when its tasks start."""

    name: str
    count: int
    note: str
    is_stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """An escalation of the group, with what is different about it."""

    row: Any
    picked: bool
    ticked: bool  # picked if its error is picked

    @property
    def key(self) -> str:
        return key_of(self.row)

    @property
    def is_tripped(self) -> bool:
        return breaker_state(self.row.agent) == BreakerState.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """The form of one answer, as it was posted or as it begins."""

    pattern: FailurePattern
    address: Address
    rows: list[GroupRow]
    count: int  # the size of the whole group; the form answers the first MOST
    waiting: int
    variants: list[Variant]
    icon: str
    agents: list[AgentShare]
    plans: int
    projects: int
    assigned: list[tuple[str, int]]
    action: str
    fix: str
    known: LearnedFix | None  # the best fix for the most frequent signature
    known_count: int  # how many have that signature
    suggestions: list[FixOffer]
    for_person: str  # what a person has to do before a retry
    gone: tuple[UUID, ...] = ()  # selected escalations that were answered or changed since
    error: str = ""
    is_review: bool = False

    @property
    def picked(self) -> list[UUID]:
        return [each.row.pk for each in self.rows if each.picked]

    @property
    def secret_warning(self) -> str:
        return typed_answers.find_warning(self.fix, about="tasks")

    @property
    def is_filled(self) -> bool:
        return bool(self.known and self.fix and self.fix == self.known.fix)

    @property
    def fits_all(self) -> bool:
        """Return whether the known fix worked for exactly the error of each escalation."""
        return self.known is not None and self.known_count == len(self.rows)

    @property
    def first_rows(self) -> list[GroupRow]:
        return self.rows[:FIRST_ROWS]

    @property
    def more_rows(self) -> list[GroupRow]:
        return self.rows[FIRST_ROWS:]

    @property
    def variant_keys(self) -> str:
        return ",".join(each.key for each in self.variants)

    @property
    def shown_ids(self) -> str:
        return ",".join(str(each.row.pk) for each in self.rows)

    @property
    def inbox_query(self) -> str:
        return self.address.build(page="", whole="")

    @property
    def actions(self) -> list[tuple[str, str, bool]]:
        return [(str(name), label, name == self.action) for name, label in ACTIONS.items()]


def read_group(visit: Visit) -> tuple[FailurePattern | None, Any]:
    id = as_id(visit.request.GET.get("pattern", ""))
    pattern = group_queries.find_pattern(id, visit.scope.project) if id else None
    if pattern is None:
        return None, None
    query = filters.parse(visit.request.GET.get("q", ""))
    person: Any = visit.request.user
    rows = group_queries.select_group(
        pattern, query, visit.scope.project, now=visit.now, viewer=person
    )
    return pattern, rows


def build_group_answer(
    visit: Visit, pattern: FailurePattern, rows: Any, posted: QueryDict | None = None
) -> GroupAnswer:
    shown, picked = read_ids(posted, "shown"), read_ids(posted, "id")
    # the form answers the escalations that it showed, even if the order has changed since
    listed = group_queries.list_group(rows if posted is None else rows.filter(pk__in=shown))
    count = len(listed) if posted is None and len(listed) < MOST else rows.count()
    action = posted.get("action", "") if posted else Answer.FIX
    known, known_count = find_known_fix(listed)
    fix = known.fix if known and known_count == len(listed) else ""
    if posted is not None:
        fix = normalize_newlines(posted.get("fix", ""))
    left_out = read_keys(posted, "variants") - read_keys(posted, "signature")
    ticked = [each for each in listed if posted is None or each.pk in picked]
    chosen = [each for each in ticked if key_of(each) not in left_out]
    variants, failures = list_variants(listed, left_out)
    types = Counter(each.failure_type for each in listed if each.failure_type)
    return GroupAnswer(
        pattern=pattern,
        address=read_address(visit),
        rows=[GroupRow(row=each, picked=each in chosen, ticked=each in ticked) for each in listed],
        count=count,
        waiting=group_queries.count_waiting([each.task_id for each in chosen]),
        variants=variants,
        icon=failure_icon(types.most_common(1)[0][0]) if types else "s-escalated",
        agents=share_by_agent(chosen, now=visit.now),
        plans=len({each.task.plan_id for each in listed if each.task.plan_id}),
        projects=len({each.project_id for each in listed}),
        assigned=count_assigned(chosen, visit.request.user.get_username()),
        action=action if action in ACTIONS else Answer.FIX,
        fix=fix,
        known=known,
        known_count=known_count,
        suggestions=suggest_fixes(variants, failures, total=len(listed)),
        for_person=suggest(failures[0]).for_person if failures else "",
        gone=tuple(picked - {each.pk for each in listed}),
    )


def key_of(row: Any) -> str:
    return str(row.signature or row.failure_id or "")


def list_variants(rows: list[Any], left_out: set[str]) -> tuple[list[Variant], list[Failure]]:
    """Return the most frequent errors by their signature, and the first failure of each."""
    counts = Counter(key_of(each) for each in rows if each.failure_id)
    first = {key_of(each): each.failure_id for each in reversed(rows)}
    most = counts.most_common(VARIANTS)
    failures = group_queries.fetch_failures(first[key] for key, _ in most)
    variants = [
        Variant(key, headline_of(failures[first[key]]), count, first[key], key not in left_out)
        for key, count in most
        if first[key] in failures
    ]
    return variants, [failures[each.failure_id] for each in variants]


def suggest_fixes(
    variants: list[Variant], failures: list[Failure], *, total: int
) -> list[FixOffer]:
    """Return the fixes that the escalations' own pages offer, the most widely applicable first."""
    offers = find_offers(failures)
    counts: Counter[str] = Counter()
    found: dict[str, FixOffer] = {}
    for variant in variants:
        for each in offers.get(variant.failure_id, ()):
            key = normalize_fix(each.fix)
            counts[key] += variant.count
            found.setdefault(key, each)
    return [
        found[key] if n == total else replace(found[key], why=f"{found[key].why}, {n} of {total}")
        for key, n in counts.most_common(SUGGESTIONS)
    ]


def read_keys(posted: QueryDict | None, name: str) -> set[str]:
    return set(",".join(posted.getlist(name)).split(",")) if posted else set()


def read_ids(posted: QueryDict | None, name: str) -> set[UUID]:
    given = ",".join(posted.getlist(name)) if posted else ""
    return {id for id in map(as_id, given.split(",")) if id}


def find_known_fix(rows: list[Any]) -> tuple[LearnedFix | None, int]:
    """Return the best fix for the most frequent signature, and how many have that signature."""
    signatures = Counter(each.signature for each in rows if each.signature)
    if not signatures:
        return None, 0
    signature, count = signatures.most_common(1)[0]
    failure = next(each.failure_id for each in rows if each.signature == signature)
    learned = find_learned_fixes([failure])
    best = next((fixes[0] for fixes in learned.values()), None)
    return (best, count) if best and best.state != FixState.RETIRED else (None, count)


def share_by_agent(rows: list[Any], *, now: datetime) -> list[AgentShare]:
    counts = Counter(each.agent_id for each in rows)
    agents = group_queries.list_agents(set(counts))
    holds = {id: describe_hold(each, each.runs, now=now) for id, each in agents.items()}
    return [
        AgentShare(agents[id].name, count, describe_agent(agents[id], holds[id]), bool(holds[id]))
        for id, count in counts.most_common()
        if id in agents
    ]


def describe_agent(agent: Any, hold: str) -> str:
    match breaker_state(agent):
        case BreakerState.OPEN:
            return "breaker open: they wait until it closes"
        case BreakerState.HALF_OPEN:
            return "breaker half open: they wait for its probe"
    if agent.paused:
        return "paused: they wait until it is resumed"
    if hold:
        return f"{hold}: they wait"
    return f"queued behind {counted(agent.queued, 'task')}" if agent.queued else "start at once"


def count_assigned(rows: list[Any], viewer: str) -> list[tuple[str, int]]:
    # The viewer's own assignments don't count.
    names = (each.assignee.username for each in rows if each.assignee)
    return Counter(name for name in names if name != viewer).most_common()
