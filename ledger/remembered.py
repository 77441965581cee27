"""What may be forgotten: counts and figures kept in Redis for a moment, and done without it."""

import logging
from collections.abc import Callable
from typing import TypeVar

import redis
from django.core.cache import cache

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Redis away, slow, or restarted between two commands; ValueError: the counter has just expired.
AWAY = (redis.RedisError, OSError, ValueError)


def count(key: str, *, seconds: int) -> int:
    """One more of `key`: how many there were since the first, which is forgotten after `seconds`.

    0 without Redis: who only counts must not refuse because the counter is away.
    """
    try:
        cache.add(key, 0, timeout=seconds)
        return cache.incr(key)
    except AWAY as error:
        logger.info("not counted: %s", error)
        return 0


def remembered(key: str, make: Callable[[], T], *, seconds: int) -> T:
    """What `make` returned at most `seconds` ago; made anew without Redis."""
    try:
        kept: T | None = cache.get(key)
    except AWAY as error:
        logger.info("not remembered: %s", error)
        return make()
    if kept is None:
        kept = make()
        keep(key, kept, seconds=seconds)
    return kept


def keep(key: str, value: object, *, seconds: int) -> None:
    try:
        cache.set(key, value, timeout=seconds)
    except AWAY as error:
        logger.info("not remembered: %s", error)
