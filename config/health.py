"""Is it alive, is it ready, and what do its problems mean."""

from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from config.problems import CODES
from ledger.errors import Refusal
from ledger.models import ClockRun


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok", "version": settings.TENFOUR_VERSION})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """503 only without PostgreSQL; without Redis or with a stale beat it works, degraded."""
    checks = {"postgres": postgres()}
    if checks["postgres"] == "ok":
        checks["beat"] = beat()
    checks["redis"] = bell()
    down = checks["postgres"] != "ok"
    good = all(found == "ok" for found in checks.values())
    status = "unavailable" if down else "ok" if good else "degraded"
    body = {"status": status, "checks": checks, "version": settings.TENFOUR_VERSION}
    response = JsonResponse(body, status=503 if down else 200)
    if down:
        response["Retry-After"] = "1"
    return response


def postgres() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except (DatabaseError, InterfaceError) as error:
        return f"away: {str(error).splitlines()[0]}"
    return "ok"


def beat() -> str:
    """Whether every entry of the clock ran about when it should have."""
    from config.celery import CLOCK

    runs = dict(ClockRun.objects.values_list("name", "last_run_at"))
    now = timezone.now()
    for name, seconds in CLOCK.items():
        if name not in runs:
            return f"stale: {name} has never run"
        if now - runs[name] > timedelta(seconds=2 * seconds + 30):
            return f"stale: {name} ran last at {runs[name]:%F %T}Z"
    return "ok"


def bell() -> str:
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
    """What an error code means, for whoever follows the link in a problem."""
    if code not in CODES:
        raise Http404(f"No problem has the code {code}.")
    status, title, retryable = CODES[code]
    again = "The same request may succeed later." if retryable else "Mend the request first."
    hint = hints().get(code, "")
    text = f"{code}\n\n{title} (HTTP {status}). {again}\n{hint}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


def hints() -> dict[str, str]:
    def walk(kind: type[Refusal]) -> Any:
        yield kind
        for child in kind.__subclasses__():
            yield from walk(child)

    return {kind.code: kind.hint for kind in walk(Refusal)}
