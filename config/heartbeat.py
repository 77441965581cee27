"""A file that a worker and the clock touch while they work, so that one that stalls is noticed.

`python -m config.heartbeat` exits with 1 if TENFOUR_HEARTBEAT_FILE was not touched for STALE_S.
Without Redis neither can work, and a restart does not help: it then exits with 0.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from config.environment import read_text

# A worker touches the file every 2 seconds, and the clock whenever it sends a job.
STALE_S = 120
REDIS_DEADLINE_S = 2


def touch() -> None:
    if name := read_text("HEARTBEAT_FILE"):
        # A full disk must not stop the process.
        with suppress(OSError):
            Path(name).touch(mode=0o600)


def find_stall(now: float) -> str:
    name = read_text("HEARTBEAT_FILE")
    if not name:
        return "TENFOUR_HEARTBEAT_FILE is not set."
    try:
        age = now - Path(name).stat().st_mtime
    except OSError as error:
        return f"{name} can't be read: {os.strerror(error.errno or 0)}."
    return f"{name} was last touched {age:.0f} s ago." if age > STALE_S else ""


def has_redis() -> bool:
    """Return whether Redis takes jobs."""
    from config.background import redis_server  # not in a process that has nothing to ask
    from config.settings import REDIS_URL

    return not redis_server.find_problem(REDIS_URL, deadline_s=REDIS_DEADLINE_S)


def main() -> int:
    stall = find_stall(time.time())
    if stall and has_redis():
        print(stall, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
