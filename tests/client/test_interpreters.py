"""The installed wheel on each version of Python that it supports, against a live server."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import ROOT, Tenfour

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
UV = ROOT / ".venv" / "bin" / "uv"

AGENT = """
import asyncio, sys
from tenfour import AsyncClient, Client, TaskFailed

with Client() as client:
    for instruction in client.instructions.pull():
        assert client.instructions.ack(instruction.id).is_acknowledged
        print(instruction.text)
    for attempt in client.attempts():
        with attempt:
            assert attempt.verify("exit 0").passed
            if attempt.number == 1:
                raise RuntimeError("no luck")
            attempt.result = attempt.payload["n"] * 2
    print(attempts := attempt.decision.decision, attempt.task.created_at.tzinfo)

    @client.task(max_attempts=1, on_exhausted="dead_letter")
    def fail():
        raise ValueError("no")

    try:
        fail()
    except TaskFailed as error:
        print(repr(error.__cause__))

async def main():
    async with AsyncClient() as client:
        @client.task()
        async def double(n):
            return n * 2
        print(await double(4), (await client.me()).agent)

asyncio.run(main())
print("{}.{}".format(*sys.version_info))
"""


def interpreters(version: str) -> Iterator[str]:
    """Yield where an interpreter of this version may be: on PATH, among pyenv's, among uv's."""
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    uv = Path.home() / ".local" / "share" / "uv" / "python"
    yield from map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))
    yield from map(str, sorted(uv.glob(f"cpython-{version}.*/bin/python{version}")))


def find_interpreter(version: str) -> str | None:
    """Return one that starts and is of this version: a shim may name none."""
    says = "import sys; print('{}.{}'.format(*sys.version_info))"
    for path in interpreters(version):
        done = subprocess.run([path, "-c", says], capture_output=True, text=True)
        if done.stdout.strip() == version:
            return path
    return None


def install(wheel: Path, interpreter: str, folder: Path) -> Path:
    """Install the wheel in a virtual environment; return its Python."""
    python = folder / "bin" / "python"
    env = os.environ | {"UV_CACHE_DIR": str(ROOT / ".venv" / ".cache"), "UV_SYSTEM_CERTS": "1"}
    for words in (
        ["venv", "--quiet", "--python", interpreter, str(folder)],
        ["pip", "install", "--quiet", "--python", str(python), str(wheel)],
    ):
        done = subprocess.run([UV, *words], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return python


@pytest.mark.parametrize("version", VERSIONS)
def test_an_instruction_and_a_task(
    version: str, wheel: Path, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    interpreter = find_interpreter(version)
    if interpreter is None:
        pytest.skip(f"NO PYTHON {version}: the client was not tried on it.")
    python = install(wheel, interpreter, tmp_path / "venv")
    env = {
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
    }
    with tenfour_server.client("orchestrator") as producer:
        producer.instructions.send("coder", "Look")
        task = producer.tasks.enqueue("coder", "code", {"n": 2}, backoff={"base_delay_ms": 0})
        done = subprocess.run(
            [python, "-X", "dev", "-W", "error", "-c", AGENT],
            env=env,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        says = ["Look", "done UTC", "ValueError('no')", "8 coder", version]
        assert done.stdout.splitlines() == says
        assert producer.tasks.get(task.id).result == 4
        command = ["tenfour", "run", "--name", "Say it", "--", "sh", "-c", "echo $TENFOUR_ATTEMPT"]
        ran = subprocess.run(command, env=env, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert re.fullmatch(r"[0-9a-f-]{36}\n", ran.stdout)
        assert {each.state for each in producer.tasks.list(type="command")} == {"done"}


def test_the_supported_versions_are_those_of_the_package() -> None:
    pyproject = (ROOT / "client" / "pyproject.toml").read_text()
    assert tuple(re.findall(r"Python :: (3\.\d+)", pyproject)) == VERSIONS
    assert f'requires-python = ">={VERSIONS[0]}"' in pyproject
