"""Checks and trees in the reports of the client: what a task that is done rests on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tenfour import AsyncClient, Client

from ledger.models import Attempt, Task
from tests.client.conftest import Run
from tests.client.test_attempts import next_of
from tests.client.test_hook_evidence import app as app
from tests.loops import run_coroutine
from tests.serving import Tenfour

VERIFY = {"verify": {"command": "test -f a.py"}}


@pytest.fixture
def coder(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("agent", "coder") as client:
        yield client


def proof() -> str | None:
    task = Task.objects.get()
    assert task.state == "done"
    return task.proof


def test_a_check_that_passed_on_the_files_that_are_left_is_a_proof(
    producer: Client, coder: Client, app: Path
) -> None:
    producer.tasks.enqueue("coder", "code", VERIFY)
    with next_of(coder) as attempt:
        (app / "b.py").write_text("b = 1\n")
        attempt.verify(cwd=str(app))
    stored = Attempt.objects.get()
    (check,) = stored.checks
    assert (proof(), check["exit_code"], check["seen_by"]) == ("proven", 0, "client")
    assert check["cwd"] == str(app)
    assert check["tree"] == stored.tree and stored.tree["files"] == 1


def test_a_check_that_passed_before_a_change_is_stale(
    producer: Client, coder: Client, app: Path
) -> None:
    producer.tasks.enqueue("coder", "code", VERIFY)
    with next_of(coder) as attempt:
        attempt.verify(cwd=str(app))
        (app / "b.py").write_text("b = 1\n")
        attempt.done({"n": 1})
    assert proof() == "stale"


def test_a_change_is_found_behind_a_check_that_has_no_tree(
    producer: Client, coder: Client, app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    producer.tasks.enqueue("coder", "code", VERIFY)
    with next_of(coder) as attempt:
        attempt.verify(cwd=str(app))
        attempt.verify("true", cwd=str(tmp_path))
        (app / "b.py").write_text("b = 1\n")
    assert proof() == "stale"


def test_the_next_attempt_reports_no_check_of_the_one_that_asked(
    tenfour_server: Tenfour, producer: Client, coder: Client, app: Path
) -> None:
    producer.tasks.enqueue("coder", "code", VERIFY)
    with next_of(coder) as attempt, tenfour_server.client("operator") as operator:
        attempt.verify(cwd=str(app))
        question = attempt.ask("Rename it?")
        operator.escalations.resolve(question.id, text="answer: yes")
        question.wait(every_s=0.05)
    assert proof() == "claimed"
    assert not Attempt.objects.get(pk=attempt.id).checks


def test_the_async_client_sends_the_same(
    tenfour_server: Tenfour, producer: Client, app: Path
) -> None:
    given = tenfour_server.url, tenfour_server.token("agent", "coder")
    producer.tasks.enqueue("coder", "code", VERIFY)

    async def work() -> None:
        async with AsyncClient(*given) as client:
            async for attempt in client.attempts():
                async with attempt:
                    await attempt.verify(cwd=str(app))
                break

    run_coroutine(work())
    assert proof() == "proven" and Attempt.objects.get().tree is not None


def test_outside_a_repository_a_check_has_no_tree(
    producer: Client, coder: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "a.py").touch()
    producer.tasks.enqueue("coder", "code", VERIFY)
    with next_of(coder) as attempt:
        attempt.verify(cwd=str(tmp_path))
    (check,) = Attempt.objects.get().checks
    assert (proof(), check["tree"], Attempt.objects.get().tree) == ("proven", None, None)


def test_a_failed_check_is_stored_with_its_failure(
    producer: Client, coder: Client, app: Path
) -> None:
    producer.tasks.enqueue("coder", "code", VERIFY)
    with next_of(coder) as attempt:
        (app / "a.py").unlink()
        attempt.verify(cwd=str(app))
    (check,) = Attempt.objects.get().checks
    assert (check["exit_code"], check["tree"]["files"]) == (1, 1)


def test_tenfour_run_proves_what_it_verified(
    producer: Client, tenfour_server: Tenfour, run: Run, app: Path
) -> None:
    env = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }
    task = producer.tasks.enqueue("coder", "code", VERIFY)
    ran = run("run", "--task", task.id, "--", "touch", "b.py", env=env, cwd=app)
    assert ran.status == 0, ran.err
    stored = Attempt.objects.get()
    assert proof() == "proven" and stored.tree == stored.checks[0]["tree"]
    assert stored.tree["files"] == 1
