"""Every task ends in a known state, whatever crashes: real processes, real HTTP, kill -9."""

import os
import signal
import subprocess
import sys

import pytest
from django.utils import timezone
from tenfour import Client

from ledger.access.audit import audit
from ledger.models import Attempt, DeadLetter, Task
from ledger.states import FINAL
from retries.attempts import leases
from tests.serving import ROOT, Tenfour
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# Takes tasks until it is stopped; in the first attempt of one called "hang" it never comes back.
WORKER = """
import os, sys, time
from tenfour import Client

with Client(os.environ["TENFOUR_URL"], os.environ["TENFOUR_TOKEN"]) as tenfour:
    while True:
        claimed = tenfour.tasks.claim(worker_id=sys.argv[1])
        for claim in claimed:
            attempt = claim.attempt.id
            if claim.task.type == "hang" and claim.attempt.number == 1:
                print("hangs", flush=True)
                time.sleep(60)
            if claim.task.type == "fail":
                tenfour.tasks.report(attempt, "failure", failure={"message": "broken"})
            else:
                tenfour.tasks.report(attempt, "success", result={"by": sys.argv[1]})
        if not claimed:
            time.sleep(0.05)
"""


def worker(tenfour: Tenfour, name: str) -> "subprocess.Popen[str]":
    mine = {"TENFOUR_URL": tenfour.url, "TENFOUR_TOKEN": tenfour.token("agent", "coder")}
    env = os.environ | mine | {"PYTHONPATH": str(ROOT / "client")}
    argv = [sys.executable, "-c", WORKER, name]
    return subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_every_task_ends_in_a_known_state_whatever_crashes(
    tenfour_server: Tenfour, producer: Client
) -> None:
    """S3.15, S3.19, S3.20, S3.43: one hangs and is killed, one fails for good, the rest is done."""
    with tenfour_server.client("agent", "coder"):
        pass  # the agent is known now
    kinds = ["hang", "fail", *["good"] * 6]
    for kind in kinds:
        producer.tasks.enqueue(
            "coder", kind, priority=int(kind == "hang"), max_attempts=2, lease_s=5
        )
    first = worker(tenfour_server, "first")
    others = []
    try:
        assert first.stdout is not None and first.stdout.readline() == "hangs\n"
        others = [worker(tenfour_server, f"w{number}") for number in range(3)]
        first.send_signal(signal.SIGKILL)
        first.wait(PATIENCE_S)
        wait_until(lambda: Task.objects.filter(state__in=["done", "failed"]).count() == 7)
        assert Task.objects.get(type="hang").state == "running"
        wait_until(lambda: leases.expire(now=timezone.now()))
        wait_until(lambda: not Task.objects.exclude(state__in=FINAL).exists())
    finally:
        for process in (first, *others):
            process.kill()
            process.wait(PATIENCE_S)
            if process.stdout:
                process.stdout.close()
    ends = dict(Task.objects.exclude(type="good").values_list("type", "state"))
    assert ends == {"hang": "done", "fail": "failed"}
    assert Task.objects.filter(type="good", state="done").count() == 6
    hung = Attempt.objects.filter(task__type="hang").order_by("number")
    assert (hung[0].worker_id, hung[0].outcome) == ("first", "failure")
    assert hung[1].outcome == "success" and hung[1].worker_id != "first"
    assert DeadLetter.objects.get().task.type == "fail"
    assert list(audit()) == []
