"""The project's policies decide about failures that a retry can't fix, with their evidence."""

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from ledger.database import sql
from ledger.models import Agent, Event, Task
from retries.escalations.record import render_escalation
from retries.models import Escalation, Grouped, RetryPolicy
from tests.dashboard.worked import make_plan
from tests.factories import NOW
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db

QUOTA = "API Error: 400 Your credit balance is too low to access the API."
LOGIN = "fatal: could not read Username for 'https://git.example.org': terminal prompts disabled"
LIMIT = "openai.RateLimitError: Error code: 429 - Rate limit reached. Please try again in 20s."
MISSING = "ModuleNotFoundError: No module named 'polars'"


def report(coder: Any, **said: Any) -> dict[str, Any]:
    attempt = claim(coder)["data"][0]["attempt"]["id"]
    body = {"status": "failure"} | said
    found = coder("POST", f"/attempts/{attempt}/result", body)
    assert found.status_code == 200, found.content
    assert coder("POST", f"/attempts/{attempt}/result", body).body == found.body
    decision: dict[str, Any] = found.body
    return decision


def make_plan_task(agent: Agent) -> None:
    make_plan("03-01", [("One", [])], agent=agent, now=NOW)
    Task.objects.exclude(plan=None).update(max_attempts=4, attempt_limit=4)


def say(line: str) -> dict[str, Any]:
    return {"failure": {"message": "it failed", "details": f"step 1\n{line}\nstep 2"}}


@pytest.mark.parametrize(
    ("line", "reason", "title", "sentence"),
    [
        (QUOTA, "needs_quota", "Quota or credit used up", "A quota or credit is used up"),
        (LOGIN, "needs_credentials", "Not authenticated", "Credentials are missing or wrong"),
    ],
)
def test_a_plan_s_task_asks_at_once(
    agent: Agent, coder: Any, line: str, reason: str, title: str, sentence: str
) -> None:
    make_plan_task(agent)
    decision = report(coder, **say(line))
    assert (decision["decision"], decision["reason"]) == ("escalated", reason)
    assert decision["evidence"]["line"] == line
    assert decision["evidence"]["title"] == title
    escalation = Escalation.objects.get()
    assert escalation.reason == reason
    summary = render_escalation(escalation).split("### Failure Summary")[1].splitlines()[2]
    assert summary.startswith(f"This task has failed 1 time. {sentence}")
    assert summary.endswith(f"Evidence (known error “{title}”): `{line.replace('`', chr(39))}`")
    event = Event.objects.get(kind="task.escalated")
    assert event.data["evidence"]["line"] == line


def test_policies_are_for_the_tasks_that_they_name(agent: Agent, coder: Any, operator: Any) -> None:
    enqueue(operator, max_attempts=9)
    assert report(coder, **say(QUOTA))["reason"] == "attempts_left"
    RetryPolicy.objects.create(project=agent.project, ask_at_once="all", obey_waits="off")
    enqueue(operator)
    assert report(coder, **say(QUOTA))["reason"] == "needs_quota"
    RetryPolicy.objects.update(ask_at_once="off")
    make_plan_task(agent)
    decision = report(coder, **say(QUOTA))
    assert (decision["decision"], "evidence" in decision) == ("wait", False)


def test_a_rate_limit_waits_as_long_as_it_says(agent: Agent, coder: Any, operator: Any) -> None:
    """Four attempts no longer burn within a second, in a plan or outside of it."""
    make_plan_task(agent)
    decision = report(coder, **say(LIMIT))
    assert (decision["decision"], decision["delay_s"]) == ("wait", 20)
    assert decision["evidence"] == {
        "line": LIMIT,
        "known_error": "rate_limit",
        "title": "Rate limit",
        "wait_s": 20,
    }
    Agent.objects.update(waits_until=None, wait_step_s=0)
    enqueue(operator)
    assert report(coder, **say("HTTP 429 Too Many Requests\nRetry-After: 7200"))["delay_s"] == 7200
    Agent.objects.update(waits_until=None, wait_step_s=0)
    enqueue(operator)
    attempt = claim(coder)["data"][0]["attempt"]["id"]
    found = coder("POST", f"/attempts/{attempt}/exit/1", LIMIT.encode(), Content_Type="text/plain")
    assert found.body["delay_s"] == 20


@pytest.mark.parametrize(
    "said",
    [
        say("AssertionError: expected 200, got 401 Unauthorized: credit balance is too low"),
        {
            "verification": {
                "command": "pytest",
                "exit_code": 1,
                "output": f"FAILED tests/test_pay.py::test_credit - {QUOTA}\n",
            }
        },
    ],
)
def test_a_failing_test_about_credit_is_no_lack_of_credit(
    agent: Agent, coder: Any, said: dict[str, Any]
) -> None:
    make_plan_task(agent)
    assert report(coder, **said)["reason"] == "attempts_left"


@pytest.mark.parametrize(
    ("first", "second", "line", "on", "reason"),
    [
        ([{"path": "a.py"}], [], MISSING, "all", "same_failure_again"),
        ([], [], MISSING, "all", "same_failure_again"),
        ([], [], MISSING, "off", "attempts_left"),
        ([], [], MISSING, "plans", "attempts_left"),
        ([], [{"path": "a.py"}], MISSING, "all", "attempts_left"),
        (None, [], MISSING, "all", "attempts_left"),
        ([], None, MISSING, "all", "attempts_left"),
        ([], [], MISSING.replace("polars", "fastapi"), "all", "attempts_left"),
    ],
)
def test_the_same_failure_without_a_changed_file_asks(
    agent: Agent,
    coder: Any,
    operator: Any,
    first: Any,
    second: Any,
    line: str,
    on: str,
    reason: str,
) -> None:
    """Both attempts must have sent their files: what is absent is unknown."""
    RetryPolicy.objects.create(project=agent.project, ask_on_same_failure=on)
    enqueue(operator, max_attempts=5, backoff={"base_delay_ms": 0, "jitter": False})
    for files, text in ((first, MISSING), (second, line)):
        sent = {} if files is None else {"files_modified": files}
        decision = report(coder, **say(text), **sent)
    assert decision["reason"] == reason
    if reason == "same_failure_again":
        assert decision["evidence"] == {"line": MISSING, "same_as": 1}
        assert f"(same as attempt 1): `{MISSING}`" in render_escalation(Escalation.objects.get())
    signatures = set(Grouped.objects.values_list("signature", flat=True))
    assert len(signatures) == 1 + (line != MISSING) and "" not in signatures
    assert Grouped.objects.order_by("pk").first().entities == ["polars"]  # type: ignore[union-attr]


def test_policies_cost_no_query_where_nothing_is_about_them(
    coder: Any, operator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a success, whatever its output, and of a failure that no policy is about."""
    statements: list[str] = []
    run = sql.run

    def note(statement: str, /, **params: Any) -> list[sql.Row]:
        statements.append(statement)
        return run(statement, **params)

    monkeypatch.setattr(sql, "run", note)
    asked = {}
    for name, said in {
        "success": {"status": "success", "verification": {"exit_code": 0, "output": LIMIT}},
        "other": {"status": "failure", **say(MISSING)},
        "limit": {"status": "failure", **say(LIMIT)},
    }.items():
        enqueue(operator)
        attempt = claim(coder)["data"][0]["attempt"]["id"]
        statements.clear()
        assert coder("POST", f"/attempts/{attempt}/result", said).status_code == 200
        asked[name] = sum("join retries_retrypolicy" in each for each in statements)
    assert asked == {"success": 0, "other": 0, "limit": 1}


def test_each_decision_names_its_evidence_on_the_pages_and_in_the_api(
    agent: Agent, coder: Any, operator: Any, admin_client: Client
) -> None:
    make_plan_task(agent)
    report(coder, **say(QUOTA))
    escalation = Escalation.objects.get()
    row = operator("GET", f"/escalations/{escalation.pk}").body
    assert row["evidence"] == {
        "line": QUOTA,
        "known_error": "quota",
        "title": "Quota or credit used up",
        "wait_s": None,
        "same_as": None,
    }
    (attempt,) = operator("GET", f"/tasks/{escalation.task_id}/attempts").body["data"]
    assert attempt["decision"]["evidence"]["line"] == QUOTA
    for page in (f"/tasks/{escalation.task_id}/", f"/escalations/?id={escalation.pk}"):
        shown = " ".join(re.sub(r"<[^>]+>", " ", admin_client.get(page).content.decode()).split())
        assert "known error “Quota or credit used up”" in shown and QUOTA in shown, page
    # and an orchestrator can find it by what it tells
    signature = row["signature"]["key"]
    for path in (
        "/escalations?known_error=quota",
        f"/escalations?signature={signature}&pattern={row['pattern']}",
        f"/tasks/{escalation.task_id}/attempts?known_error=quota&signature={signature}",
        f"/patterns?known_error=quota&signature={signature}",
        f"/patterns?pattern={row['pattern']}",
    ):
        assert len(operator("GET", path).body["data"]) == 1, path
        other = path.replace("quota", "rate_limit").replace(signature, "0" * 16)
        other = other.replace(f"pattern={row['pattern']}", f"pattern={escalation.pk}")
        assert operator("GET", other).body["data"] == [], other


def test_the_same_failure_and_an_obeyed_wait_name_their_evidence(
    agent: Agent, coder: Any, operator: Any, admin_client: Client
) -> None:
    """In the answer to the report, the attempts in the API, and on both pages."""
    RetryPolicy.objects.create(project=agent.project, ask_on_same_failure="all", obey_waits="all")
    enqueue(operator, max_attempts=5, backoff={"base_delay_ms": 0, "jitter": False})
    for _ in range(2):
        decision = report(coder, **say(MISSING), files_modified=[])
    escalation = Escalation.objects.get()
    assert (decision["decision"], decision["reason"]) == ("escalated", "same_failure_again")
    assert decision["evidence"] == {"line": MISSING, "same_as": 1}
    shown = operator("GET", f"/escalations/{escalation.pk}").body
    assert (shown["reason"], shown["evidence"]["same_as"]) == ("same_failure_again", 1)
    assert shown["evidence"]["line"] == MISSING
    last, *_ = operator("GET", f"/tasks/{escalation.task_id}/attempts").body["data"]
    assert last["decision"]["evidence"]["same_as"] == 1
    task = read_page(admin_client, f"/tasks/{escalation.task_id}/")
    assert f"same as attempt 1): {MISSING}" in task
    page = read_page(admin_client, f"/escalations/{escalation.pk}/")
    assert "same error as attempt 1 and no changed file" in page
    assert f"Evidence (same as attempt 1): `{MISSING}`" in page
    RetryPolicy.objects.update(ask_on_same_failure="off")
    id = enqueue(operator, max_attempts=2, on_exhausted="escalate")
    decision = report(coder, **say(LIMIT))
    assert (decision["decision"], decision["delay_s"]) == ("wait", 20)
    assert (decision["evidence"]["wait_s"], decision["evidence"]["line"]) == (20, LIMIT)
    (last,) = operator("GET", f"/tasks/{id}/attempts").body["data"]
    assert last["decision"]["evidence"] == decision["evidence"]
    obeyed = f"waits 20 s, as the error says (known error “Rate limit”): {LIMIT}"
    assert obeyed in read_page(admin_client, f"/tasks/{id}/")


def read_page(client: Client, path: str) -> str:
    """Return the text of a page without its markup."""
    text = unescape(re.sub(r"<[^>]+>", " ", client.get(path).content.decode()))
    return " ".join(text.split())
