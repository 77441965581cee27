"""The instance serves its own client: an install from its address alone, and the headers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from config.client_wheel import wheel_name
from ledger.models import Instruction, Token
from tests.serving import ROOT, Tenfour


def test_the_wheel_has_an_etag_and_needs_no_token() -> None:
    path = reverse("client_wheel")
    assert path == f"/client/{wheel_name()}"
    first = Client().get(path)
    assert first.status_code == 200 and first.content.startswith(b"PK")
    assert first["Content-Type"] == "application/octet-stream"
    assert wheel_name() in first["Content-Disposition"]
    assert Client().get(path, headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert Client().head(path)["ETag"] == first["ETag"]
    assert Client().post(path).status_code == 405
    assert f"/client/{wheel_name()}" in (ROOT / "docs" / "client-guide.md").read_text()
    assert Client().get("/client/tenfour-99-py3-none-any.whl").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_fresh_environment_installs_from_the_server_and_acknowledges(
    tenfour_server: Tenfour, tmp_path: Path
) -> None:
    """Also the token's first call is stored, once, with where it came from."""
    with tenfour_server.client("orchestrator") as producer:
        producer.instructions.send(
            "coder", "Run git status", expect={"type": "fs_command"}, register=True
        )
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }

    def run(*command: str) -> str:
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", "venv")
    run("pip", "install", "--quiet", tenfour_server.url + reverse("client_wheel"))
    assert "Run git status" in run("tenfour", "pull")
    assert Instruction.objects.get().state == "delivered"
    id = run("tenfour", "signal", "fs_command", '{"command": "git"}').strip()
    assert (id, Instruction.objects.get().state) == (
        str(Instruction.objects.get().id),
        "acknowledged",
    )
    token = Token.objects.get(kind="agent")
    assert token.first_used_at is not None
    assert token.first_call["what"] == "POST /v1/instructions/pull"
    assert token.first_call["program"].startswith("tenfour-python/")
    assert token.first_call["address"] == "127.0.0.1"
    assert abs(token.first_call["clock_ahead_s"]) <= 5
