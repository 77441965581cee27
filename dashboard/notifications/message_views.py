"""The preview of a rule's messages, before one is sent."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse, reverse_lazy

from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import SETTINGS, Crumb, PageContext, Visit, compose_page, live_page
from dashboard.notifications import delivery_queries, queries
from dashboard.notifications.sentences import describe_rule
from retries.models import NotificationRule
from retries.notifications.messages import wording as messages
from retries.notifications.messages.wording import Facts, Message
from retries.notifications.rules.batch import footer_of
from retries.notifications.rules.conditions import condition_of

NOTIFICATIONS = Crumb("Notifications", reverse_lazy("dashboard:notifications"))
THREADED = "in the same thread"
# services that can edit a shown message
EDITING = ("Slack app", "ntfy")
UNTHREADED = "as a message of its own: this service has no threads for Tenfour"
EDITED = "in the same thread, and the first message is edited"
SAMPLES = {
    "escalation": (
        "Store rendered invoices in object storage",
        "max_retries_exceeded",
        "failed 3 of 3",
    ),
    "breaker": ("", "", ""),
    "plan": ("04-01 Invoice API", "", ""),
}
SAMPLE_ANSWERS = (
    "Send fix and retry",
    "Retry (3 more attempts)",
    "Skip (4 tasks depend on it)",
    "Abort plan",
)
DETAIL = "AssertionError: expected total 1,204.50, got 1,204.05\n  tests/test_totals.py:88"


@dataclass(frozen=True, slots=True)
class MessageExample:
    """A message of the rule, and when it is sent."""

    title: str
    message: Message
    note: str = ""
    is_done: bool = False


@live_page(
    "notifications/messages.html",
    "notifications/_messages.html",
    current="settings",
    read_key=delivery_queries.read_key,
)
def index(visit: Visit, rule_id: UUID) -> PageContext:
    rule = require_row(queries.find_rule(rule_id), "notification rule", rule_id)
    return compose_page(
        title="Preview · Notifications",
        heading="Preview",
        crumbs=(SETTINGS, NOTIFICATIONS),
        rule=rule,
        parts=describe_rule(rule),
        examples=list_examples(rule),
    )


def list_examples(rule: NotificationRule) -> list[MessageExample]:
    # The examples are about the rule's first condition.
    name = rule.conditions[0]
    condition = condition_of(name)
    facts = sample_facts(rule, min(condition.begins), name)
    footer = footer_of(rule, facts)
    shown = [MessageExample("When it begins", messages.word_event(facts, footer=footer))]
    note = ended_note = THREADED if rule.channel.has_threads else UNTHREADED
    if rule.channel.service in EDITING:
        ended_note = EDITED
    if rule.repeat_s and condition.lasts:
        reminder = messages.word_reminder(replace(facts, age="30 min"), footer=footer)
        shown.append(MessageExample("While it goes on", reminder, note))
    if condition.lasts:
        end = "escalation.resolved" if name == "escalation" else min(condition.ends)
        ended = replace(facts, kind=end, actor="dana", action="a fix", detail="", waiting=0)
        update = messages.word_event(ended, footer=footer)
        shown.append(MessageExample("When it ends", update, ended_note, is_done=True))
    if rule.cap_per_hour or rule.quiet_from:
        many = [replace(facts, title=f"{facts.title} {number}".strip()) for number in range(2, 6)]
        summary = messages.word_summary(
            many,
            total=len(many),
            closed=0,
            because="Held back by the rule.",
            url=settings.LINK_URL + "/escalations/",
        )
        shown.append(MessageExample("What was held back, as one", summary))
    return shown


def sample_facts(rule: NotificationRule, kind: str, name: str) -> Facts:
    title, reason, attempts = SAMPLES.get(name, ("Store rendered invoices", "", ""))
    address = reverse("dashboard:escalations") if name == "escalation" else ""
    return Facts(
        project=rule.project.name if rule.project else "default",
        agent=rule.agent.name if rule.agent else "builder",
        title=title,
        kind=kind,
        reason=reason,
        attempts=attempts,
        waiting=4,
        count=5,
        detail=DETAIL if rule.channel.include_details else "",
        url=settings.LINK_URL + address,
        **(sample_hints(rule, settings.LINK_URL + address) if name == "escalation" else {}),
    )


def sample_hints(rule: NotificationRule, url: str) -> dict[str, Any]:
    # A channel without details is not sent the cause and the fix's text.
    has_details = rule.channel.include_details
    return {
        "short_id": "7c21e0f4",
        "since": "2026-11-22 07:47 UTC",
        "cause": "Rounding per line, not per invoice (a guess)" if has_details else "",
        "worked": f"{'“Round once, on the sum”' if has_details else 'A fix'}, 4 of 5 times",
        "answers": [(title, url) for title in SAMPLE_ANSWERS],
    }
