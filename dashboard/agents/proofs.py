"""Compare what an agent claims with what is proven: its newest done tasks by their proof."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from dashboard import badges
from dashboard.badges import Badge
from ledger.models import Task
from ledger.states import Proof, TaskState

MOST_TASKS = 500


@dataclass(frozen=True, slots=True)
class ProofCount:
    badge: Badge
    proof: str
    number: int


@dataclass(frozen=True, slots=True)
class ProofCounts:
    """The agent's newest done tasks by their proof."""

    rows: list[ProofCount]

    @property
    def total(self) -> int:
        return sum(row.number for row in self.rows)

    @property
    def score(self) -> int | None:
        """The share of tasks that are proven, in percent; None without tasks."""
        proven = sum(row.number for row in self.rows if row.proof == Proof.PROVEN)
        return round(100 * proven / self.total) if self.total else None


def count_proofs(agent: Any) -> ProofCounts:
    newest = Task.objects.filter(agent=agent.pk, state=TaskState.DONE).order_by("-id")
    found = Counter(newest.values_list("proof", flat=True)[:MOST_TASKS])
    found[Proof.CLAIMED] += found.pop(None, 0)
    return ProofCounts(
        [ProofCount(badges.proof_badge(proof), proof.value, found[proof]) for proof in Proof]
    )
