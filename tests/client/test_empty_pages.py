"""The commands that empty pages show do what the page says, as the kind of token that may."""

import html
import re
import shlex
from pathlib import Path

import pytest

from config.local.places import PROJECT
from tests.client.conftest import Run
from tests.serving import Tenfour

PAGES = sorted((PROJECT / "templates").glob("*/_none*.html"))
COMMAND = re.compile(r">tenfour ([^<]++)</pre>")
COMMANDS = [html.unescape(shown) for page in PAGES for shown in COMMAND.findall(page.read_text())]
FILES = {
    "Makefile": "test:\n\ttrue\n",
    "plan.yaml": "ref: 03-01\nagent: coder\ntasks: [{ref: task-1, title: Write it}]\n",
    "transcript.jsonl": '{"type":"user","sessionId":"s-1","message":{"role":"user","content":"Go"}}\n',
}


def test_the_pages_of_work_show_a_command() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"plan", "run", "send", "session"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_shown_command_works(
    command: str, run: Run, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for kind in (("agent", "coder"), ("orchestrator",)):
        env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token(*kind)}
        ran = run(*shlex.split(command), env=env, cwd=tmp_path)
        if ran.status == 0:
            return
    pytest.fail(f"{ran.status}: {ran.out}{ran.err}")
