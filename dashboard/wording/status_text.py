"""Short status texts for lists: the text, its tone, and a countdown (pure)."""

from dataclasses import dataclass
from datetime import datetime

AHEAD_CAP = 100  # counting stops here


@dataclass(frozen=True, slots=True)
class StatusText:
    """A text, with a bar for a measured time, seconds that count down, or an age that grows."""

    text: str
    tone: str = "mute"
    icon: str = ""
    bar: float | None = None
    slow: bool = False
    countdown: int | None = None
    since: datetime | None = None

    @property
    def css(self) -> str:
        return "mute" if self.tone == "mute" else f"due due--{self.tone}"


def place_in_queue(ahead: int) -> str:
    # The queries count up to AHEAD_CAP.
    if ahead == 0:
        return "next in its queue"
    return f"{AHEAD_CAP - 1}+ ahead of it" if ahead >= AHEAD_CAP else f"{ahead} ahead of it"
