"""Health checks, and a page for each error code."""

from datetime import timedelta

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from config.problems import problem_kinds
from ledger.models import ClockRun


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Report that the process is running."""
    return JsonResponse({"status": "ok", "version": settings.TENFOUR_VERSION})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Report whether requests can be served.

    Only a missing PostgreSQL is a 503. Without Redis or with a stale beat, the server is degraded.
    """
    checks = {"postgres": check_postgres()}
    if checks["postgres"] == "ok":
        checks["beat"] = check_beat()
    checks["redis"] = check_redis()
    down = checks["postgres"] != "ok"
    ok = all(result == "ok" for result in checks.values())
    status = "unavailable" if down else "ok" if ok else "degraded"
    body = {"status": status, "checks": checks, "version": settings.TENFOUR_VERSION}
    response = JsonResponse(body, status=503 if down else 200)
    if down:
        response["Retry-After"] = "1"
    return response


def check_postgres() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except (DatabaseError, InterfaceError) as error:
        return f"away: {str(error).splitlines()[0]}"
    return "ok"


def check_beat() -> str:
    """Return "ok" if every scheduled job ran about when it should have."""
    from config.celery import CLOCK

    runs = dict(ClockRun.objects.values_list("name", "last_run_at"))
    now = timezone.now()
    for name, seconds in CLOCK.items():
        if name not in runs:
            return f"stale: {name} has never run"
        if now - runs[name] > timedelta(seconds=2 * seconds + 30):
            return f"stale: {name} last ran at {runs[name]:%F %T}Z"
    return "ok"


def check_redis() -> str:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    try:
        client.ping()
    except redis.RedisError as error:
        return f"away: {error}"
    finally:
        client.close()
    return "ok"


@require_safe
def problem_page(request: HttpRequest, code: str) -> HttpResponse:
    """Explain an error code; the `type` of a problem links here."""
    kind = problem_kinds().get(code)
    if kind is None:
        raise Http404(f"No problem has the code {code}.")
    retry = "The same request may succeed later." if kind.retryable else "Change the request first."
    text = f"{code}\n\n{kind.title} (HTTP {kind.status}). {retry}\n{kind.hint}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
