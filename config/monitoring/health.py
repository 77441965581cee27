"""Health checks, and a page for each error code."""

import threading
from concurrent.futures import Future
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

import psycopg
from django.conf import settings
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from config.api_document.problems import problem_kinds
from config.background import redis_server
from config.monitoring.host_clocks import check_host_clocks
from config.postgres.data_version import OWN_APPS, known_migrations, migration_digests
from config.postgres.database_errors import describe
from config.requests.web_threads import STOPPING
from dashboard.frame import replica
from ledger.database import server_time
from ledger.journal_storage.months import find_missing_month
from ledger.journal_storage.rebasing import is_stream_ahead
from ledger.models import ClockRun

DEADLINE_S = 2
REDIS_DEADLINE_S = 1
# A last run that is further in the future means that PostgreSQL's clock was set back.
CLOCK_SKEW = timedelta(seconds=5)
WRITES_FAIL = "writes fail"
# Migrations only add, so a process of the version before still works.
NEWER = "the tables are of a newer version"
AHEAD = "the data comes from a server with higher transaction numbers"
APPLIED = "select app || '.' || name from django_migrations where app = any (%s)"
PROBE_LOCK = threading.Lock()
probe: "Future[str] | None" = None


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok", "version": settings.TENFOUR_VERSION})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    # A missing PostgreSQL is a 503, and so is a process that is about to stop. Without Redis, with
    # a stale beat, with a journal that new events can't follow, with a host's clock that is wrong,
    # with a replica that pages can't be read from, or with a database that takes no writes or was
    # migrated by a newer version, the server is degraded.
    if STOPPING in request.META:
        return answer_readiness("stopping", {}, status=503)
    checks = run_checks(DEADLINE_S)
    down = is_down(checks)
    ok = all(result == "ok" for result in checks.values())
    status = "unavailable" if down else "ok" if ok else "degraded"
    return answer_readiness(status, checks, status=503 if down else 200)


def run_checks(deadline_s: float) -> dict[str, str]:
    """Return the result of each check, which is "ok" or says what is wrong.

    PostgreSQL has `deadline_s` seconds to answer.
    """
    checks = {"postgres": check_postgres(deadline_s)}
    if not is_down(checks):
        checks["beat"] = check_beat()
        checks["journal"] = check_journal()
        checks["host_clock"] = check_host_clocks()
    checks["redis"] = check_redis()
    if replica.is_configured():
        checks["replica"] = check_replica()
    return checks


def is_down(checks: dict[str, str]) -> bool:
    """Return whether no request can be served."""
    return checks["postgres"] != "ok" and not checks["postgres"].startswith((WRITES_FAIL, NEWER))


def answer_readiness(word: str, checks: dict[str, str], *, status: int) -> HttpResponse:
    body = {"status": word, "checks": checks, "version": settings.TENFOUR_VERSION}
    response = JsonResponse(body, status=status)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response["Retry-After"] = "1"
    return response


def check_postgres(deadline_s: float) -> str:
    """Return "ok" if PostgreSQL answers within the deadline, takes writes, and has our tables."""
    try:
        return start_probe().result(deadline_s)
    except TimeoutError:
        return f"hangs: no answer within {deadline_s} s"


def start_probe() -> "Future[str]":
    """Return the running probe, or a new one."""
    # A database that hangs then holds one thread, not all of them.
    global probe
    with PROBE_LOCK:
        if probe is None or probe.done():
            probe = Future()
            parameters = connection.get_connection_params()
            threading.Thread(target=run_probe, args=(probe, parameters), daemon=True).start()
        return probe


def run_probe(result: "Future[str]", parameters: dict[str, Any]) -> None:
    try:
        # A connection of its own: a request's connection can't be given up while it waits.
        with psycopg.connect(**parameters) as conn:
            result.set_result(probe_tables(conn))
    except psycopg.Error as error:
        result.set_result(f"away: {describe(error)}")
    except BaseException as error:
        result.set_exception(error)


def probe_tables(conn: "psycopg.Connection[Any]") -> str:
    names = [row[0] for row in conn.execute(APPLIED, [list(OWN_APPS)])]
    if migration_digests().keys() - set(names):
        return "the tables are of an older version: run .venv/bin/python manage.py migrate"
    try:
        conn.execute("create temporary table readyz as select 1 as written")
    except psycopg.Error as error:
        return f"{WRITES_FAIL}: {describe(error)}"
    finally:
        conn.rollback()
    if set(names) - known_migrations():
        return f"{NEWER}: replace this process by one of that version"
    return "ok"


def check_beat() -> str:
    """Return "ok" if every scheduled job ran about when it should have, and succeeded."""
    runs = ClockRun.objects.in_bulk()
    now = server_time.now()
    longest = {
        name: timedelta(seconds=2 * seconds + 30) for name, seconds in settings.CLOCK.items()
    }
    for name, most in longest.items():
        if name not in runs:
            return f"stale: {name} has never run"
        last_run_at = runs[name].last_run_at
        if last_run_at - now > CLOCK_SKEW:
            return f"stale: {name} last ran in the future, at {last_run_at:%F %T}Z"
        if now - last_run_at > most:
            return f"stale: {name} last ran at {last_run_at:%F %T}Z"
    failing = [
        describe_failing(runs[name])
        for name, most in longest.items()
        if is_failing(runs[name], since=now - most)
    ]
    if not failing:
        return "ok"
    # The response is for everyone, so it does not contain the errors.
    return f"failing: {', '.join(failing)}. The worker's log has the error"


def is_failing(run: ClockRun, *, since: datetime) -> bool:
    """Return whether a job's runs failed, or ended without a result, since a time."""
    if run.last_success_at is None:  # or it has not run since this column was added
        return bool(run.last_error)
    return run.last_success_at < since


def describe_failing(run: ClockRun) -> str:
    if run.last_success_at is None:
        return f"{run.name} has never succeeded"
    return f"{run.name} last succeeded at {run.last_success_at:%F %T}Z"


def check_journal() -> str:
    """Return "ok" if new events follow the stored ones, and their months have partitions."""
    if is_stream_ahead():
        return f"{AHEAD}: run .venv/bin/python manage.py rebase_journal"
    month = find_missing_month(now=server_time.now())
    if month is None:
        return "ok"
    return f"no partition for {month:%Y-%m}: run .venv/bin/python manage.py tick journal"


def check_redis() -> str:
    """Return "ok" if Redis takes jobs."""
    return redis_server.find_problem(settings.REDIS_URL, deadline_s=REDIS_DEADLINE_S) or "ok"


def check_replica() -> str:
    return replica.monitor.wait(DEADLINE_S).why or "ok"


@require_safe
def problem_page(request: HttpRequest, code: str) -> HttpResponse:
    # The `type` of a problem links here.
    kind = problem_kinds().get(code)
    if kind is None:
        raise Http404(f"No problem has the code {code}.")
    retry = "The same request may succeed later." if kind.retryable else "Change the request first."
    text = f"{code}\n\n{kind.title} (HTTP {kind.status}). {retry}\n{kind.hint}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
