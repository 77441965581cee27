"""What the query box of Activity asks for (pure): `kind:instruction.failed agent:coder since:2h`.

Same grammar as `dashboard.instructions.filters`: commas mean "or", a minus excludes, nonsense is a
sentence. Nothing is looked for in the data of events: there are too many of them.
"""

import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dashboard.instructions.filters import TOKEN, Values, as_id, clean, is_about, merged, tokens
from ledger.journal import Kind

KEYS = ("kind", "agent", "actor", "by", "about", "since", "until")
NOUNS = tuple(dict.fromkeys(kind.value.partition(".")[0] for kind in Kind))
# what a person may call a kind -> the kinds it stands for
KINDS: dict[str, tuple[str, ...]] = {
    **{noun: tuple(kind for kind in Kind if kind.startswith(f"{noun}.")) for noun in NOUNS},
    **{kind.value: (kind.value,) for kind in Kind},
}
# who acts -> the types of actors
ACTORS: dict[str, tuple[str, ...]] = {
    "people": ("user",),
    "tokens": ("token",),
    "tenfour": ("system",),
}
KNOWN: dict[str, dict[str, tuple[str, ...]]] = {"kind": KINDS, "by": ACTORS}

ANY = Values()

AGO = re.compile(r"(?P<number>\d{1,5})(?P<unit>s|m|h|d)(?: ago)?")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
CLOCK = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?")


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A parsed query; `text` is what the box shows."""

    text: str = ""
    kind: Values = ANY
    agent: Values = ANY
    actor: Values = ANY
    by: Values = ANY
    about: tuple[uuid.UUID, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def one_kind(self) -> str:
        return only(self.kind)

    @property
    def one_agent(self) -> str:
        return only(self.agent)

    @property
    def is_by_people(self) -> bool:
        return only(self.by) == "people"

    def having(self, key: str, value: str) -> str:
        """The text of the same query with another term for `key`, or none where it is empty."""
        return " ".join(filter(None, [self.without(key), value]))

    def without(self, *keys: str) -> str:
        kept = (
            token for token in tokens(self.text) if not any(is_about(token, key) for key in keys)
        )
        return " ".join(kept)


def only(values: Values) -> str:
    """The value, where exactly one is asked for."""
    return values.wanted[0] if len(values.wanted) == 1 and not values.unwanted else ""


def parse(text: str, *, now: datetime) -> EventQuery:
    """The query in `text`; never fails. Times of day are UTC."""
    text = clean(text)
    found: dict[str, Values] = {}
    times: dict[str, datetime] = {}
    ids: list[uuid.UUID] = []
    problems: list[str] = []
    for match in TOKEN.finditer(text):
        key = match["key"]
        if key not in KEYS:
            word = match["words"] if match["words"] is not None else match[0]
            note_id(word, ids, problems, said=f"“{word}” is not looked for")
        elif key == "about":
            note_id(match["value"], ids, problems, said=f"“{match[0]}” names no id")
        elif key in ("since", "until"):
            times |= time_of(key, match["value"].strip('"'), problems, now=now)
        else:
            names = values_of(match["value"], key, problems)
            found[key] = merged(found.get(key, ANY), names, unwanted=bool(match["minus"]))
    return EventQuery(
        text=text,
        kind=found.get("kind", ANY),
        agent=found.get("agent", ANY),
        actor=found.get("actor", ANY),
        by=found.get("by", ANY),
        about=tuple(ids),
        since=times.get("since"),
        until=times.get("until"),
        problems=tuple(problems),
    )


def note_id(word: str, ids: list[uuid.UUID], problems: list[str], *, said: str) -> None:
    found = as_id(word.strip('"'))
    if found:
        ids.append(found)
    elif word:
        problems.append(f"{said}: write {', '.join(f'{key}:' for key in KEYS)} or paste an id.")


def values_of(value: str, key: str, problems: list[str]) -> tuple[str, ...]:
    """The values of a key; those it does not know become problems and stand for nothing."""
    quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
    names = [value[1:-1]] if quoted else value.split(",")
    known = KNOWN.get(key)
    if known is None:
        return tuple(filter(None, names))
    names = [name.lower() for name in names if name]
    for name in names:
        if name not in known:
            near = choices(key, name)
            problems.append(f"There is no {key} “{name}”: it is one of {', '.join(near)}.")
    return tuple(name for name in names if name in known)


def choices(key: str, name: str) -> tuple[str, ...]:
    """What could have been meant: there are too many kinds to name them all."""
    if key != "kind":
        return tuple(KNOWN[key])
    noun, dot, _ = name.partition(".")
    return KINDS[noun] if dot and noun in NOUNS else NOUNS


def time_of(key: str, value: str, problems: list[str], *, now: datetime) -> dict[str, datetime]:
    """{"since": instant} from 30m, 2h, 14:05, 2026-11-20 or 2026-11-20T14:05."""
    at = instant(value, now=now)
    if at is None:
        problems.append(
            f"“{key}:{value}” is no time: write {key}:30m, {key}:2d, {key}:14:05 (UTC) or "
            f"{key}:2026-11-20."
        )
        return {}
    return {key: at + timedelta(days=1) if key == "until" and is_a_day(value) else at}


def instant(value: str, *, now: datetime) -> datetime | None:
    if match := AGO.fullmatch(value):
        return now - timedelta(**{UNITS[match["unit"]]: int(match["number"])})
    if match := CLOCK.fullmatch(value):
        at = now.astimezone(UTC).replace(
            hour=int(match["hour"]),
            minute=int(match["minute"]),
            second=int(match["second"] or 0),
            microsecond=0,
        )
        return at if at <= now else at - timedelta(days=1)
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    if not 1970 <= at.year <= 9000:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def is_a_day(value: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None


def kinds(values: Values) -> list[str] | None:
    """The kinds that are asked for; None for all of them."""
    if values == ANY:
        return None
    wanted = [kind for name in values.wanted for kind in KINDS[name]] or list(Kind.values)
    unwanted = {kind for name in values.unwanted for kind in KINDS[name]}
    return [kind for kind in dict.fromkeys(wanted) if kind not in unwanted]


def actor_types(values: Values) -> list[str] | None:
    """The types of actors that are asked for; None for all of them."""
    if values == ANY:
        return None
    names = values.wanted or tuple(ACTORS)
    return [type for name in names if name not in values.unwanted for type in ACTORS[name]]
