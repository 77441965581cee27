"""Standing instructions over HTTP: rules, trials and holds."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.models import Agent, Event, Instruction, StandingInstruction
from tests.conftest import Api
from tests.factories import make_agent, make_project
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db

PATH = "/standing-instructions"
RULE: dict[str, Any] = {
    "on": {"event": "signal", "type": "fs_write", "match": {"path": {"glob": "src/**"}}},
    "content": "Run the tests after changing code.",
    "expect": {"type": "fs_command", "match": {"line": "make test"}},
    "hold_stop": True,
}


def write(coder: Api, path: str = "src/a.py") -> Any:
    return coder("POST", "/signals", {"type": "fs_write", "data": {"path": path}}).body


def test_a_rule_from_draft_to_retirement(operator: Api, coder: Api) -> None:
    made = operator("POST", PATH, RULE | {"paused": True}, Idempotency_Key="k1")
    assert made.status_code == 201 and made.body["state"] == "draft"
    again = operator("POST", PATH, RULE | {"paused": True}, Idempotency_Key="k1")
    assert again.body["id"] == made.body["id"] and StandingInstruction.objects.count() == 1
    one = f"{PATH}/{made.body['id']}"
    assert write(coder)["sent"] == []
    assert operator("POST", f"{one}/resume").body["state"] == "active"
    [sent] = write(coder)["sent"]
    row = operator("GET", f"/instructions/{sent}").body
    assert (row["rule"], row["holds"]) == (made.body["id"], 0)
    assert row["sent_by"] == {"type": "rule", "name": RULE["content"]}
    assert operator("POST", f"{one}/pause").body["state"] == "paused"
    read = operator("GET", one)
    assert read["ETag"] == f'"v{read.body["version"]}"' and read.body["on"]["plan"] is None
    assert [each["id"] for each in operator("GET", PATH).body["data"]] == [made.body["id"]]
    assert operator("GET", f"{PATH}?state=active").body["data"] == []
    assert operator("DELETE", one).body["state"] == "retired"
    assert operator("GET", PATH).body["data"] == []
    assert len(operator("GET", f"{PATH}?state=retired").body["data"]) == 1
    problem(operator("POST", f"{one}/resume"), 409, "invalid_transition")
    problem(operator("PATCH", one, {"content": "x"}, If_Match='"v4"'), 409, "invalid_transition")


def test_a_change_needs_the_version(operator: Api, agent: Agent) -> None:
    made = operator("POST", PATH, RULE).body
    one = f"{PATH}/{made['id']}"
    problem(operator("PATCH", one, {"content": "x"}), 428, "if_match_required")
    changed = operator("PATCH", one, {"content": "Test it", "agent": "coder"}, If_Match='"v1"')
    assert (changed.body["content"], changed.body["agent"]) == ("Test it", "coder")
    assert changed.body["on"]["match"] == RULE["on"]["match"] and changed["ETag"] == '"v2"'
    problem(operator("PATCH", one, {"content": "y"}, If_Match='"v1"'), 412, "version_mismatch")
    lifted = operator("PATCH", one, {"agent": None, "expect": None}, If_Match='"v2"').body
    assert (lifted["agent"], lifted["expect"], lifted["version"]) == (None, None, 3)
    same = operator("PATCH", one, {"content": "Test it"}, If_Match='"v3"')
    assert same.body["version"] == 3
    assert Event.objects.filter(kind="standing_instruction.updated").count() == 2


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"content": " "}, "/content"),
        ({"content": "x" * 8193}, "/content"),
        ({"on": {"event": "signal"}}, "/on/type"),
        ({"on": {"event": "signal", "type": "x", "interval_s": 900}}, "/on/interval_s"),
        ({"on": {"event": "every"}}, "/on/interval_s"),
        ({"on": {"event": "every", "interval_s": 59}}, "/on/interval_s"),
        ({"on": {"event": "every", "interval_s": 900}, "once_per": "day"}, "/once_per"),
        ({"on": {"event": "every", "interval_s": 900, "match": {"a": 1}}}, "/on/match"),
        ({"on": {"event": "task_claimed", "match": {"a": 1}}}, "/on/match"),
        ({"on": {"event": "task_claimed", "plan": "77-01"}}, "/plan"),
        ({"on": {"event": "teatime"}}, "/on/event"),
        ({"expect": {"type": "x", "match": {"path": {"glob": "*"}}}}, "/expect/match/path"),
        ({"once_per": "year"}, "/once_per"),
        ({"max_retries": 21}, "/max_retries"),
        ({"surprise": 1}, "/surprise"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(
    operator: Api, change: dict[str, Any], pointer: str
) -> None:
    refused = operator("POST", PATH, RULE | change)
    body = problem(refused, 422, "validation_error")
    assert refused.body["errors"][0]["pointer"] == pointer, body
    assert not StandingInstruction.objects.exists()


def test_projects_and_agents_do_not_see_each_others_rules(
    api: Callable[..., Api], operator: Api, coder: Api, agent: Agent
) -> None:
    everyone = operator("POST", PATH, RULE).body["id"]
    codex = make_agent("codex")
    own = operator("POST", PATH, RULE | {"content": "Codex alone", "agent": "codex"}).body["id"]
    assert [each["id"] for each in coder("GET", PATH).body["data"]] == [everyone]
    problem(coder("GET", f"{PATH}/{own}"), 404, "not_found")
    assert api("agent", agent=codex)("GET", f"{PATH}/{own}").status_code == 200
    problem(coder("POST", PATH, RULE), 403, "scope_missing")
    problem(coder("POST", f"{PATH}/{everyone}/pause"), 403, "scope_missing")
    stranger = api("operator", project=make_project("elsewhere"))
    for method, path in (
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/try"),
    ):
        headers = {"If_Match": '"v1"'} if method == "PATCH" else {}
        refused = stranger(method, f"{PATH}/{everyone}{path}", {}, **headers)
        problem(refused, 404, "not_found")
    problem(stranger("POST", PATH, RULE | {"agent": "codex"}), 422, "unknown_agent")
    assert StandingInstruction.objects.filter(paused=True).count() == 0


def test_a_trial_says_what_would_happen_and_changes_nothing(operator: Api, agent: Agent) -> None:
    def try_it(sample: dict[str, Any], **change: Any) -> Any:
        return operator("POST", f"{PATH}/try", {"rule": RULE | change, "sample": sample}).body

    found = try_it({"type": "fs_write", "data": {"path": "./src/a.py", "tool": "Edit"}})
    assert found["fires"] and len(found["texts"]) == 4
    assert found["texts"][3] == f"**URGENT:** {RULE['content']}"
    assert [each["text"] for each in found["conditions"]] == [
        "event is signal",
        "type is fs_write",
        "path src/a.py is in src/**",
    ]
    missed = try_it({"type": "fs_write", "data": {"path": "tests/a.py"}})
    assert not missed["fires"]
    assert missed["conditions"][2]["text"] == "path tests/a.py is not in src/**"
    assert try_it({"type": "fs_write"})["conditions"][2]["text"] == "path is missing"
    assert not try_it({"type": "other", "data": {"path": "src/a.py"}})["fires"]
    claimed = {"event": "task_claimed", "type": "fix"}
    assert try_it(claimed, on=claimed)["fires"]
    assert not try_it(claimed | {"type": "code"}, on=claimed)["fires"]
    own = {"type": "log", "match": {}}
    on = {"event": "signal", "type": "log"}
    answer = try_it({"type": "log", "data": {}}, on=on, expect=own)
    assert not answer["fires"] and "what the rule expects" in answer["conditions"][-1]["text"]
    saved = operator("POST", PATH, RULE).body["id"]
    sample = {"type": "fs_write", "data": {"path": "src/a.py"}}
    assert operator("POST", f"{PATH}/{saved}/try", sample).body["fires"]
    assert not Instruction.objects.exists()
    assert (
        Event.objects.exclude(kind__contains="created").exclude(kind__contains="registered").count()
        == 0
    )


def test_the_stop_hook_asks_whether_the_agent_may_stop(operator: Api, coder: Api) -> None:
    operator("POST", PATH, RULE)
    hold = f"{PATH}/hold"
    free = {"hold": False, "text": "", "instructions": [], "let_go": [], "escalations": []}
    assert coder("POST", hold).body == free
    [sent] = write(coder)["sent"]
    held = coder("POST", hold, {"session": "one"}).body
    assert held["hold"] and held["text"].startswith(RULE["content"])
    [row] = held["instructions"]
    assert (row["id"], row["holds"], row["holds_left"]) == (sent, 1, 6)
    done = {"type": "fs_command", "data": {"line": "make test", "command": "make"}}
    assert coder("POST", "/signals", done).body["acknowledged"] == [sent]
    assert coder("POST", hold).body == free
    write(coder)
    for _ in range(7):
        assert coder("POST", hold).body["hold"]
    gone = coder("POST", hold).body
    assert not gone["hold"] and len(gone["let_go"]) == len(gone["escalations"]) == 1
    escalation = operator("GET", f"/escalations/{gone['escalations'][0]}").body
    assert escalation["reason"] == "instruction_ignored"
    problem(operator("POST", hold), 403, "scope_missing")
