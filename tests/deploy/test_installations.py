"""Two installations behind one nginx, which chooses by the token or by the host."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from tenfour import Client, TenfourError
from tenfour.api import calls

from ledger.models import Task
from ledger.models.token import TokenKind
from ledger.tokens import ProjectMoving, new_secret
from retries.retention.projects import move as project_move
from tests.celery_processes import WORKER, run_celery
from tests.factories import make_agent, make_project, make_token
from tests.nginx import FOLDER, RELOADABLE, prepare_nginx, run_configured_nginx
from tests.serving import ROOT, collect_static_files, make_database, serve, use_database
from tests.waiting import PATIENCE_S, wait_until

HOSTS = {"first": "first.tenfour.example.org", "second": "second.tenfour.example.org"}
FORM_TOKEN = "a" * 32
LOGIN = {"username": "mara", "password": "correct horse battery"}
TASKS = 60
OWN_TITLES = "select title from ledger_task where title like 'of %'"
OPEN = "select count(*) from ledger_task where state <> 'done'"


@dataclass(frozen=True)
class Installation:
    """A web server with a database of its own."""

    name: str
    database_url: str
    port: int
    variables: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_tokens(self) -> tuple[str, str]:
        """Return a producer's and an agent's new token."""
        with use_database(self.name):
            return make_token("orchestrator"), make_token("agent")

    def run_jobs(self) -> "AbstractContextManager[subprocess.Popen[bytes]]":
        """Run the worker and the clock in one process."""
        clock = ["-B", "--scheduler", "celery.beat:Scheduler"]
        return run_celery(*WORKER, *clock, **self.variables)

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url) as own:
            return own.execute(statement).fetchall()


@pytest.fixture(scope="module")
def installations(django_db_blocker: Any) -> Iterator[list[Installation]]:
    collect_static_files()
    with ExitStack() as stack:
        stack.enter_context(django_db_blocker.unblock())
        started = [
            stack.enter_context(run_installation(name, redis))
            for name, redis in zip(HOSTS, ("/10", "/11"), strict=True)
        ]
        for each in started:
            with Client(each.url, "none", timeout=PATIENCE_S) as client:
                client.perform(calls.health())
        yield started


@contextmanager
def run_installation(name: str, redis: str) -> Iterator[Installation]:
    with (
        make_database(name, migrated=True) as database_url,
        socket.create_server(("127.0.0.1", 0)) as bound,
    ):
        variables = {
            "DATABASE_URL": database_url,
            "REDIS_URL": urlsplit(os.environ["REDIS_URL"])._replace(path=redis).geturl(),
            "TENFOUR_SECRET_KEY": f"{name}-" * 8,
            "TENFOUR_HOSTS": HOSTS[name],
            "TENFOUR_TRUSTED_PROXIES": "1",
        }
        process = serve(bound.fileno(), **variables)
        try:
            yield Installation(name, database_url, bound.getsockname()[1], variables)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def configure(folder: Path, installations: list[Installation]) -> str:
    """Return nginx's configuration after writing the files of the prefixes."""
    text = (FOLDER / "installations.conf").read_text()
    text = text.replace("/etc/nginx/tenfour/", f"{folder}/")
    for each in installations:
        text = text.replace(f"{each.name}-web:8000", f"127.0.0.1:{each.port}")
    write_prefixes(folder, installations)
    return text


def write_prefixes(folder: Path, installations: list[Installation]) -> None:
    for each in installations:
        lines = each.query(read_prefix_query().replace("second", each.name))
        (folder / f"{each.name}.tokens").write_text("".join(f"{line}\n" for (line,) in lines))


def read_prefix_query() -> str:
    docs = (ROOT / "docs" / "scaling.md").read_text()
    [found] = re.findall(r"```sql\n(select [^`]* from ledger_token\b[^`]*;)\n```", docs)
    return str(found)


def connect(url: str, token: str) -> Client:
    return Client(url, token, timeout=PATIENCE_S)


def work(client: Client) -> list[str]:
    """Claim and finish all tasks that wait; return their titles."""
    found = []
    for attempt in client.attempts():
        with attempt:
            found.append(str(attempt.task.title))
    return found


def refusal_of(url: str, token: str) -> tuple[int, str]:
    with Client(url, token, retries=0) as client, pytest.raises(TenfourError) as refused:
        client.perform(calls.me())
    return refused.value.status, refused.value.code


def test_an_agent_reaches_its_own_ledger_at_a_shared_address(
    installations: list[Installation], tmp_path: Path
) -> None:
    first, second = installations
    tokens = {each.name: each.make_tokens() for each in installations}
    with run_configured_nginx(tmp_path, configure(tmp_path, installations)) as port:
        shared = f"http://127.0.0.1:{port}"
        for name, (producer, _) in tokens.items():
            with connect(shared, producer) as client:
                client.tasks.enqueue("coder", "code", title=f"of {name}")
        for each in installations:
            assert each.query(OWN_TITLES) == [(f"of {each.name}",)]
            with connect(shared, tokens[each.name][1]) as client:
                assert work(client) == [f"of {each.name}"]

        # a token of another installation, one that is in no file yet, and one that does not exist
        unlisted = second.make_tokens()[1]
        assert refusal_of(first.url, tokens["second"][1]) == (401, "token_invalid")
        assert refusal_of(shared, unlisted) == (401, "token_invalid")
        with connect(second.url, unlisted) as client:
            assert client.perform(calls.me()).agent == "coder"
        assert refusal_of(shared, new_secret(TokenKind.AGENT)) == (401, "token_invalid")


def test_a_person_signs_in_at_the_host_of_the_account(
    installations: list[Installation], tmp_path: Path
) -> None:
    second = installations[1]
    with use_database(second.name):
        User.objects.create_superuser(**LOGIN)
    found = {}
    with run_configured_nginx(tmp_path, configure(tmp_path, installations)) as port:
        for host in [*HOSTS.values(), "elsewhere.example.org"]:
            cookies = {settings.CSRF_COOKIE_NAME: FORM_TOKEN}
            form = LOGIN | {"csrfmiddlewaretoken": FORM_TOKEN}
            with httpx2.Client(
                headers={"Host": host}, cookies=cookies, timeout=PATIENCE_S
            ) as browser:
                posted = browser.post(f"http://127.0.0.1:{port}/sign-in/", data=form)
                page = browser.get(f"http://127.0.0.1:{port}/tasks/")
                found[host] = (posted.status_code, page.status_code)
    assert found == {
        HOSTS["first"]: (422, 302),
        HOSTS["second"]: (302, 200),
        "elsewhere.example.org": (400, 400),
    }


def test_nginx_refuses_a_prefix_of_two_installations(
    installations: list[Installation], tmp_path: Path
) -> None:
    text = configure(tmp_path, installations)
    for each in installations:
        (tmp_path / f"{each.name}.tokens").write_text(f"tenfour_agt_abcd {each.name};\n")
    done = subprocess.run([*prepare_nginx(tmp_path, text), "-t"], capture_output=True, text=True)
    assert done.returncode == 1
    assert 'conflicting parameter "tenfour_agt_abcd"' in done.stderr


def test_a_project_moves_while_the_old_installation_finishes(
    installations: list[Installation], tmp_path: Path
) -> None:
    (old_producer, old_agent), (new_producer, new_agent) = (
        each.make_tokens() for each in installations
    )
    is_over, done = threading.Event(), dict[str, list[str]](old=[], new=[])

    def work_until_over(url: str, name: str, token: str) -> None:
        with connect(url, token) as client:
            while not is_over.wait(0.1):
                done[name] += work(client)

    with (
        run_configured_nginx(tmp_path, configure(tmp_path, installations)) as port,
        connect(url := f"http://127.0.0.1:{port}", old_producer) as old,
        connect(url, new_producer) as new,
        ThreadPoolExecutor(2) as agents,
    ):
        working = [
            agents.submit(work_until_over, url, *named)
            for named in (("old", old_agent), ("new", new_agent))
        ]
        try:
            for number in range(TASKS):
                producer = old if number < TASKS // 2 else new
                producer.tasks.enqueue("coder", "code", title=str(number))
            wait_until(lambda: not any(each.query(OPEN)[0][0] for each in installations))
        finally:
            is_over.set()
        for each in working:
            each.result(PATIENCE_S)
    assert sorted(done["old"], key=int) == [str(number) for number in range(TASKS // 2)]
    assert sorted(done["new"], key=int) == [str(number) for number in range(TASKS // 2, TASKS)]


POSITIONS = "select name from retries_streamcursor where tx > 1"
HISTORY = """select kind, count(*) from ledger_event
where project_id = (select id from ledger_project where name = 'moving') group by 1 order by 1"""


def test_a_project_moves_with_its_history_under_load(
    installations: list[Installation], tmp_path: Path
) -> None:
    first, second = installations
    second.make_tokens()  # its journal has an event
    with use_database(first.name):
        agent = make_agent("mover", project=make_project("moving"))
        tokens = {
            "producer": make_token("orchestrator", project=agent.project),
            "agent": make_token("agent", agent=agent),
        }
    is_over, done = threading.Event(), list[str]()

    def work_until_over(client: Client) -> None:
        while not is_over.wait(0.05):
            done.extend(work(client))

    def enqueue_all(client: Client) -> None:
        for number in range(TASKS):
            client.tasks.enqueue("mover", "code", title=str(number))
            is_over.wait(0.05)

    with (
        first.run_jobs(),
        second.run_jobs(),
        run_configured_nginx(
            tmp_path, configure(tmp_path, installations), processes=RELOADABLE
        ) as port,
        Client(url := f"http://127.0.0.1:{port}", tokens["agent"], retries=90) as working,
        Client(url, tokens["producer"], retries=90) as producing,
        ThreadPoolExecutor(2) as threads,
    ):
        wait_until(lambda: {name for (name,) in second.query(POSITIONS)} >= project_move.READERS)
        started = [threads.submit(work_until_over, working), threads.submit(enqueue_all, producing)]
        try:
            wait_until(lambda: len(done) >= TASKS // 4)
            with use_database(second.name):
                call_command("project", "fetch", "moving", "--from", first.database_url)
            before = first.query(HISTORY)
            assert refusal_of(first.url, tokens["agent"]) == (503, ProjectMoving.code)
            write_prefixes(tmp_path, installations)
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGHUP)
            wait_until(lambda: len(done) >= TASKS)
        finally:
            is_over.set()
        for each in started:
            each.result(PATIENCE_S)
    assert sorted(done, key=int) == [str(number) for number in range(TASKS)]
    with use_database(second.name):
        assert Task.objects.filter(agent__name="mover", state="done").count() == TASKS
    after = dict(second.query(HISTORY))
    assert all(after[kind] >= number for kind, number in before)
    with use_database(first.name):
        call_command("project", "delete", "moving", "--yes-delete", "moving")
        assert not Task.objects.filter(agent__name="mover").exists()
