"""Plans over HTTP."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, Event, Plan, Task
from tests.bad_plans import BAD_PLANS
from tests.factories import make_agent, make_project, make_token

pytestmark = pytest.mark.django_db

PLAN: dict[str, Any] = {
    "ref": "03-01",
    "title": "Planner ids",
    "agent": "coder",
    "tasks": [{"title": "One"}, {"title": "Two", "needs": ["task-1"]}],
}
YAML = """ref: 03-01
title: Planner ids
agent: coder
tasks:
  - title: One
  - title: Two
    needs: task-1
"""


def import_plan(api: Any, body: Any = PLAN, query: str = "", **headers: str) -> Any:
    return api("POST", f"/plans{query}", body, **headers)


def test_import_read_and_unchanged(operator: Any, agent: Agent) -> None:
    made = import_plan(operator)
    assert made.status_code == 201, made.content
    plan, tasks = made.body["plan"], made.body["tasks"]
    assert (plan["ref"], plan["state"], plan["run"], plan["tasks"]) == ("03-01", "active", 1, 2)
    assert plan["counts"]["queued"] == plan["counts"]["blocked"] == 1
    assert [(each["ref"], each["needs"]) for each in tasks] == [
        ("03-01:task-1", []),
        ("03-01:task-2", ["03-01:task-1"]),
    ]
    assert made.body["warnings"] == [] and made.body["unchanged"] is False
    again = import_plan(operator, YAML, Content_Type="application/yaml")
    assert again.status_code == 200 and again.body["unchanged"] is True
    assert again.body["plan"] == plan
    one = operator("GET", f"/plans/{plan['id']}")
    assert one.body == {"plan": plan, "tasks": tasks} and one["ETag"] == '"v1"'
    listed = operator("GET", "/plans?ref=03-01&state=active,paused").body
    assert listed["data"] == [plan] and listed["has_more"] is False
    assert operator("GET", "/plans?state=aborted").body["data"] == []
    assert operator("GET", "/plans?state=gone").status_code == 422


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/x-yaml", YAML),
        ("text/plain", YAML),
        ("application/x-www-form-urlencoded", json.dumps(PLAN)),
        ("application/octet-stream", json.dumps(PLAN)),
        ("application/json; charset=utf-8", json.dumps(PLAN)),
    ],
)
def test_media_types(operator: Any, agent: Agent, media: str, body: str) -> None:
    response = import_plan(operator, body, Content_Type=media)
    assert response.status_code == 201, response.content


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ("{", 400, "bad_request", None),
        (b"\xff", 400, "bad_request", None),
        (BOMB, 400, "bad_request", None),
        ("&a [*a]", 400, "bad_request", None),
        ("[" * 100_000, 400, "bad_request", None),
        ("!!python/object/apply:os.system [ls]", 400, "bad_request", None),
        (PLAN | {"ref": "0301"}, 422, "bad_ref", "/ref"),
        (PLAN | {"ref": "03-01-02"}, 422, "bad_ref", "/ref"),
        (PLAN | {"tasks": [{"ref": "first"}]}, 422, "bad_ref", "/tasks/0/ref"),
        (PLAN | {"tasks": [{"ref": "task-0"}]}, 422, "bad_ref", "/tasks/0/ref"),
        (PLAN | {"tasks": [{"needs": ["x y"]}]}, 422, "bad_ref", "/tasks/0/needs/0"),
        (PLAN | {"tasks": [{"ref": "task-2"}, {}]}, 422, "duplicate_ref", "/tasks/0/ref"),
        (PLAN | {"tasks": [{"needs": "task-7"}]}, 422, "unknown_dependency", "/tasks/0/needs/0"),
        (PLAN | {"needs": ["02-05"]}, 422, "unknown_dependency", "/needs/0"),
        (PLAN | {"needs": ["03-01"]}, 422, "unknown_dependency", "/needs/0"),
        (
            PLAN | {"tasks": [{"needs": "task-2"}, {"needs": "task-1"}]},
            422,
            "dependency_cycle",
            "/tasks/0/needs",
        ),
        (PLAN | {"tasks": [{}] * 501}, 422, "validation_error", "/tasks"),
        (PLAN | {"tasks": []}, 422, "validation_error", "/tasks"),
        (PLAN | {"tasks": [{"need": []}]}, 422, "validation_error", "/tasks/0/need"),
        (PLAN | {"tasks": [{"priority": "high"}]}, 422, "validation_error", "/tasks/0/priority"),
        (PLAN | {"tasks": [{"max_attempts": 0}]}, 422, "validation_error", "/tasks/0/max_attempts"),
        (PLAN | {"tasks": [{"action": "x" * 65_537}]}, 422, "validation_error", "/tasks/0/action"),
        (PLAN | {"tasks": [{"title": "\x00"}]}, 422, "validation_error", "/tasks/0/title"),
        (PLAN | {"agent": "codr"}, 422, "unknown_agent", "/tasks/0/agent"),
        (PLAN | {"objective": "x" * 1_048_576}, 413, "payload_too_large", None),
    ],
)
def test_what_is_refused_keeps_nothing(
    operator: Any, agent: Agent, body: Any, status: int, code: str, pointer: str | None
) -> None:
    before = Event.objects.count()
    media = "application/json" if isinstance(body, dict) or body == "{" else "application/yaml"
    response = import_plan(operator, body, Content_Type=media)
    assert (response.status_code, response.body["code"]) == (status, code), response.body
    assert pointer is None or response.body["errors"][0]["pointer"] == pointer
    assert not Plan.objects.exists() and not Task.objects.exists()
    assert Event.objects.count() == before


def test_other_kinds_of_files_are_refused(operator: Any) -> None:
    response = import_plan(operator, b"\x89PNG", Content_Type="image/png")
    assert (response.status_code, response.body["code"]) == (415, "unsupported_media_type")


def test_a_plan_may_be_larger_than_other_bodies(operator: Any, agent: Agent) -> None:
    tasks = [{"action": "x" * 60_000} for _ in range(10)]
    assert import_plan(operator, PLAN | {"tasks": tasks}).status_code == 201
    other = operator("POST", "/tasks", {"agent": "coder", "type": "x", "payload": "x" * 300_000})
    assert other.status_code == 413


def test_a_changed_plan_needs_a_mode_and_a_dry_run_tells(operator: Any, agent: Agent) -> None:
    import_plan(operator)
    new = PLAN | {"tasks": [{"title": "One"}, {"ref": 2, "title": "Zwei", "needs": "task-1"}, {}]}
    refused = import_plan(operator, new)
    assert (refused.status_code, refused.body["code"]) == (409, "plan_changed")
    assert refused.body["diff"]["changed"] == {"03-01:task-2": ["title"]}
    dry = import_plan(operator, new, "?mode=merge&dry_run=true")
    assert dry.status_code == 200 and dry.body["dry_run"] is True
    assert dry.body["diff"]["added"] == ["03-01:task-3"] and dry.body["tasks"][2]["id"] is None
    assert Task.objects.count() == 2
    done = import_plan(operator, new, "?mode=merge")
    assert done.status_code == 201 and done.body["diff"] == dry.body["diff"]
    first = import_plan(operator, PLAN | {"ref": "09-01"}, "?dry_run=true")
    assert first.status_code == 200 and first.body["plan"]["id"] is None


def test_an_unclear_merge_is_settled_by_pairs(operator: Any, coder: Any, agent: Agent) -> None:
    """PLN-1: both texts are named, and the caller says which task is which."""
    file = "- [ ] Write the export\n- [ ] Ship it\n"
    query = "?ref=05-01&agent=coder"
    markdown = {"Content_Type": "text/markdown"}
    assert import_plan(operator, file, query, **markdown).status_code == 201
    coder("POST", "/claims")
    renamed = "- [ ] Write the import\n- [ ] Ship it\n"
    unclear = import_plan(operator, renamed, f"{query}&mode=merge&dry_run=true", **markdown)
    assert (unclear.status_code, unclear.body["code"]) == (409, "plan_ambiguous")
    assert unclear.body["ambiguous"][0]["title"] == "Write the export"
    assert unclear.body["ambiguous"][0]["candidates"][0]["file_ref"] == "05-01:task-1"
    wrong = import_plan(operator, renamed, f"{query}&mode=merge&pairs=task-1", **markdown)
    assert (wrong.status_code, wrong.body["code"]) == (422, "validation_error")
    same = import_plan(operator, renamed, f"{query}&mode=merge&pairs=task-1=task-1", **markdown)
    assert same.status_code == 201 and same.body["diff"]["untouched"] == ["05-01:task-1"]
    ticked = "- [ ] Write the import\n- [x] Ship it\n"
    done = import_plan(operator, ticked, f"{query}&mode=merge", **markdown)
    assert done.body["ticked"] == ["05-01:task-2"]
    assert done.body["tasks"][1]["state"] == "done"


def test_an_idempotency_key_goes_with_yaml_too(operator: Any, agent: Agent) -> None:
    headers = {"Content_Type": "application/yaml", "Idempotency_Key": "k1"}
    first = import_plan(operator, YAML, **headers)
    again = import_plan(operator, YAML, **headers)
    assert first.body == again.body and again["Idempotency-Replayed"] == "true"
    other = import_plan(operator, YAML + "objective: x\n", **headers)
    assert other.body["code"] == "idempotency_key_reused"


def test_pause_resume_abort_restart(operator: Any, coder: Any) -> None:
    at = f"/plans/{import_plan(operator).body['plan']['id']}"
    paused = operator("POST", f"{at}/pause", {"reason": "lunch"})
    assert paused.status_code == 200 and paused.body["state"] == "paused"
    assert operator("POST", f"{at}/pause").body == paused.body
    assert coder("POST", "/claims").body["reason"] == "plan_paused"
    assert operator("POST", f"{at}/resume").body["state"] == "active"
    early = operator("POST", f"{at}/restart")
    assert (early.status_code, early.body["code"]) == (409, "invalid_transition")
    assert early.body["current"] == "active"
    assert operator("POST", f"{at}/abort").body["state"] == "aborted"
    assert operator("POST", f"{at}/abort").status_code == 200
    assert operator("POST", f"{at}/pause").status_code == 409
    assert import_plan(operator, PLAN | {"title": "x"}, "?mode=merge").status_code == 409
    again = operator("POST", f"{at}/restart", {"carry_over": "2026-11-21T12:00:00Z"})
    assert again.status_code == 200 and (again.body["state"], again.body["run"]) == ("active", 2)
    assert operator("POST", f"{at}/restart", {"carry_over": "noon"}).status_code == 422


def test_patch_asks_for_the_version(operator: Any, agent: Agent) -> None:
    at = f"/plans/{import_plan(operator).body['plan']['id']}"
    assert operator("PATCH", at, {"title": "x"}).status_code == 428
    assert operator("PATCH", at, {"title": "x"}, If_Match='"v9"').status_code == 412
    done = operator("PATCH", at, {"title": "x"}, If_Match='"v1"')
    assert (done.status_code, done.body["title"], done["ETag"]) == (200, "x", '"v2"')


PROSE = """---
phase: 03-ids
plan: 01
agent: coder
---
<task type="auto">
  <name>One</name>
  <verify>Run `npm test -- Id` and look</verify>
</task>
<task type="auto">
  <name>Two</name>
  <verify>`npm run lint`</verify>
</task>
"""
ONE, TWO = "03-01:task-1", "03-01:task-2"
RUNS = {ONE: "npm test -- Id", TWO: "npm run lint"}


def test_a_person_confirms_commands_that_were_found_in_prose(
    api: Callable[..., Any], operator: Any, coder: Any, agent: Agent
) -> None:
    """api.md §8.3: never run until confirmed; each as it was shown, all of them or none."""
    made = import_plan(operator, PROSE, Content_Type="text/markdown").body
    path = f"/plans/{made['plan']['id']}/confirm"
    shown = {each["ref"]: each["proposed_command"] for each in made["tasks"]}
    assert shown == RUNS
    for caller in (coder, api("orchestrator"), api("reader")):
        told = caller("POST", path, {"commands": RUNS})
        assert (told.status_code, told.body["code"]) == (403, "human_required")
    for commands, place, says in (
        (RUNS | {TWO: "npm run lint; rm -rf ~"}, f"/commands/{TWO}", "different: npm run lint"),
        (RUNS | {"03-01:task-9": "x"}, "/commands/03-01:task-9", "no task with this ref"),
        ({}, "/commands", "at least 1 item"),
    ):
        told = operator("POST", path, {"commands": commands})
        assert (told.status_code, told.body["code"]) == (422, "validation_error")
        assert told.body["errors"][0]["pointer"] == place and says in str(told.body["errors"])
    claimed = coder("POST", "/claims").body["data"][0]
    assert "command" not in claimed["task"]["payload"]["verify"]  # nothing was kept
    coder("POST", f"/attempts/{claimed['attempt']['id']}/release")
    for _ in range(2):  # what was confirmed stays so
        done = operator("POST", path, {"commands": {ONE: RUNS[ONE]}})
        assert done.status_code == 200 and done["ETag"]
        assert [each["proposed_command"] for each in done.body["tasks"]] == [None, RUNS[TWO]]
    verify = coder("POST", "/claims").body["data"][0]["task"]["payload"]["verify"]
    assert (verify["command"], verify["source"]) == (RUNS[ONE], "confirmed")
    assert Event.objects.filter(data__confirmed_command=RUNS[ONE]).count() == 1
    operator("POST", path.replace("confirm", "abort"))
    told = operator("POST", path, {"commands": {TWO: RUNS[TWO]}})
    assert "is aborted; it will not run again" in told.body["detail"]


def test_who_may(api: Callable[..., Any], operator: Any, coder: Any) -> None:
    mixed = PLAN | {"tasks": [{}, {"agent": "writer"}]}
    make_agent("writer")
    id = import_plan(api("orchestrator"), mixed).body["plan"]["id"]
    seen = coder("GET", f"/plans/{id}").body
    assert [each["ref"] for each in seen["tasks"]] == ["03-01:task-1"]
    assert len(coder("GET", "/plans").body["data"]) == 1
    assert import_plan(coder).body["code"] == "scope_missing"
    assert import_plan(api("reader")).body["code"] == "scope_missing"
    assert api("reader")("GET", f"/plans/{id}").status_code == 200
    idle = api("agent", agent=make_agent("idle"))
    assert idle("GET", f"/plans/{id}").status_code == 404
    assert idle("GET", "/plans").body["data"] == []
    from tests.conftest import Api

    foreign = Api(make_token("operator", project=make_project("other")))
    for method, path in [
        ("GET", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/abort"),
        ("POST", "/restart"),
    ]:
        assert foreign(method, f"/plans/{id}{path}").status_code == 404
    sent = {"commands": {"03-01:task-1": "x"}}
    assert foreign("POST", f"/plans/{id}/confirm", sent).status_code == 404
    assert foreign("PATCH", f"/plans/{id}", {}, If_Match='"v1"').status_code == 404


def test_tasks_are_found_by_plan_ref_and_change(operator: Any, agent: Agent) -> None:
    made = import_plan(operator).body
    one, two = made["tasks"]
    operator("POST", "/tasks", {"agent": "coder", "type": "x"})
    by_ref = operator("GET", "/tasks?plan=03-01").body["data"]
    assert [each["id"] for each in by_ref] == [two["id"], one["id"]]
    assert operator("GET", f"/tasks?plan={made['plan']['id']}").body["data"] == by_ref
    (found,) = operator("GET", "/tasks?ref=03-01:task-2").body["data"]
    assert found["needs"] == [one["id"]] and found["plan"] == made["plan"]["id"]
    assert operator("GET", f"/tasks/{two['id']}").body["needs"] == [one["id"]]
    since = found["updated_at"].replace("Z", "%2B00:00")
    assert operator("GET", f"/tasks?plan=03-01&updated_after={since}").status_code == 200
    assert operator("GET", "/tasks?updated_after=2099-01-01T00:00:00Z").body["data"] == []
    assert operator("GET", "/tasks?updated_after=noon").status_code == 422


def test_what_an_import_did_not_touch_is_not_called_the_same_by_the_next(
    operator: Any, coder: Any, agent: Agent
) -> None:
    """It has begun, so it stays as it was; once no one works on it, the next import updates it."""
    import_plan(operator)
    at = coder("POST", "/claims").body["data"][0]["attempt"]["id"]
    tasks = [{"ref": 1, "title": "One, again"}, PLAN["tasks"][1]]
    diff = import_plan(operator, PLAN | {"tasks": tasks}, "?mode=merge").body["diff"]
    assert diff["untouched"] == ["03-01:task-1"]
    coder("POST", f"/attempts/{at}/release")
    more = PLAN | {"tasks": [*tasks, {"title": "Three"}]}
    diff = import_plan(operator, more, "?mode=merge&dry_run=true").body["diff"]
    assert diff["same"] == ["03-01:task-2"]
    assert diff["untouched"] == ["03-01:task-1"] or "03-01:task-1" in diff["changed"]


def test_a_plan_s_words_are_kept_without_what_deceives_the_eye(operator: Any, agent: Agent) -> None:
    body = PLAN | {"title": "x\u202e\u0007y", "objective": "a\u202eb"}
    plan = import_plan(operator, body).body["plan"]
    assert (plan["title"], plan["objective"]) == ("xy", "ab")


CHECKLIST = "# Ids\n\n- [ ] T001 Create the error\n- [ ] T002 Use it\n"


@pytest.mark.parametrize("media", ["text/markdown", "text/plain"])
def test_a_checklist_is_imported(operator: Any, agent: Agent, media: str) -> None:
    query = "?agent=coder&ref=03-01"
    dry = import_plan(operator, CHECKLIST, f"{query}&dry_run=true", Content_Type=media)
    assert dry.status_code == 200 and len(dry.body["diff"]["added"]) == 2
    made = import_plan(operator, CHECKLIST, query, Content_Type=media)
    assert made.status_code == 201, made.body
    assert made.body["plan"]["title"] == "Ids" and made.body["warnings"] == []
    assert [task["title"] for task in made.body["tasks"]] == ["Create the error", "Use it"]
    named = import_plan(operator, CHECKLIST, "?agent=coder", Content_Type=media)
    assert named.body["plan"]["ref"] == "plan-ids" and len(named.body["warnings"]) == 1


def test_the_ref_of_a_file_counts(operator: Any, agent: Agent) -> None:
    made = import_plan(operator, PLAN, "?ref=09-09")
    assert made.body["plan"]["ref"] == "03-01"
    refused = import_plan(operator, CHECKLIST, "?ref=9", Content_Type="text/markdown")
    assert (refused.status_code, refused.body["code"]) == (422, "bad_ref")


def test_lines_that_cannot_be_read_refuse_the_file(operator: Any, agent: Agent) -> None:
    text = "<task>\nOne\n</task>\nThen <task>\n<task>\nThree\n"
    refused = import_plan(operator, text, "?agent=coder&ref=03-01", Content_Type="text/markdown")
    assert (refused.status_code, refused.body["code"]) == (422, "malformed_task")
    assert [error["detail"] for error in refused.body["errors"]] == [
        "Line 4: <task> must begin its line. In prose, write it in backticks.",
        "Line 5: this task has no </task>.",
    ]
    assert not Plan.objects.exists()


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/xml", f"<plan ref='03-01' x='&#{'1' * 5000};' <><task>\nOne\n</task></plan>"),
        ("text/markdown", f"<task>\nOne &#{'1' * 5000};\n</task>"),
        ("application/xml", f"<plan ref='03-01'><task id='{'1' * 5000}'>One</task></plan>"),
        ("application/xml", "<plan ref='03-01'><task id='²' priority='²'>One</task></plan>"),
        ("application/yaml", "ref: !!timestamp x"),
        ("application/yaml", "ref: !!int ''"),
        ("application/yaml", "ref: !!bool x"),
        ("application/json", '{"tasks": [{"status": "pending", "priority": ["x"], "id": 1}]}'),
    ],
)
def test_no_plan_is_an_internal_error(operator: Any, agent: Agent, media: str, body: str) -> None:
    response = import_plan(operator, body, "?agent=coder&ref=03-01", Content_Type=media)
    assert response.status_code in (201, 400, 422), response.body


@pytest.mark.parametrize("kind", BAD_PLANS)
def test_a_bad_file_is_refused_with_its_line_and_nothing_is_stored(
    operator: Any, agent: Agent, kind: str
) -> None:
    media, data, says = BAD_PLANS[kind]
    refused = import_plan(operator, data, "?agent=new&ref=03-01&register=true", Content_Type=media)
    assert refused.status_code in (400, 422) and refused.body["code"], refused.content
    assert says in refused.body["detail"]
    assert not Plan.objects.exists() and not Task.objects.exists() and Agent.objects.count() == 1


def test_a_dry_run_shows_the_file_as_a_tree(operator: Any, agent: Agent) -> None:
    text = "- [x] 1. Setup\n- [ ] 2. Model\n- [ ] 2.1 Table (depends on 9)\n"
    query = "?agent=coder&ref=03-01&dry_run=true"
    shown = import_plan(operator, text, query, Content_Type="text/markdown").body
    rows = [
        (row["name"], row["level"], row["line"], row["change"], row["after"])
        for row in shown["preview"]
    ]
    assert rows == [
        ("1", 0, 1, "done", []),
        ("2", 0, 2, "added", ["2.1"]),
        ("2.1", 1, 3, "added", []),
    ]
    assert shown["preview"][2]["source"] == "- [ ] 2.1 Table (depends on 9)"
    assert shown["preview"][2]["warnings"][0].startswith("Line 3: ignored the dependency")
    made = import_plan(operator, text, query.replace("true", "false"), Content_Type="text/markdown")
    assert made.status_code == 201 and made.body["preview"] == []
