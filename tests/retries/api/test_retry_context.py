"""What the next attempt is told, over HTTP: with claims and reports, by itself, and as bare text."""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree

import pytest
from pytest_django import DjangoAssertNumQueries

from ledger.models import Agent, Attempt
from retries.retry_context.block import RENDERER_VERSION
from retries.retry_context.trials import DEFAULT
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db

BODY = {
    "title": "Create it",
    "type": "code",
    "agent": "coder",
    "backoff": {"base_delay_ms": 0},
    "payload": {"action": "Add the error", "verify": {"command": "npm test"}, "ticket": 7},
}
FAILED = {
    "status": "failure",
    "summary": "1 passed, 2 failed",
    "verification": {"command": "npm test", "exit_code": 1, "output": "FAIL <b>\n" + "x" * 5000},
    "failure": {"type": "verification_failed", "code": "assertion", "suggested_fix": "Trim"},
    "files_modified": [{"path": "a.ts", "status": "partially_modified"}],
    "learnings": ["It does not throw"],
}


def enqueue(api: Any, **more: Any) -> str:
    id: str = api("POST", "/tasks", BODY | more).body["id"]
    return id


def claim(coder: Any) -> dict[str, Any]:
    (one,) = coder("POST", "/claims").body["data"]
    found: dict[str, Any] = one
    return found


def report(coder: Any, one: dict[str, Any], **more: Any) -> Any:
    return coder("POST", f"/attempts/{one['attempt']['id']}/result", FAILED | more)


def test_a_claim_tells_what_went_wrong_before(coder: Any, operator: Any) -> None:
    """S1.17, S1.22: nothing on the first attempt; before the task on the second."""
    enqueue(operator)
    first = claim(coder)
    assert first["retry_context"] == ""
    assert first["prompt"] == (
        '<task type="code">\n  <name>Create it</name>\n  <action>Add the error</action>\n'
        "  <verify>\n    <command>npm test</command>\n  </verify>\n"
        '  <payload>{"ticket": 7}</payload>\n</task>'
    )
    report(coder, first)
    second = claim(coder)
    context = second["retry_context"]
    root = ElementTree.fromstring(context)
    assert (root.get("attempt"), root.get("max_attempts")) == ("2", "3")
    assert root.findtext("*/*/error_summary") == (
        "npm test returned exit code 1\n1 passed, 2 failed"
    )
    assert root.findtext("*/*/files_affected") == "- a.ts (partially modified)"
    assert root.findtext("*/*/suggested_fix") == "Trim"
    assert root.findtext("accumulated_learnings") == "- It does not throw"
    assert second["prompt"] == f"{context}\n\n{first['prompt']}"
    assert second["next_action"].startswith("Read the retry context, then do the task, run the")


def test_the_system_text_of_the_agent_stands_before_it(
    coder: Any, operator: Any, agent: Agent
) -> None:
    """S1.22: before the block, before the task on a first attempt; whole, whatever the budget."""
    said = "You work on <planner>. " + "Mind the rules. " * 900
    operator("PATCH", f"/agents/{agent.pk}", {"system_text": f"\n{said}"})
    brief = said.strip()
    id = enqueue(operator)
    first = claim(coder)
    assert first["retry_context"] == ""
    assert first["prompt"].startswith(f'{brief}\n\n<task type="code">')
    reclaimed = report(coder, first, reclaim=True).body
    assert reclaimed["prompt"].startswith(f"{brief}\n\n{reclaimed['retry_context']}\n\n<task ")
    coder("POST", f"/attempts/{reclaimed['retry']['attempt']}/release")
    text = operator("GET", f"/tasks/{id}/prompt?budget=6000").content.decode()
    block = text.removeprefix(f"{brief}\n\n").partition("\n\n<task ")[0]
    assert text.startswith(brief) and ElementTree.fromstring(block).tag == "retry_context"
    assert 1000 < len(block) <= 6000
    shell = coder("POST", "/claims", {}, Accept="text/plain").content.decode()
    assert shell.startswith(f"{brief}\n\n<retry_context ")
    made = coder("POST", "/tasks?claim=true", BODY | {"title": "More"}).body["data"][0]
    assert made["prompt"].startswith(f"{brief}\n\n<task ")
    others = enqueue(operator, agent=make_agent("other").name)
    told = operator("GET", f"/tasks/{others}/prompt").content.decode()
    assert told.startswith('<task type="code">')


def test_a_reclaimed_report_tells_it_at_once(coder: Any, operator: Any) -> None:
    enqueue(operator)
    decision = report(coder, claim(coder), reclaim=True).body
    assert decision["decision"] == "retry"
    assert decision["retry_context"].startswith('<retry_context attempt="2" max_attempts="3">')
    assert decision["prompt"].startswith(decision["retry_context"] + "\n\n<task ")
    assert f"/v1/attempts/{decision['retry']['attempt']}/result" in decision["next_action"]


@pytest.mark.parametrize("reclaim", [False, True])
def test_an_attempt_stores_what_it_was_told(coder: Any, operator: Any, reclaim: bool) -> None:
    enqueue(operator)
    first = claim(coder)
    decision = report(coder, first, reclaim=reclaim).body
    if reclaim:
        id, context = decision["retry"]["attempt"], decision["retry_context"]
    else:
        second = claim(coder)
        id, context = second["attempt"]["id"], second["retry_context"]
    stored = Attempt.objects.get(pk=id)
    assert bytes(stored.context_sha256 or b"") == sha256(context.encode()).digest()
    assert (stored.context_chars, stored.context_version) == (len(context), RENDERER_VERSION)
    assert stored.context_variant == DEFAULT
    tags = Counter(each.tag for each in ElementTree.fromstring(context).iter())
    assert stored.context_elements == tags and tags["failure"] == 1
    told_nothing = Attempt.objects.get(pk=first["attempt"]["id"])
    assert told_nothing.context_sha256 is told_nothing.context_elements is None


def test_suspicious_lines_are_stored_without_secrets_and_told(coder: Any, operator: Any) -> None:
    """The next attempt is told ten lines at most; a report with more is refused."""
    enqueue(operator)
    line = {"path": "password=hunter22hunter", "line": 7, "function": "total", "score": 1.0}
    ran = {"command": "make test", "exit_code": 1, "output": "no"}
    attempt = claim(coder)
    refused = report(coder, attempt, verification=ran | {"suspects": [line] * 11})
    assert refused.status_code == 422
    context = report(coder, attempt, verification=ran | {"suspects": [line]}, reclaim=True).body[
        "retry_context"
    ]
    assert "hunter22" not in context and ":7 total (1.0)</suspicious_lines>" in context


def test_a_persons_fix_leads_the_guided_attempt(coder: Any, operator: Any) -> None:
    """S1.22, S1.47, S1.48, S1.49: three failures, a fix, and attempt 4 of 4."""
    enqueue(operator, on_exhausted="escalate")
    for _ in range(3):
        decision = report(coder, claim(coder)).body
    assert decision["decision"] == "escalated"
    path = f"/escalations/{decision['escalation']['id']}/resolve"
    assert operator("POST", path, {"text": "fix: Trim <id> first"}).status_code == 200
    guided = claim(coder)
    root = ElementTree.fromstring(guided["retry_context"])
    assert (root.get("attempt"), root.get("max_attempts")) == ("4", "4")
    assert root[0].tag == "user_intervention"
    assert root[0].findtext("instruction[@priority='high']") == "User provided fix: Trim <id> first"
    assert [each.get("attempt") for each in root.findall("*/failure")] == ["1", "2", "3"]
    assert guided["prompt"].startswith(guided["retry_context"])
    done = coder("POST", f"/attempts/{guided['attempt']['id']}/result", {"status": "success"})
    assert done.body["decision"] == "done"


def test_only_what_is_tried_again_costs_further_queries(
    coder: Any, operator: Any, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Beside the claim's own statement, which is not among those counted here."""
    enqueue(operator)
    with django_assert_num_queries(0):
        first = claim(coder)
    report(coder, first)
    with django_assert_num_queries(3):
        claim(coder)


def test_it_can_be_read_before_the_attempt_begins(
    coder: Any, operator: Any, api: Callable[..., Any]
) -> None:
    """The same bytes as the claim will bring; to everybody who may see the task."""
    id = enqueue(operator)
    empty = operator("GET", f"/tasks/{id}/retry-context")
    assert (empty.status_code, empty.content) == (200, b"")
    assert empty["Content-Type"] == "text/xml; charset=utf-8"
    first = claim(coder)
    report(coder, first)
    shown = {
        who: who("GET", f"/tasks/{id}/retry-context").content.decode() for who in (coder, operator)
    }
    reader = api("reader")("GET", f"/tasks/{id}/prompt")
    assert reader["Content-Type"] == "text/plain; charset=utf-8"
    second = claim(coder)
    assert set(shown.values()) == {second["retry_context"]}
    assert reader.content.decode() == second["prompt"]
    # while that one runs, the next one is the third
    running = operator("GET", f"/tasks/{id}/retry-context").content
    assert running.startswith(b'<retry_context attempt="3" max_attempts="3">')


@pytest.mark.parametrize("path", ["retry-context", "prompt"])
def test_a_budget_is_kept_and_checked(coder: Any, operator: Any, path: str) -> None:
    id = enqueue(operator, payload={}, title="", max_attempts=9)
    for letter in "abcde":
        lines = [f"src/{letter}.c:{n}:1: error: no member {letter * n}" for n in range(1, 60)]
        failure = {"details": "\n".join(lines), "suggested_fix": letter * 900}
        report(coder, claim(coder), failure=failure)
    whole, small = (
        operator("GET", f"/tasks/{id}/{path}{query}").content.decode()
        for query in ("", "?budget=6000")
    )
    task = len('\n\n<task type="code">\n</task>') if path == "prompt" else 0
    assert 6_000 + task < len(whole) <= 16_000 + task
    assert len(small) <= 6_000 + task
    assert small.count("<failure ") == 5 and small.count("<error_details") == 1
    for wrong in ("5999", "60001", "x", "1e4"):
        refused = operator("GET", f"/tasks/{id}/{path}?budget={wrong}")
        assert refused.status_code == 422 and refused.body["code"] == "validation_error"
        assert refused.body["errors"][0]["pointer"] == "/budget"


@pytest.mark.parametrize("path", ["retry-context", "prompt"])
def test_a_task_of_others_is_not_there(
    operator: Any, api: Callable[..., Any], path: str, agent: Agent
) -> None:
    id = enqueue(operator)
    for stranger in (
        api("agent", agent=make_agent("other")),
        api("operator", project=make_project("elsewhere")),
    ):
        assert stranger("GET", f"/tasks/{id}/{path}").body["code"] == "not_found"
    assert operator("GET", f"/tasks/{agent.pk}/{path}").status_code == 404


# ---- bare text, for pipes


def test_a_claim_as_text_is_the_prompt_and_names_its_attempt(coder: Any, operator: Any) -> None:
    nothing = coder("POST", "/claims", None, Accept="text/plain")
    assert (nothing.status_code, nothing.content) == (200, b"")
    assert "Tenfour-Attempt" not in nothing
    id = enqueue(operator)
    first = coder("POST", "/claims", None, Accept="text/plain")
    assert first["Content-Type"] == "text/plain; charset=utf-8"
    assert first.content.startswith(b'<task type="code">')
    at = first["Tenfour-Attempt"]
    assert operator("GET", f"/attempts/{at}").body["number"] == 1
    coder("POST", f"/attempts/{at}/result", FAILED)
    block = coder("POST", f"/tasks/{id}/start", None, Accept="application/xml")
    assert block["Content-Type"] == "application/xml; charset=utf-8"
    assert ElementTree.fromstring(block.content).get("attempt") == "2"


def test_the_complete_loop_of_a_shell(coder: Any, operator: Any) -> None:
    """api.md §9.5: an exit prints the retry context, or nothing."""
    id = enqueue(operator, max_attempts=2)

    def exits(code: int, output: str, **more: str) -> Any:
        at = claim(coder)["attempt"]["id"]
        more = {"Content-Type": "text/plain", "Accept": "text/plain"} | more
        return coder("POST", f"/attempts/{at}/exit/{code}", output.encode(), **more)

    failed = exits(1, "1 <failed>")
    assert failed["Content-Type"] == "text/plain; charset=utf-8"
    assert failed["Output-Limit"] == "65536"
    text = failed.content.decode()
    assert text.startswith('<retry_context attempt="2" max_attempts="2">')
    assert "1 &lt;failed&gt;</error_details>" in text
    assert text == operator("GET", f"/tasks/{id}/retry-context").content.decode()
    last = exits(1, "again")
    assert (last.status_code, last.content) == (200, b"")
    enqueue(operator)
    assert exits(0, "").content == b""
    assert operator("GET", f"/tasks/{id}").body["state"] == "failed"


def test_a_report_as_text_with_the_next_attempt_open_is_its_prompt(
    coder: Any, operator: Any
) -> None:
    enqueue(operator)
    at = claim(coder)["attempt"]["id"]
    path = f"/attempts/{at}/result"
    told = coder("POST", path, FAILED | {"reclaim": True}, Accept="text/plain")
    assert told.content.startswith(b"<retry_context ") and told.content.endswith(b"</task>")
    assert operator("GET", f"/attempts/{told['Tenfour-Attempt']}").body["number"] == 2
    # the same report again, whose answer may have got lost: it has opened that attempt
    again = coder("POST", path, FAILED | {"reclaim": True}, Accept="text/plain")
    assert (again.content, again["Tenfour-Attempt"]) == (told.content, told["Tenfour-Attempt"])


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("text/plain;q=0.5, application/json", "application/json"),
        ("text/html", "application/json"),
        ("text/plain, */*;q=0.1", "text/plain; charset=utf-8"),
        ("application/xml", "application/xml; charset=utf-8"),
    ],
)
def test_json_unless_text_is_liked_better(coder: Any, accept: str, kind: str) -> None:
    assert coder("POST", "/claims", None, Accept=accept)["Content-Type"] == kind
