"""Root's `make up`: no process of Tenfour has root's rights (SEC-8)."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.local import listeners, places, unprivileged
from config.local.commands import Command
from config.local.places import Place, Refused
from tests.config.local.test_up import Instance, data_folder
from tests.services import copy_migrated
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")
PACKAGES = sysconfig.get_path("purelib")


def open_python(folder: Path) -> tuple[str, dict[str, str]]:
    """Return a Python that every user can run, with its variables: this one, or a copy of it."""
    user, python = places.unprivileged(), Path(sys.executable).resolve()
    assert user
    if places.enterable(python.parent, user):
        return sys.executable, {}
    library = Path(sysconfig.get_path("stdlib"))
    unused = ("site-packages", "test", "config-*", "idlelib", "tkinter", "ensurepip", "lib2to3")
    ignored = shutil.ignore_patterns(*unused)
    shutil.copytree(library, folder / "lib" / library.name, ignore=ignored)
    (folder / "bin").mkdir()
    shutil.copy(python, folder / "bin" / python.name)
    for shared in library.parent.glob("libpython*.so.*"):
        shutil.copy(shared, folder / "lib")
    for each in (folder, *folder.rglob("*")):
        each.chmod(each.stat().st_mode | (0o555 if each.is_dir() else 0o444))
    return str(folder / "bin" / python.name), {
        "PYTHONHOME": str(folder),
        "LD_LIBRARY_PATH": str(folder / "lib"),
    }


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    """Root's Tenfour, on data of an earlier version whose static files and archive are root's."""
    python, variables = open_python(data_folder("python"))
    data = data_folder("as nobody")
    for name in ("static", "archive/default"):
        (data / name).mkdir(mode=0o700, parents=True)
    (data / "archive" / "default" / "event.jsonl").write_text("")
    copy_migrated(data)
    running = Instance(data, PYTHONPATH=PACKAGES, **variables)
    running.python = python
    yield running.start()
    running.end(signal.SIGTERM)


def test_no_process_below_the_supervisor_is_roots(instance: Instance) -> None:
    """The web server, the worker and the clock are the user's, with all that they start."""
    names = ("config.web_server", "celery_processes worker", "celery_processes beat", "postgres")
    wait_until(lambda: all(instance.child(each) for each in names), instance.said)
    user = places.unprivileged()
    assert user
    found = {
        words: (Path(f"/proc/{pid}").stat().st_uid, Path(f"/proc/{pid}").stat().st_gid)
        for pid, words in instance.family().items()
        if Path(f"/proc/{pid}/cmdline").exists()
    }
    assert len(found) >= 5 and set(found.values()) == {(user.uid, user.gid)}, found
    assert "WARNING" not in instance.said() and instance.status() == 200


def test_the_processes_own_what_they_write(instance: Instance) -> None:
    """Secrets and credentials stay root's, and no process can replace them."""
    user, data = places.unprivileged(), instance.data
    assert user
    for name in ("static", "archive", "archive/default/event.jsonl", "run"):
        assert (data / name).stat().st_uid == user.uid, name
    for name in ("env", "credentials", "secret_key", "servers.json", "running.json", "lock"):
        kept = (data / name).stat()
        assert (kept.st_uid, stat.S_IMODE(kept.st_mode)) == (0, 0o600), name
    assert data.stat().st_uid == 0 and stat.S_IMODE(data.stat().st_mode) == 0o710
    assert any((data / "run").glob("metrics-*")) and any((data / "static").iterdir())


def test_a_command_of_root_still_works(instance: Instance) -> None:
    """`manage.py` reads root's files and the servers' data."""
    file = instance.data.with_name("a backup")
    done = subprocess.run(
        [instance.python, "manage.py", "backup", str(file)],
        cwd=places.PROJECT,
        env=instance.env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (file.stat().st_uid, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)


def test_a_python_that_the_user_cannot_run_is_named_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root runs Tenfour all the same, and the start says what to do."""
    monkeypatch.delenv("TENFOUR_RUN_AS", raising=False)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(closed / "python"))
    account = unprivileged.choose_account(Place(tmp_path, tmp_path, places.unprivileged()))
    assert account.user is None
    (warning,) = account.warnings
    assert "run as ROOT" in warning and str(closed) in warning and str(places.PROJECT) in warning


def test_a_port_below_1024_has_one_listener_for_another_user() -> None:
    """The user of the web server can't bind such a port again; a higher one is shared."""
    user = places.unprivileged()
    assert user
    for low, port in ((True, 783), (False, 0)):
        with listeners.open_listener("127.0.0.1", port) as listener:
            os.fchown(listener.fileno(), user.uid, user.gid)
            code = (
                "import socket, sys; from config.local import listeners\n"
                "found = listeners.open_more_listeners(socket.socket(fileno=int(sys.argv[1])), 1)\n"
                "sys.exit(len(found))"
            )
            command = Command(
                ["/usr/bin/python3", "-c", code, str(listener.fileno())],
                user=user,
                fds=(listener.fileno(),),
            )
            done = subprocess.run(command.argv, **command.options(), capture_output=True)
            assert done.returncode == (0 if low else 1), done.stderr


def test_links_are_not_followed(tmp_path: Path) -> None:
    """The user of the processes may own the folder, and what a link names is not theirs."""
    place = Place(tmp_path, tmp_path, places.unprivileged())
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("root's")
    (tmp_path / "run").symlink_to(outside)
    for change in (place.folder, place.adopt):
        with pytest.raises(Refused, match="is a link"):
            change("run")
    inside = place.folder("static")
    (inside / "link").symlink_to(outside / "file")
    (inside / "second name").hardlink_to(outside / "file")
    (inside / "own").write_text("")
    place.adopt("static")
    assert place.user and (inside / "own").stat().st_uid == place.user.uid
    assert {each.stat().st_uid for each in (outside, outside / "file")} == {0}


def test_secrets_from_files_are_handed_over(tmp_path: Path) -> None:
    """The user of the processes can't read root's files."""
    file = tmp_path / "key"
    file.write_text("k" * 40 + "\n")
    place = Place(tmp_path, tmp_path, places.unprivileged())
    given = {"TENFOUR_SECRET_KEY_FILE": str(file), "TENFOUR_HEARTBEAT_FILE": "/run/beat"}
    changed = unprivileged.list_variables(place, given)
    assert changed["TENFOUR_SECRET_KEY"] == "k" * 40 and not changed["TENFOUR_SECRET_KEY_FILE"]
    assert "TENFOUR_HEARTBEAT_FILE" not in changed
