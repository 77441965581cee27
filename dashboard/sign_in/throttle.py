"""Limit failed sign-in attempts by address and username; without the cache there is no limit."""

import hashlib
import unicodedata

from django.conf import settings

from ledger import optional_cache
from ledger.process_counters import RATE_LIMITED

WINDOW_SECONDS = 60
# Several people may share an address, so all of its usernames together have a larger limit.
PER_ADDRESS = 3


def normalize(username: str) -> str:
    """Return the username as the form looks it up, without differences of case."""
    return unicodedata.normalize("NFKC", username.strip()).strip().casefold()


def key_of(*parts: str) -> str:
    name = hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
    return f"sign-in:{name}"


def count_attempt(address: str, username: str) -> bool:
    """Count an attempt and return whether it is within the limits.

    Call this before the password is checked, so that concurrent attempts cannot exceed the limit.
    """
    limit = int(settings.TENFOUR["AUTH_FAILURES_PER_MINUTE"])
    of_name = optional_cache.increment(key_of(address, normalize(username)), seconds=WINDOW_SECONDS)
    of_address = optional_cache.increment(key_of(address), seconds=WINDOW_SECONDS)
    if of_name <= limit and of_address <= PER_ADDRESS * limit:
        return True
    RATE_LIMITED.labels("sign_in").inc()
    return False


def reset_attempts(address: str, username: str) -> None:
    """Forget a username's attempts; those of its address still count."""
    optional_cache.delete(key_of(address, normalize(username)))
