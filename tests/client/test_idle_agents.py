"""An agent that has had no work for a while, with the real client and several web processes."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.db.models import F
from tenfour import AsyncClient, Client
from tenfour.attempts.claiming import AttemptIterator

from ledger.models import Token
from tests.client.faulty import FaultyLine, Seen
from tests.loops import run_coroutine
from tests.serving import Tenfour, environment, serve
from tests.waiting import PATIENCE_S, wait_until

SHORTEST_S = 1
IDLE_S, WAIT_S = 30, 3


@pytest.fixture
def line(tenfour_server: Tenfour) -> Iterator[FaultyLine]:
    """A line to two web processes that let an agent wait for a second or longer."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        process = serve(bound.fileno(), workers=2, TENFOUR_POLL_SECONDS=str(SHORTEST_S))
        try:
            with FaultyLine(f"http://127.0.0.1:{bound.getsockname()[1]}") as line:
                yield line
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


@pytest.fixture
def secret(tenfour_server: Tenfour) -> str:
    """The token of an agent that has had no work for half a minute."""
    secret = tenfour_server.token("agent", "coder")
    Token.objects.update(created_at=F("created_at") - timedelta(seconds=IDLE_S))
    return secret


@dataclass
class Worker:
    """An agent that works on two tasks; `began` has the time at which it got each."""

    url: str
    secret: str
    began: list[float] = field(default_factory=list)
    attempts: AttemptIterator | None = None

    def work(self) -> None:
        with Client(self.url, self.secret) as coder:
            self.attempts = attempts = coder.attempts(wait=True)
            for _ in range(2):
                with next(attempts):
                    self.began.append(time.monotonic())

    def work_async(self) -> None:
        async def work() -> None:
            async with AsyncClient(self.url, self.secret) as coder:
                self.attempts = attempts = coder.attempts(wait=True)
                for _ in range(2):
                    async with await anext(attempts):
                        self.began.append(time.monotonic())

        run_coroutine(work())


def requests(line: FaultyLine, path: str) -> list[Seen]:
    return [each for each in line.seen if each.path == path]


def check_pauses(line: FaultyLine, path: str) -> None:
    """Check that an idle agent waits as long as it is told, twice."""
    first, second, third = wait_until(lambda: requests(line, path)[2:] and requests(line, path)[:3])
    assert min(second.at - first.at, third.at - second.at) >= WAIT_S


@pytest.mark.parametrize("work", [Worker.work, Worker.work_async])
def test_an_idle_agent_asks_rarely_and_gets_new_work_within_its_last_wait(
    line: FaultyLine, secret: str, producer: Client, work: Callable[[Worker], None]
) -> None:
    worker = Worker(line.url, secret)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work, worker)
        check_pauses(line, "/v1/claims")
        producer.tasks.enqueue("coder", "code")
        sent = time.monotonic()
        wait_until(lambda: worker.began)
        # the next claim after the task was sent has brought it
        claims = requests(line, "/v1/claims")
        assert sum(sent < each.at < worker.began[0] for each in claims) <= 1
        waiting = wait_until(lambda: worker.attempts and worker.attempts.waiting)
        assert waiting.retry_after_s == SHORTEST_S
        producer.tasks.enqueue("coder", "code")
        done.result(PATIENCE_S)


def test_a_program_that_follows_instructions_asks_rarely(
    line: FaultyLine, secret: str, producer: Client
) -> None:
    env = environment({"TENFOUR_URL": line.url, "TENFOUR_TOKEN": secret})
    argv = [sys.executable, "-m", "tenfour", "pull", "--follow"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            check_pauses(line, "/v1/instructions/pull")
            producer.instructions.send("coder", "Look at the log")
            sent = time.monotonic()
            assert process.stdout and process.stdout.readline() == "Look at the log\n"
            got = time.monotonic()
            pulls = requests(line, "/v1/instructions/pull")
            assert sum(sent < each.at < got for each in pulls) <= 1
        finally:
            process.terminate()
