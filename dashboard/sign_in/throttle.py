"""Failed sign-ins, counted by address and name; without the counter nobody is held up."""

import hashlib

from django.conf import settings

from ledger import optional_cache

WINDOW_SECONDS = 60


def key_of(address: str, username: str) -> str:
    name = hashlib.sha256(f"{address}\n{username.casefold()}".encode()).hexdigest()[:32]
    return f"sign-in:{name}"


def take_try(address: str, username: str) -> bool:
    """Count this try before the password is looked at; False once there were too many.

    Counting first means that tries at the same moment can't slip through together.
    """
    tries = optional_cache.count(key_of(address, username), seconds=WINDOW_SECONDS)
    return tries <= int(settings.TENFOUR["AUTH_FAILURES_PER_MINUTE"])


def forget_tries(address: str, username: str) -> None:
    """The password was right."""
    optional_cache.forget(key_of(address, username))
