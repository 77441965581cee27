"""What may be forgotten: counts and figures kept in Redis for a moment, and done without it."""

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from django.core.cache import cache

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Redis away, slow, or restarted between two commands; ValueError: the counter has just expired.
AWAY = (redis.RedisError, OSError, ValueError)

# A figure is kept so many times as long as it took to count, if that is worth it: from 8 ms on.
WORTH, LONGEST_SECONDS = 1000, 60
FRESH_SECONDS = 7


def increment(key: str, *, seconds: int) -> int:
    """One more of `key`: how many there were since the first, which is forgotten after `seconds`.

    0 without Redis: who only counts must not refuse because the counter is away.
    """
    try:
        cache.add(key, 0, timeout=seconds)
        return cache.incr(key)
    except AWAY as error:
        logger.info("not counted: %s", error)
        return 0


def get_or_compute(key: str, make: Callable[[], T], *, seconds: int) -> T:
    """What `make` returned at most `seconds` ago; made anew without Redis."""
    kept: T | None = read(key)
    if kept is None:
        kept = make()
        write(key, kept, seconds=seconds)
    return kept


def get_or_compute_slow(key: str, make: Callable[[], T]) -> T:
    """What `make` counted a moment ago, where counting takes long: small figures are always fresh,
    and a large installation is not counted anew at every poll of every tab.
    """
    kept: T | None = read(key)
    if kept is not None:
        return kept
    started = time.perf_counter()
    made = make()
    seconds = min(LONGEST_SECONDS, int(WORTH * (time.perf_counter() - started)))
    if seconds > FRESH_SECONDS:
        write(key, made, seconds=seconds)
    return made


def read(key: str) -> Any:
    """What was kept under the key; None where nothing is, or Redis is away."""
    try:
        return cache.get(key)
    except AWAY as error:
        logger.info("not remembered: %s", error)
        return None


def write(key: str, value: object, *, seconds: int) -> None:
    try:
        cache.set(key, value, timeout=seconds)
    except AWAY as error:
        logger.info("not remembered: %s", error)


def delete(key: str) -> None:
    try:
        cache.delete(key)
    except AWAY as error:
        logger.info("not forgotten: %s", error)
