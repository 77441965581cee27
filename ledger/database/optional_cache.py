"""Cache counters and figures in Redis, and work without it when it is down."""

import functools
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from django.conf import settings
from django.core.cache import cache

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Redis is down, slow or restarted between two commands; ValueError: the counter just expired.
AWAY = (redis.RedisError, OSError, ValueError)

# A figure is cached for WORTH times as long as it took to compute, if that exceeds FRESH_SECONDS.
WORTH, LONGEST_SECONDS = 1000, 60
FRESH_SECONDS = 7


def increment(key: str, *, seconds: int) -> int:
    """Increment a counter that expires `seconds` after its first increment; return its value.

    Return 0 without Redis.
    """
    # A missing counter must not refuse requests.
    try:
        try:
            return cache.incr(key)
        except ValueError:  # it does not exist yet
            cache.add(key, 0, timeout=seconds)
            return cache.incr(key)
    except AWAY as error:
        logger.info("counter not incremented: %s", error)
        return 0


def get_or_compute(key: str, make: Callable[[], T], *, seconds: int) -> T:
    """Return a value that `make` computed at most `seconds` ago, or compute it now."""
    key = figure_key(key)
    cached: T | None = read(key)
    if cached is None:
        cached = make()
        write(key, cached, seconds=seconds)
    return cached


def get_or_compute_slow(key: str, make: Callable[[], T]) -> T:
    """Return a value from the cache only if it was slow to compute."""
    # Fast figures are always fresh; a large installation does not compute slow ones at every poll
    # of every browser tab.
    key = figure_key(key)
    cached: T | None = read(key)
    if cached is not None:
        return cached
    started = time.perf_counter()
    value = make()
    seconds = min(LONGEST_SECONDS, int(WORTH * (time.perf_counter() - started)))
    if seconds > FRESH_SECONDS:
        write(key, value, seconds=seconds)
    return value


def figure_key(key: str) -> str:
    # During an update two releases share Redis, and a figure may have another shape in each.
    return f"{digest_code()}:{key}"


@functools.cache
def digest_code() -> str:
    # This reads some 1,000 files, once.
    digest = hashlib.sha256()
    for app in ("config", "dashboard", "ledger", "retries"):
        for path in sorted((settings.BASE_DIR / app).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read(key: str) -> Any:
    """Return the cached value, or None without a value or without Redis."""
    try:
        return cache.get(key)
    except AWAY as error:
        logger.info("cached value not read: %s", error)
        return None


def write(key: str, value: object, *, seconds: int) -> None:
    try:
        cache.set(key, value, timeout=seconds)
    except AWAY as error:
        logger.info("cached value not written: %s", error)


def delete(key: str) -> None:
    try:
        cache.delete(key)
    except AWAY as error:
        logger.info("cached value not deleted: %s", error)
