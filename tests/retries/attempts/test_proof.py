"""What a done task rests on: its proof, by the checks of its last attempt."""

from typing import Any

import pytest

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Event, Plan, Project, Task
from ledger.states import Proof
from retries.attempts.checks.proposed import propose_check
from retries.attempts.checks.reported import find_proof, judge_checks
from retries.escalations.message import SENTENCES
from retries.models import Escalation
from retries.policies.editing import change_policies
from retries.states import Reason
from tests.factories import NOW
from tests.retries.api.calls import claim, enqueue

pytestmark = pytest.mark.django_db

A, B = "a" * 40, "b" * 40
TREE = {"commit": A, "diff": None, "files": 0}
DIRTY = {"commit": A, "diff": "d" * 64, "files": 2}
VERIFY = {"command": "make  test"}
PASSED = {"command": "make test", "exit_code": 0}


def ran(seen_by: str = "client", **more: Any) -> dict[str, Any]:
    return PASSED | {"seen_by": seen_by, "tree": None} | more


# the task's check, the checks of its last attempt, the tree that was left, and the proof
CASES = [
    (VERIFY, [], None, "claimed"),
    (VERIFY, [ran()], None, "proven"),
    (VERIFY, [ran("hook")], None, "proven"),
    (VERIFY, [ran("agent")], None, "claimed"),
    (VERIFY, [ran(command="")], None, "proven"),
    (VERIFY, [ran(command="make lint")], None, "claimed"),
    (VERIFY, [ran(exit_code=2)], None, "claimed"),
    (VERIFY | {"expect_exit": 2}, [ran(exit_code=2)], None, "proven"),
    (VERIFY, [ran(exit_code=None)], None, "claimed"),
    (VERIFY, [ran(), ran(exit_code=None)], None, "claimed"),
    (VERIFY, [ran(exit_code=None), ran()], None, "proven"),
    (VERIFY, [ran(), ran(command="make lint", exit_code=1)], None, "proven"),
    (VERIFY, [ran(tree=TREE)], TREE, "proven"),
    (VERIFY, [ran(tree=TREE)], TREE | {"files": None}, "proven"),
    (VERIFY, [ran(tree=TREE)], DIRTY, "stale"),
    (VERIFY, [ran(tree=TREE)], TREE | {"commit": B}, "stale"),
    (VERIFY, [ran(tree=TREE), ran(tree=DIRTY)], DIRTY, "proven"),
    (VERIFY, [ran(tree=TREE)], None, "proven"),
    (VERIFY, [ran()], TREE, "proven"),
    ({}, [ran()], None, "claimed"),
    ({}, [ran(command="")], None, "claimed"),
    ({}, [ran(is_proposed=True)], None, "proven"),
    ({}, [ran(is_proposed=True, exit_code=1)], None, "claimed"),
    (VERIFY, [ran(command="make lint", is_proposed=True)], None, "claimed"),
]


@pytest.mark.parametrize(("verify", "checks", "tree", "proof"), CASES)
def test_proof(verify: dict[str, Any], checks: list[dict[str, Any]], tree: Any, proof: str) -> None:
    assert find_proof(verify, checks, tree) == proof


SENT = [case for case in CASES if not any(check.get("is_proposed") for check in case[1])]


@pytest.mark.parametrize(("verify", "checks", "tree", "proof"), SENT)
@pytest.mark.parametrize("has_dependents", [False, True])
def test_a_report_stores_its_checks_and_the_task_its_proof(
    coder: Any,
    operator: Any,
    verify: dict[str, Any],
    checks: list[dict[str, Any]],
    tree: Any,
    proof: str,
    has_dependents: bool,
) -> None:
    """Both statements that end a task judge alike: a task that others need takes the second."""
    id = enqueue(operator, payload={"verify": verify} if verify else {})
    if has_dependents:
        enqueue(operator, needs=[id])
    at = claim(coder)["data"][0]["attempt"]["id"]
    report = {"status": "success", "checks": checks, "tree": tree}
    for _ in range(2):  # the same report again gets the same answer
        decision = coder("POST", f"/attempts/{at}/result", report)
        assert (decision.status_code, decision.body["decision"]) == (200, "done")
    assert operator("GET", f"/tasks/{id}").body["proof"] == proof
    stored = operator("GET", f"/attempts/{at}").body
    assert [each["command"] for each in stored["checks"]] == [each["command"] for each in checks]
    assert all(each["unknown"] for each in stored["checks"] if each["exit_code"] is None)
    assert stored["tree"] == tree
    completed = Event.objects.get(kind="task.completed", subject_id=id)
    assert completed.data["proof"] == proof


def test_a_verification_is_a_check_of_its_client(coder: Any, operator: Any) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    ways: list[tuple[str, Any, str]] = [
        ("result", {"status": "success", "verification": {"exit_code": 0}}, "proven"),
        ("result", {"status": "success", "verification": PASSED}, "proven"),
        ("result", {"status": "success", "verification": PASSED | {"command": "true"}}, "claimed"),
        (
            "result",
            {"status": "success", "verification": PASSED, "checks": [ran("agent")]},
            "claimed",
        ),
        ("exit/0?of=verification", b"212 passed", "proven"),
        ("exit/0", b"", "claimed"),
        (
            "result",
            {"status": "success", "checks": [ran(command=f"make test TOKEN={secret}")]},
            "claimed",
        ),
    ]
    for path, report, proof in ways:
        id = enqueue(operator, payload={"verify": VERIFY})
        at = claim(coder)["data"][0]["attempt"]["id"]
        assert coder("POST", f"/attempts/{at}/{path}", report).body["decision"] == "done"
        task, attempt = (operator("GET", url).body for url in (f"/tasks/{id}", f"/attempts/{at}"))
        assert (task["proof"], len(attempt["checks"])) == (proof, path != "exit/0")
        assert secret not in str(attempt)


@pytest.mark.parametrize(
    "wrong",
    [
        {"checks": [PASSED | {"unknown": "background"}]},
        {"checks": [PASSED | {"seen_by": "me"}]},
        {"checks": [PASSED] * 21},
        {"tree": {"commit": "main"}},
        {"tree": {"commit": A, "diff": "x"}},
    ],
)
def test_a_check_that_contradicts_itself_is_refused(
    coder: Any, operator: Any, wrong: dict[str, Any]
) -> None:
    enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    assert coder("POST", f"/attempts/{at}/result", {"status": "success"} | wrong).status_code == 422
    assert Attempt.objects.get().outcome is None


def test_tasks_are_found_by_their_proof(coder: Any, operator: Any) -> None:
    found = {}
    for checks in ([], [ran()]):
        id = enqueue(operator, payload={"verify": VERIFY})
        at = claim(coder)["data"][0]["attempt"]["id"]
        coder("POST", f"/attempts/{at}/result", {"status": "success", "checks": checks})
        found[operator("GET", f"/tasks/{id}").body["proof"]] = id
    old = enqueue(operator)
    at = claim(coder)["data"][0]["attempt"]["id"]
    coder("POST", f"/attempts/{at}/result", {"status": "success"})
    Task.objects.filter(pk=old).update(proof=None)  # as before proofs were stored
    waiting = enqueue(operator)

    def ids(query: str) -> set[str]:
        return {task["id"] for task in operator("GET", f"/tasks?{query}").body["data"]}

    assert ids("proof=proven") == {found["proven"]}
    assert ids("proof=claimed") == {found["claimed"], old}
    assert ids("proof=stale,person") == set()
    assert waiting in ids("") and operator("GET", f"/tasks/{waiting}").body["proof"] is None
    assert operator("GET", "/tasks?proof=sure").status_code == 422


# ---- what is asked for


def report(coder: Any, **more: Any) -> Any:
    at = claim(coder)["data"][0]["attempt"]["id"]
    body = {"status": "success", "result": {"branch": "x"}} | more
    return coder("POST", f"/attempts/{at}/result", body).body


@pytest.mark.parametrize(
    ("project", "plan", "task", "asks"),
    [
        (None, None, None, False),
        ("require", None, None, True),
        ("require", None, "record", False),
        ("record", None, "require", True),
        ("ask", None, None, False),
        ("record", "require", None, True),
        ("require", "record", None, False),
        ("record", "record", "require", True),
    ],
)
def test_a_level_of_evidence_is_the_task_s_else_the_plan_s_else_the_project_s(
    coder: Any,
    operator: Any,
    agent: Agent,
    project: str | None,
    plan: str | None,
    task: str | None,
    asks: bool,
) -> None:
    stamp = Stamp(SYSTEM, NOW)
    if project:
        change_policies(Project.objects.get(), {"evidence": project}, stamp=stamp)
    file = {"ref": "03-01", "tasks": [{"agent": "coder", "title": "One", "evidence": task}]}
    if plan:
        assert operator("POST", "/plans", file).status_code == 201
        Plan.objects.update(evidence=plan)
    else:
        enqueue(operator, evidence=task)
    assert report(coder)["decision"] == ("escalated" if asks else "done")


def test_a_person_accepts_what_nothing_proves(coder: Any, operator: Any) -> None:
    id = enqueue(operator, evidence="require", payload={"verify": VERIFY})
    waits = enqueue(operator, needs=[id])
    decision = report(coder)
    assert (decision["decision"], decision["reason"]) == ("escalated", "unproven")
    escalation = operator("GET", f"/escalations/{decision['escalation']['id']}").body
    assert escalation["reason"] == "unproven" and escalation["options"][0]["name"] == "accept"
    assert SENTENCES["unproven"] in escalation["message"]
    task = operator("GET", f"/tasks/{id}").body
    assert (task["state"], task["proof"]) == ("escalated", None)
    assert "done" not in task["allowed_moves"]
    url = f"/escalations/{escalation['id']}/resolve"
    assert operator("POST", url, {"text": "accept", "note": "I looked"}).status_code == 200
    task = operator("GET", f"/tasks/{id}").body
    assert (task["state"], task["proof"], task["result"]) == ("done", "person", {"branch": "x"})
    assert operator("GET", f"/tasks/{waits}").body["state"] == "queued"
    completed = Event.objects.get(kind="task.completed", subject_id=id)
    assert completed.data["proof"] == "person" and completed.data["answer"] == "accept"


def test_proof_or_a_retry_settles_it_too(coder: Any, operator: Any) -> None:
    id = enqueue(operator, evidence="require", payload={"verify": VERIFY})
    first = report(coder, checks=[ran("agent")])
    url = f"/escalations/{first['escalation']['id']}/resolve"
    assert operator("POST", url, {"text": "fix: run make test"}).status_code == 200
    assert report(coder, checks=[ran()])["decision"] == "done"
    assert operator("GET", f"/tasks/{id}").body["proof"] == "proven"
    assert Escalation.objects.get().reason == Reason.UNPROVEN


def test_only_a_task_without_proof_is_accepted(coder: Any, operator: Any) -> None:
    enqueue(operator, max_attempts=1, on_exhausted="escalate")
    failed = report(coder, status="failure")
    url = f"/escalations/{failed['escalation']['id']}/resolve"
    response = operator("POST", url, {"text": "accept"})
    assert response.status_code == 422 and "without proof" in str(response.body)


def test_an_agent_can_not_ask_for_less(coder: Any) -> None:
    body = {"type": "code", "evidence": "record"}
    assert coder("POST", "/tasks", body).status_code == 422
    assert coder("POST", "/tasks", body | {"evidence": "require"}).status_code == 201


# ---- the check that is proposed


def test_the_check_of_the_nearest_proven_tasks_is_proposed(coder: Any, operator: Any) -> None:
    def prove(command: str, *, proven: bool = True, **more: Any) -> None:
        payload = {"verify": {"command": command}} | more.pop("payload", {})
        enqueue(operator, payload=payload, **more)
        report(coder, checks=[ran(command=command)] if proven else [])

    def proposed(**more: Any) -> str:
        return propose_check(Task.objects.get(pk=enqueue(operator, **more)))

    assert proposed(type="docs") == ""
    Task.objects.all().delete()
    prove("make docs", type="docs", payload={"files": ["docs/a.md"]})
    prove("make test", type="code")
    prove("make all", type="code", proven=False)
    prove("make lint", type="code")
    prove("make lint", type="code")
    found = {
        "code": proposed(type="code"),
        "file": proposed(type="other", payload={"files": ["docs/a.md", "b.md"]}),
        "none": proposed(type="other", payload={"files": ["b.md"]}),
    }
    assert found == {"code": "make lint", "file": "make docs", "none": ""}


def test_every_proof_has_one_word_in_the_api() -> None:
    assert [str(proof) for proof in Proof] == ["proven", "stale", "claimed", "person"]
    assert judge_checks([], None) == {}
