"""What a type checker sees: one set of methods, with results or awaitables of them."""

import subprocess
import sys
from pathlib import Path

from tests.serving import environment

PROGRAM = """
from collections.abc import AsyncIterator, Iterator
from typing_extensions import assert_type
from tenfour import (
    Acked, AsyncClient, AsyncLiveAttempt, BulkOperation, Channel, Client, Decision, Delivery,
    Escalation, Instruction, LiveAttempt, Me, Message, NoWork, Policies, Session, Task, Verified,
    Webhook,
)


def blocking(client: Client) -> None:
    assert_type(client.me(), Me)
    assert_type(client.tasks.get("1"), Task)
    assert_type(client.tasks.list(state="failed"), Iterator[Task])
    assert_type(client.instructions.ack("1"), Instruction)
    assert_type(client.instructions.ack(["1"]), tuple[Acked, ...])
    attempts = client.attempts(agent="coder")
    assert_type(attempts.ended, NoWork | None)
    for attempt in attempts:
        with attempt:
            assert_type(attempt, LiveAttempt)
            assert_type(attempt.verify("true"), Verified)
            assert_type(attempt.done(1), Decision)
            assert_type(attempt.ask("?", severity="high").wait(), Escalation)

    assert_type(client.sessions.create(title="x"), Session)
    assert_type(client.sessions.messages("1"), Iterator[Message])
    assert_type(client.operations.list(), Iterator[BulkOperation])
    assert_type(client.policies.change(1, obey_waits="all"), Policies)
    assert_type(client.channels.get("1"), Channel)
    assert_type(client.webhooks.test("1"), Delivery)
    client.policies.change(1, obey_waits="some")  # E

    @client.task(verify="true")
    def double(n: int) -> int:
        return n * 2

    assert_type(double(1), int)
    double("1")  # E
    client.tasks.get(1)  # E
    client.tasks.enqueue("coder", "code", titel="x")  # E
    client.tasks.ask("1", "?", severity="loud")  # E


async def awaited(client: AsyncClient) -> None:
    assert_type(await client.me(), Me)
    assert_type(client.tasks.list(), AsyncIterator[Task])
    assert_type(await client.instructions.ack(["1"]), tuple[Acked, ...])
    async for attempt in client.attempts():
        async with attempt:
            assert_type(attempt, AsyncLiveAttempt)
            assert_type(await attempt.verify(), Verified)
            assert_type(await (await attempt.ask("?")).wait(), Escalation)

    assert_type(await client.sessions.flush("1"), int)
    assert_type(client.webhooks.list(), AsyncIterator[Webhook])

    @client.task()
    async def double(n: int) -> int:
        return n * 2

    assert_type(await double(1), int)
    client.me().agent  # E
"""


def test_a_program_is_checked_with_the_types_of_its_client(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--hide-error-context", str(file)],
        env=environment({"MYPYPATH": environment({})["PYTHONPATH"]}),
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    found = {int(line.split(":")[1]) for line in lines if ": error:" in line}
    wanted = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# E")}
    assert found == wanted, done.stdout + done.stderr
