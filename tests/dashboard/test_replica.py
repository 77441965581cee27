"""Pages read from a streaming replica while it keeps up, and say so when they don't."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.test import Client

from dashboard.frame import replica
from dashboard.frame.access import PAGES
from dashboard.frame.replica import Monitor
from dashboard.lists.export import INCOMPLETE
from ledger.models import Task
from ledger.states import TaskState
from tests.config.replicas import Replica, replicate
from tests.config.web_processes import run_server
from tests.dashboard.worked import copy_task
from tests.dashboard.worked import make_task as make_worked_task
from tests.factories import NOW, make_agent
from tests.retries.moves import make_task
from tests.serving import database_of_tests
from tests.waiting import PATIENCE_S, wait_until

LIMIT_S = replica.LAG_S
NOTICE = re.compile(r"<b>Read from the primary database\.</b> The replica (.+?)\.\s+Nothing")


class Person:
    """A browser without scripts, signed in; every response that it gets is a success."""

    def __init__(self, url: str, cookies: dict[str, str]) -> None:
        self.http = httpx2.Client(base_url=url, cookies=cookies, timeout=PATIENCE_S)

    def get(self, path: str) -> str:
        answer = self.http.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
        return answer.text

    def notice(self, path: str = "/tasks/") -> str:
        found = NOTICE.search(self.get(path))
        return found[1] if found else ""

    def reads(self) -> dict[str, float]:
        """Return how many pages each database has answered."""
        found = re.findall(
            r'^tenfour_page_reads_total\{database="(\w+)"\} (\S+)$', self.get("/metrics"), re.M
        )
        return {"replica": 0.0, "primary": 0.0} | {name: float(n) for name, n in found}

    def lag(self) -> float:
        found = re.search(r"^tenfour_replica_lag_seconds (\S+)$", self.get("/metrics"), re.M)
        assert found
        return float(found[1])

    def is_read_from(self, database: str, path: str = "/tasks/") -> bool:
        before = self.reads()[database]
        self.get(path)
        return self.reads()[database] > before


@pytest.fixture
def standby(transactional_db: None) -> Iterator[Replica]:
    with replicate() as made:
        yield made


@pytest.fixture
def person(standby: Replica) -> Iterator[Person]:
    """Someone signed in to a web server whose pages may read the standby."""
    mara = User.objects.create_superuser("mara")
    client = Client()
    client.force_login(mara)
    cookies = {name: morsel.value for name, morsel in client.cookies.items()}
    env = {"TENFOUR_REPLICA_URL": standby.url, "TENFOUR_METRICS_ALLOW": "127.0.0.1"}
    with run_server(workers=1, **env) as served:
        browser = Person("http://{}:{}".format(*served.address), cookies)
        with browser.http:
            yield browser


def test_pages_read_the_replica_and_fall_back_when_it_lags_or_is_away(
    person: Person, standby: Replica
) -> None:
    agent = make_agent()
    make_task(agent, title="First task")
    # a new process has not looked yet, and reads the primary
    wait_until(lambda: person.is_read_from("replica"))
    # a replica within the limit may be a moment behind
    wait_until(lambda: "First task" in person.get("/tasks/"))
    # on a busy machine, it may also fall behind the limit for a moment
    wait_until(lambda: person.is_read_from("replica") and not person.notice())
    wait_until(lambda: '"replica": "ok"' in person.get("/readyz") and person.lag() <= LIMIT_S)
    lists = ("tasks", "activity", "instructions", "plans", "dead-letters", "patterns", "agents")
    exports = [f"/{name}/export/csv/" for name in (*lists, "sessions", "settings/deliveries")]
    for path in ("/", "/search/?q=task", "/insight/", "/activity/", *exports):
        wait_until(lambda path=path: person.is_read_from("replica", path), lambda path=path: path)
    assert "First task" in person.get("/tasks/export/csv/")
    # the page of one task, from which people act, never does
    before = person.reads()
    person.get(f"/tasks/{Task.objects.get().pk}/")
    assert person.reads() == before
    check_own_acts(person)
    check_lag(person, standby, agent)
    check_absence(person, standby)


def check_own_acts(person: Person) -> None:
    """What people do makes their next pages read the primary, and only theirs."""
    token = re.search(r'"X-CSRFToken": "(\w+)"', person.get("/tasks/"))
    assert token
    answer = person.http.post(
        "/settings/profile/save/", data={"theme": "dark"}, headers={"X-CSRFToken": token[1]}
    )
    assert answer.status_code in (200, 204, 302), answer.status_code
    sent = answer.headers["Set-Cookie"]
    assert f"{replica.COOKIE}=1" in sent and f"Max-Age={LIMIT_S + replica.MARGIN_S}" in sent
    person.http.cookies.set(replica.COOKIE, "1")  # it does not expire during this check
    assert person.is_read_from("primary")
    wait_until(lambda: not person.notice())
    assert person.is_read_from("primary")
    del person.http.cookies[replica.COOKIE]
    wait_until(lambda: person.is_read_from("replica"))


def check_lag(person: Person, standby: Replica, agent: Any) -> None:
    """While the replay stands still, pages come from the primary and say how far it is behind."""
    standby.pause()
    make_task(agent, title="Second task")
    says = re.compile(rf"is \d+ s behind, more than {LIMIT_S} s")
    wait_until(lambda: says.fullmatch(person.notice()))
    assert "Second task" in person.get("/tasks/")
    ready = person.http.get("/readyz")
    assert ready.status_code == 200 and ready.json()["status"] == "degraded"
    assert "behind" in ready.json()["checks"]["replica"]
    assert person.lag() > LIMIT_S
    standby.resume()
    wait_until(lambda: not person.notice())
    wait_until(lambda: "Second task" in person.get("/tasks/"))


def check_absence(person: Person, standby: Replica) -> None:
    """A replica that dies costs no page; one that is back is read again."""
    wait_until(lambda: person.is_read_from("replica"))
    standby.kill()
    wait_until(lambda: person.notice().startswith("is away: "))
    assert person.is_read_from("primary") and person.lag() == -1
    standby.start()
    wait_until(lambda: not person.notice())


EXPORT = "/tasks/export/csv/"
# more than the web server reads ahead, and more than its connection buffers
ROWS, ROW_BYTES = 20_000, 2_000
# what runs on the replica for pages
WAITS = """from pg_stat_activity
    where application_name = 'tenfour' and wait_event_type = 'Lock'"""
FETCHES = "from pg_stat_activity where application_name = 'tenfour' and query ilike 'fetch%'"


def test_an_export_that_fails_on_the_replica_is_whole_or_says_so(
    person: Person, standby: Replica
) -> None:
    make_worked_task(
        TaskState.FAILED,
        "First task",
        agent=make_agent(),
        now=NOW,
        why={"message": "x" * ROW_BYTES},
    )
    wait_until(lambda: "First task" in person.get(EXPORT))
    wait_until(lambda: person.is_read_from("replica", EXPORT))
    check_failure_before_the_first_byte(person, standby)
    wait_until(lambda: person.is_read_from("replica", EXPORT))
    copy_task(ROWS)
    wait_until(lambda: person.get(EXPORT).count("First task") == ROWS + 1)
    wait_until(lambda: person.is_read_from("replica", EXPORT))
    check_failure_in_the_middle(person, standby)


def check_failure_before_the_first_byte(person: Person, standby: Replica) -> None:
    """The rows are read again from the primary."""
    before = person.reads()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("lock table ledger_task in access exclusive mode")
            cursor.execute("select 'ledger_task'::regclass::oid")
            task_table = cursor.fetchone()[0]
            with psycopg.connect(database_of_tests()) as other:
                # a commit sends the lock to the replica, too
                other.execute("select pg_logical_emit_message(true, '', '')")
            locks = "select count(*) from pg_locks where mode = 'AccessExclusiveLock'"
            wait_until(lambda: standby.ask(f"{locks} and relation = {task_table}"))
            answer = pool.submit(person.get, EXPORT)
            wait_until(lambda: standby.ask(f"select count(*) {WAITS}"))
            assert standby.ask(f"select count(pg_terminate_backend(pid)) {WAITS}") == 1
        assert "First task" in answer.result(PATIENCE_S)
    after = person.reads()
    assert after["primary"] == before["primary"] + 1 and after["replica"] == before["replica"]


def check_failure_in_the_middle(person: Person, standby: Replica) -> None:
    """The last line says that the file is incomplete."""
    plain = {"Accept-Encoding": "identity"}
    with person.http.stream("GET", EXPORT, headers=plain) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_raw()
        assert next(pieces).startswith(b"id,project,")
        # the server waits for this reader
        wait_until(lambda: standby.ask(f"select state {FETCHES}") == "idle")
        with connection.cursor() as cursor:
            cursor.execute(
                "select count(*) from pg_stat_activity where state = 'idle in transaction'"
                " and datname = current_database()"
            )
            assert cursor.fetchone()[0] == 0
        assert standby.ask(f"select count(pg_terminate_backend(pid)) {FETCHES}") == 1
        text = b"".join(pieces).decode()
    assert text.endswith(f"\r\n{INCOMPLETE}\r\n") and text.count("First task") < ROWS


def test_a_server_that_takes_writes_is_no_replica(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = connections.settings["default"]
    monkeypatch.setitem(connections.settings, "replica", primary)
    monitor = Monitor()
    try:
        assert monitor.check().why == "is not one: that server takes writes itself"
    finally:
        monitor.disconnect()
        connections["replica"].close()
        del connections["replica"]


def test_only_pages_that_list_and_count_may_read_the_replica() -> None:
    readers = {name for name, page in PAGES.items() if page.may_read_replica}
    assert readers >= {"home", "search", "insight", "tasks", "tasks_export"}
    assert not {name for name in readers if name.endswith(("_act", "_new", "_edit"))}
    assert not readers & {"escalations", "escalation", "task", "people", "tokens", "profile"}
    exports = {name for name in PAGES if name.endswith("_export")}
    assert {name for name in exports if name.removesuffix("_export") in readers} == (
        exports & readers
    )
