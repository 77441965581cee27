"""Every fenced command of README and docs runs as printed, against an instance of `make up`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from config.local.embedded import free_port
from config.local.places import PROJECT
from tests.docs.pages import blocks, pages, script
from tests.services import copy_migrated
from tests.serving import ROOT
from tests.waiting import PATIENCE_S

# A page has dozens of commands, and some start a server of their own.
LIMIT_S = 900
# A page's commands claim the agent's next task, which must not be another page's.
ABORT_OPEN_TASKS = """
. .tenfour/credentials
TENFOUR_TOKEN=$TENFOUR_OPERATOR_TOKEN .venv/bin/python - <<'END_OF_PYTHON'
from tenfour import Client

with Client() as client:
    for task in client.tasks.list(state="queued,retry,running"):
        client.tasks.abort(task.id)
END_OF_PYTHON
"""


@dataclass(frozen=True)
class Instance:
    """A running `make up` with a data folder and a working folder of its own."""

    folder: Path
    url: str
    env: dict[str, str]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """Start Tenfour as the README says; its folder looks like the project's, with fresh data.

    A test of `make up` itself begins without a database.
    """
    folder = tmp_path_factory.mktemp("docs")
    for entry in ROOT.iterdir():
        if entry.name not in (".tenfour", ".git"):
            (folder / entry.name).symlink_to(entry)
    port = free_port()
    env = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HOME": str(folder),
        "PROJECT": str(PROJECT),
        "TENFOUR_DATA": str(folder / ".tenfour"),
        "TENFOUR_PORT": str(port),
        "PYTHONUNBUFFERED": "1",  # so that a program's text is seen as soon as it is printed
        "TENFOUR_BIND": "127.0.0.1:0",  # for a second web server beside the first
    }
    copy_migrated(folder / ".tenfour")
    log = folder / "make-up.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["make", "-C", str(PROJECT), "up"],
            env={name: value for name, value in env.items() if name != "TENFOUR_BIND"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + PATIENCE_S
        while "ready in" not in log.read_text():
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield Instance(folder, f"http://127.0.0.1:{port}", env)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=PATIENCE_S)
        remove = [sys.executable, "-m", "config.local.up", "--remove"]
        subprocess.run(remove, cwd=PROJECT, env=env, check=True)


@pytest.mark.timeout(LIMIT_S + 2 * PATIENCE_S)
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_commands_of_a_page_run_as_printed(page: Path, instance: Instance) -> None:
    run(instance, f"export TENFOUR_URL={instance.url}{ABORT_OPEN_TASKS}")
    run(instance, script(page, url=instance.url))


def run(instance: Instance, text: str) -> None:
    """Run a script in the instance's folder."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=instance.folder,
        env=instance.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{text}\n\n----\n{done.stdout}"


def test_there_are_commands_on_the_pages_for_newcomers() -> None:
    """A change to the fences that leaves out all commands is noticed."""
    for name in ("README.md", "docs/first-instruction.md", "docs/answering.md", "docs/plans.md"):
        found = [block for block in blocks(ROOT / name) if block.language in ("sh", "python")]
        assert len(found) >= 2, name
    guide = blocks(ROOT / "docs" / "client-guide.md")
    assert sum(block.language == "python" for block in guide) == 3
