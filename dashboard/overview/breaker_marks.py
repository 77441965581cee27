"""Find when breakers were open in a range of time, for the marks in the charts of outcomes."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dashboard.overview.outcome_chart import BreakerMark
from dashboard.overview.trends import TrendRange
from dashboard.wording.formatting import rough_duration
from ledger.database import sql
from ledger.journal import Kind
from ledger.models import Project
from ledger.states import BreakerState
from ledger.values.ids import SLACK, first_id

MOST_MARKS = 12
MOST_EVENTS = 60  # the limit for one agent
LEAST_PERCENT = 0.4  # narrower marks can't be seen
LABELED_PERCENT = 14  # the least distance between two labels
NAME = 20

# Few agents have a breaker, and most of an agent's own events are about it.
MOVES = f"""select b.agent_id, a.name, b.state, b.opened_at, e.kind, e.at, e.from_state
from ledger_breaker b join ledger_agent a on a.id = b.agent_id
left join lateral (
    select e.kind, e.at, e.from_state from ledger_event e
    where e.subject_id = b.agent_id and e.id >= %(floor)s and e.at >= %(since)s
        and e.kind in ('{Kind.AGENT_BREAKER_OPENED}', '{Kind.AGENT_BREAKER_HALF_OPEN}',
            '{Kind.AGENT_BREAKER_CLOSED}')
    order by e.id desc limit {MOST_EVENTS}
) e on true
where b.trips > 0 and (%(project)s::uuid is null or a.project_id = %(project)s)
    and (e.kind is not null or b.state = '{BreakerState.OPEN}')
order by b.agent_id, e.at"""

Span = tuple[str, datetime, datetime | None]


def read_breaker_marks(
    project: Project | None, range: TrendRange, start: datetime, *, now: datetime
) -> list[BreakerMark]:
    rows = sql.run_custom_plan(
        MOVES, project=project.id if project else None, since=start, floor=first_id(start - SLACK)
    )
    return place_marks(find_spans(rows, start), start, range.length, now=now)


def find_spans(rows: Sequence[Mapping[str, Any]], start: datetime) -> list[Span]:
    """Return each time a breaker was open: the agent, the beginning, and the end if it is over."""
    spans: list[Span] = []
    by_agent: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_agent.setdefault(row["agent_id"], []).append(row)
    for moves in by_agent.values():
        name = moves[0]["name"]
        was_open = moves[0]["from_state"] == BreakerState.OPEN  # before the range
        opened = start if was_open else None
        for move in moves:
            if move["kind"] == Kind.AGENT_BREAKER_OPENED:
                opened = opened or move["at"]
            elif move["kind"] and opened:
                spans.append((name, opened, move["at"]))
                opened = None
        if moves[0]["state"] == BreakerState.OPEN:
            spans.append((name, opened or max(moves[0]["opened_at"], start), None))
    return spans


def place_marks(
    spans: Sequence[Span], start: datetime, length: timedelta, *, now: datetime
) -> list[BreakerMark]:
    """Return the marks of the longest spans, in order of time."""
    # A label is shown only if it has room.
    chosen = sorted(spans, key=lambda span: (span[2] or now) - span[1], reverse=True)[:MOST_MARKS]
    marks, last = [], -100.0
    for name, begin, end in sorted(chosen, key=lambda span: (span[1], span[0])):
        x = 100 * ((begin - start) / length)
        width = max(LEAST_PERCENT, 100 * (((end or now) - begin) / length))
        label = ""
        if x - last >= LABELED_PERCENT:
            short = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
            took = "" if end is None else f", {rough_duration((end - begin).total_seconds())}"
            label, last = f"{short} open{took}", x
        marks.append(BreakerMark(round(x, 2), round(min(width, 100 - x), 2), label))
    return marks
