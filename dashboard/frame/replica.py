"""Read pages from a streaming replica while it keeps up, and from the primary otherwise.

Only pages that list and count read it, and never their actions. A person who has just acted reads
the primary until the replica has surely followed.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from ledger.database.databases import PRIMARY, REPLICA, reading_from
from ledger.database.process_counters import PAGE_READS

logger = logging.getLogger(__name__)

SAFE = ("GET", "HEAD")
# Every action of a person sets it; until it expires, that person's pages read the primary.
COOKIE = "tenfour_primary"
MARGIN_S = 5
# The replica may be this far behind; beyond it, pages read the primary and say so.
LAG_S = 10

CHECK_S = 1.0
STALE_S = 5.0  # after this time without an answer, the replica counts as hanging
IDLE_S = 60.0  # checks stop after this time without a page
SAMPLES = 900
PRIMARY_SQL = "select pg_current_wal_lsn() - '0/0', system_identifier from pg_control_system()"
REPLICA_SQL = """select pg_is_in_recovery(), pg_last_wal_replay_lsn() - '0/0', system_identifier
    from pg_control_system()"""
NOT_CHECKED = "has not been checked yet"


@dataclass(frozen=True, slots=True)
class Standing:
    """A replica's state; `why` it is not read completes "the replica …"."""

    lag_s: float | None = None
    why: str = ""
    at: float = 0.0

    @property
    def is_fit(self) -> bool:
        return not self.why

    @property
    def is_known(self) -> bool:
        return self.why != NOT_CHECKED


class Monitor:
    """Compares the replica's position with the primary's, in a thread, while pages are read."""

    def __init__(self) -> None:
        self.standing = Standing(why=NOT_CHECKED)
        self.checked = threading.Condition()
        self.read_at = 0.0
        self.thread: threading.Thread | None = None
        # positions of the primary, oldest first, with the times when they were read
        self.positions: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self.links: dict[str, psycopg.Connection[Any]] = {}

    def read(self) -> Standing:
        # Never waits for the replica: a thread checks it.
        self.read_at = time.monotonic()
        with self.checked:
            if self.thread is None or not self.thread.is_alive():
                self.standing = Standing(why=NOT_CHECKED)
                self.positions.clear()
                self.thread = threading.Thread(target=self.watch, name="replica", daemon=True)
                self.thread.start()
        found = self.standing
        if found.at and (silent := time.monotonic() - found.at) > STALE_S:
            return Standing(why=f"has not answered for {silent:.0f} s", at=found.at)
        return found

    def wait(self, seconds: float) -> Standing:
        """Return the result of a check that is not old, or what is known after this time."""
        self.read()
        with self.checked:
            self.checked.wait_for(lambda: time.monotonic() - self.standing.at < CHECK_S, seconds)
        return self.read()

    def watch(self) -> None:
        while time.monotonic() - self.read_at < IDLE_S:
            try:
                found = self.check()
            except psycopg.Error as error:
                found = Standing(why=f"is away: {first_line(error)}", at=time.monotonic())
                self.disconnect()
            self.note(found)
            time.sleep(CHECK_S)
        self.disconnect()

    def note(self, found: Standing) -> None:
        with self.checked:
            before, self.standing = self.standing, found
            self.checked.notify_all()
        if found.is_fit and not before.is_fit:
            logger.info("pages are read from the replica")
        elif found.is_known and not found.is_fit and (before.is_fit or not before.is_known):
            logger.warning("pages are read from the primary: the replica %s", found.why)

    def check(self) -> Standing:
        now = time.monotonic()
        written, cluster = self.query(PRIMARY, PRIMARY_SQL)
        self.positions.append((now, int(written)))
        follows, replayed, other = self.query(REPLICA, REPLICA_SQL)
        at = time.monotonic()
        if not follows:
            return Standing(why="is not one: that server takes writes itself", at=at)
        if other != cluster:
            return Standing(why="is of another database", at=at)
        lag = measure_lag(self.positions, int(replayed or 0), now=now)
        limit = LAG_S
        if lag is None:
            least = now - self.positions[0][0]
            why = f"is more than {limit} s behind" if least > limit else NOT_CHECKED
            return Standing(least, why, at)
        if lag > limit:
            return Standing(lag, f"is {lag:.0f} s behind, more than {limit} s", at)
        return Standing(lag, at=at)

    def query(self, alias: str, sql: str) -> tuple[Any, ...]:
        link = self.links.get(alias)
        if link is None or link.closed:
            parameters = connections[alias].get_connection_params() | {"connect_timeout": 2}
            link = self.links[alias] = psycopg.connect(**parameters, autocommit=True)
        row = link.execute(sql).fetchone()
        assert row is not None  # each function returns one row
        return tuple(row)

    def disconnect(self) -> None:
        for link in self.links.values():
            with suppress(psycopg.Error):
                link.close()
        self.links = {}


def measure_lag(
    positions: Iterable[tuple[float, int]], replayed: int, *, now: float
) -> float | None:
    """Return the seconds since the replica had all that the primary had written.

    None if that was before the first position. No clock of another machine is compared.

    >>> measure_lag([(10.0, 500), (11.0, 600), (12.0, 700)], 650, now=12.0)
    1.0
    """
    *_, newest = positions
    if replayed >= newest[1]:
        return 0.0
    reached = [at for at, written in positions if written <= replayed]
    return now - reached[-1] if reached else None


def first_line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or ["no answer"])[0]


monitor = Monitor()


def is_configured() -> bool:
    return REPLICA in connections.settings


def read_page(request: HttpRequest, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Answer a request for a page that may read the replica."""
    if not is_configured() or request.method not in SAFE:
        return answer()
    standing = monitor.read()
    if COOKIE in request.COOKIES or not standing.is_fit:
        PAGE_READS.labels("primary").inc()
        if standing.is_known and not standing.is_fit:
            request.replica_notice = standing.why  # type: ignore[attr-defined]
        return answer()
    try:
        with reading_from(REPLICA):
            response = answer()
    except (DatabaseError, InterfaceError, Http404) as error:
        # The primary answers what fails on the replica: a row has not arrived there, or it cancels
        # or refuses a statement. Exports read ahead, so this covers them until the first byte is
        # sent.
        if not isinstance(error, Http404):
            logger.warning("a page is read from the primary: the replica failed: %s", error)
        if isinstance(error, OperationalError | InterfaceError):
            connections[REPLICA].close()
        PAGE_READS.labels("primary").inc()
        return answer()
    PAGE_READS.labels("replica").inc()
    if getattr(response, "streaming", False):
        content: Any = response
        content.streaming_content = read_chunks(content.streaming_content)
    return response


def read_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    # Most rows of an export are read while it is sent, so each chunk chooses the replica again.
    rest = iter(chunks)
    while True:
        with reading_from(REPLICA):
            chunk = next(rest, None)
        if chunk is None:
            return
        yield chunk


class OwnActs:
    """Middleware: people see the results of their actions, because they read the primary."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.method not in SAFE:
            response.set_cookie(
                COOKIE,
                "1",
                max_age=LAG_S + MARGIN_S,
                secure=settings.SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response
