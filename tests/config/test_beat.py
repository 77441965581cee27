"""The clock runs everything at its start, and ends when it is told to, whatever Redis does."""

import base64
import json
import os
import selectors
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis import Redis

from config.celery import JOBS
from tests.celery_processes import run_celery
from tests.waiting import PATIENCE_S, wait_until

BEAT = ["beat", "-l", "WARNING", "--scheduler", "celery.beat:Scheduler", "--pidfile", ""]


# a database that no worker reads
OWN_DATABASE = 15


class SilentRedis:
    """Forwards connections to Redis until it is silenced; then it reads and answers nothing."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.is_silent, self.was_asked = False, False
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self) -> str:
        given = urlsplit(os.environ["REDIS_URL"])
        host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        netloc = f"{given.netloc.rpartition('@')[0]}@{host}"
        return given._replace(netloc=netloc, path=f"/{OWN_DATABASE}").geturl()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.forward, args=(client,), daemon=True).start()

    def forward(self, client: socket.socket) -> None:
        given = urlsplit(os.environ["REDIS_URL"])
        with (
            client,
            socket.create_connection((given.hostname, given.port)) as server,
            selectors.DefaultSelector() as ready,
            suppress(OSError),
        ):
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    assert isinstance(key.fileobj, socket.socket)
                    if not (data := key.fileobj.recv(65_536)):
                        return
                    if not self.is_silent:
                        key.data.sendall(data)
                    elif key.fileobj is client:
                        self.was_asked = True


def own_url() -> str:
    return urlsplit(os.environ["REDIS_URL"])._replace(path=f"/{OWN_DATABASE}").geturl()


@pytest.fixture
def stored() -> Iterator["Redis"]:
    """Redis itself, where the clock's entries can be read."""
    with Redis.from_url(own_url()) as redis:
        redis.flushdb()
        yield redis
        redis.flushdb()


def list_sent(redis: "Redis") -> list[str]:
    """Return the entries that the clock has sent, oldest first."""
    found: Any = redis.lrange("tenfour:celery", 0, -1)
    messages = [json.loads(raw) for raw in reversed(found)]
    return [json.loads(base64.b64decode(each["body"]))[1]["name"] for each in messages]


@pytest.mark.django_db(transaction=True)
def test_sigterm_ends_a_clock_that_waits_for_redis(stored: "Redis") -> None:
    redis = SilentRedis()
    with redis.listener, run_celery(*BEAT, REDIS_URL=redis.url) as beat:
        wait_until(lambda: len(list_sent(stored)) > len(JOBS))  # it has caught up, and ticks
        redis.is_silent = True
        wait_until(lambda: redis.was_asked)
        beat.send_signal(signal.SIGTERM)
        assert beat.wait(PATIENCE_S) == 0


def test_a_clock_sends_every_job_at_its_start(stored: "Redis") -> None:
    """Also those that come only every ten minutes, such as the journal's next months."""
    with run_celery(*BEAT, REDIS_URL=own_url()):
        wait_until(lambda: len(list_sent(stored)) >= len(JOBS))
    assert list_sent(stored)[: len(JOBS)] == list(JOBS)
