"""The query box of Activity (pure): `kind:instruction.failed agent:coder since:2h`.

There is no search in the data of events, because there are too many of them.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dashboard.lists import query_box
from dashboard.lists.query_box import ANY, BoxQuery, Keys, Names, Values, as_id, only_value
from dashboard.lists.query_values import is_a_day, parse_instant, read_age
from ledger.journal import Kind

KEYS = ("kind", "agent", "actor", "by", "about", "older", "since", "until", "clock")
NOUNS = tuple(dict.fromkeys(kind.value.partition(".")[0] for kind in Kind))
# the name of a kind in the box -> the kinds it stands for
KINDS: dict[str, tuple[str, ...]] = {
    **{noun: tuple(kind for kind in Kind if kind.startswith(f"{noun}.")) for noun in NOUNS},
    **{kind.value: (kind.value,) for kind in Kind},
}
# moves that the clock makes by itself; hidden unless the query asks for them
CLOCK_KINDS = (
    Kind.TASK_DUE,
    Kind.TASK_UNBLOCKED,
    Kind.INSTRUCTION_REQUEUED,
    Kind.AGENT_BREAKER_HALF_OPEN,
)
SHOWN = "shown"
# who acts -> the types of actors
ACTORS: dict[str, tuple[str, ...]] = {
    "people": ("user",),
    "tokens": ("token",),
    "tenfour": ("system",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery(BoxQuery):
    kind: Values = ANY
    agent: Values = ANY
    actor: Values = ANY
    by: Values = ANY
    about: tuple[uuid.UUID, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    clock: Values = ANY

    @property
    def hides_clock(self) -> bool:
        """Return whether to leave out the clock's events: no key asks for them or a subject."""
        return not any(each.asks_for_clock for each in (self, *self.alternatives))

    @property
    def asks_for_clock(self) -> bool:
        asked = SHOWN in self.clock.wanted or "tenfour" in self.by.wanted
        return bool(asked or self.about or set(CLOCK_KINDS) & set(self.kind.wanted))

    @property
    def one_kind(self) -> str:
        return only_value(self.kind)

    @property
    def one_agent(self) -> str:
        return only_value(self.agent)

    @property
    def is_by_people(self) -> bool:
        return only_value(self.by) == "people"


def parse(text: str, *, now: datetime) -> EventQuery:
    """Return the query in `text`; never fails. Times of day are UTC."""
    return query_box.read_query(text, partial(parse_terms, now=now))


def parse_terms(text: str, *, now: datetime) -> EventQuery:
    ids: list[uuid.UUID] = []
    parsed = query_box.parse(text, build_keys(ids, now=now))
    for word in filter(None, parsed.rest):
        if found := as_id(word.strip('"')):
            ids.append(found)
        else:
            parsed.problems.append(f"“{word}” is not a filter. {ADVICE}")
    names: dict[str, Any] = {**parsed.names}
    return EventQuery(
        text=parsed.text,
        **names,
        about=tuple(ids),
        since=parsed.read.get("since"),
        until=min(filter(None, map(parsed.read.get, ("older", "until"))), default=None),
        problems=tuple(parsed.problems),
    )


def build_keys(ids: list[uuid.UUID], *, now: datetime) -> Keys:
    """Return the keys of the box; those of `about:` append to `ids`."""
    return {
        "kind": Names(tuple(KINDS), suggest=suggest_kinds),
        "agent": Names(),
        "actor": Names(),
        "by": Names(tuple(ACTORS)),
        "about": partial(read_id, ids),
        "older": partial(read_older, now=now),
        "since": partial(read_time, "since", now=now),
        "until": partial(read_time, "until", now=now),
        "clock": Names((SHOWN,)),
    }


ADVICE = f"Use {', '.join(f'{key}:' for key in KEYS)} or paste an id."


def suggest_kinds(name: str) -> tuple[str, ...]:
    # There are too many kinds for a hint.
    noun, dot, _ = name.partition(".")
    return KINDS[noun] if dot and noun in NOUNS else NOUNS


def read_id(ids: list[uuid.UUID], value: str) -> dict[str, uuid.UUID]:
    found = as_id(value.strip('"'))
    if found is None:
        raise ValueError(f"“about:{value}” is not an id. {ADVICE}")
    ids.append(found)
    return {}


def read_older(value: str, *, now: datetime) -> dict[str, datetime]:
    return {"older": now - read_age("older")(value)["older"]}


def read_time(key: str, value: str, *, now: datetime) -> dict[str, datetime]:
    """Return {key: instant} for 30m, 2h, 14:05, 2026-11-20 or 2026-11-20T14:05."""
    value = value.strip('"')
    at = parse_instant(value, now=now)
    if at is None:
        raise ValueError(
            f"“{key}:{value}” is not a time. Try {key}:30m, {key}:2d, {key}:14:05 (UTC) or "
            f"{key}:2026-11-20."
        )
    return {key: at + timedelta(days=1) if key == "until" and is_a_day(value) else at}


def kinds(values: Values) -> list[str] | None:
    """Return the kinds that are asked for, or None for all of them."""
    if values == ANY:
        return None
    wanted = [kind for name in values.wanted for kind in KINDS[name]] or list(Kind.values)
    unwanted = {kind for name in values.unwanted for kind in KINDS[name]}
    return [kind for kind in dict.fromkeys(wanted) if kind not in unwanted]


def actor_types(values: Values) -> list[str] | None:
    """Return the actor types that are asked for, or None for all of them."""
    if values == ANY:
        return None
    names = values.wanted or tuple(ACTORS)
    return [type for name in names if name not in values.unwanted for type in ACTORS[name]]
