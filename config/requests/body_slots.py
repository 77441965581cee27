"""Limit how many request bodies are awaited at once: each takes a slot until it has arrived."""

from collections import Counter
from threading import Condition

WAIT_S = 1  # for a slot, as long as bodies still arrive


class BodySlots:
    """Slots for bodies, of which one caller gets at most `most`.

    A body that arrived together with its headers holds its slot for microseconds. As many threads
    may wait for a slot as there are slots, and the next one is refused at once.
    """

    def __init__(self, count: int, *, most: int) -> None:
        self.count, self.most = max(1, count), max(1, most)
        self.taken: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self.total = 0
        self.changed = Condition()

    def take(self, caller: str) -> bool:
        """Take a slot, if necessary after a short wait; return False if there is none."""
        with self.changed:
            if not self.is_free(caller):
                if self.waiting.total() >= self.count or self.waiting[caller] >= self.most:
                    return False
                self.waiting[caller] += 1
                try:
                    if not self.changed.wait_for(lambda: self.is_free(caller), WAIT_S):
                        return False
                finally:
                    remove_one(self.waiting, caller)
            self.total += 1
            self.taken[caller] += 1
        return True

    def is_free(self, caller: str) -> bool:
        return self.total < self.count and self.taken[caller] < self.most

    def is_crowded(self) -> bool:
        return self.total > self.count // 2

    def give_back(self, caller: str) -> None:
        with self.changed:
            self.total -= 1
            remove_one(self.taken, caller)
            if self.waiting:
                self.changed.notify_all()


def remove_one(counts: Counter[str], caller: str) -> None:
    counts[caller] -= 1
    if not counts[caller]:
        del counts[caller]
