"""Plans in the Python client and the command, on a real server."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tenfour import Client, TenfourError

from ledger.models import Plan
from retries.models import PlanForecast
from tests.client.conftest import Run
from tests.serving import Tenfour

YAML = """ref: 03-01
title: Planner ids
agent: coder
tasks:
  - title: Create the error
    action: Add it
  - title: Use it
    needs: [task-1]
"""
HOUR = timedelta(hours=1)
BOUNDS = ("low", "median", "high")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(YAML)
    return path


def test_a_plan_from_its_file_to_its_end(
    producer: Client, agent_client: Client, file: Path
) -> None:
    done = producer.plans.import_file(file)
    plan = done.plan
    assert (plan.ref, plan.state, plan.tasks, plan.counts["queued"]) == ("03-01", "active", 2, 1)
    assert done.diff["added"] == ["03-01:task-1", "03-01:task-2"] and not done.warnings
    assert done.tasks[1].needs == ("03-01:task-1",)
    assert producer.plans.import_text(YAML).unchanged
    assert [each.id for each in producer.plans.list(ref="03-01", state=["active"])] == [plan.id]
    assert plan.id
    assert producer.plans.pause(plan.id, reason="lunch").state == "paused"
    assert agent_client.tasks.claim().reason == "plan_paused"
    producer.plans.resume(plan.id)
    for number in (1, 2):
        (claim,) = agent_client.tasks.claim()
        assert claim.task.ref == f"03-01:task-{number}" and claim.task.plan == plan.id
        agent_client.tasks.report(claim.attempt.id, "success")
    now = producer.plans.get(plan.id)
    assert [each.state for each in now.tasks] == ["done", "done"]
    assert producer.plans.rename(plan.id, "Ids", version=now.plan.version).title == "Ids"
    with pytest.raises(TenfourError) as raised:
        producer.plans.rename(plan.id, "x", version=1)
    assert raised.value.code == "version_mismatch"


def test_a_plan_is_stopped_and_started_anew(producer: Client, agent_client: Client) -> None:
    plan = producer.plans.import_text(YAML, media="application/yaml").plan
    assert plan.id
    with pytest.raises(TenfourError) as raised:
        producer.plans.restart(plan.id)
    assert raised.value.code == "invalid_transition"
    assert producer.plans.abort(plan.id).is_over
    again = producer.plans.restart(plan.id, carry_over=plan.created_at)
    assert (again.run, again.state) == (2, "active")


def test_what_is_wrong_in_a_file_is_said_with_its_place(producer: Client) -> None:
    with pytest.raises(TenfourError) as raised:
        producer.plans.import_text(YAML.replace("task-1", "task-9"))
    assert raised.value.code == "unknown_dependency"
    assert raised.value.errors[0]["pointer"] == "/tasks/1/needs/0"


def test_what_was_found_in_prose_is_confirmed_with_a_persons_token(
    tenfour_server: Tenfour, producer: Client
) -> None:
    prose = "<task>\n  <name>One</name>\n  <verify>`npm test`</verify>\n</task>\n"
    text = f"---\nphase: 03-ids\nplan: 01\nagent: coder\n---\n{prose}"
    made = producer.plans.import_text(text, media="text/markdown", register=True)
    id, shown = made.plan.id or "", {each.ref: each.proposed_command or "" for each in made.tasks}
    assert shown == {"03-01:task-1": "npm test"}
    with pytest.raises(TenfourError) as raised:
        producer.plans.confirm(id, shown)
    assert raised.value.code == "human_required"
    with tenfour_server.client("operator") as mara:
        assert mara.plans.confirm(id, shown).tasks[0].proposed_command is None
    task = producer.tasks.get(made.tasks[0].id or "")
    assert task.payload["verify"]["command"] == "npm test"


def test_the_command(run: Run, tenfour_server: Tenfour, file: Path) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("orchestrator")}
    refused = run("plan", "import", str(file), env=env)
    assert refused.status == 1 and "No agent is called 'coder'" in refused.err
    dry = run("plan", "import", str(file), "--register", "--dry-run", env=env)
    added = "added      03-01:task-1\nadded      03-01:task-2\n"
    tree = "5 + task-1 Create the error\n7 + task-2 Use it  after task-1\n"
    legend = "+ new, ~ changed, ! started and kept, x done in the file\n"
    assert (dry.status, dry.out) == (0, f"{tree}{legend}03-01\n") and "Dry run" in dry.err
    made = run("plan", "import", "-", "--register", stdin=YAML, env=env)
    assert made.out.startswith(added) and len(made.out.splitlines()[-1]) == 36
    assert "is unchanged" in run("plan", "import", str(file), env=env).err
    file.write_text(YAML.replace("Use it", "Use it well"))
    changed = run("plan", "import", str(file), env=env)
    assert changed.status == 1 and "1 changed" in changed.err
    merged = run("plan", "import", str(file), "--mode", "merge", env=env)
    assert merged.out.startswith("changed    03-01:task-2  title\n")
    shown = run("plan", "status", "03-01", env=env).out.splitlines()
    assert shown[0] == "03-01 Planner ids active, run 1: 1 queued, 1 blocked"
    assert shown[2].split() == [
        "03-01:task-2",
        "blocked",
        "(dependency)",
        "needs",
        "03-01:task-1",
        *["Use", "it", "well"],
    ]
    assert " paused, run 1" in run("plan", "pause", "03-01", "--reason", "x", env=env).out
    assert " active, run 1" in run("plan", "resume", "03-01", env=env).out
    assert " aborted, run 1" in run("plan", "abort", "03-01", env=env).out
    assert " active, run 2" in run("plan", "restart", "03-01", env=env).out
    whole = json.loads(run("plan", "status", "03-01", "--json", env=env).out)
    assert whole["plan"]["run"] == 2
    unknown = run("plan", "status", "09-09", env=env)
    assert unknown.status == 1 and "No plan" in unknown.err
    assert run("plan", "import", str(file.parent / "none.yaml"), env=env).status == 2


def test_the_command_imports_a_checklist(run: Run, tenfour_server: Tenfour, tmp_path: Path) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("orchestrator")}
    path = tmp_path / "tasks.md"
    path.write_text("# Ids\n\n- [x] T001 Create the error\n- [ ] T002 Use it\n")
    made = run(
        *("plan", "import", str(path), "--ref", "03-01", "--agent", "coder", "--register"), env=env
    )
    assert made.out.startswith("added      03-01:task-2\n"), made.err
    assert "Left out 1 task that the file marks as done: task-1." in made.err
    path.write_text("# Task 1: Use it\n# Task 2:\n")
    refused = run("plan", "import", str(path), "--ref", "03-02", "--agent", "coder", env=env)
    assert refused.status == 1
    assert "Line 2: this task needs a title." in refused.err


def test_a_dry_run_draws_the_file_as_a_tree(
    run: Run, tenfour_server: Tenfour, tmp_path: Path
) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("orchestrator")}
    file = tmp_path / "tasks.md"
    file.write_text(
        "# Plan\n\n- [x] 1. Setup\n- [ ] 2. Model\n- [ ] 2.1 Table (depends on 9)\n"
        "- [ ] 2.2 Index\n\n## Acceptance criteria\n\n- [ ] It is fast\n"
    )
    options = ("--ref", "05-01", "--agent", "coder", "--register", "--dry-run")
    dry = run("plan", "import", str(file), *options, env=env)
    assert dry.out.splitlines() == [
        "3 x 1 Setup",
        "4 + 2 Model  after 2.1, 2.2",
        "5 + ├ 2.1 Table",
        "    │   warning: Line 5: ignored the dependency '9': the file has no such task.",
        "6 + └ 2.2 Index  after 2.1",
        "        done when: It is fast",
        "+ new, ~ changed, ! started and kept, x done in the file",
        "05-01",
    ]
    file.write_bytes(b"- [ ] a\n- [ ] \xff\n")
    binary = run("plan", "import", str(file), *options, env=env)
    assert binary.status == 2 and "is not UTF-8 text (line 2)" in binary.err


def test_a_merge_that_is_unclear_names_the_options(
    run: Run, tenfour_server: Tenfour, producer: Client, agent_client: Client, tmp_path: Path
) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("orchestrator")}
    file = tmp_path / "tasks.md"
    file.write_text("- [ ] Model the table\n- [ ] View\n")
    options = ("--ref", "06-01", "--agent", "coder", "--register", "--mode", "merge")
    assert run("plan", "import", str(file), *options, env=env).status == 0
    agent_client.tasks.claim()
    file.write_text("- [ ] Quite another thing\n- [ ] View\n")
    unclear = run("plan", "import", str(file), *options, env=env)
    assert unclear.status == 1 and "--pair task-1=task-1  as 'Quite another thing'" in unclear.err
    assert run("plan", "import", str(file), *options, "--pair", "task-1=new", env=env).status == 0


def test_a_forecast_is_printed(run: Run, tenfour_server: Tenfour, producer: Client) -> None:
    plan = producer.plans.import_text(YAML, register=True).plan
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("reader")}
    none = run("plan", "forecast", "03-01", env=env)
    assert none.out == "No forecast. The clock makes it in a minute.\n"
    at = datetime(2026, 11, 30, 15, tzinfo=UTC)
    row = Plan.objects.get(pk=plan.id)
    PlanForecast.objects.create(
        **{"plan": row, "project": row.project, "run": 1, "is_kept": False, "cases": 86},
        made_at=at,
        **{f"{name}_at": at + n * HOUR for n, name in enumerate(BOUNDS, 1)},
        **{f"{name}_cost": n * 1.5 for n, name in enumerate(BOUNDS, 1)},
        spent=0.5,
    )
    low, median, high = (f"{(at + n * HOUR).astimezone():%Y-%m-%d %H:%M}" for n in (1, 2, 3))
    assert run("plan", "forecast", "03-01", env=env).out.splitlines() == [
        f"Done by {median}, between {low} and {high} (80%)",
        "Cost $3.00, between $1.50 and $4.50 (80%), $0.50 of it spent",
        "From 86 attempts of like tasks",
    ]
    found = producer.plans.forecast(plan.id or "")
    assert found.reason is None and found.ends_at and found.cost
    assert (found.made_at, found.ends_at["low"]) == (at, "2026-11-30T16:00:00.000Z")
    assert found.cost == {"low": 1.5, "median": 3.0, "high": 4.5}
    assert found.calibration == {"plans": 0, "inside": 0, "share": None}
    PlanForecast.objects.update(cost_unit="tokens", low_at=None, reason="few_cases", cases=19)
    few = run("plan", "forecast", "03-01", env=env).out
    assert few == "No forecast. There are few data: it is made from 20 attempts on.\n"
    producer.plans.pause(plan.id or "")
    assert producer.plans.forecast(plan.id or "").reason == "not_under_way"
