"""Limits on a number of rows hold when two people reach them at the same time."""

from concurrent.futures import Future
from typing import Any

import pytest
from django.db import transaction

from ledger.errors import Invalid, InvalidTransition
from ledger.journal import SYSTEM, Stamp
from ledger.models import SavedView, StandingInstruction
from ledger.people.saved_views import MOST, save_view
from ledger.standing_instructions import editing
from tests.elsewhere import blocked
from tests.factories import make_project
from tests.ledger.standing_instructions.rules import make_rule
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_two_people_who_save_the_last_view_one_is_refused(elsewhere: Any) -> None:
    project = make_project()

    def save(name: str) -> SavedView:
        return save_view(project, "tasks", name, query="state:retry", stamp=Stamp(SYSTEM))

    for number in range(MOST - 1):
        save(f"View {number}")
    with transaction.atomic():
        save("Mine")
        second: Future[SavedView] = elsewhere(lambda: save("Theirs"))
        with blocked(second):
            pass
    with pytest.raises(InvalidTransition, match=f"A list can have {MOST} saved views"):
        second.result(PATIENCE_S)
    assert SavedView.objects.count() == MOST


def test_of_two_people_who_create_the_last_rule_one_is_refused(
    elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(editing, "RULES_PER_PROJECT", 3)
    for _ in range(2):
        make_rule()
    with transaction.atomic():
        make_rule()
        second: Future[StandingInstruction] = elsewhere(make_rule)
        with blocked(second):
            pass
    with pytest.raises(Invalid, match="A project has at most 3 rules"):
        second.result(PATIENCE_S)
    assert StandingInstruction.objects.count() == 3
