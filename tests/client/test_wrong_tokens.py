"""A wrong token: clients say so at once, also when the server limits their address (AGT-23)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tenfour import AsyncClient, Client, TenfourError
from tenfour.http import outbox
from tenfour.settings import Settings

from ledger.access.auth_failures import PER_MINUTE
from tests.client.conftest import Run
from tests.client.faulty import FaultyLine
from tests.loops import run_coroutine
from tests.serving import Tenfour, environment
from tests.waiting import PATIENCE_S

WRONG = "This is not a Tenfour token: its form or its checksum is wrong. Too many"


@pytest.fixture
def limited(tenfour_server: Tenfour, line: FaultyLine) -> FaultyLine:
    """A line to the server after too many wrong tokens came from this address.

    A client that waited would send its request again, so each test counts the requests.
    """
    with Client(tenfour_server.url, "x") as client:
        for _ in range(PER_MINUTE):
            with pytest.raises(TenfourError) as refused:
                client.me()
            assert refused.value.code == "token_invalid"
    return line


@pytest.fixture
def wrong(limited: FaultyLine, tmp_path: Path) -> dict[str, str]:
    state = str(tmp_path / "state")
    return {"TENFOUR_URL": limited.url, "TENFOUR_TOKEN": "x", "TENFOUR_STATE": state}


def check(error: TenfourError) -> None:
    assert (error.status, error.code) == (429, "too_many_auth_failures")
    assert error.detail.startswith(WRONG) and not error.retryable
    assert error.hint.startswith("Fix the token")


def test_both_clients_raise_at_once(limited: FaultyLine) -> None:
    with Client(limited.url, "x") as client, pytest.raises(TenfourError) as refused:
        client.me()
    check(refused.value)

    async def ask() -> None:
        async with AsyncClient(limited.url, "x") as other:
            await other.me()

    with pytest.raises(TenfourError) as refused:
        run_coroutine(ask())
    check(refused.value)
    assert len(limited.seen) == 2


def test_a_client_that_waits_for_work_raises_at_once(limited: FaultyLine) -> None:
    with Client(limited.url, "x") as client, pytest.raises(TenfourError) as refused:
        next(iter(client.attempts(wait=True)))
    check(refused.value)
    assert len(limited.seen) == 1


@pytest.mark.parametrize(
    "command",
    [
        ("pull",),
        ("pull", "--follow"),
        ("run", "--next", "--", "true"),
        ("worker", "--", "true"),
        ("ask", "?"),
    ],
    ids=" ".join,
)
def test_commands_end_at_once(
    command: tuple[str, ...], run: Run, wrong: dict[str, str], limited: FaultyLine
) -> None:
    done = run(*command, env=wrong | {"TENFOUR_ATTEMPT": "0199"})
    assert done.status == 1 and WRONG in done.err and "Fix the token" in done.err, done
    assert len(limited.seen) == 1


def test_a_hook_says_so_and_keeps_no_event_for_later(
    wrong: dict[str, str], limited: FaultyLine, tmp_path: Path
) -> None:
    event = {"hook_event_name": "PostToolUse", "session_id": "s-1", "cwd": str(tmp_path)}
    event |= {"tool_name": "Bash", "tool_input": {"command": "make check"}}
    done = subprocess.run(
        [sys.executable, "-m", "tenfour", "hook"],
        input=json.dumps(event),
        env=environment(wrong | {"HOME": str(tmp_path)}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, "") and WRONG in done.stderr
    assert len(limited.seen) == 1
    assert not list((tmp_path / "state").rglob("kept/*"))


def test_a_report_waits_for_the_right_token(
    limited: FaultyLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOUR_STATE", str(tmp_path))
    from tenfour import tasks

    given = Settings(limited.url, "x")
    outbox.store("0199", tasks.report("0199", "success", summary="done"), given)
    with Client(limited.url, "x") as client:
        [sent] = outbox.send_all(client.perform, outbox.list_reports(given))
    assert sent.error is not None and sent.waits
    check(sent.error)
    assert len(list(outbox.list_reports(given))) == 1
