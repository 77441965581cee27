"""Throwaway Postgres and Redis: a pytest plugin, named early enough to be there before settings.

`python -m tests.services -- COMMAND` runs any other program with them. Each test process has
servers of its own: with pytest-xdist every worker, so that a test may restart them.
"""

import atexit
import fcntl
import gc
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from config.environment import PREFIX, TESTS
from config.local import embedded, places
from config.local.commands import Command, run_once
from config.local.embedded import Servers
from config.local.places import PROJECT, Place
from tests.waiting import PATIENCE_S

# Settings of the terminal that hold for tests, too; they do not see any other of ours.
PASSED_ON = {PREFIX + name for name in TESTS}
# Tells the workers of pytest-xdist which folder is the project's: TENFOUR_DATA is a run's own.
OUTER_DATA = "TEST_DATA"
# The migrated database of a copied cluster, and one for tests that copy it.
DATABASE = "test_tenfour"
MIGRATED = "migrated"
# More than this many workers start more servers and browsers than they save time.
MOST_WORKERS = 8


@dataclass
class Throwaway:
    """The two servers of this process; `processes` holds those that run at the moment."""

    servers: Servers
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Start servers and wait until they answer."""
        for name in names:
            self.launch(name)
        for name in names:
            self.wait_for(name)

    def launch(self, name: str) -> None:
        command = self.commands()[name][0]
        with self.log(name).open("ab") as out:
            process = subprocess.Popen(command.argv, stdout=out, stderr=out, **command.options())
        self.processes[name] = process

    def wait_for(self, name: str) -> None:
        _, answers, port = self.commands()[name]
        process = self.processes[name]
        while not answers(port):
            if process.poll() is not None:
                sys.exit(f"{name} ended with {process.returncode}:\n{self.log(name).read_text()}")
            time.sleep(0.01)

    def log(self, name: str) -> Path:
        return self.servers.place.home / f"{name}.log"

    def stop(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process:
            process.send_signal(self.commands()[name][0].stop)
            process.wait(timeout=PATIENCE_S)

    def commands(self) -> dict[str, tuple[Command, Callable[[int], bool], int]]:
        mine = self.servers
        return {
            "postgres": (mine.postgres_command(), embedded.postgres_answers, mine.postgres.port),
            "redis": (mine.redis_command(), embedded.redis_answers, mine.redis.port),
        }

    def stop_all(self) -> None:
        for name in list(self.processes):
            self.stop(name)

    def remove(self) -> None:
        self.stop_all()
        for folder in {self.servers.place.data, self.servers.place.home}:
            shutil.rmtree(folder, ignore_errors=True)


running: Throwaway | None = None


def ours() -> Throwaway:
    assert running, "these tests run on servers that were given to them"
    return running


def restart_postgres() -> None:
    ours().stop("postgres")
    ours().start("postgres")


def stop_redis() -> None:
    ours().stop("redis")


def start_redis() -> None:
    ours().start("redis")


# ---- the migrated cluster that each run copies


def template_digest() -> str:
    """Return a name for everything that decides what a migrated cluster holds."""
    pinned = PROJECT / "requirements" / "tests.lock"  # Django's migrations, Postgres' version
    code = [Path(__file__), Path(embedded.__file__)]
    migrations = sorted(PROJECT.glob("*/migrations/*.py"))
    digest = hashlib.sha256()
    for path in (pinned, *code, *migrations):
        digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def template(outer: Place) -> Path:
    """Return the folder with the migrated cluster; build it where there is none yet."""
    target = outer.home / f"test-template-{template_digest()}"
    with locked(outer.data / "test-template.lock"):
        if not target.exists():
            for old in outer.home.glob("test-template-*"):
                shutil.rmtree(old)
            build_template(outer, target)
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock among processes: the first builds, the others wait."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# with a provider, so that the tables of single sign-on are made, which tests always load
SIGN_ON = {
    "TENFOUR_OIDC_ISSUER": "https://sso.example.com",
    "TENFOUR_OIDC_CLIENT_ID": "tenfour",
    "TENFOUR_OIDC_SECRET": "unused",
}


def build_template(outer: Place, target: Path) -> None:
    """Make a cluster, migrate its database and put it in place in one step."""
    aside = outer.folder("test-template.new")
    shutil.rmtree(aside)
    place = Place(data=outer.data, home=outer.folder(aside.name), user=outer.user)
    made = Throwaway(embedded.throwaway_servers(place, embedded.binaries(outer)))
    made.servers.create()
    places.write_private(aside / "password", made.servers.postgres.password)
    made.start("postgres")
    try:
        env = os.environ | environment(made.servers.urls, outer.data) | SIGN_ON
        migrate = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity=0"]
        if subprocess.run(migrate, cwd=PROJECT, env=env).returncode:
            raise places.Refused("The migrations fail on an empty database: see above.")
    finally:
        made.stop_all()
    # Commands that tests start find an empty database under the name that the URL gives.
    swap = f"""alter database tenfour rename to {DATABASE};
create database tenfour owner tenfour;
create database {MIGRATED} template {DATABASE} owner tenfour;
grant set on parameter session_replication_role to tenfour;
"""  # the last, so that rows can be deleted between tests without triggers
    single = made.servers.postgres_program("--single", "-D", str(aside / "pg"), "postgres")
    run_once(single, swap)
    aside.rename(target)


def copied_servers(outer: Place, place: Place) -> Servers:
    """Return servers on a copy of the migrated cluster."""
    source = template(outer)
    # cp keeps the owner, and copies faster than Python.
    subprocess.run(["cp", "-a", str(source / "pg"), str(place.home / "pg")], check=True)
    postgres = embedded.stored_server({"password": (source / "password").read_text()})
    return Servers(
        place, embedded.binaries(outer), postgres, embedded.stored_server({}), throwaway=True
    )


def copy_migrated(data: Path) -> None:
    """Give a new data folder a migrated database, as an instance that ran once has left it."""
    if not running:
        return
    source = template(places.place_of(Path(os.environ[OUTER_DATA])))
    place = places.place_of(data)
    subprocess.run(["cp", "-a", str(source / "pg"), str(place.home / "pg")], check=True)
    known = {"postgres": {"password": (source / "password").read_text()}}
    places.write_private(place.home / "servers.json", json.dumps(known))
    statements = f"""drop database {DATABASE};
drop database tenfour;
alter database {MIGRATED} rename to tenfour;
"""
    servers = embedded.servers_of(place)
    folder = str(place.home / "pg")
    run_once(servers.postgres_program("--single", "-D", folder, "postgres"), statements)


# ---- boot


def sweep(folder: Path) -> None:
    """Remove what earlier runs left that were killed."""
    for left in folder.glob("test-*"):
        with suppress(ValueError):
            if not Path(f"/proc/{int(left.name.removeprefix('test-'))}").exists():
                shutil.rmtree(left, ignore_errors=True)


def place_for_tests(outer: Place) -> Place:
    """A place inside the project's own, named after this process."""
    for folder in {outer.data, outer.home}:
        sweep(folder)
    name = f"test-{os.getpid()}"
    return Place(
        data=places.open_folder(outer.data / name, outer.user),
        home=places.open_folder(outer.home / name, outer.user),
        user=outer.user,
    )


def prepare() -> None:
    """Make both servers ready to start, and tell settings of them."""
    global running
    named = os.environ.get(OUTER_DATA) or os.environ.get("TENFOUR_DATA")
    outer = places.place_of(Path(named or PROJECT / ".tenfour").resolve())
    place = place_for_tests(outer)
    os.environ[OUTER_DATA] = str(outer.data)
    running = Throwaway(copied_servers(outer, place))
    atexit.register(running.remove)
    running.servers.create()
    use(running.servers.urls, place.data)


def environment(urls: dict[str, str], data: Path) -> dict[str, str]:
    return urls | {"TENFOUR_DATA": str(data), "TENFOUR_SECRET_KEY": secrets.token_urlsafe(48)}


def use(urls: dict[str, str], data: Path) -> None:
    """Tell settings of the servers, and hide from them what the terminal has set."""
    ours = [name for name in os.environ if name.startswith("TENFOUR_") and name not in PASSED_ON]
    for name in ours:
        del os.environ[name]
    os.environ |= environment(urls, data)


def use_given() -> bool:
    """Use the servers that TEST_DATABASE_URL and TEST_REDIS_URL name; return whether they do."""
    urls = {name: os.environ.get(f"TEST_{name}", "") for name in ("DATABASE_URL", "REDIS_URL")}
    if not all(urls.values()):
        return False
    # pytest-django gives each worker a database, but all would share one number of Redis.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    redis = urlsplit(urls["REDIS_URL"])
    number = int(redis.path.strip("/") or 0) + int(worker)
    urls["REDIS_URL"] = redis._replace(path=f"/{number}").geturl()
    data = PROJECT / ".tenfour" / f"test-{os.getpid()}"
    data.mkdir(mode=0o700, parents=True)
    atexit.register(shutil.rmtree, data, ignore_errors=True)
    use(urls, data)
    return True


gc.disable()  # until the tests are collected, which leaves little garbage and millions of objects
if not use_given():
    try:
        prepare()
    except places.Refused as refusal:
        sys.exit(str(refusal))


# ---- as a plugin


def is_controller(config: pytest.Config) -> bool:
    """Whether the tests run in the workers of pytest-xdist, and none here."""
    distributed = config.getoption("dist", "no") != "no"
    return distributed and not hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Launch the servers, which start while tests are collected; keep temporary files with them."""
    # a space, because the project's path may have one
    folder = Path(os.environ["TENFOUR_DATA"]) / "tmp of tests"
    config.option.basetemp = config.option.basetemp or folder
    if running and not is_controller(config) and not config.option.collectonly:
        running.launch("redis")
        running.launch("postgres")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no later collection of garbage look at the modules and the tests."""
    found = yield
    gc.freeze()
    gc.enable()
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], object]:
    """Look for doctests only in files with a prompt: a look into each takes seconds."""
    found = yield
    has_prompt = file_path.suffix == ".py" and b">>>" in file_path.read_bytes()
    return found if has_prompt else [each for each in found if type(each) is pytest.Module]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    if running:
        for name in list(running.processes):
            running.wait_for(name)


def pytest_unconfigure() -> None:
    if running:
        running.remove()


@pytest.hookimpl(tryfirst=True, optionalhook=True)  # or pytest-xdist's own is asked first
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two workers per core for whole folders; 0, for this process, where tests are picked."""
    option = config.option
    picked = option.keyword or option.markexpr or getattr(option, "lf", False)
    if picked or not all(Path(name).is_dir() for name in config.args):
        return 0  # the workers would take longer to start than the tests to run
    return min(2 * len(os.sched_getaffinity(0)), MOST_WORKERS)  # tests wait most of their time


def main(argv: list[str]) -> int:
    command = argv[1:] if argv[:1] == ["--"] else argv
    if running:
        running.start("redis", "postgres")
    return subprocess.run(command, cwd=PROJECT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
