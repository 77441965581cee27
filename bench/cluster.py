"""Several machines on one: each process in a network namespace of its own, behind nginx.

PostgreSQL is reached through PgBouncer with transaction pooling, from the files in `deploy/`. Only
root may make namespaces; without that right, all processes share the loopback interface.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import psycopg

from bench.servers import MissingDependency, Sandbox, run_program, wait_until
from config.local.commands import Command
from config.local.embedded import free_port, redis_answers
from config.local.places import PROJECT, unprivileged

NETWORK = "10.213.77"
BRIDGE = f"{NETWORK}.1"
LOOPBACK = "127.0.0.1"
PROGRAMS = ("nginx", "pgbouncer")
WORKER = "-m celery -A config worker -P threads -c 4 -l WARNING --without-gossip --without-mingle"
BEAT = "-m celery -A config beat -l WARNING --scheduler celery.beat:Scheduler --pidfile="
START_S, STOP_S = 180, 30


@dataclass
class Machine:
    """One process of Tenfour, which is restarted as a rolling update does it."""

    name: str
    argv: list[str]
    env: dict[str, str]
    folder: Path
    address: str = ""  # of a web server
    is_apart: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        inside = ["ip", "netns", "exec", self.name] if self.is_apart else []
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*inside, *self.argv], cwd=PROJECT, env=self.env, stdout=log, stderr=log
            )
        if self.address:
            wait_until(self.is_ready, self.name, seconds=START_S)

    def is_ready(self) -> bool:
        try:
            return httpx2.get(f"http://{self.address}/readyz", timeout=3).status_code == 200
        except httpx2.TransportError:
            return False

    def stop(self) -> float:
        """Ask it to stop, and kill it if it is not gone in time; return the seconds it took."""
        began = time.monotonic()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return time.monotonic() - began


@dataclass
class Cluster:
    """Two of each process; `url` is where nginx listens."""

    url: str
    database_url: str
    is_apart: bool
    webs: list[Machine] = field(default_factory=list)
    workers: list[Machine] = field(default_factory=list)
    beats: list[Machine] = field(default_factory=list)

    @property
    def machines(self) -> list[Machine]:
        return [*self.webs, *self.workers, *self.beats]


@contextmanager
def run_cluster(sandbox: Sandbox, database_url: str) -> Iterator[Cluster]:
    """Start everything on one migrated database; end it with the block."""
    if missing := [name for name in PROGRAMS if not shutil.which(name, path=search_path())]:
        raise MissingDependency(f"Install Debian's packages: {', '.join(missing)}.")
    folder = sandbox.folder / "cluster"
    folder.mkdir()
    folder.chmod(0o755)
    with ExitStack() as stack:
        is_apart = make_bridge(stack)
        shared = BRIDGE if is_apart else LOOPBACK
        set_role_options(database_url)
        pooled = run_pgbouncer(stack, folder, database_url, shared)
        env = sandbox.env(pooled) | {
            "REDIS_URL": run_valkey(stack, sandbox, folder, shared),
            "TENFOUR_TRUSTED_PROXIES": "1",
            "TENFOUR_DATA": str(folder),
        }
        cluster = Cluster(f"http://{shared}:{free_port()}", database_url, is_apart)
        for number in (1, 2):
            add_machines(stack, cluster, folder, env, number)
        run_nginx(stack, folder, cluster)
        wait_until(lambda: answers(cluster.url), "nginx")
        yield cluster


def add_machines(
    stack: ExitStack, cluster: Cluster, folder: Path, env: dict[str, str], number: int
) -> None:
    """Start a web server, a worker and a clock."""
    for at, (kind, argv) in enumerate(
        {"web": "-m config.web_server", "worker": WORKER, "beat": BEAT}.items()
    ):
        host = LOOPBACK
        name = f"tenfour-{kind}{number}"
        if cluster.is_apart:
            host = f"{NETWORK}.{10 * (at + 1) + number}"
            add_namespace(stack, name, host)
        own = dict(env)
        address = ""
        if kind == "web":
            port = free_port()
            address = f"{host}:{port}"
            own |= {"TENFOUR_HOST": host, "TENFOUR_PORT": str(port)}
        words = [*argv.split(), *(["-n", f"{name}@{name}"] if kind == "worker" else [])]
        if kind == "beat":
            words += ["-s", str(folder / f"{name}.db")]
        machine = Machine(name, [sys.executable, *words], own, folder, address, cluster.is_apart)
        stack.callback(machine.stop)
        machine.start()
        {"web": cluster.webs, "worker": cluster.workers, "beat": cluster.beats}[kind].append(
            machine
        )


def answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz", timeout=3).status_code == 200
    except httpx2.TransportError:
        return False


# ---- the network


def make_bridge(stack: ExitStack) -> bool:
    """Make the network between the namespaces; return False where that is not allowed."""
    try:
        ip("link", "add", "tenfour0", "type", "bridge")
    except (OSError, subprocess.CalledProcessError):
        return False
    stack.callback(ip, "link", "del", "tenfour0")
    ip("addr", "add", f"{BRIDGE}/24", "dev", "tenfour0")
    ip("link", "set", "tenfour0", "up")
    return True


def add_namespace(stack: ExitStack, name: str, address: str) -> None:
    ip("netns", "add", name)
    stack.callback(ip, "netns", "del", name)
    outer = f"t{address.replace('.', '')[-6:]}"
    ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
    stack.callback(ip, "link", "del", outer)
    ip("link", "set", outer, "master", "tenfour0", "up")
    ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    ip("-n", name, "link", "set", "lo", "up")


def ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True, capture_output=True)


# ---- the programs between


def search_path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def run_pgbouncer(
    stack: ExitStack, folder: Path, database_url: str, host: str, *, prepares: bool = True
) -> str:
    """Start PgBouncer with the configuration in deploy/; return the URL of the database behind.

    It can't prepare statements without `prepares`, as before version 1.21.
    """
    parts, port = urlsplit(database_url), free_port()
    text = (PROJECT / "deploy" / "pgbouncer" / "pgbouncer.ini").read_text()
    name = parts.path.lstrip("/")
    text = text.replace(
        "tenfour = host=postgres port=5432", f"{name} = host={parts.hostname} port={parts.port}"
    )
    if not prepares:
        text = text.replace("max_prepared_statements = 200", "max_prepared_statements = 0")
    text = text.replace("listen_addr = *", f"listen_addr = {host}").replace("6432", str(port))
    text = text.replace("/tmp/users.txt", str(folder / "users.txt"))
    (folder / "pgbouncer.ini").write_text(text)
    (folder / "users.txt").write_text(f'"{parts.username}" "{parts.password}"\n')
    program = shutil.which("pgbouncer", path=search_path()) or ""
    command = Command(
        [program, str(folder / "pgbouncer.ini")], user=unprivileged(), stop=signal.SIGINT
    )
    stack.enter_context(
        run_program(command, output=stack.enter_context((folder / "pgbouncer.log").open("w")))
    )
    return database_url.replace(f"{parts.hostname}:{parts.port}", f"{host}:{port}")


def set_role_options(database_url: str) -> None:
    """Set for a database what the docs set for the role, because PgBouncer drops it."""
    docs = (PROJECT / "docs" / "deployment.md").read_text()
    name = urlsplit(database_url).path.lstrip("/")
    with psycopg.connect(database_url, autocommit=True) as conn:
        for option in re.findall(r"^alter role tenfour set (.+);$", docs, re.MULTILINE):
            conn.execute(f"alter database {name} set {option}".encode())


def run_valkey(stack: ExitStack, sandbox: Sandbox, folder: Path, host: str) -> str:
    """Start a Valkey that the namespaces reach; return its URL."""
    if host == LOOPBACK:
        return sandbox.urls["REDIS_URL"]
    from config.local.embedded import wheels

    port = free_port()
    argv = [str(wheels()[1] / "valkey-server"), "--port", str(port), "--requirepass", "rolling"]
    argv += ["--bind", LOOPBACK, host, "--save", "", "--appendonly", "no"]
    with (folder / "valkey.log").open("w") as log:
        stack.enter_context(run_program(Command(argv, cwd=folder), output=log))
    wait_until(lambda: redis_answers(port), "Valkey")
    return f"redis://:rolling@{host}:{port}/0"


def run_nginx(stack: ExitStack, folder: Path, cluster: Cluster) -> None:
    """Start nginx with the configuration in deploy/, before the two web servers."""
    text = (PROJECT / "deploy" / "nginx" / "tenfour.conf").read_text()
    [line] = [line for line in text.splitlines() if line.strip().startswith("server web:8000")]
    servers = "\n".join(line.replace("web:8000", web.address) for web in cluster.webs)
    text = text.replace(line, servers).replace(
        "listen 8000;", f"listen {cluster.url.removeprefix('http://')};"
    )
    (folder / "tenfour.conf").write_text(text)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n"
        "events { worker_connections 1024; }\n"
        f"http {{ access_log off; include {folder}/tenfour.conf; }}\n"
    )
    program = shutil.which("nginx", path=search_path()) or ""
    command = Command([program, "-c", str(folder / "nginx.conf")], stop=signal.SIGQUIT)
    stack.enter_context(run_program(command))
