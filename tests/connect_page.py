"""The page that connects an agent, as a person copies its lines into a fresh environment."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from html import unescape
from pathlib import Path

from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from ledger.models import Project

# With a space, pip's program names its Python in quotes, as the programs of all copies must.
WITH_PIP = tempfile.TemporaryDirectory(prefix="tenfour venv-")


class ConnectPage:
    """A token that a person just created on the page, for an agent in a project."""

    def __init__(self, url: str, project: Project, settings: Settings) -> None:
        settings.LINK_URL = url
        browser = Client()
        browser.force_login(User.objects.create_superuser(f"mara-{project.pk}"))
        page = browser.get("/agents/connect/", {"project": project.name}).content.decode()
        form = re.search(r'id="connect-form" method="post"\s+action="([^"]+)"', page)
        assert form
        given = {"agent": "coder", "project": project.name}
        made = browser.post(unescape(form[1]), given)
        assert made.status_code == 200
        self.html = made.content.decode()

    def lines(self, way: str) -> str:
        """Return the lines of a way, at most five commands, as the button copies them."""
        text = self.lines_of_any_length(way)
        assert len(text.splitlines()) <= 5
        return text

    def lines_of_any_length(self, way: str) -> str:
        found = re.search(rf'id="lines-{way}"\s*>(.*?)</pre>', self.html, re.DOTALL)
        assert found, way
        return unescape(re.sub(r"<[^>]+>", "", found[1])).strip()


def make_venv(folder: Path) -> Path:
    """Return the commands of a new virtual environment, which has pip alone.

    Each gets a copy of one pip: venv takes seconds to install it.
    """
    first, commands = venv_with_pip(), folder / "bin"
    venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(venv, check=True)
    [packages] = first.glob("lib/python*/site-packages")
    shutil.copytree(packages, folder / packages.relative_to(first), dirs_exist_ok=True)
    for program in first.glob("bin/pip*"):
        text = program.read_text()
        assert str(first) in text
        (commands / program.name).write_text(text.replace(str(first), str(folder)))
        (commands / program.name).chmod(0o755)
    return commands


@cache
def venv_with_pip() -> Path:
    folder = Path(WITH_PIP.name) / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


def environment_of(commands: Path, home: Path) -> dict[str, str]:
    """Return the environment of a user who has just activated it: nothing of Tenfour."""
    plain = [each for each in os.environ["PATH"].split(":") if ".venv" not in each]
    index = ("PIP_", "UV_", "SSL_")  # where packages come from here
    more = {name: value for name, value in os.environ.items() if name.startswith(index)}
    return more | {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "UV_SYSTEM_CERTS": "1",
        "PATH": ":".join([str(commands), *plain]),
    }
