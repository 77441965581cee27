"""Compute how long an agent waits before it asks for work again."""

from django.conf import settings

# New work then waits for at most a tenth of the time in which there was none.
IDLE_PART = 10
LONGEST_S = 30


def read_poll_bounds() -> tuple[int, int]:
    """Return the shortest and the longest wait in seconds."""
    shortest: int = settings.TENFOUR["POLL_SECONDS"]
    return shortest, max(shortest, LONGEST_S)


def compute_poll_wait(idle_s: int) -> int:
    """Return the seconds until the next request of an agent that has had no work for `idle_s`.

    The wait follows from what is stored, because several web processes answer one agent.
    """
    shortest, longest = read_poll_bounds()
    return min(max(shortest, idle_s // IDLE_PART), longest)
