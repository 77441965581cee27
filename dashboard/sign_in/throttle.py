"""Limit sign-in attempts by address and username; without the cache there is no limit."""

import hashlib

from django.conf import settings

from ledger import optional_cache

WINDOW_SECONDS = 60


def key_of(address: str, username: str) -> str:
    name = hashlib.sha256(f"{address}\n{username.casefold()}".encode()).hexdigest()[:32]
    return f"sign-in:{name}"


def count_attempt(address: str, username: str) -> bool:
    """Count an attempt and return whether it is within the limit.

    Call this before the password is checked, so that concurrent attempts cannot exceed the limit.
    """
    attempts = optional_cache.increment(key_of(address, username), seconds=WINDOW_SECONDS)
    return attempts <= int(settings.TENFOUR["AUTH_FAILURES_PER_MINUTE"])


def reset_attempts(address: str, username: str) -> None:
    optional_cache.delete(key_of(address, username))
