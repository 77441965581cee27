"""The primary dies under load, and its standby is promoted: nothing that was acknowledged is lost."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.db import connections

from ledger import agents, tokens
from ledger.journal import SYSTEM, Stamp
from ledger.models import Project
from tests import services
from tests.config.replicas import FOLLOWER, PASSWORD, Replica, replicate
from tests.config.web_processes import run_server
from tests.flows.test_faults import call
from tests.serving import database_of_tests
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(services.running is None, reason="needs servers that it may stop"),
]


def list_both(standby: Replica) -> str:
    """Return the URL of both servers, of which the one that takes writes is used."""
    parts = urlsplit(database_of_tests())
    host = f"{parts.netloc},127.0.0.1:{standby.servers.postgres.port}"
    query = "target_session_attrs=read-write"
    return urlunsplit(parts._replace(netloc=host, query=query))


@contextmanager
def replicating_synchronously(standby: Replica) -> Iterator[None]:
    """Let each commit wait until the standby has it."""
    primary = services.ours().servers.postgres
    place = f"host=127.0.0.1 port={primary.port} dbname=postgres user={FOLLOWER}"
    with psycopg.connect(f"{place} password={PASSWORD}", autocommit=True) as db:
        db.execute("alter system set synchronous_standby_names = '*'")
        db.execute("alter role tenfour set synchronous_commit = 'on'")
        db.execute("select pg_reload_conf()")
        wait_until(
            lambda: db.execute("select from pg_stat_replication where sync_state = 'sync'").rowcount
        )
    try:
        yield
    finally:
        # its next start must not wait for a standby that is gone
        services.ours().stop("postgres")
        (services.ours().servers.place.home / "pg" / "postgresql.auto.conf").write_text("")
        services.ours().start("postgres")
        with psycopg.connect(f"{place} password={PASSWORD}", autocommit=True) as db:
            db.execute("alter role tenfour reset synchronous_commit")


def kill_primary() -> None:
    process = services.ours().processes.pop("postgres")
    process.kill()
    process.wait(PATIENCE_S)


def test_a_promoted_standby_has_all_that_was_acknowledged(transactional_db: None) -> None:
    with replicate() as standby, replicating_synchronously(standby):
        project = Project.objects.create(name="failover")
        stamp = Stamp(SYSTEM)
        agents.register("coder", project=project, stamp=stamp)
        _, token = tokens.issue("orchestrator", project=project, stamp=stamp)
        connections.close_all()
        with run_server(workers=1, DATABASE_URL=list_both(standby)) as served:
            acknowledged, answers = run_load("http://{}:{}".format(*served.address), token, standby)
        assert set(answers) <= {(201, ""), (503, "temporarily_unavailable")}, answers
        assert answers[503, "temporarily_unavailable"]
        name = urlsplit(database_of_tests()).path[1:]
        with psycopg.connect(urlunsplit(urlsplit(standby.url)._replace(path=f"/{name}"))) as db:
            found = db.execute("select id::text from ledger_instruction").fetchall()
        assert set(acknowledged) <= {id for (id,) in found}


def run_load(url: str, token: str, standby: Replica) -> tuple[list[str], Counter[tuple[int, str]]]:
    """Send instructions while the primary is killed and the standby is promoted."""
    answers: Counter[tuple[int, str]] = Counter()
    acknowledged: list[str] = []
    stop = threading.Event()

    def send(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            body = {"agent": "coder", "content": f"thing {number}.{turn}"}
            status, made = call(f"{url}/v1/instructions", token, body)
            answers[status, made.get("code", "")] += 1
            if status == 201:
                acknowledged.append(made["id"])

    with ThreadPoolExecutor(3) as pool:
        senders = [pool.submit(send, number) for number in range(3)]

        def has_grown(before: int) -> bool:
            return len(acknowledged) > before + 20 or any(sender.done() for sender in senders)

        try:
            wait_until(lambda: has_grown(0))
            kill_primary()
            # refused by one server, and read-only on the other
            wait_until(lambda: answers[503, "temporarily_unavailable"] > 5)
            standby.ask("select pg_promote()")
            before = len(acknowledged)
            wait_until(lambda: has_grown(before))
        finally:
            stop.set()
        for sender in senders:
            sender.result(PATIENCE_S)
    return acknowledged, answers
