"""Redis as the broker: whether it answers, and whether it takes writes."""

import redis

KEY, KEPT_S = "tenfour:write-check", 60


def connect(url: str, *, deadline_s: float) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=deadline_s, socket_connect_timeout=deadline_s)


def find_problem(url: str, *, deadline_s: float) -> str:
    """Return what keeps Redis from taking jobs, or nothing; a full Redis still answers a PING."""
    with connect(url, deadline_s=deadline_s) as client:
        try:
            client.ping()
        except redis.RedisError as error:
            return f"away: {error}"
        try:
            client.set(KEY, "", ex=KEPT_S)
        except redis.RedisError as error:
            return f"writes fail, so no job can be queued: {error}"
    return ""
