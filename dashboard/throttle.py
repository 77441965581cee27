"""Failed sign-ins, counted by address and name in the cache; without it nobody is held up."""

import hashlib
import logging
from contextlib import suppress

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
AWAY = (RedisError, OSError)


def key_of(address: str, username: str) -> str:
    name = hashlib.sha256(f"{address}\n{username.casefold()}".encode()).hexdigest()[:32]
    return f"sign-in:{name}"


def take_try(address: str, username: str) -> bool:
    """Count this try before the password is looked at; False once there were too many.

    Counting first means that tries at the same moment can't slip through together.
    """
    key = key_of(address, username)
    try:
        cache.add(key, 0, WINDOW_SECONDS)
        tries = cache.incr(key)
    except AWAY:
        logger.warning("Redis is away: failed sign-ins are not counted.")
        return True
    except ValueError:  # it expired between the two calls
        return True
    return bool(tries <= settings.HEED["AUTH_FAILURES_PER_MINUTE"])


def forget_tries(address: str, username: str) -> None:
    """The password was right."""
    with suppress(*AWAY):
        cache.delete(key_of(address, username))
