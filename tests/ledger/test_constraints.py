"""The database refuses nonsense whoever writes it."""

import pytest
from django.db import IntegrityError, connection, transaction

from ledger.models import Agent, Instruction
from ledger.states import InstructionState as State
from tests.factories import make_instruction

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "change",
    [
        "state = 'lost'",
        "state = 'acknowledged'",
        "state = 'failed'",
        "state = 'cancelled'",
        "state = 'delivered'",
        "failed_at = now()",
        "max_retries = 21",
        "retry_count = 4",
        "retry_count = -1",
        "tracked = false, state = 'failed', failed_at = now()",
        "on_failed = 'explode'",
    ],
)
def test_a_row_that_makes_no_sense_is_refused(agent: Agent, change: str) -> None:
    row = make_instruction(State.QUEUED, agent=agent)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"update ledger_instruction set {change}")
    assert Instruction.objects.get().updated_at == row.updated_at


def test_the_same_content_can_be_unsettled_only_once(agent: Agent) -> None:
    row = make_instruction(State.QUEUED, agent=agent)
    row.pk = None
    with pytest.raises(IntegrityError, match="instruction_unsettled_once"), transaction.atomic():
        row.save(force_insert=True)
