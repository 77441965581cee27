"""Measure what open tabs cost while nothing happens, and how soon a page is painted.

A tab polls as `live.js` does while nothing happens. The web server has one worker, whose processor
time is compared with the time that passed. Chromium paints each page several times and keeps what
pages share, as a browser does after the first page.
"""

import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from bench.figures import Figure, Say, Scale, at_most
from bench.http import is_listening
from bench.page_client import LIVE_KEY
from bench.pages import OPERATOR, collect_static_files
from bench.servers import MissingDependency, Sandbox, run_program, wait_until
from bench.volume import PAGES, seed_project
from config.local.commands import Command
from config.local.embedded import free_port
from config.local.places import PROJECT

TABS, MAX_SHARE = 50, 3
POLL_S = 15  # of a page on which nothing has happened for a while
# Each tab's page is rendered once in this time: see MAX_AGE_SECONDS in
# dashboard/frame/live_updates.py.
SECONDS, ROUNDS = 120, 3
TASKS, INSTRUCTIONS = 5_000, 1_000
PAINTS, MAX_PAINT_MS = 5, 300
PLAIN = "plain text, for comparison"
POLLED = ("overview", "escalations", "tasks", "instructions", "agents", "activity", "plans")
NEWER = "Tenfour-Live-Key"
LIVE_POLL = {"HX-Request": "true"}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = seed_project(sandbox, "tenfour_tabs", TASKS, INSTRUCTIONS)
    collect_static_files(sandbox, url)
    cookie = sign_in(sandbox, url)
    with run_one_worker(sandbox, url) as (address, process):
        lengths = [SECONDS // 4] if scale.quick else [SECONDS] * ROUNDS
        shares = measure_tabs(address, process, cookie, lengths)
        figures = [Figure(f"{TABS} idle tabs: one worker's time", shares, "%", at_most(MAX_SHARE))]
        say(f"{figures[0].name}: {figures[0].median:.2f} %")
        try:
            figures += measure_paints(address, cookie, say)
        except MissingDependency as missing:
            say(f"paints skipped. {missing}")
    return figures


def sign_in(sandbox: Sandbox, url: str) -> tuple[str, str]:
    """Return the name and the value of a cookie of the operator's session."""
    (name, value), *_ = sandbox.seed(url, ("session_cookie", {"name": OPERATOR}))
    return name, value


@contextmanager
def run_one_worker(sandbox: Sandbox, url: str) -> Iterator[tuple[str, int]]:
    """Serve Tenfour with one worker; yield its address and the server's process."""
    port = free_port()
    env = sandbox.env(url) | {"TENFOUR_BIND": f"127.0.0.1:{port}", "TENFOUR_WEB_WORKERS": "1"}
    argv = [sys.executable, "-m", "config.web_server"]
    with run_program(Command(argv, env=env)) as process:
        wait_until(lambda: is_listening(port), "the web server")
        yield f"http://127.0.0.1:{port}", process


# ---- idle tabs


def measure_tabs(
    address: str, process: int, cookie: tuple[str, str], lengths: list[int]
) -> list[float]:
    """Return the share of the time that the server computes for the tabs, in percent.

    The tabs stay open through all periods, whose lengths are given in seconds.
    """
    ready, end = threading.Barrier(TABS + 1), threading.Event()
    counts: list[int] = []
    tabs = [
        threading.Thread(target=keep_open, args=(address, n, cookie, ready, end, counts))
        for n in range(TABS)
    ]
    for tab in tabs:
        tab.start()
    ready.wait(120)
    shares = []
    for seconds in lengths:
        before, start = read_processor_time(process), time.monotonic()
        end.wait(seconds)
        used = read_processor_time(process) - before
        shares.append(100 * used / (time.monotonic() - start))
    end.set()
    for tab in tabs:
        tab.join()
    if len(counts) < TABS * (sum(lengths) // POLL_S - 1):
        raise RuntimeError(f"Only {len(counts)} polls were answered.")
    if failed := {status for status in counts if status not in (200, 204)}:
        raise RuntimeError(f"Polls were answered with {failed}.")
    return shares


def keep_open(
    address: str,
    number: int,
    cookie: tuple[str, str],
    ready: threading.Barrier,
    end: threading.Event,
    counts: list[int],
) -> None:
    """Open a page and poll it until the end; the tabs' polls are spread over time."""
    path = PAGES[POLLED[number % len(POLLED)]]
    headers = {"Cookie": "=".join(cookie), "Accept-Encoding": "gzip"}
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("GET", path, headers={"Cookie": headers["Cookie"]})
    found = LIVE_KEY.search(connection.getresponse().read().decode())
    assert found, path
    key = found[1]
    ready.wait(120)
    end.wait(POLL_S * number / TABS)
    while not end.is_set():
        connection.request(
            "GET", f"{path}?{urlencode({'since': key})}", headers=headers | LIVE_POLL
        )
        response = connection.getresponse()
        body = response.read()
        if response.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        sent = LIVE_KEY.search(body.decode())
        key = response.headers.get(NEWER) or (sent[1] if sent else key)
        counts.append(response.status)
        end.wait(POLL_S)
    connection.close()


def read_processor_time(process: int) -> float:
    """Return the seconds that a process and its children have computed."""
    ticks = 0
    for stat in read_stats():
        own, parent = int(stat[0]), int(stat[3])
        if process in (own, parent):
            ticks += int(stat[13]) + int(stat[14])
    return ticks / os.sysconf("SC_CLK_TCK")


def read_stats() -> Iterator[list[str]]:
    """Yield the fields of each process's statistics; its name, which may have spaces, is left out."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            text = path.read_text()
            yield [text.partition(" ")[0], "", *text.rpartition(")")[2].split()]


# ---- paints


def measure_paints(address: str, cookie: tuple[str, str], say: Say) -> list[Figure]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise MissingDependency("There is no chromium or google-chrome.")
    argv = [sys.executable, "-m", "bench.first_paint", chromium, address, *cookie]
    pages = json.dumps(PAGES | find_details(address, cookie) | {PLAIN: "/healthz"})
    painted = subprocess.run(
        [*argv, pages, str(PAINTS)], cwd=PROJECT, check=True, stdout=subprocess.PIPE
    )
    figures = [
        Figure(
            f"{page}: first paint", values, "ms", at_most(MAX_PAINT_MS) if page != PLAIN else None
        )
        for page, values in json.loads(painted.stdout).items()
    ]
    slowest = max(figures, key=lambda each: each.median)
    say(f"slowest: {slowest.name}: {slowest.median:.0f} ms")
    return figures


def find_details(address: str, cookie: tuple[str, str]) -> dict[str, str]:
    """Return the first row's page of each list that has one."""
    pages: dict[str, Any] = {}
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    for name in ("tasks", "instructions", "agents", "plans", "patterns", "dead letters"):
        path = PAGES[name]
        connection.request("GET", path, headers={"Cookie": "=".join(cookie)})
        text = connection.getresponse().read().decode()
        if found := re.search(rf'href="({path}[0-9a-f-]{{36}}/)', text):
            pages[f"one of {name}"] = found[1]
    return pages
