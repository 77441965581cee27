"""Request pages as a signed-in operator and print their times and query counts as JSON.

An optional argument lists the pages as a JSON object of names and paths.
"""

import gc
import io
import json
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

import django

Get = Callable[..., tuple[int, bytes]]

PAGES = {
    "overview": "/",
    "instructions": "/instructions/",
    "instructions, failed": "/instructions/?q=state:failed",
    "instructions, one agent": "/instructions/?q=agent:agent-00007",
    "agents": "/agents/",
    "activity": "/activity/",
    "plans": "/plans/",
    "escalations": "/escalations/",
}
LARGE_PLAN = 500  # tasks
POLLED = ("overview", "instructions", "agents", "activity", "escalations", "plans")
LIVE_KEY = re.compile(r'data-since="([^"]+)"')


def main(name: str, visits: int, pages: dict[str, str] | None) -> None:
    django.setup()

    get = build_getter(name)
    freeze_loaded()
    paths = pages or PAGES | find_detail_pages()
    results = {page: measure_page(get, path, visits) for page, path in paths.items()}
    for page in () if pages else POLLED:
        results[f"{page} poll"] = measure_poll(get, PAGES[page], visits)
    print(json.dumps(results))


def freeze_loaded() -> None:
    """Exempt what is loaded from garbage collection, as in production."""
    gc.collect()
    gc.freeze()


def build_getter(name: str, application: Any = None) -> Get:
    """Return a function that calls an application as the web server does, with a session cookie.

    Without `application`, it calls Tenfour's own.
    """
    from django.contrib.auth.models import User
    from django.test import Client

    from config import wsgi

    respond = application or wsgi.application
    client = Client()
    client.force_login(User.objects.get(username=name))
    cookie = "; ".join(f"{each.key}={each.value}" for each in client.cookies.values())

    def get(path: str, query: str = "", **headers: str) -> tuple[int, bytes]:
        status = []
        environ = {
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1",
            "HTTP_COOKIE": cookie,
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "wsgi.errors": sys.stderr,
            **headers,
        }
        response = respond(environ, lambda line, *_: status.append(int(line[:3])))
        try:
            return status[0], b"".join(response)
        finally:
            response.close()  # type: ignore[attr-defined]

    return get


def find_detail_pages() -> dict[str, str]:
    """Return the path of a page of each noun, without the nouns that have no row."""
    from django.db.models import Count, Sum

    from ledger.models import Agent, DeadLetter, Instruction, Plan, Session, Task
    from ledger.models import StandingInstruction as Rule
    from retries.models import Escalation, FailurePattern, Operation

    plans = Plan.objects.order_by("-id")
    large_plans = plans.annotate(tasks=Count("task")).filter(tasks__gte=LARGE_PLAN)
    patterns = FailurePattern.objects.annotate(n=Sum("failure_counts__failures")).filter(n__gt=0)
    rows = {
        "instruction page": ("instructions", Instruction.objects.order_by("-id")[100:]),
        "agent page": ("agents", Agent.objects.order_by("name")),
        "plan page": ("plans", plans[1:]),
        f"plan page, {LARGE_PLAN} tasks": ("plans", large_plans),
        "task page": ("tasks", Task.objects.filter(attempts__gt=2).order_by("-id")),
        "escalation page": ("escalations", Escalation.objects.order_by("-id")),
        "dead letter page": ("dead-letters", DeadLetter.objects.order_by("-id")),
        "pattern page, most failures": ("patterns", patterns.order_by("-n", "id")),
        "pattern page, fewest failures": ("patterns", patterns.order_by("n", "id")),
        "session page": ("sessions", Session.objects.order_by("-id")),
        "rule page": ("instructions/standing", Rule.objects.order_by("-id")),
        "operation page": ("operations", Operation.objects.order_by("-id")),
    }
    first = {page: (place, found.first()) for page, (place, found) in rows.items()}
    return {page: f"/{place}/{row.pk}/" for page, (place, row) in first.items() if row}


def measure_page(get: Get, page: str, visits: int) -> dict[str, Any]:
    path, _, query = page.partition("?")
    request = partial(get, path, query)
    times = []
    for _ in range(visits):
        status, ms = time_request(request)
        assert status == 200, (page, status)
        times.append(ms)
    return {"queries": count_queries(request), **summarize_times(times)}


def measure_poll(get: Get, path: str, visits: int) -> dict[str, Any]:
    """Poll as an idle open page does; skip responses that the clock changes."""
    times: list[float] = []
    while len(times) < visits:
        key = LIVE_KEY.search(get(path)[1].decode())
        assert key, path
        request = partial(get, path, urlencode({"since": key[1]}), HTTP_HX_REQUEST="true")
        # The first poll is not counted: data may have changed since the page was rendered.
        status, _ = time_request(request)
        while status == 204 and len(times) < visits:
            status, ms = time_request(request)
            times += [ms] if status == 204 else []
    return {"queries": count_queries(request), **summarize_times(times)}


def time_request(request: Callable[[], tuple[int, bytes]]) -> tuple[int, float]:
    """Return the response status and the milliseconds."""
    start = time.perf_counter()
    status = request()[0]
    return status, (time.perf_counter() - start) * 1000


def summarize_times(times: list[float]) -> dict[str, float]:
    times = sorted(times)
    return {
        "p50_ms": round(times[len(times) // 2], 2),
        "p95_ms": round(times[len(times) * 95 // 100], 2),
    }


def count_queries(work: Callable[[], Any]) -> int:
    """Count the statements sent to PostgreSQL, including hand-written SQL."""
    import psycopg

    count = 0
    execute = psycopg.Cursor.execute

    def execute_and_count(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return execute(*args, **kwargs)

    psycopg.Cursor.execute = execute_and_count  # type: ignore[method-assign]
    try:
        work()
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    return count


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]) if len(sys.argv) > 3 else None)
