"""`make up` as its user meets it: real processes, real signals, real files."""

import asyncio
import atexit
import json
import os
import pwd
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from config.local import embedded, places, processes, supervisor, up
from config.local.commands import Command, run_once
from config.local.places import PROJECT, Place, Refused
from tests.loops import run_coroutine
from tests.processes import stop_process
from tests.services import copy_migrated
from tests.serving import make_database
from tests.waiting import PATIENCE_S, wait_until

OURS = {"DATABASE_URL", "REDIS_URL"}


class Instance:
    """One `python -m config.local.up` on a data folder of its own."""

    def __init__(self, data: Path, **env: str) -> None:
        self.data, self.log = data, data.with_name(f"{data.name}.log")
        self.port = env.setdefault("TENFOUR_PORT", str(embedded.free_port()))
        inherited = {k: v for k, v in os.environ.items() if k not in OURS and "TENFOUR_" not in k}
        self.env = inherited | env | {"TENFOUR_DATA": str(data)}
        self.process: subprocess.Popen[bytes] | None = None
        self.python = sys.executable

    def start(self) -> "Instance":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "config.local.up"],
                cwd=PROJECT,
                env=self.env,
                stdout=log,
                stderr=log,
            )
        atexit.register(self.process.terminate)  # a test that fails does not reach its end
        wait_until(self.is_ready, self.said)
        return self

    def is_ready(self) -> bool:
        assert self.process and self.process.poll() is None, self.said()
        return "ready in" in self.said()

    def again(self) -> "subprocess.CompletedProcess[str]":
        """What a second start says."""
        argv = [sys.executable, "-m", "config.local.up"]
        return subprocess.run(
            argv, cwd=PROJECT, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S
        )

    def said(self) -> str:
        return self.log.read_text()

    def status(self) -> int:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/healthz", timeout=PATIENCE_S
            ) as page:
                return int(page.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def family(self) -> dict[int, str]:
        """Every process below the supervisor, by its command line."""
        assert self.process
        parents = {pid: parent_of(pid) for pid in pids()}
        found = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return {pid: command_of(pid) for pid in found - {self.process.pid}}

    def child(self, words: str) -> int:
        """The process of that command which the supervisor itself started."""
        assert self.process
        mine = [
            p for p, c in self.family().items() if parent_of(p) == self.process.pid and words in c
        ]
        return mine[0] if mine else 0

    def end(self, sent: signal.Signals) -> None:
        """Signals the supervisor; returns when it and all others are gone."""
        assert self.process
        family = self.family()
        self.process.send_signal(sent)
        self.process.wait(timeout=PATIENCE_S)

        def alive() -> list[str]:  # an ended process that no one reaped has no command line
            return [command for command in map(command_of, family) if command]

        wait_until(lambda: not alive(), lambda: f"{alive()} did not end.\n{self.said()}")


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def children_of(pid: int) -> list[int]:
    return sorted(each for each in pids() if parent_of(each) == pid)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def data_folder(name: str) -> Path:
    """A folder that the user of the servers can reach, inside the one that this run removes."""
    return Path(os.environ["TENFOUR_DATA"]) / name


@pytest.fixture(scope="module")
def tenfour() -> Iterator[Instance]:
    """The instance that most tests look at; at its end Ctrl-C must leave nothing behind."""
    instance = Instance(data_folder("up")).start()
    yield instance
    instance.end(signal.SIGINT)
    assert instance.process and instance.process.returncode == 0
    assert instance.said().rstrip().endswith("stopped")
    assert not (instance.data / "running.json").exists()


def test_it_answers_when_it_says_that_it_is_ready(tenfour: Instance) -> None:
    assert tenfour.status() == 200


def test_every_part_of_it_runs(tenfour: Instance) -> None:
    parts = ("bin/postgres", "valkey-server", "config.web_server", "config.celery_processes worker")
    # another test may have killed Redis, and with it what can't go on without
    wait_until(
        lambda: all(tenfour.child(words) for words in (*parts, "config.celery_processes beat")),
        tenfour.said,
    )


def test_the_servers_run_without_rights(tenfour: Instance) -> None:
    for words in ("bin/postgres", "valkey-server"):
        owner = Path(f"/proc/{tenfour.child(words)}").stat()
        assert owner.st_uid != 0
        assert os.geteuid() or owner.st_gid != 0


def test_secrets_are_for_their_owner_alone(tenfour: Instance) -> None:
    """S3.46"""
    for name in ("env", "credentials", "secret_key", "servers.json", "running.json", "lock"):
        assert stat.S_IMODE((tenfour.data / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(tenfour.data.stat().st_mode) & 0o067 == 0
    for name in ("pg", "redis"):
        assert stat.S_IMODE((tenfour.data / name).stat().st_mode) == 0o700


def test_no_secret_stands_in_a_command_line(tenfour: Instance) -> None:
    servers = json.loads((tenfour.data / "servers.json").read_text())
    commands = " ".join(tenfour.family().values())
    assert servers["postgres"]["password"] not in commands
    assert servers["redis"]["password"] not in commands


def test_a_start_says_how_to_connect(tenfour: Instance) -> None:
    kept = dict(
        line.split("=", 1)
        for line in (tenfour.data / "credentials").read_text().splitlines()
        if not line.startswith("#")
    )
    text = tenfour.said()
    assert f"TENFOUR_URL=http://127.0.0.1:{tenfour.port}" in text
    assert ". .tenfour/" in text and "/credentials\n" in text
    assert kept["TENFOUR_PASSWORD"] not in text  # it is a file, which others may read
    assert "with the password in .tenfour/" in text
    for name in ("TENFOUR_AGENT_TOKEN", "TENFOUR_PRODUCER_TOKEN"):
        assert f"${name}" in text and kept[name] not in text


def test_a_token_of_the_first_start_opens_the_api(tenfour: Instance) -> None:
    token = (tenfour.data / "credentials").read_text().split("TENFOUR_AGENT_TOKEN=")[1].split()[0]
    request = urllib.request.Request(
        f"http://127.0.0.1:{tenfour.port}/v1/me", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert json.load(answer)["agent"] == "coder"


def test_a_second_start_says_that_it_runs_and_where(tenfour: Instance) -> None:
    second = tenfour.again()
    assert second.returncode == 0
    assert f"already runs here: http://127.0.0.1:{tenfour.port}/" in second.stdout
    assert tenfour.status() == 200


def test_a_taken_port_is_said_before_anything_starts(tenfour: Instance) -> None:
    other = Instance(data_folder("other"), TENFOUR_PORT=tenfour.port)
    second = other.again()
    assert second.returncode == 1
    assert f"Port {tenfour.port}" in second.stderr and "TENFOUR_PORT=" in second.stderr
    assert not (other.data / "pg").exists()


def test_data_cannot_be_removed_under_it(tenfour: Instance) -> None:
    with pytest.raises(Refused, match="running here"):
        places.remove(tenfour.data)


def test_make_clean_refuses_while_an_instance_with_other_data_runs(tenfour: Instance) -> None:
    """Its data would stay, but its programs in .venv would be removed."""
    assert tenfour.process
    other = data_folder("never made")
    argv = [sys.executable, "-m", "config.local.up", "--clean"]
    env = tenfour.env | {"TENFOUR_DATA": str(other)}
    done = subprocess.run(argv, cwd=PROJECT, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Tenfour is running from this folder" in done.stderr
    assert "kill -INT " in done.stderr and "Traceback" not in done.stderr


def test_a_refusal_names_the_processes_that_hold_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "GRACE", 1)
    held = places.lock(tmp_path)
    assert held
    with subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()]) as left:
        held.close()
        try:
            for refuse in (up.take, places.remove):
                with pytest.raises(Refused) as refusal:
                    refuse(tmp_path)
                assert f"{left.pid}  sleep 60" in str(refusal.value)
                assert f"kill -QUIT {left.pid}" in str(refusal.value)
        finally:
            left.kill()
    places.remove(tmp_path)


def test_the_address_of_a_killed_instance_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    """Another program may have got its process id."""
    running = {"pid": os.getpid(), "url": "http://127.0.0.1:1"}
    (tmp_path / "running.json").write_text(json.dumps(running))
    assert places.running_address(tmp_path) is None


@pytest.mark.parametrize("words", ["config.web_server", "valkey-server"])
def test_what_dies_is_started_again(tenfour: Instance, words: str) -> None:
    before = wait_until(lambda: tenfour.child(words))
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: tenfour.child(words) not in (0, before), tenfour.said)
    wait_until(lambda: tenfour.status() == 200, tenfour.said)
    assert "was killed; restarting" in tenfour.said()


@pytest.mark.parametrize(
    ("quick_ends", "lived", "wait"),
    [(0, 5, 0), (2, 5, 0), (4, 5, 3), (6, 5, 25), (99, 5, 25), (0, 0.1, 0.4), (6, 31, 0)],
)
def test_only_what_keeps_ending_at_its_start_waits_before_the_next(
    quick_ends: int, lived: float, wait: float
) -> None:
    """A worker that was killed starts again at once."""
    assert processes.compute_wait(quick_ends, lived) == pytest.approx(wait)


def test_a_killed_web_server_takes_its_workers_with_it(tenfour: Instance) -> None:
    """Even workers that are stuck; they would hold connections and locks."""
    before = tenfour.child("config.web_server")
    workers = children_of(before)
    assert workers
    for worker in workers:
        stop_process(worker)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: not any(map(command_of, workers)), tenfour.said)
    wait_until(lambda: tenfour.child("config.web_server") not in (0, before), tenfour.said)
    wait_until(lambda: tenfour.status() == 200, tenfour.said)


def test_a_killed_supervisor_takes_all_with_it_and_the_next_start_goes_on() -> None:
    data = data_folder('killed, with "quotes" and spaces')
    copy_migrated(data)
    instance = Instance(data).start()
    kept = (instance.data / "credentials").read_text()
    # SIGINT would hang a PostgreSQL that recovers from the death of one of its processes.
    # The oldest one stays; the newest may end before the signal.
    os.kill(children_of(instance.child("bin/postgres"))[0], signal.SIGKILL)
    instance.end(signal.SIGKILL)
    instance.start()
    assert (instance.data / "credentials").read_text() == kept
    # the next start says again how to sign in and connect (AGT-33)
    wait_until(lambda: "tenfour send coder" in instance.said())
    assert "as operator with the password in .tenfour/" in instance.said()
    assert "/agents/connect/\n" in instance.said()
    assert "revoked" not in instance.said()
    instance.end(signal.SIGTERM)


def test_given_servers_are_used_instead_of_its_own() -> None:
    with make_database("given", migrated=True) as url:
        given = {"DATABASE_URL": url, "REDIS_URL": os.environ["REDIS_URL"]}
        instance = Instance(data_folder("given"), **given).start()
        assert not instance.child("bin/postgres") and not instance.child("valkey-server")
        assert not (instance.data / "pg").exists()
        assert "DATABASE_URL" not in (instance.data / "env").read_text()
        instance.end(signal.SIGINT)


def test_one_given_server_without_the_other_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL")
    with pytest.raises(Refused, match="Only DATABASE_URL is set"):
        supervisor.has_external_servers()


def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOUR_PORT", "eighty")
    with pytest.raises(Refused, match="TENFOUR_PORT must be"):
        up.chosen_port()


def test_a_port_taken_since_the_last_start_is_replaced() -> None:
    with up.socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert embedded.stored_server({"port": port, "password": "kept"}).port != port
    assert embedded.stored_server({"port": port, "password": "kept"}) == embedded.Server(
        port, "kept"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user for the servers")
def test_root_in_a_closed_home_keeps_the_servers_data_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = data_folder("elsewhere")
    monkeypatch.setattr(places, "CLOSED_HOMES", elsewhere)
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    place = places.place_of(closed / ".tenfour")
    assert place.home.parent == elsewhere
    assert stat.S_IMODE(place.home.stat().st_mode) == 0o700
    assert (closed / ".tenfour" / "where").read_text().strip() == str(place.home)
    places.remove(place.data)
    assert not elsewhere.exists()


def test_the_first_password_is_printed_to_a_terminal_only(tenfour: Instance) -> None:
    credentials = tenfour.data / "credentials"
    password = credentials.read_text().split("TENFOUR_PASSWORD=")[1].split()[0]
    assert supervisor.welcome(credentials, "http://x", True).count(password) == 1
    assert password not in supervisor.welcome(credentials, "http://x", False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user for the servers")
def test_root_can_name_the_user_of_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data of an earlier start as `nobody` goes over to that user."""
    monkeypatch.delenv("TENFOUR_RUN_AS", raising=False)
    before = places.place_of(data_folder("run as"))
    cluster = before.folder("pg")
    before.own(write_file(cluster / "PG_VERSION"))
    assert before.user and before.user.uid == pwd.getpwnam("nobody").pw_uid
    monkeypatch.setenv("TENFOUR_RUN_AS", "daemon")
    daemon = pwd.getpwnam("daemon")
    assert places.unprivileged() == places.User(daemon.pw_uid, daemon.pw_gid)
    Place(before.data, before.home, places.unprivileged()).adopt("pg")
    assert (cluster / "PG_VERSION").stat().st_uid == cluster.stat().st_uid == daemon.pw_uid
    for name, words in [("root", "refuses to run as root"), ("not-there", "useradd --system")]:
        monkeypatch.setenv("TENFOUR_RUN_AS", name)
        with pytest.raises(Refused, match=words):
            places.unprivileged()


def write_file(path: Path) -> Path:
    path.write_text("18\n")
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user for the servers")
def test_programs_that_the_user_of_the_servers_cannot_reach_are_copied() -> None:
    user = places.unprivileged()
    home = places.open_folder(data_folder("copied"), user)
    place = Place(home, home, user)
    made = embedded.copy_programs(place, *embedded.wheels())
    for program in (made.postgres, made.redis):
        run_once(Command([str(program), "--version"], cwd=home, user=user))
    assert embedded.copy_programs(place, *embedded.wheels()) == made


def test_the_queue_of_the_redis_of_before_goes_on() -> None:
    """Redis 6 kept its log in one file; Valkey takes it over at its first start."""
    user = places.unprivileged()
    home = places.open_folder(data_folder("redis 6"), user)
    place = Place(home, home, user)
    log = place.folder("redis") / "appendonly.aof"
    log.write_bytes(b"*3\r\n$3\r\nSET\r\n$4\r\nkept\r\n$3\r\nyes\r\n")
    place.own(log)
    servers = embedded.servers_of(place)
    conf = place.folder("redis") / "redis.conf"
    places.write_private(conf, servers.redis_conf())
    place.own(conf)
    command = servers.redis_command()
    process = subprocess.Popen(command.argv, stdout=subprocess.DEVNULL, **command.options())
    try:
        wait_until(lambda: embedded.redis_answers(servers.redis.port))
        with redis.Redis.from_url(servers.urls["REDIS_URL"]) as client:
            wait_until(lambda: client.get("kept") == b"yes")
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def test_a_stuck_reader_does_not_hold_up_who_says_it(capfd: pytest.CaptureFixture[str]) -> None:
    terminal = processes.Terminal()
    terminal.say("web", "one\ntwo")
    terminal.close()
    terminal.writer.join(PATIENCE_S)
    assert capfd.readouterr().out == "     web | one\n     web | two\n"


def test_a_program_that_cannot_be_started_is_reported_and_tried_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A failed fork raises an error of the same kind."""
    terminal = processes.Terminal()
    process = processes.Process("web", Command(["/nowhere/program"]), terminal)

    sentence = "web could not be started: No such file or directory; restarting"

    async def read_two_lines() -> str:
        said = ""
        restarting = asyncio.create_task(process.keep_running())
        while said.count("\n") < 2:
            await asyncio.sleep(0.02)
            said += capfd.readouterr().out
        restarting.cancel()
        return said

    said = run_coroutine(asyncio.wait_for(read_two_lines(), PATIENCE_S))
    terminal.close()
    assert all(line.startswith(f" tenfour | {sentence}") for line in said.splitlines())
    with pytest.raises(Refused, match="program could not be started: No such file"):
        run_once(Command(["/nowhere/program"]))


@pytest.mark.parametrize("delay", [0, 0.1, 0.3, 0.6])
def test_an_early_interrupt_prints_no_traceback(delay: float) -> None:
    instance = Instance(data_folder("interrupted"))
    argv = [sys.executable, "-m", "config.local.up"]
    process = subprocess.Popen(
        argv, cwd=PROJECT, env=instance.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    # Python itself reports an interrupt with a traceback until our first line has run.
    maps = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: "_ctypes" in maps.read_text())
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert b"Traceback" not in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_server_that_ends_on_a_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this container may not mount")
    try:
        process = processes.Process(
            "postgres", Command(["false"], cwd=tmp_path), processes.Terminal()
        )
        ending = run_coroutine(process.run_and_describe())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert ending == f"ended with 1 (the disk that holds {tmp_path} is full)"
