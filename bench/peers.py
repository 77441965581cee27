"""Run other queues on the same PostgreSQL, in an environment without Tenfour.

Read "OPERATION COUNT" from stdin, enqueue that many empty jobs, and print the seconds that one
worker needs to run them.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit


def start_procrastinate() -> Callable[[int], float]:
    import procrastinate

    url = os.environ["DATABASE_URL"]
    with procrastinate.App(
        connector=procrastinate.SyncPsycopgConnector(conninfo=url)
    ).open() as app:
        app.schema_manager.apply_schema()

    async def run_jobs(count: int) -> float:
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=2, max_size=3)
        app = procrastinate.App(connector=connector)

        @app.task(name="do_nothing")
        async def do_nothing(n: int) -> None:
            pass

        async with app.open_async():
            await do_nothing.batch_defer_async(*({"n": n} for n in range(count)))
            start = time.perf_counter()
            await app.run_worker_async(wait=False, concurrency=1, install_signal_handlers=False)
            return time.perf_counter() - start

    return lambda count: asyncio.run(run_jobs(count))


def start_django_tasks() -> Callable[[int], float]:
    import django
    from django.conf import settings

    url = urlsplit(os.environ["DATABASE_URL"])
    settings.configure(
        SECRET_KEY="bench",
        USE_TZ=True,
        INSTALLED_APPS=["django_tasks", "django_tasks_db"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": url.path[1:],
                "USER": unquote(url.username or ""),
                "PASSWORD": unquote(url.password or ""),
                "HOST": url.hostname,
                "PORT": url.port,
                "CONN_MAX_AGE": 600,
            }
        },
        TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []}},
        LOGGING_CONFIG=None,
    )
    django.setup()
    from django.core.management import call_command
    from django.db import connection, transaction

    call_command("migrate", verbosity=0)
    from bench import peer_job

    def run_jobs(count: int) -> float:
        with connection.cursor() as cursor:
            cursor.execute("truncate django_tasks_database_dbtaskresult")
        with transaction.atomic():
            for number in range(count):
                peer_job.do_nothing.enqueue(n=number)
        options = ["--batch", "--no-startup-delay", "--interval", "0", "--verbosity", "0"]
        call_command("db_worker", *options)
        with connection.cursor() as cursor:
            cursor.execute(
                "select extract(epoch from max(finished_at) - min(started_at))::float, count(*)"
                " from django_tasks_database_dbtaskresult where status = 'SUCCESSFUL'"
            )
            seconds, completed = cursor.fetchone()
        assert completed == count, completed
        return float(seconds)

    return run_jobs


def start_celery() -> Callable[[int], float]:
    import psycopg

    from bench import peer_celery

    argv = [sys.executable, "-m", "celery", "-A", "bench.peer_celery", "worker", "--pool", "solo"]
    quiet = subprocess.DEVNULL
    argv += ["-Q", "bench", "-l", "ERROR", "--without-gossip", "--without-mingle"]
    done = "select count(*), extract(epoch from max(date_done) - min(date_done))::float"
    done += " from celery_taskmeta where status = 'SUCCESS'"
    peer_celery.app.backend.ResultSession().close()  # creates its tables

    def run_jobs(count: int) -> float:
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as conn:
            conn.execute("truncate celery_taskmeta")
            for number in range(count):
                peer_celery.do_nothing.apply_async(kwargs={"n": number})
            with subprocess.Popen(argv, stdout=quiet, stderr=quiet) as worker:
                end = time.monotonic() + 120
                while (found := conn.execute(done).fetchone()) and found[0] < count:
                    assert time.monotonic() < end, found
                    time.sleep(0.1)
                worker.terminate()
        assert found
        return float(found[1]) * count / (count - 1)  # from the end of the first job

    return run_jobs


PEERS: dict[str, Callable[[], Callable[[int], float]]] = {
    "procrastinate": start_procrastinate,
    "django-tasks": start_django_tasks,
    "Celery": start_celery,
}


def main(name: str, *_: str) -> None:
    logging.disable(logging.WARNING)
    output, sys.stdout = sys.stdout, sys.stderr  # keep the peers' own prints out of the results
    run_jobs: Callable[[int], Any] = PEERS[name]()
    print("ready", file=output, flush=True)
    for line in sys.stdin:
        print(run_jobs(int(line.split()[-1])), file=output, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
