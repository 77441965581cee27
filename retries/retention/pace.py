"""The pace of retention: after each batch it rests, so that what it slows down is the exception."""

import time

LONGEST_S = 5.0


class Pace:
    """Rests between batches: `share` seconds for each second of work."""

    def __init__(self, share: float) -> None:
        self.share, self.began = share, time.monotonic()

    def rest(self) -> None:
        worked = time.monotonic() - self.began
        time.sleep(min(LONGEST_S, self.share * worked))
        self.began = time.monotonic()
