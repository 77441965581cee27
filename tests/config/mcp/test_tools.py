"""The tools of `/mcp`: who sees which, and whole tasks through them alone (api.md 9.1)."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from config.mcp.catalog import TOOLS
from ledger.models import Agent, Attempt, Event, Instruction, Task
from retries.attempts.leases import expire
from retries.models import Escalation
from tests.config.mcp.calls import Mcp, text_of

AGENT = ["claim_task", "heartbeat", "report_result", "release_task", "ask_human", "get_escalation"]
AGENT += ["get_instructions", "ack_instruction", "get_task", "list_tasks", "get_plan_forecast"]
AGENT += ["list_budgets", "create_task"]
PRODUCER = ["get_escalation", "get_task", "list_tasks", "get_plan_forecast"]
PRODUCER += ["list_budgets", "import_plan", "create_task"]
PRODUCER += ["send_instruction"]
PLAN = """---
phase: 03-ids
plan: 01
agent: coder
---
<task type="auto">
  <name>Create the error</name>
  <action>Add it and use it</action>
  <verify><automated>make test</automated></verify>
</task>
"""


def test_a_token_sees_the_tools_that_it_can_use(
    mcp: Callable[..., Mcp], coder: Mcp, lead: Mcp
) -> None:
    def names(caller: Mcp) -> list[str]:
        return [tool["name"] for tool in caller.tools()]

    assert names(coder) == AGENT
    assert names(lead) == PRODUCER
    assert names(mcp("operator")) == PRODUCER
    assert names(mcp("reader")) == [*PRODUCER[:5]]
    for name, arguments in (
        ("import_plan", {"content": PLAN}),
        ("send_instruction", {"agent": "coder", "content": "x"}),
    ):
        assert "lacks the scope" in coder.refused(name, **arguments)
    assert "needs an agent's token" in lead.refused("claim_task")
    assert not Task.objects.exists() and not Instruction.objects.exists()


def test_no_tool_answers_an_escalation() -> None:
    """Only people answer: no tool has an operation with that scope, whatever the token."""
    scopes = {tool.auth.scope for tool in TOOLS}
    assert not scopes & {"escalations:resolve", "tokens:write", "deadletters:write"}
    paths = {tool.operation.__name__ for tool in TOOLS}
    assert paths <= {
        *("claims_create", "attempts_heartbeat", "attempts_report_result", "attempts_release"),
        *("attempts_escalate", "escalations_get", "instructions_pull", "instructions_ack"),
        *(
            "tasks_get",
            "tasks_list",
            "plans_get_forecast",
            "budgets_list",
            "plans_create",
            "tasks_create",
            "instructions_create",
        ),
    }


def test_tools_are_described_for_models(lead: Mcp, coder: Mcp) -> None:
    for tool in coder.tools() + lead.tools():
        sentences = re.findall(r"[.!?](?:\s|$)", tool["description"])
        assert 1 <= len(sentences) <= 2, tool["description"]
        schema = tool["inputSchema"]
        assert schema["type"] == "object" and schema["additionalProperties"] is False
        assert "$ref" not in str(schema) and "null" not in str(schema)
        for name, each in schema["properties"].items():
            assert each.keys() & {"type", "enum"}, (tool["name"], name)
        hints = tool["annotations"]
        assert hints["destructiveHint"] is False
        assert hints["readOnlyHint"] == tool["name"].startswith(
            ("get_task", "list_", "get_esc", "get_plan")
        )


def test_a_task_fails_is_retried_with_its_context_and_is_done(coder: Mcp, lead: Mcp) -> None:
    """Claim, report a failure, get the retry context at once, report a success."""
    imported = lead.done("import_plan", content=PLAN, format="markdown", register=True)
    (task,) = imported["tasks"]
    assert lead.done("import_plan", content=PLAN)["unchanged"]

    first = coder.call("claim_task", worker_id="s1")
    claimed = first["structuredContent"]
    attempt = claimed["attempt"]["id"]
    assert claimed["task"]["id"] == task["id"]
    assert "Add it and use it" in claimed["prompt"] and "Add it and use it" in text_of(first)
    assert "run `make test`" in claimed["message"] and attempt in text_of(first)
    again = coder.done("claim_task", worker_id="s1")
    assert again["attempt"]["id"] == attempt and again["attempt"]["resumed"]

    beat = coder.call("heartbeat", attempt=attempt, message="writing it", percent=40)
    assert "Continue" in text_of(beat) and not beat["structuredContent"]["abort_requested"]
    assert Attempt.objects.get().progress == {"message": "writing it", "percent": 40}

    report = {
        "attempt": attempt,
        "status": "success",
        "summary": "wrote it",
        "exit_code": 2,
        "output": "1 failed: \0 empty id accepted",
        "suggested_fix": "check for the empty id",
        "files": ["src/ids.py"],
        "learnings": ["the id may be empty"],
    }
    failed = coder.call("report_result", **report)
    told = failed["structuredContent"]
    assert (told["decision"], told["verdict"]["type"]) == ("retry", "verification_failed")
    assert told["retry"]["number"] == 2
    for part in ("empty id accepted", "check for the empty id", "the id may be empty"):
        assert part in text_of(failed) and part in told["prompt"]
    assert f"report_result with attempt {told['retry']['attempt']}" in told["message"]
    assert coder.done("report_result", **report)["retry"]["attempt"] == told["retry"]["attempt"]
    assert "different content" in coder.refused("report_result", **report | {"exit_code": 3})

    second = told["retry"]["attempt"]
    done = coder.call("report_result", attempt=second, status="success", exit_code=0)
    assert done["structuredContent"]["decision"] == "done"
    assert "claim_task" in text_of(done)
    assert coder.done("get_task", id=task["id"])["state"] == "done"
    assert [each.outcome for each in Attempt.objects.order_by("number")] == ["failure", "success"]
    nothing = coder.call("claim_task")
    assert nothing["structuredContent"]["reason"] == "no_task"
    assert "no task" in text_of(nothing)


def test_a_success_without_the_result_of_the_check_is_sent_back_once(coder: Mcp) -> None:
    """AGT-1: what may still run in the background proves nothing; an agent without a shell goes on."""
    coder.done("create_task", title="Add ids", action="add them", verify="make test")
    coder.done("claim_task")
    refused = coder.refused("report_result", status="success")
    assert "Run `make test` to its end first" in refused
    assert Task.objects.get().state == "running"
    coder.done("report_result", status="success")
    assert Task.objects.get().state == "done"


def test_an_agent_sets_no_higher_priority_than_the_usual_one(coder: Mcp) -> None:
    refused = coder.refused("create_task", title="Add ids", action="add them", priority=1)
    assert "set priority to at most 0" in refused
    coder.done("create_task", title="Add ids", action="add them", priority=-1)


def test_an_attempt_that_is_over_is_fenced(coder: Mcp) -> None:
    coder.done("create_task", title="Add ids", action="add them")
    attempt = coder.done("claim_task")["attempt"]["id"]
    released = coder.call("release_task", attempt=attempt, note="no time")
    assert "queued" in text_of(released)
    for name, more in (("heartbeat", {}), ("report_result", {"status": "success"})):
        result = coder.call(name, attempt=attempt, **more)
        assert result["isError"]
        assert result["structuredContent"]["code"] == "lease_lost"
        assert "Claim again" in text_of(result)
    assert coder.done("claim_task")["attempt"]["number"] == 2


def test_an_agent_whose_attempt_was_lost_is_told(coder: Mcp) -> None:
    """AGT-11: a tool without an attempt says how the last one ended."""
    assert "no open attempt" in coder.refused("heartbeat")
    coder.done("create_task", title="Add ids", action="add them")
    coder.done("claim_task")
    Attempt.objects.update(lease_expires_at=timezone.now())
    assert expire(now=timezone.now()) == 1
    refused = coder.refused("heartbeat")
    assert "Attempt 1 of the task 'Add ids' is over: its lease expired" in refused
    assert refused.endswith("Call claim_task.")


def test_a_person_stops_a_task_through_the_heartbeat(coder: Mcp, lead: Mcp) -> None:
    task = coder.done("create_task", title="Add ids", action="add them")["id"]
    attempt = coder.done("claim_task")["attempt"]["id"]
    headers = lead.headers | {"Accept": "application/json"}
    assert lead.http.post(f"/v1/tasks/{task}/abort", headers=headers).status_code == 200
    beat = coder.call("heartbeat", attempt=attempt)
    assert beat["structuredContent"]["abort_requested"] and "Stop now" in text_of(beat)
    assert "asked this task to stop" in coder.refused("ask_human", attempt=attempt, question="Why?")
    reported = coder.call("report_result", attempt=attempt, status="failure", summary="half done")
    assert reported["structuredContent"]["decision"] == "aborted"


def test_an_agent_asks_and_reads_the_answer(coder: Mcp, mcp: Callable[..., Mcp]) -> None:
    coder.done("create_task", title="Drop the table", action="drop it")
    attempt = coder.done("claim_task")["attempt"]["id"]
    asked = coder.call("ask_human", attempt=attempt, question="Drop it?", options=["yes", "no"])
    id = asked["structuredContent"]["id"]
    assert asked["structuredContent"]["url"].endswith(f"/escalations/{id}/")
    assert "get_escalation" in text_of(asked)
    assert "No answer yet" in text_of(coder.call("get_escalation", id=id))
    person = mcp("operator")
    answered = person.http.post(
        f"/v1/escalations/{id}/resolve",
        headers=person.headers | {"Accept": "application/json"},
        json={"action": "answer", "instruction": "yes, but keep a copy"},
    )
    assert answered.status_code == 200, answered.text
    read = coder.call("get_escalation", id=id)
    assert read["structuredContent"]["state"] == "resolved"
    assert "keep a copy" in text_of(read) and "claim_task" in text_of(read)
    assert Escalation.objects.get().state == "resolved"
    Task.objects.update(due_at=None)
    assert "keep a copy" in coder.done("claim_task")["prompt"]


def test_a_hooked_session_has_one_task_whichever_way_it_asks(coder: Mcp, lead: Mcp) -> None:
    """AGT-2, AGT-5: `tenfour init` installs hooks and MCP together."""
    queued = [lead.done("create_task", agent="coder", title=each, action="Do it") for each in "AB"]
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s-1", "prompt": "Work."}
    given = coder.http.post("/v1/hooks/agent", json=event, headers=coder.headers)
    claimed = coder.done("claim_task")["attempt"]
    assert (
        f"Your attempt is {claimed['id']}"
        in given.json()["hookSpecificOutput"]["additionalContext"]
    )
    assert claimed["resumed"]
    coder.done("heartbeat", message="half done")
    coder.done("ask_human", question="Which format?")
    states = [lead.done("get_task", id=each["id"])["state"] for each in queued]
    assert states == ["escalated", "queued"]
    assert "no open attempt" in coder.refused("report_result", status="success")


def test_an_instruction_is_pulled_and_acknowledged(coder: Mcp, lead: Mcp) -> None:
    assert "no new instructions" in text_of(coder.call("get_instructions"))
    assert "waits for an acknowledgment" in coder.refused("ack_instruction")
    sent = lead.done("send_instruction", agent="coder", content="Check the OpenSpec CLI")
    again = lead.call("send_instruction", agent="coder", content="Check the OpenSpec CLI")
    assert "already" in text_of(again) and again["structuredContent"]["id"] == sent["id"]
    pulled = coder.call("claim_task")
    assert sent["id"] in text_of(pulled) and "Check the OpenSpec CLI" in text_of(pulled)
    assert Instruction.objects.get().delivered_via == "mcp"
    acked = coder.done("ack_instruction", note="it is 1.4")
    assert (acked["id"], acked["outcome"], acked["note"]) == (sent["id"], "done", "it is 1.4")
    assert coder.done("ack_instruction", id=sent["id"])["state"] == "acknowledged"
    for content in ("one", "two"):
        lead.done("send_instruction", agent="coder", content=content)
    both = coder.done("get_instructions")["instructions"]
    assert "2 instructions at once" in coder.refused("ack_instruction")
    coder.done("ack_instruction", id=both[0]["id"], outcome="declined", note="no")
    lead.done("send_instruction", agent="coder", content="three")
    (last,) = coder.done("get_instructions")["instructions"]
    assert coder.done("ack_instruction")["id"] == last["id"]
    assert coder.done("ack_instruction")["id"] == both[1]["id"]


def test_an_agent_sees_only_its_own(coder: Mcp, mcp: Callable[..., Mcp]) -> None:
    own = coder.done("create_task", title="Add ids", action="add them")["id"]
    attempt = coder.done("claim_task")["attempt"]["id"]
    other = mcp("agent", "other")
    other.done("create_task", title="Other", action="other")
    for name, arguments in (
        ("get_task", {"id": own}),
        ("claim_task", {"task": own}),
        ("heartbeat", {"attempt": attempt}),
        ("report_result", {"attempt": attempt, "status": "success"}),
        ("release_task", {"attempt": attempt}),
        ("ask_human", {"attempt": attempt, "question": "Why?"}),
        ("get_escalation", {"id": own}),
        ("ack_instruction", {"id": own}),
    ):
        result = other.call(name, **arguments)
        assert result["structuredContent"]["code"] in ("not_found", "lease_lost"), name
        assert result["isError"]
    assert [task["title"] for task in other.done("list_tasks")["tasks"]] == ["Other"]
    assert Attempt.objects.get().outcome is None


@pytest.mark.parametrize("kind", ["agent", "orchestrator"])
def test_bad_arguments_are_named(mcp: Callable[..., Mcp], kind: str) -> None:
    coder = mcp("agent", "coder")
    caller = coder if kind == "agent" else mcp(kind)
    before = Event.objects.count()
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("get_task", {}, "id"),
        ("get_task", {"id": "7"}, "id"),
        ("list_tasks", {"limit": 0}, "limit"),
        ("list_tasks", {"limit": "many"}, "limit"),
        ("list_tasks", {"stat": "done"}, "stat"),
        ("list_tasks", {"state": "finished"}, "state"),
        ("list_tasks", {"cursor": "zzz"}, "cursor"),
        ("create_task", {"title": "x", "action": "y", "agent": "coder", "needs": ["a"]}, "needs.0"),
        ("create_task", {"title": "", "action": "y"}, "title"),
    ]
    if kind == "agent":
        cases += [
            ("report_result", {"attempt": "x", "status": "maybe"}, "status"),
            ("heartbeat", {"attempt": "x", "percent": 101}, "percent"),
            ("ask_human", {"attempt": "x", "question": ""}, "question"),
            (
                "ask_human",
                {"attempt": str(Agent.objects.get().id), "question": "x", "options": [""]},
                "name",
            ),
        ]
    else:
        cases += [
            ("import_plan", {"content": "<plan>"}, ""),
            ("import_plan", {"content": PLAN, "mode": "force"}, "mode"),
            ("send_instruction", {"agent": "codr", "content": "x"}, "Nearest: coder"),
        ]
    for name, arguments, told in cases:
        text = caller.refused(name, **arguments)
        assert told in text and len(text) > 20, (name, text)
        assert "pydantic" not in text
    assert Event.objects.count() == before


def test_lists_go_on_with_a_cursor(coder: Mcp) -> None:
    for n in range(3):
        coder.done("create_task", title=f"Task {n}", action="do it")
    first = coder.done("list_tasks", limit=2)
    rest = coder.done("list_tasks", limit=2, cursor=first["next_cursor"])
    titles = [task["title"] for task in first["tasks"] + rest["tasks"]]
    assert titles == ["Task 2", "Task 1", "Task 0"] and "next_cursor" not in rest


def test_budgets_are_listed_and_a_heartbeat_says_when_one_is_used_up(lead: Mcp, coder: Mcp) -> None:
    assert text_of(lead.call("list_budgets")) == "There is no budget here."
    text = PLAN.replace("agent: coder", "agent: coder\nbudget: 1000 tokens")
    lead.done("import_plan", content=text, format="markdown", register=True)
    claimed = coder.done("claim_task")
    beat = coder.call("heartbeat", input_tokens=900, output_tokens=100)
    assert "A budget is used up." in text_of(beat) and claimed["task"]
    said = lead.call("list_budgets", plan="03-01")
    assert "plan 03-01: 1,000 of 1,000 tokens used, and its tasks wait." in text_of(said)
    assert said["structuredContent"]["budgets"][0]["used_up"] is True


def test_a_plans_forecast_is_read(lead: Mcp) -> None:
    plan = lead.done("import_plan", content=PLAN, format="markdown", register=True)["plan"]
    said = lead.call("get_plan_forecast", plan=plan["ref"])
    assert said["structuredContent"]["reason"] == "not_made"
    assert "No forecast. The clock makes it in a minute." in text_of(said)
