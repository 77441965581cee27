"""A snoozed escalation: out of the inbox until a time, and brought back by the clock."""

from datetime import timedelta

import pytest

from ledger.errors import Invalid
from ledger.journal import Stamp
from ledger.models import Agent, Event
from retries.escalations import expiry, snoozing
from retries.escalations.lifecycle import AlreadyResolved
from retries.models import Escalation
from tests.factories import MINUTE, NOW
from tests.retries.escalations.test_answering import MARA, answer, ignored

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
EVERYONE = Escalation.objects


def snoozed(escalation: Escalation, *, hours: float | None = 1) -> Escalation:
    until = None if hours is None else NOW + hours * HOUR
    return snoozing.snooze(escalation.pk, until, among=EVERYONE.all(), stamp=Stamp(MARA, NOW))


def test_it_leaves_the_inbox_and_the_clock_brings_it_back_once(agent: Agent) -> None:
    escalation = ignored(agent)
    after = snoozed(escalation)
    assert (after.is_open, after.snoozed_by_name) == (True, "mara")
    assert after.version == escalation.version + 1
    end = NOW + HOUR
    assert not EVERYONE.in_inbox(end - MINUTE).exists() and EVERYONE.snoozed(NOW).exists()
    assert EVERYONE.in_inbox(end).exists(), "its time counts, not when the clock runs"
    early = expiry.process_due(now=end - MINUTE)
    assert (early["returned"], early["reminded"]) == (0, 0), "no one is reminded of it meanwhile"
    assert expiry.process_due(now=end)["returned"] == 1
    assert expiry.process_due(now=end)["returned"] == 0
    back = EVERYONE.get()
    assert (back.snoozed_until, back.snoozed_by_name) == (None, "")
    told = Event.objects.filter(subject_id=back.pk).order_by("id")
    kinds = [(each.kind, each.actor_type) for each in told]
    assert ("escalation.snoozed", "user") in kinds and kinds.count(
        ("escalation.returned", "system")
    ) == 1


def test_a_person_brings_it_back_early_and_an_answer_ends_it(agent: Agent) -> None:
    escalation = ignored(agent)
    snoozed(escalation)
    assert snoozed(escalation, hours=None).snoozed_until is None
    assert EVERYONE.in_inbox(NOW).exists()
    events = Event.objects.filter(kind="escalation.returned")
    assert snoozed(escalation, hours=None).is_open and events.count() == 1
    snoozed(escalation)
    answer(escalation, "skip")
    assert EVERYONE.get().snoozed_until is None
    with pytest.raises(AlreadyResolved):
        snoozed(escalation)


@pytest.mark.parametrize("hours", [0, -1, 24 * 90 + 1])
def test_a_time_that_is_over_or_too_far_is_refused(agent: Agent, hours: float) -> None:
    escalation = ignored(agent)
    with pytest.raises(Invalid):
        snoozed(escalation, hours=hours)
    assert EVERYONE.in_inbox(NOW).exists()
