"""`tenfour plan sync`: the file's edits are merged, and its boxes say what is done."""

import subprocess
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client
from tenfour.http.problems import TenfourError
from tenfour.models import ImportedPlan
from tenfour.nouns.plans import plan_sync

from ledger.models import Task
from tests.client.conftest import Run
from tests.serving import Tenfour, environment
from tests.waiting import PATIENCE_S, wait_until

ARGS = ("--ref", "03-01", "--agent", "coder")
LIST = "# P\n\nProse with [ ] in it.\n\n- [ ] Alpha\n  - [ ] first step\n- [ ] Beta\n- [ ] Gamma\n"


@pytest.fixture
def env(tenfour_server: Tenfour, agent_client: Client) -> dict[str, str]:
    agent_client.me()
    return {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("orchestrator"),
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.md"
    path.write_text(LIST)
    return path


def finish(agent: Client, count: int = 1, **more: Any) -> None:
    """Do the next tasks."""
    for _ in range(count):
        (claim,) = agent.tasks.claim()
        agent.tasks.report(claim.attempt.id, "success", **more)


def states(producer: Client) -> dict[str, str]:
    (plan,) = producer.plans.list(ref="03-01")
    return {task.title: task.state for task in producer.plans.get(plan.id or "").tasks}


def test_it_goes_both_ways(
    run: Run, env: dict[str, str], file: Path, agent_client: Client, producer: Client
) -> None:
    first = run("plan", "sync", str(file), *ARGS, env=env)
    assert (first.status, file.read_text()) == (0, LIST), first.err
    assert "added      03-01:task-3" in first.out
    finish(agent_client)
    check = run("plan", "sync", str(file), *ARGS, "--check", env=env)
    assert (check.status, file.read_text()) == (3, LIST)
    assert (
        check.out.splitlines()[-6:]
        == [
            f"--- {file}",
            f"+++ {file}",
            "@@ -5,2 +5,2 @@",
            "-- [ ] Alpha",
            "-  - [ ] first step",
            "+- [x] Alpha",
            "+  - [x] first step",
        ][-6:]
    )
    file.write_text(LIST.replace("- [ ] Beta\n", "- [ ] Beta\n- [ ] Delta\n"))
    synced = run("plan", "sync", str(file), *ARGS, env=env)
    assert synced.status == 0 and "added      03-01:task-4" in synced.out, synced.err
    assert file.read_text() == LIST.replace("[ ] Alpha", "[x] Alpha").replace(
        "[ ] first", "[x] first"
    ).replace("- [ ] Beta\n", "- [ ] Beta\n- [ ] Delta\n")
    assert states(producer) == {
        "Alpha": "done",
        "Beta": "queued",
        "Gamma": "blocked",
        "Delta": "blocked",
    }
    (plan,) = producer.plans.list(ref="03-01")
    assert plan.file_agreed_at
    again = run("plan", "sync", str(file), *ARGS, "--check", env=env)
    assert (again.status, again.out) == (0, ""), again.out
    assert list(file.parent.iterdir()) == [file]


FORMATS = {
    "openspec": "## 1. Setup\n\n- [ ] 1.1 Make the folder\n- [ ] 1.2 Write the file\n",
    "spec-kit": "## Phase 1\n\n- [ ] T001 [P] [US1] Model in a.py\n- [ ] T002 Use it (depends on T001)\n",
    "kiro": "- [ ] 1. Set up\n  - _Requirements: 1.1_\n- [ ] 2. Build\n- [ ]* 3. Test\n",
    "github": "Intro\n\n* [ ] One\n* [ ] Two\n1. [ ] Three\n",
    "headings": "### Task 1: One\n\n- [ ] Test\n- [ ] Code\n\n### [ ] Task 2: Two\n\nText.\n",
    "crlf": "\ufeff# P\r\n\r\n- [ ] Äpfel\r\n  - [ ] schälen\r\n+ [] Zwei\r\n\t- [ ] tief",
    "drawn": "☐ One\n☐ Two\n- [~] Three\n-[ ] Four\n",
    "comments": "<!-- - [ ] not this -->\n- [ ] One <!-- [ ] -->\n```\n- [ ] nor this\n```\n- [ ] Two\n",
}


@pytest.mark.parametrize("form", FORMATS)
def test_only_boxes_change_in_any_format(
    run: Run, env: dict[str, str], file: Path, agent_client: Client, producer: Client, form: str
) -> None:
    before = FORMATS[form].encode()
    file.write_bytes(before)
    file.chmod(0o640)
    assert run("plan", "sync", str(file), *ARGS, env=env).status == 0
    assert file.read_bytes() == before
    count = len(states(producer))
    for done in range(1, count + 1):
        finish(agent_client)
        synced = run("plan", "sync", str(file), *ARGS, env=env)
        assert synced.status == 0, synced.err
        after = file.read_bytes()
        assert after != before and count_ticked(after) >= done
        assert unticked(after) == unticked(before)
    assert set(states(producer).values()) == {"done"}
    assert run("plan", "sync", str(file), *ARGS, "--check", env=env).status == 0
    assert file.stat().st_mode & 0o777 == 0o640


def count_ticked(data: bytes) -> int:
    text = data.decode()
    return text.count("[x]") + text.count("☑")


def unticked(data: bytes) -> str:
    """Return the text with every box in one form."""
    text = data.decode()
    for box in ("[x]", "[]", "[~]"):
        text = text.replace(box, "[ ]")
    return text.replace("☑", "☐")


TASK_MASTER = '{"tasks": [{"id": 1, "title": "One", "status": "pending", "details": "%s"}]}'


@pytest.mark.parametrize(
    ("name", "text", "edited"),
    [
        ("plan.yaml", "tasks:\n  - title: One\n", "tasks:\n  - title: One\n    action: Do\n"),
        ("tasks.json", TASK_MASTER % "", TASK_MASTER % "Do it"),
    ],
)
def test_a_format_without_boxes_says_so(
    run: Run,
    env: dict[str, str],
    tmp_path: Path,
    agent_client: Client,
    name: str,
    text: str,
    edited: str,
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert run("plan", "sync", str(file), *ARGS, env=env).status == 0
    finish(agent_client)
    file.write_text(edited)
    synced = run("plan", "sync", str(file), *ARGS, env=env)
    assert synced.status == 0 and "This format has no boxes" in synced.err, synced.err
    assert file.read_text() == edited


def test_what_only_the_agent_says_stays_open_where_asked(
    run: Run, env: dict[str, str], file: Path, agent_client: Client
) -> None:
    run("plan", "sync", str(file), *ARGS, env=env)
    Task.objects.update(payload={"action": "Write it.", "verify": {"command": "make test"}})
    finish(agent_client)
    finish(agent_client, verification={"exit_code": 0})
    run("plan", "sync", str(file), *ARGS, "--proven", env=env)
    assert file.read_text() == LIST.replace("[ ] Beta", "[x] Beta")
    assert run("plan", "sync", str(file), *ARGS, "--proven", "--check", env=env).status == 0
    assert run("plan", "sync", str(file), *ARGS, "--check", env=env).status == 3


def test_a_conflict_is_shown_and_nothing_is_written(
    run: Run, env: dict[str, str], file: Path, agent_client: Client, producer: Client
) -> None:
    run("plan", "sync", str(file), *ARGS, env=env)
    finish(agent_client)
    edited = LIST.replace("Alpha", "Something else")
    file.write_text(edited)
    refused = run("plan", "sync", str(file), *ARGS, env=env)
    assert (refused.status, file.read_text()) == (1, edited)
    assert "'Alpha' has started" in refused.err and "Something else" in refused.err
    assert "Something else" not in states(producer)
    settled = run("plan", "sync", str(file), *ARGS, "--pair", "task-1=task-1", env=env)
    assert settled.status == 0
    assert "- [x] Something else\n" in file.read_text()


def test_a_step_that_was_added_later_stays_open_and_becomes_a_task(
    run: Run, env: dict[str, str], file: Path, agent_client: Client, producer: Client
) -> None:
    run("plan", "sync", str(file), *ARGS, env=env)
    (claim,) = agent_client.tasks.claim()
    file.write_text(LIST.replace("first step\n", "first step\n  - [ ] later step\n"))
    run("plan", "sync", str(file), *ARGS, env=env)
    agent_client.tasks.report(claim.attempt.id, "success")
    synced = run("plan", "sync", str(file), *ARGS, env=env)
    assert "Line 7: 03-01:task-1 is done, but this step was added after it started." in synced.err
    assert "- [x] Alpha\n  - [x] first step\n  - [ ] later step\n" in file.read_text()
    assert states(producer)["later step"] in ("queued", "blocked")


# ---- at the same time


class Editor(plan_sync.SyncedFile):
    """A sync during whose first merges an editor saves the file."""

    saves: list[str]

    def _merge(self, data: bytes, *, dry_run: bool = False) -> ImportedPlan:
        found = super()._merge(data, dry_run=dry_run)
        if self.saves and dry_run:
            self._path.write_text(self.saves.pop(0))
        return found


def options(file: Path, **more: Any) -> Namespace:
    known: dict[str, Any] = {
        name: None for name in ("agent", "ref", "register", "allow_missing_needs", "pair")
    }
    known |= {"file": str(file), "proven": False, "check": False, "watch": False, "yes": True}
    return Namespace(**known | {"agent": "coder", "ref": "03-01"} | more)


def test_what_an_editor_saves_meanwhile_is_kept(
    file: Path, agent_client: Client, producer: Client
) -> None:
    agent_client.me()
    sync = Editor(producer, options(file))
    sync.saves = []
    sync.sync()
    finish(agent_client)
    sync.saves = [LIST + "- [ ] Saved\n"]
    assert sync.sync() == 0
    text = file.read_text()
    assert "- [x] Alpha" in text and text.endswith("- [ ] Saved\n")
    assert "Saved" in states(producer)
    finish(agent_client)
    before = [f"{text}- [ ] Draft {n}\n" for n in range(20)]
    sync.saves = list(before)
    with pytest.raises(TenfourError, match="changes all the time"):
        sync.sync()
    assert file.read_text() in before
    assert list(file.parent.iterdir()) == [file]


def test_many_syncs_at_once(
    run: Run, env: dict[str, str], file: Path, agent_client: Client, producer: Client
) -> None:
    run("plan", "sync", str(file), *ARGS, env=env)
    finish(agent_client, 2)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(run, "plan", "sync", str(file), *ARGS, env=env) for _ in range(4)]
        finish(agent_client)
        ended = [call.result() for call in calls]
    assert {each.status for each in ended} == {0}, [each.err for each in ended]
    assert run("plan", "sync", str(file), *ARGS, env=env).status == 0
    text = file.read_text()
    assert text == LIST.replace("- [ ]", "- [x]")
    assert set(states(producer).values()) == {"done"}


def test_watch(env: dict[str, str], file: Path, agent_client: Client, producer: Client) -> None:
    argv = [sys.executable, "-m", "tenfour", "plan", "sync", str(file), *ARGS]
    process = subprocess.Popen(
        [*argv, "--watch", "--every", "0.05"],
        env=environment(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: list(producer.plans.list(ref="03-01")))
        finish(agent_client)
        wait_until(lambda: "- [x] Alpha" in file.read_text())
        file.write_text(file.read_text() + "- [ ] Omega\n")
        wait_until(lambda: "Omega" in states(producer))
        file.write_text("no tasks in here")
        file.write_text(LIST)
        wait_until(lambda: "- [x] Alpha" in file.read_text())
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
