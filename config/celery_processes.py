"""The worker and the clock of `make up`: `python -m config.celery_processes worker`, or `beat`.

They are what Celery's commands of the same names start. Loading its command line takes a quarter of
the time until a new worker can work, and nothing is retried, reminded or swept until then.
"""

import gc
import sys
import warnings

from config.environment import read_text

HEARTBEAT_S = 10  # nothing on one machine needs to know sooner that a worker stopped
SCHEDULER = "celery.beat:Scheduler"  # last runs are rows of the database, so it needs no file


def count_threads(text: str) -> int:
    """Return the number of threads in a setting; exit with a message if it is invalid."""
    if not (text.isdecimal() and int(text)):
        sys.exit(f"TENFOUR_WORKER_THREADS must be a whole number from 1, not {text!r}.")
    return int(text)


def start_worker() -> int:
    from celery.apps.worker import Worker

    from config.celery import app

    worker = Worker(
        app=app,
        pool_cls="threads",
        concurrency=count_threads(read_text("WORKER_THREADS")),
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        heartbeat_interval=HEARTBEAT_S,
        quiet=True,
    )
    gc.enable()
    worker.start()
    code: int = worker.exitcode or 0
    return code


def start_beat() -> int:
    from config.celery import app

    gc.enable()
    app.Beat(app=app, scheduler_cls=SCHEDULER, loglevel="WARNING", quiet=True).run()
    return 0


STARTS = {"worker": start_worker, "beat": start_beat}


def main(name: str) -> int:
    warnings.filterwarnings("ignore", "You're running the worker with superuser privileges")
    gc.disable()  # a start creates little garbage, and takes a fifth longer with collections
    return STARTS[name]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
