"""Count the messages that a rule would have sent in the last week (pure)."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from dashboard.wording.formatting import counted
from retries.models import NotificationRule
from retries.models.notification_rule import RepeatUntil
from retries.notifications.rules.conditions import matching
from retries.notifications.rules.holding import HOUR, SEVERE, cap_end, quiet_end_of

# the most reminders counted for one subject
MOST_REMINDERS = 500


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """The fields of an event that the preview needs."""

    at: datetime
    kind: str
    subject_id: UUID
    severity: str = ""  # an escalation's severity


@dataclass(slots=True)
class Preview:
    """Messages by what they would have been, and when the second channel would have been told."""

    new: int = 0
    reminders: int = 0
    updates: int = 0
    summaries: int = 0
    held: int = 0
    second_at: list[datetime] = field(default_factory=list)
    is_partial: bool = False

    @property
    def messages(self) -> int:
        return self.new + self.reminders + self.updates + self.summaries

    @property
    def parts(self) -> str:
        said = [
            f"{self.new:,} new" if self.new else "",
            counted(self.reminders, "reminder") if self.reminders else "",
            counted(self.updates, "update") if self.updates else "",
            f"{counted(self.summaries, 'summary', 'summaries')} of {self.held:,}"
            if self.summaries
            else "",
        ]
        return ", ".join(part for part in said if part)


@dataclass(slots=True)
class Course:
    """One subject's condition from its beginning to its end."""

    since: datetime
    severity: str = ""
    reacted_at: datetime | None = None
    is_told: bool = False


def simulate(rule: NotificationRule, events: Sequence[JournalEvent], *, now: datetime) -> Preview:
    """Return what a rule would have sent for these events, oldest first."""
    sending = Sending(rule)
    going: dict[tuple[str, UUID], Course] = {}
    for event in events:
        found = matching(rule.conditions, event.kind)
        if found is None:
            continue
        name, condition = found
        topic = (name, event.subject_id)
        course = going.get(topic)
        if event.kind in condition.begins:
            is_told = False
            if course is None or not rule.only_on_change or not condition.lasts:
                is_told = sending.send("new", event.at, event.severity)
            if condition.lasts and course is None:
                going[topic] = Course(event.at, event.severity, is_told=is_told)
        elif course and event.kind in condition.reactions:
            course.reacted_at = course.reacted_at or event.at
            if course.is_told and rule.channel.has_threads:
                sending.send("updates", event.at, event.severity)
        elif course and event.kind in condition.ends:
            sending.follow(course, event.at)
            if course.is_told:  # otherwise the summary says that nothing is needed anymore
                sending.send("updates", event.at, event.severity)
            del going[topic]
    # A condition that has not ended lasts until now.
    for course in going.values():
        sending.follow(course, now)
    return sending.finish()


class Sending:
    """Count messages under a rule's cap and quiet hours."""

    def __init__(self, rule: NotificationRule) -> None:
        self.rule = rule
        self.preview = Preview()
        self.sent: list[datetime] = []  # the messages that the cap counts, oldest first
        self.summarized: set[datetime] = set()

    def send(self, what: str, at: datetime, severity: str) -> bool:
        """Count a message unless it is held back, and return whether it goes out at once."""
        # As in sending, severe messages break quiet hours, a cap never holds an update, and a
        # reminder that may not go out comes later instead of in a summary.
        is_counted = what != "updates"
        breaks = severity == SEVERE and self.rule.severe_breaks_quiet
        quiet = None if breaks else quiet_end_of(self.rule, at)
        held = max(filter(None, (quiet, self.end_of_cap(at) if is_counted else None)), default=None)
        if held:
            if what != "reminders":
                self.preview.held += 1
                self.summarized.add(held)
            return False
        if is_counted:
            insort(self.sent, at)
        setattr(self.preview, what, getattr(self.preview, what) + 1)
        return True

    def end_of_cap(self, at: datetime) -> datetime | None:
        """Return when the cap of the hour before allows another message, or None for now."""
        recent = self.sent[bisect_right(self.sent, at - HOUR) : bisect_right(self.sent, at)]
        return cap_end(self.rule, recent)

    def follow(self, course: Course, until: datetime) -> None:
        """Count the reminders and the second channel of a condition that went on until a time."""
        rule = self.rule
        end = until
        # Reminders may end with the first reaction.
        if rule.repeat_until == RepeatUntil.TAKEN and course.reacted_at:
            end = min(until, course.reacted_at)
        if rule.repeat_s and course.is_told:
            step, at = timedelta(seconds=rule.repeat_s), course.since
            for _ in range(MOST_REMINDERS):
                at += step
                if at >= end:
                    break
                self.send("reminders", at, course.severity)
        if rule.second_channel and rule.second_after_s:
            at = course.since + timedelta(seconds=rule.second_after_s)
            if at < min(until, course.reacted_at or until):
                self.preview.second_at.append(at)

    def finish(self) -> Preview:
        self.preview.summaries = len(self.summarized)
        return self.preview
