"""`attempt.verify`: the check runs next to the code, and the server judges its exit code."""

import asyncio
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tenfour import AsyncClient, Client, NotConfigured
from tenfour.checks import verification
from tenfour.checks.verification import Check, Verified

from tests.client.test_attempts import next_of
from tests.loops import run_coroutine
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S


@pytest.fixture
def coder(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("agent", "coder") as client:
        yield client


def failure(producer: Client, attempt: Any) -> dict[str, Any]:
    return dict(producer.tasks.attempt(attempt.id).failure or {})


def test_the_example_of_the_reference(
    tenfour_server: Tenfour, producer: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """api.md §9.4: it fails once, is told why, and passes."""
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\necho "$@: 2 failed"; test -e {shlex.quote(str(tmp_path))}/mended\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TENFOUR_URL", tenfour_server.url)
    monkeypatch.setenv("TENFOUR_TOKEN", tenfour_server.token("agent", "coder"))
    sent = producer.tasks.enqueue("coder", "code", backoff={"base_delay_ms": 0})
    prompts = []

    def my_agent(prompt: str) -> str:
        prompts.append(prompt)
        if len(prompts) == 2:
            (tmp_path / "mended").touch()
        return "done"

    with Client() as c:  # TENFOUR_URL, TENFOUR_TOKEN
        for a in c.attempts(agent="coder"):  # claims, yields again on a retry decision
            with a:  # heartbeats in a thread; an exception becomes execution_error
                out = my_agent(a.prompt)
                a.verify("npm test")
    assert out == "done" and a.decision and a.decision.decision == "done"
    assert "<type>verification_failed</type>" in prompts[1]
    assert "npm test returned exit code 1" in prompts[1] and "test: 2 failed" in prompts[1]
    assert producer.tasks.get(sent.id).state == "done"


def test_the_check_of_the_task_is_run_where_it_says(
    producer: Client, coder: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where none is named; what it prints is kept, and not shown."""
    verify = {"command": "pwd; exit 3", "cwd": str(tmp_path), "expect_exit": 3}
    producer.tasks.enqueue("coder", "code", {"verify": verify | {"required": True}})
    with next_of(coder) as attempt:
        found = attempt.verify()
    assert found.passed and found.output.strip() == str(tmp_path.resolve())
    assert attempt.decision and attempt.decision.reason == "verified"
    assert capfd.readouterr() == ("", "")
    lost = {"verify": verify | {"cwd": "no/such/folder"}}
    producer.tasks.enqueue("coder", "code", lost, max_attempts=1)
    with next_of(coder) as attempt:
        assert not attempt.verify().passed
    assert "no/such/folder: there is no such folder" in str(failure(producer, attempt))
    producer.tasks.enqueue("coder", "code")
    with next_of(coder) as attempt, pytest.raises(ValueError, match="names no verify command"):
        attempt.verify()


def test_one_that_hangs_is_a_timeout(producer: Client, coder: Client) -> None:
    """S1.6: it is stopped with all it has started."""
    producer.tasks.enqueue("coder", "code")
    with next_of(coder) as attempt:
        found = attempt.verify("echo begun; sleep 600 & wait", timeout_s=3)
        assert (found.exit_code, found.timed_out, found.passed) == (124, True, False)
    said = failure(producer, attempt)
    assert (said["type"], said["message"]) == ("timeout", "The check did not finish within 3 s.")
    assert said["verification"]["output"] == "begun\n"


def test_a_timeout_never_passes(producer: Client, coder: Client) -> None:
    """Also where the task expects the exit code that a timeout has elsewhere."""
    verify = {"command": "sleep 600", "timeout_s": 1, "expect_exit": 124}
    producer.tasks.enqueue("coder", "code", {"verify": verify}, max_attempts=1)
    with next_of(coder) as attempt:
        found = attempt.verify()
    assert (found.exit_code, found.timed_out, found.passed) == (137, True, False)
    assert failure(producer, attempt)["type"] == "timeout"


def test_the_first_that_fails_is_told_and_a_later_run_mends_it(
    producer: Client, coder: Client, tmp_path: Path
) -> None:
    for _ in range(3):
        producer.tasks.enqueue("coder", "code", max_attempts=1, on_exhausted="escalate")
    with next_of(coder) as first:
        first.verify("exit 4")
        first.verify("true")
        assert first.done("x").decision == "escalated"
    assert failure(producer, first)["verification"]["command"] == "exit 4"
    with next_of(coder) as second:
        assert not second.verify(f"test -e {shlex.quote(str(tmp_path))}/x").passed
        (tmp_path / "x").touch()
        assert second.verify(f"test -e {shlex.quote(str(tmp_path))}/x").passed
    assert second.decision and second.decision.decision == "done"
    with next_of(coder) as third:
        third.verify("echo 1 failed; exit 1")
        raise RuntimeError("no luck")
    said = failure(producer, third)
    assert (said["type"], said["verification"]["output"]) == ("execution_error", "1 failed\n")


def test_secrets_of_the_environment_stay_here_and_any_output_fits(
    producer: Client, coder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_TOKEN", "swordfish-1234")
    producer.tasks.enqueue("coder", "code")
    with next_of(coder) as attempt:
        attempt.verify("echo swordfish-1234; head -c 300000 /dev/zero; printf '\\nthe end'; exit 1")
    output = failure(producer, attempt)["verification"]["output"]
    assert "swordfish" not in output and output.endswith("the end")
    assert verification.truncate_output("plain\n" * 400_000) == "plain\n" * 400_000
    for word in ("🙂" * 7 + " ", "\x01" * 9 + "\n"):
        rude = Verified(Check("x"), 1, word * 500_000 + "the end", 1.0).fields["output"]
        assert verification.OUTPUT_BYTES / 3 < len(json.dumps(rude)) <= verification.OUTPUT_BYTES
        assert rude.startswith(word) and rude.endswith("the end") and "\n[…]\n" in rude


def test_a_token_of_another_agent_is_told_before_anything_is_claimed(
    tenfour_server: Tenfour, producer: Client, coder: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    with pytest.raises(NotConfigured, match="belongs to the agent coder"):
        next_of(coder, agent="codex")
    with pytest.raises(NotConfigured, match="no agent: its kind is orchestrator"):
        next_of(producer, agent="coder")
    assert producer.tasks.get(sent.id).state == "queued"


def test_the_async_one_checks_too_and_stops_when_it_is_cancelled(
    tenfour_server: Tenfour, producer: Client, tmp_path: Path
) -> None:
    secret = tenfour_server.token("agent", "coder")
    sent = [producer.tasks.enqueue("coder", "code", max_attempts=1) for _ in range(2)]
    pid = tmp_path / "pid"

    async def story() -> None:
        async with AsyncClient(tenfour_server.url, secret) as coder:
            async with await anext(coder.attempts(agent="coder")) as attempt:
                assert (await attempt.verify("exit 2")).exit_code == 2
            assert attempt.decision and attempt.decision.decision == "failed"

            async def work() -> None:
                async with await anext(coder.attempts()) as attempt:
                    await attempt.verify(f"echo $$ > {shlex.quote(str(pid))}; exec sleep 600")

            working = asyncio.create_task(work())
            while not (pid.exists() and pid.read_text().strip()):
                await asyncio.sleep(0.02)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            while Path(f"/proc/{pid.read_text().strip()}").exists():
                await asyncio.sleep(0.02)

    run_coroutine(asyncio.wait_for(story(), PATIENCE_S))
    assert [producer.tasks.get(each.id).state for each in sent] == ["failed", "queued"]
