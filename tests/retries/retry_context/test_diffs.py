"""The last attempt's diff and environment: stored whole by hunk, and told within the budget."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.models import Agent, Task
from retries.attempts.diffs import DIFF_BYTES, MOST_DIFF
from retries.models import AttemptDiff
from retries.retention.task_rows import delete_tasks
from retries.retry_context.block import BUDGET, LEAST_BUDGET, History, Source, render_retry_context
from retries.retry_context.hunks import HUNK, NOTE_LENGTH, clip_hunks
from tests.conftest import Api
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import claim, enqueue
from tests.retries.retry_context.test_block import failed

DIFF = """diff --git a/app/tax.py b/app/tax.py
index 5e24410..2d643fb 100644
--- a/app/tax.py
+++ b/app/tax.py
@@ -1,2 +1,2 @@
 def tax(amount: int) -> int:
-    return amount < 7
+    return amount > 7
"""
HERE = {"folder": "/src/app", "branch": "main", "python": "Python 3.12.1"}
TOKEN = "ghp_" + "a1B2" * 9
CHECK = {"command": "make test"}


def make_diff(sizes: list[list[int]]) -> str:
    """Return a diff of files with hunks of so many lines."""
    return "".join(
        f"diff --git a/f{at} b/f{at}\n--- a/f{at}\n+++ b/f{at}\n"
        + "".join(
            f"@@ -{number},1 +{number},{lines} @@\n" + f"+line <{at}> & {number}\n" * lines
            for number, lines in enumerate(hunks, 1)
        )
        for at, hunks in enumerate(sizes)
    )


@given(
    st.lists(st.lists(st.integers(1, 40), max_size=5), min_size=1, max_size=6),
    st.integers(NOTE_LENGTH, 4_000),
)
def test_a_diff_is_cut_between_hunks(sizes: list[list[int]], most: int) -> None:
    diff = make_diff(sizes)
    shown = clip_hunks(diff, most)
    assert len(shown) <= most and (shown == diff) == (len(diff) <= most)
    whole = {each for each in HUNK.split(diff)[1:]}
    for hunk in HUNK.split(shown)[1:]:
        assert any(
            each.startswith(hunk.partition("[…")[0].partition("diff --git")[0]) for each in whole
        )


@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=5), min_size=1, max_size=6),
    st.integers(LEAST_BUDGET, BUDGET),
    st.integers(0, 20_000),
)
def test_a_diff_stays_within_the_budget(sizes: list[list[int]], budget: int, output: int) -> None:
    ran = {"command": "make test", "exit_code": 1, "output": "step\n" * (output // 5) + "1 failed"}
    source = Source(1, make_diff(sizes), ["branch: main → fix"])
    told = render_retry_context(
        History(failures=[failed(1, verification=ran)], source=source),
        attempt=2,
        max_attempts=3,
        budget=budget,
    )
    assert len(told) <= budget
    ElementTree.fromstring(told)
    assert "1 failed" in told and "<environment" in told


def test_the_newest_output_comes_before_the_diff() -> None:
    """A newest failure of 12,000 characters is told whole, whatever the diff."""
    ran = {"command": "make test", "exit_code": 1, "output": "x" * 11_990}
    history = History(failures=[failed(1, verification=ran)])
    source = Source(1, make_diff([[30], [900], [5]]))
    told = render_retry_context(replace(history, source=source), attempt=2, max_attempts=3)
    assert ran["output"] in told and "b/f2" in told and "lines left out" in told


def report(coder: Api, claimed: dict[str, Any], status: str, **beat: Any) -> None:
    """Send what the attempt changed, then how it ended."""
    path = f"/attempts/{claimed['attempt']['id']}"
    assert coder("POST", f"{path}/heartbeat", beat).status_code == 200
    failure = {"type": "verification_failed", "message": "assert 7 == 8"}
    body = {"status": status} | ({"failure": failure} if status == "failure" else {})
    assert coder("POST", f"{path}/result", body).status_code == 200


@pytest.mark.django_db
def test_the_next_attempt_reads_the_diff_and_what_differs(
    agent: Agent, coder: Api, operator: Api
) -> None:
    # Another task of the same check succeeds first, and one of another check.
    for environment, check in ((HERE, "make test"), ({"branch": "other"}, "make lint")):
        enqueue(operator, payload={"verify": CHECK})
        claimed = claim(coder)["data"][0]
        report(coder, claimed, "success", environment=environment, check=check)
    id = enqueue(operator, payload={"verify": CHECK}, backoff={"base_delay_ms": 0})
    claimed = claim(coder)["data"][0]
    now = HERE | {"branch": f"fix-{TOKEN}", "python": "Python 3.13.0"}
    diff = DIFF + f"+key = '{TOKEN}'\n"
    report(coder, claimed, "failure", diff=diff, environment=now, check="make test")
    second = claim(coder, task=id)["data"][0]["retry_context"]
    assert '<diff attempt="1" trust="untrusted">diff --git a/app/tax.py' in second
    assert "-    return amount &lt; 7\n+    return amount &gt; 7\n" in second
    assert "- branch: main → fix-[redacted:" in second
    assert "- python: Python 3.12.1 → Python 3.13.0\n" not in second.partition("</environment>")[2]
    assert "folder:" not in second and "other" not in second
    assert TOKEN not in second and TOKEN not in AttemptDiff.objects.get(diff__gt="").diff


@pytest.mark.django_db
def test_a_diff_is_stored_in_64_kib_and_goes_with_its_task(
    agent: Agent, coder: Api, operator: Api
) -> None:
    id = enqueue(operator, backoff={"base_delay_ms": 0})
    claimed = claim(coder)["data"][0]
    path = f"/attempts/{claimed['attempt']['id']}/heartbeat"
    problem(coder("POST", path, {"diff": "x" * (MOST_DIFF + 1)}), 422, "validation_error")
    problem(coder("POST", path, {"environment": {"a": 1}}), 422, "validation_error")
    report(coder, claimed, "failure", diff=make_diff([[2000], [20, 3], [4000]]))
    stored = AttemptDiff.objects.get()
    assert len(stored.diff.encode()) <= DIFF_BYTES
    assert stored.diff.count("+line <1>") == 23 and "[… 4,001 lines left out …]" in stored.diff
    # What is sent later replaces it; what is not sent stays.
    second = claim(coder, task=id)["data"][0]
    report(coder, second, "failure", diff=DIFF)
    third = claim(coder, task=id)["data"][0]
    assert '<diff attempt="2"' in third["retry_context"]
    assert "b/f1" not in third["retry_context"]
    delete_tasks(list(Task.objects.values_list("pk", flat=True)))
    assert not AttemptDiff.objects.exists()
