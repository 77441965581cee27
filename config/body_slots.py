"""Limit how many request bodies are awaited at once: each takes a slot until it has arrived."""

from collections import Counter
from threading import Condition

WAIT_S = 1  # for a slot, as long as bodies still arrive


class BodySlots:
    """Slots for bodies: no caller gets more than half of them, and callers without a token fewer.

    A body that arrived together with its headers holds its slot for microseconds. As many threads
    may wait for a slot as there are slots, and the next one is refused at once.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken: Counter[str] = Counter()
        self.total = self.waiting = 0
        self.changed = Condition()

    def take(self, caller: str) -> bool:
        """Take a slot, if need be after a short wait; False if there is none."""
        # An empty name stands for all callers without a token, such as people who sign in.
        most = max(1, self.count // 2 if caller else self.count // 4)
        with self.changed:
            if not self.is_free(caller, most):
                if self.waiting >= self.count:
                    return False
                self.waiting += 1
                try:
                    if not self.changed.wait_for(lambda: self.is_free(caller, most), WAIT_S):
                        return False
                finally:
                    self.waiting -= 1
            self.total += 1
            self.taken[caller] += 1
        return True

    def is_free(self, caller: str, most: int) -> bool:
        return self.total < self.count and self.taken[caller] < most

    def give_back(self, caller: str) -> None:
        with self.changed:
            self.total -= 1
            self.taken[caller] -= 1
            if not self.taken[caller]:
                del self.taken[caller]
            if self.waiting:
                self.changed.notify_all()
