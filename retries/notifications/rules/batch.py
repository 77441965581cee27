"""Apply the rules to a batch of events: who is told, in which thread, now or later."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from ledger.database.sql import Row
from retries.models import Channel, Delivery, NotificationRule, NotificationThread
from retries.models.notification_delivery import DeliveryRole, DeliveryState
from retries.models.notification_rule import RepeatUntil
from retries.notifications.messages.answer_hints import facts_with_hints
from retries.notifications.messages.subjects import Subjects, facts_of, subject_columns
from retries.notifications.messages.wording import Facts, Message, word_event
from retries.notifications.rules import conditions
from retries.notifications.rules.conditions import CONDITIONS, Condition
from retries.notifications.rules.holding import Holding


@dataclass(frozen=True, slots=True)
class Match:
    """An event that a rule is for, and the condition that it belongs to."""

    event: Row
    rule: NotificationRule
    name: str
    condition: Condition

    @property
    def topic(self) -> str:
        return f"{self.name}:{self.event['subject_id']}"


def rules_for(event: Row, rules: Iterable[NotificationRule]) -> list[Match]:
    return [
        Match(event, rule, *found)
        for rule in rules
        if rule.project_id in (None, event["project_id"])
        and is_of_agent(rule, event)
        and event["at"] >= rule.enabled_at
        and (found := conditions.matching(rule.conditions, event["kind"]))
        and not is_about_itself(rule, event)
    ]


def is_of_agent(rule: NotificationRule, event: Row) -> bool:
    # The outbox reads a rule with the members of its pool.
    members = getattr(rule, "members", ())
    return rule.agent_id in (None, event["agent_id"]) or event["agent_id"] in members


def is_about_itself(rule: NotificationRule, event: Row) -> bool:
    is_of_channel: bool = event["subject_type"] == "channel"
    return is_of_channel and event["subject_id"] == rule.channel_id


class RuleBatch:
    """The deliveries that a batch of events causes; threads are read and written once."""

    def __init__(self, rules: list[NotificationRule], about: Subjects, *, now: datetime) -> None:
        self.rules, self.about, self.now = rules, about, now
        self.holding = Holding(rules, now=now)
        self.threads: dict[tuple[UUID, str], NotificationThread] = {}
        self.changed: dict[UUID, NotificationThread] = {}
        # by channel and message: two rules may tell one channel of the same event
        self.deliveries: dict[tuple[UUID, str], Delivery] = {}

    def process(self, events: list[Row]) -> list[Delivery]:
        """Return the deliveries of these events, in their order."""
        # A channel gets one message about an event: from the rule that sends it soonest, or from
        # the first of several such rules.
        matches = [
            match
            for event in events
            for match in rules_for(event, self.rules)
            if self.is_of_plan_and_severity(match)
        ]
        self.fetch_threads(matches)
        for match in matches:
            self.apply(match)
        self.save_threads()
        return list(self.deliveries.values())

    def is_of_plan_and_severity(self, match: Match) -> bool:
        rule, event = match.rule, match.event
        if rule.plan_id and rule.plan_id != self.about.plan_of(event):
            return False
        return not rule.severity or rule.severity == self.about.severity_of(event)

    # ---- threads

    def fetch_threads(self, matches: list[Match]) -> None:
        lasting = [match for match in matches if match.condition.lasts]
        found = NotificationThread.objects.filter(
            rule__in={match.rule.pk for match in lasting},
            topic__in={match.topic for match in lasting},
        )
        for thread in found.select_for_update(of=("self",)).order_by("id"):
            self.threads[thread.rule_id, thread.topic] = thread

    def save_threads(self) -> None:
        changed = self.changed.values()
        columns = [
            "is_open",
            "title",
            "messages",
            "opened_at",
            "closed_at",
            "repeat_at",
            "second_at",
            "second_told_at",
        ]
        NotificationThread.objects.bulk_create(
            changed,
            batch_size=50,
            update_conflicts=True,
            unique_fields=["rule", "topic"],
            update_fields=columns,
        )

    def open_thread(self, match: Match) -> NotificationThread | None:
        """Return the thread of a condition that begins, or None if it already holds."""
        rule, event = match.rule, match.event
        thread = self.threads.get((rule.pk, match.topic))
        if thread is not None and thread.is_open and rule.only_on_change:
            return None
        if thread is None:
            thread = NotificationThread(
                id=uuid7_of(event["id"], rule.pk),
                rule=rule,
                topic=match.topic,
                subject_type=event["subject_type"],
                subject_id=event["subject_id"],
                project_id=event["project_id"],
            )
            self.threads[rule.pk, match.topic] = thread
        thread.is_open, thread.opened_at, thread.closed_at = True, self.now, None
        thread.messages, thread.second_told_at, thread.title = 0, None, ""
        thread.repeat_at = later(self.now, rule.repeat_s)
        thread.second_at = later(self.now, rule.second_after_s) if rule.second_channel_id else None
        self.changed[thread.pk] = thread
        return thread

    def close_thread(self, thread: NotificationThread) -> None:
        thread.is_open, thread.closed_at = False, self.now
        thread.repeat_at = thread.second_at = None
        self.changed[thread.pk] = thread

    def note_reaction(self, thread: NotificationThread, match: Match) -> None:
        # A person has reacted, so the second channel is not needed.
        thread.second_at = None
        if match.rule.repeat_until == RepeatUntil.TAKEN:
            thread.repeat_at = None
        self.changed[thread.pk] = thread

    # ---- deliveries

    def apply(self, match: Match) -> None:
        kind, condition = match.event["kind"], match.condition
        if not condition.lasts:
            self.add_delivery(match, DeliveryRole.NEW, match.rule.channel, None)
        elif kind in condition.begins:
            thread = self.open_thread(match)
            if thread is not None:
                self.add_delivery(match, DeliveryRole.NEW, match.rule.channel, thread)
        else:
            thread = self.threads.get((match.rule.pk, match.topic))
            if thread is None or not thread.is_open:
                return
            if kind in condition.ends:
                self.close_thread(thread)
            else:
                self.note_reaction(thread, match)
            self.update_followers(match, thread)

    def update_followers(self, match: Match, thread: NotificationThread) -> None:
        """Send an update to the channels that have a message of the thread."""
        # A service without threads shows each reply as one more message, so it gets only the end.
        told = [match.rule.channel] if thread.messages else []
        if thread.second_told_at and match.rule.second_channel:
            told.append(match.rule.second_channel)
        for channel in told:
            if thread.is_open and not channel.has_threads:
                continue
            self.add_delivery(match, DeliveryRole.UPDATE, channel, thread)

    def add_delivery(
        self, match: Match, role: DeliveryRole, channel: Channel, thread: NotificationThread | None
    ) -> None:
        """Add a delivery: due now, held back, or not sent because the channel is off."""
        # It replaces another rule's delivery that goes out later, or is left out.
        rule, event = match.rule, match.event
        key = channel.pk, f"evt-{event['id']}"
        other = self.deliveries.get(key)
        if other is not None and other.state == DeliveryState.PENDING:
            # This rule's cap is not used. Its reminders and replies may follow that message.
            count_message(thread, other.body["subject"])
            return
        if not channel.is_on:
            state, held_until = DeliveryState.NOT_SENT, None
            if thread is not None and thread.second_at:
                thread.second_at = self.now  # no one can react to a message that is not sent
        else:
            held_until = self.holding.held_until(
                rule, channel, severity=self.about.severity_of(event), is_new=role == "new"
            )
            state = DeliveryState.HELD if held_until else DeliveryState.PENDING
        is_due = state == DeliveryState.PENDING
        if other is not None and not is_due and not ends_before(held_until, other.held_until):
            return
        is_first = role == DeliveryRole.NEW
        message = self.word(match, channel, thread, is_first=is_first, is_due=is_due)
        if is_due:
            count_message(thread, message.subject)
        self.deliveries[key] = Delivery(
            channel=channel,
            rule=rule,
            thread=thread,
            message_id=key[1],
            role=role,
            body=asdict(message),
            state=state,
            next_try_at=self.now if is_due else None,
            held_until=held_until,
            created_at=self.now,
            **subject_columns(event, self.about),
        )

    def word(
        self,
        match: Match,
        channel: Channel,
        thread: NotificationThread | None,
        *,
        is_first: bool,
        is_due: bool,
    ) -> Message:
        # hints take queries, and a message that is held back is sent in a summary without them
        read_facts = facts_with_hints if is_due else facts_of
        facts = read_facts(match.event, self.about, with_details=channel.include_details)
        message = word_event(facts, footer=footer_of(match.rule, facts))
        if thread is None:
            return replace(message, thread=str(match.event["id"]))
        reply_to = "" if is_first else thread.title
        closes = match.event["kind"] in match.condition.ends
        return replace(message, thread=str(thread.pk), reply_to=reply_to, closes=closes)


def count_message(thread: NotificationThread | None, subject: str) -> None:
    if thread is not None:
        thread.messages += 1
        thread.title = thread.title or subject[:200]


def ends_before(held_until: datetime | None, other: datetime | None) -> bool:
    return held_until is not None and other is not None and held_until < other


def footer_of(rule: NotificationRule, facts: Facts) -> str:
    labels = [CONDITIONS[name].label if name in CONDITIONS else name for name in rule.conditions]
    where = f"in {facts.project}" if rule.project_id else "in any project"
    repeats = f" Repeats every {rule.repeat_s // 60} min." if rule.repeat_s else ""
    page = f"{settings.LINK_URL}/settings/notifications/"
    return f"--\nRule: {' or '.join(labels)}, {where}.{repeats} Change it: {page}"


def later(now: datetime, seconds: int | None) -> datetime | None:
    return now + timedelta(seconds=seconds) if seconds else None


def uuid7_of(event_id: UUID, rule_id: UUID) -> UUID:
    # The id sorts with the event's and differs by rule, so a repeat makes the same id.
    head, tail = UUID(str(event_id)).hex[:16], UUID(str(rule_id)).hex[16:]
    mixed = int(tail, 16) ^ (int(UUID(str(event_id)).hex[16:], 16) & 0x3FFFFFFFFFFFFFFF)
    return UUID(f"{head}{mixed:016x}")
