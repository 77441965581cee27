"""Word a digest: what changed, what waits, and what it cost, on one page (pure)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from ledger.values.text import counted, truncate
from retries.notifications.digests.figures import LISTED, MOST_COUNTED, Figures
from retries.notifications.messages.wording import Message, join_parts, one_line

TITLE_LENGTH = 90


def word_digest(
    figures: Figures, *, weekly: bool, timezone: str, link: str, footer: str = ""
) -> Message:
    zone = ZoneInfo(timezone)
    end = figures.until.astimezone(zone)
    name = f"{name_period(figures, weekly=weekly)} to {end:%a} {end.day} {end:%b}"
    url = f"{link}/" + (f"?project={quote(figures.project)}" if figures.project else "")
    done, open = figures.now.done, figures.open
    need = "needs an answer" if open == 1 else "need an answer"
    asked = f", {limited(open)} {need}" if open else ""
    subject = f"{name}: {done:,} done{asked}"
    where = f"[{figures.project}] " if figures.project else ""
    return Message(
        f"{where}{subject}",
        join_parts(
            f"{subject}.",
            list_section("What changed", list_changes(figures)),
            list_section("What waits", list_waiting(figures, zone)),
            list_section("What it cost", list_costs(figures)),
            f"Open: {url}",
            f"From {show(figures.since, zone)} to {show(figures.until, zone)}, {timezone}.",
            footer,
        ),
        url,
    )


def name_period(figures: Figures, *, weekly: bool) -> str:
    # the days on which the clocks change are an hour longer or shorter
    days = round((figures.until - figures.since) / timedelta(days=1))
    if days > (7 if weekly else 1):
        return f"{days} days"  # after a stop of the clock
    return "Week" if weekly else "Day"


def list_section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"- {line}" for line in lines or ["nothing"])])


def list_changes(figures: Figures) -> list[str]:
    now, before = figures.now, figures.before
    lines = [
        f"{counted(n, 'task')} {name} (before: {was:,})"
        for name, n, was in (
            ("done", now.done, before.done),
            ("failed permanently", now.failed, before.failed),
            ("escalated", now.escalated, before.escalated),
        )
        if n or was
    ]
    if now.attempts:
        lines.append(f"{counted(now.attempts, 'attempt')} (before: {before.attempts:,})")
    if figures.plans:
        lines.append(f"plans done: {list_names(figures.plans)}")
    if figures.patterns:
        lines.append(limited(figures.patterns, "new failure pattern"))
        lines += [f"  {clip(text)}" for text in figures.pattern_texts]
    if figures.markers:
        lines.append(f"markers: {list_names(figures.markers)}")
    return lines


def list_waiting(figures: Figures, zone: ZoneInfo) -> list[str]:
    lines = []
    if figures.open:
        lines.append(f"{limited(figures.open, 'open escalation')}, the oldest first:")
        lines += [
            f"  {clip(each.title)} ({each.agent}, since {show(each.since, zone)})"
            for each in figures.oldest
        ]
    if figures.letters:
        lines.append(limited(figures.letters, "open dead letter"))
    if figures.instructions:
        lines.append(limited(figures.instructions, "unacknowledged instruction"))
    if figures.tripped:
        lines.append(f"breakers open: {list_names(figures.tripped)}")
    return lines


def list_costs(figures: Figures) -> list[str]:
    if not (figures.cost or figures.tokens):
        return []
    cost = "" if figures.cost is None else f"${figures.cost:,.2f}, "
    first, last = figures.days[0], figures.days[-1]
    days = first if first == last else f"{first} to {last}"
    line = f"{cost}{counted(figures.tokens, 'token')} ({days}, UTC)"
    if figures.cost and figures.now.done:
        line += f", ${figures.cost / figures.now.done:,.2f} for each task done"
    return [line]


def list_names(names: Sequence[str]) -> str:
    more = " and more" if len(names) > LISTED else ""
    return ", ".join(map(clip, names[:LISTED])) + more


def clip(text: str) -> str:
    return truncate(one_line(text), TITLE_LENGTH)


def limited(number: int, noun: str = "") -> str:
    """Format a number that is counted up to a limit, with its noun.

    >>> limited(1, "letter"), limited(1000, "letter"), limited(12)
    ('1 letter', '1,000 or more letters', '12')
    """
    text = f"{number:,}{' or more' if number >= MOST_COUNTED else ''}"
    return f"{text} {noun}{'' if number == 1 else 's'}" if noun else text


def show(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M}"
