"""Compare what an agent claims with what is proven: its newest done tasks by their proof."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from dashboard.wording import badges
from dashboard.wording.badges import Badge
from ledger.states import Proof


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
    """Count the proofs of the newest done tasks of an agent that `find_agent` has read."""
    found = Counter(agent.newest_proofs)
    found[Proof.CLAIMED] += found.pop(None, 0)
    return ProofCounts(
        [ProofCount(badges.proof_badge(proof), proof.value, found[proof]) for proof in Proof]
    )
