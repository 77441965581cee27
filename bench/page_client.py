"""Visits every page as a signed-in person, in its own process; prints times and queries as JSON.

Which pages, may be given as JSON: name to address.
"""

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

from config.web_server import when_ready

Get = Callable[..., tuple[int, bytes]]

PAGES = {
    "overview": "/",
    "instructions": "/instructions/",
    "instructions, failed": "/instructions/?q=state:failed",
    "instructions of an agent": "/instructions/?q=agent:agent-00007",
    "agents": "/agents/",
    "activity": "/activity/",
    "plans": "/plans/",
    "escalations": "/escalations/",
}
POLLED = ("overview", "instructions", "agents", "activity", "escalations", "plans")
LIVE_KEY = re.compile(r'data-since="([^"]+)"')


def main(name: str, visits: int, pages: dict[str, str] | None) -> None:
    django.setup()

    get = browser(name)
    when_ready(None)  # as where they are served in earnest
    paths = pages or PAGES | one_of_each()
    found = {page: visited(get, path, visits) for page, path in paths.items()}
    for page in () if pages else POLLED:
        found[f"poll of {page}"] = polled(get, PAGES[page], visits)
    print(json.dumps(found))


def browser(name: str) -> Get:
    """Asks the application as gunicorn does, with the cookies of somebody signed in."""
    from django.contrib.auth.models import User
    from django.test import Client

    from config.wsgi import application

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
        answer = application(environ, lambda said, *_: status.append(int(said[:3])))
        try:
            return status[0], b"".join(answer)
        finally:
            answer.close()  # type: ignore[attr-defined]

    return get


def one_of_each() -> dict[str, str]:
    """The page of one thing of each sort."""
    from ledger.models import Agent, Instruction, Plan

    instruction = Instruction.objects.order_by("-id")[100:101].get()
    agent = Agent.objects.order_by("name")[:1].get()
    large, plan = Plan.objects.order_by("-id")[:2]
    return {
        "an instruction": f"/instructions/{instruction.pk}/",
        "an agent": f"/agents/{agent.pk}/",
        "a plan": f"/plans/{plan.pk}/",
        "a plan of 500 tasks": f"/plans/{large.pk}/",
    }


def visited(get: Get, page: str, visits: int) -> dict[str, Any]:
    path, _, query = page.partition("?")
    ask = partial(get, path, query)
    took = []
    for _ in range(visits):
        status, ms = timed(ask)
        assert status == 200, (page, status)
        took.append(ms)
    return {"queries": queries_of(ask), **spread(took)}


def polled(get: Get, path: str, visits: int) -> dict[str, Any]:
    """Ask as an open page does while nothing happens; a 200 now and then is only the clock."""
    took: list[float] = []
    while len(took) < visits:
        key = LIVE_KEY.search(get(path)[1].decode())
        assert key, path
        ask = partial(get, path, urlencode({"since": key[1]}), HTTP_HX_REQUEST="true")
        status, _ = timed(ask)  # it may be new since the page was drawn: that is not timed
        while status == 204 and len(took) < visits:
            status, ms = timed(ask)
            took += [ms] if status == 204 else []
    return {"queries": queries_of(ask), **spread(took)}


def timed(ask: Callable[[], tuple[int, bytes]]) -> tuple[int, float]:
    """What it was answered with, and within how many milliseconds."""
    start = time.perf_counter()
    status = ask()[0]
    return status, (time.perf_counter() - start) * 1000


def spread(took: list[float]) -> dict[str, float]:
    took = sorted(took)
    return {
        "p50_ms": round(took[len(took) // 2], 2),
        "p95_ms": round(took[len(took) * 95 // 100], 2),
    }


def queries_of(work: Callable[[], Any]) -> int:
    """How many statements PostgreSQL is sent, the hand-written ones among them."""
    import psycopg

    count = 0
    execute = psycopg.Cursor.execute

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return execute(*args, **kwargs)

    psycopg.Cursor.execute = counted  # type: ignore[method-assign]
    try:
        work()
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    return count


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]) if len(sys.argv) > 3 else None)
