"""A plan, its answers and its runs, for tests."""

from typing import Any

from ledger.journal import Actor, Stamp
from ledger.models import Plan
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.factories import NOW

MARA = Actor("user", "1", "mara")
CHECKPOINT = {"type": "checkpoint:decision", "options": ["a", "b"], "action": "Which one?"}


def plan() -> Plan:
    return Plan.objects.get(ref="03-01")


def answer(action: Answer, words: str = "", *, now: Any = NOW, **more: Any) -> None:
    asked = Escalation.objects.open().get()
    answering.answer(
        asked.pk,
        Choice(action, words),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, now),
        channel="page",
        **more,
    )
