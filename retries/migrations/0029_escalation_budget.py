"""Let a person answer the question about a budget by granting more."""

from django.db.migrations import AddConstraint, RemoveConstraint, RunSQL, SeparateDatabaseAndState
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import check

NAME = "escalation_answer_where_resolved"
FORMER = ["retry", "fix", "skip", "abort", "answer", "accept", "allow", "deny"]
ANSWERS = [*FORMER, "grant"]


def replace(answers: list[str]) -> str:
    among = ", ".join(f"'{each}'" for each in answers)
    return f"""alter table retries_escalation drop constraint {NAME}, add constraint {NAME} check (
        action in ({among}) and state = 'resolved' and action is not null
        or state <> 'resolved' and action is null) not valid"""


class Migration(BaseMigration):
    # The second step reads all escalations, and must not keep them locked meanwhile.
    atomic = False
    dependencies = [("retries", "0028_plan_forecasts"), ("ledger", "0054_budgets")]

    operations = [
        SeparateDatabaseAndState(
            [RunSQL(replace(ANSWERS), replace(FORMER))],
            [
                RemoveConstraint("escalation", NAME),
                AddConstraint(
                    "escalation",
                    check(
                        NAME,
                        Q(
                            Q(action__in=ANSWERS, state="resolved"),
                            Q(Q(state="resolved", _negated=True), ("action__isnull", True)),
                            _connector="OR",
                        ),
                    ),
                ),
            ],
        ),
        RunSQL(f"alter table retries_escalation validate constraint {NAME}", RunSQL.noop),
    ]
