"""How gunicorn serves Tenfour: `gunicorn -c python:config.web_server config.wsgi:application`."""

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from config.environment import unknown_variables
from config.local.commands import die_with

bind = [os.environ.get("TENFOUR_BIND") or f"127.0.0.1:{os.environ.get('TENFOUR_PORT') or 8000}"]
worker_class = "gthread"
workers = int(os.environ.get("TENFOUR_WEB_WORKERS") or 2)
threads = int(os.environ.get("TENFOUR_WEB_THREADS") or 8)
preload_app = True  # imported once: half the start, and memory that the workers share
keepalive = 75
timeout = 60
graceful_timeout = 8
loglevel = "warning"
control_socket_disable = True


def on_starting(_server: object) -> None:
    """Serves nothing before the database is ready, when started by `config.local.up`.

    That keeps a pipe open until then; what comes in waits in the socket's queue meanwhile.
    """
    gate = os.environ.get("TENFOUR_GATE")
    if gate:
        with suppress(OSError):
            os.read(int(gate), 1)
    else:  # `config.local.up` has warned already
        for warning in unknown_variables(os.environ):
            print(f"Warning: {warning}", file=sys.stderr)


def post_fork(_server: object, worker: Any) -> None:
    """End each worker with the main process, even if that is killed and the worker is stuck."""
    die_with(worker.ppid, signal.SIGKILL)


def when_ready(_server: object) -> None:
    """Exempt everything that is loaded from garbage collection in the workers.

    A full collection takes a tenth of a second, and the request that it hits takes that longer.
    """
    gc.collect()
    gc.freeze()
