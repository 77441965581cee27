"""Verbs that change several rows, or what a person has to confirm first."""

import json
from pathlib import Path

import pytest
from tenfour import Client, TenfourError

from tests.client.conftest import Run
from tests.client.worlds import World, make_world
from tests.serving import Tenfour

PROSE = """---
ref: "04-01"
title: From prose
agent: coder
---
<tasks>
<task id="task-1"><name>Build it</name><action>Write it</action><verify>`npm test -- Build` passes</verify></task>
</tasks>
"""


@pytest.fixture
def world(tenfour_server: Tenfour) -> World:
    return make_world(tenfour_server)


def make_dead_letters(world: World, count: int) -> list[str]:
    """Make more dead letters of the agent, and return the ids of all that are open."""
    with world.client() as operator, world.client("agent") as agent:
        for number in range(count):
            task = operator.tasks.enqueue(
                "coder", "test", {"n": number}, max_attempts=1, on_exhausted="dead_letter"
            )
            (claim,) = agent.tasks.claim(task=task.id)
            failure = {"type": "verification_failed", "message": "it broke"}
            agent.tasks.report(claim.attempt.id, "failure", failure=failure)
        return [letter.id for letter in operator.dead_letters.list(state="open")]


def test_dead_letters_are_counted_before_many_are_closed(run: Run, world: World) -> None:
    env, ids = world.env(), make_dead_letters(world, 4)
    for args, says in (
        (["dead-letter", "replay"], "Name one or several ids"),
        (["dead-letter", "replay", ids[0], "--all"], "but not both"),
        (["dead-letter", "dismiss", "--type", "test"], "Dismiss 4 dead letters? Add --yes"),
    ):
        wrong = run(*args, env=env)
        assert (wrong.status, wrong.out) == (2, "") and says in wrong.err, wrong.err
    assert (
        "No open dead letters match."
        in run("dead-letter", "replay", "--type", "nothing", env=env).err
    )
    two = run("dead-letter", "replay", ids[0][-8:], ids[1], "--yes", env=env)
    assert (two.status, set(two.out.split())) == (0, {ids[0], ids[1]})
    again = run("dead-letter", "replay", ids[1], ids[2], "--yes", "--json", env=env)
    assert again.status == 1 and json.loads(again.out)["ids"] == [ids[2]]
    assert f"{ids[1]}: " in again.err
    with world.client() as operator:
        assert len(list(operator.dead_letters.list(state="open"))) == 2
        counted = operator.dead_letters.close_many("dismiss", all=True, dry_run=True)
        assert (counted["matched"], counted["changed"]) == (2, 0)
    done = run("dead-letter", "dismiss", "--all", "--note", "late", "--yes", env=env)
    assert (done.status, len(done.out.split())) == (0, 2)
    assert run("dead-letter", "list", "--state", "open", env=env).out == ""


def test_more_dead_letters_than_one_call_closes_are_closed_in_turns(run: Run, world: World) -> None:
    env, ids = world.env(), make_dead_letters(world, 101)
    done = run("dead-letter", "dismiss", "--type", "test", "--yes", env=env)
    assert (done.status, done.err) == (0, "") and len(set(done.out.split())) == 101
    with world.client() as operator:
        left = [letter.id for letter in operator.dead_letters.list(state="open")]
    assert left == [world.ids["dead-letter"]] and set(ids) == {*left, *done.out.split()}


def test_a_plan_is_renamed_and_its_commands_are_confirmed(
    run: Run, world: World, tmp_path: Path
) -> None:
    env, file = world.env(), tmp_path / "plan.md"
    renamed = run("plan", "rename", "03-01", "Second version", "--json", env=env)
    assert json.loads(renamed.out)["title"] == "Second version"
    file.write_text(PROSE)
    assert run("plan", "import", str(file), env=env).status == 0
    asked = run("plan", "confirm", "04-01", env=env)
    assert asked.status == 2 and "04-01:task-1: npm test -- Build" in asked.err
    assert "Let agents run this command? Add --yes" in asked.err
    assert "no proposed command" in run("plan", "confirm", "04-01", "task-9", env=env).err
    done = run("plan", "confirm", "04-01", "04-01:task-1", "--yes", env=env)
    assert (done.status, done.out) == (0, "04-01:task-1\n")
    assert "No command of this plan waits" in run("plan", "confirm", "04-01", env=env).err


def test_a_rule_is_changed_from_a_file(run: Run, world: World) -> None:
    env, id = world.env(), world.ids["standing"]
    done = run("standing", "change", id, "-", stdin='{"content": "Test it"}', env=env)
    assert (done.status, done.out) == (0, f"{id} active\n"), done.err
    assert run("standing", "change", id, "-", stdin="[]", env=env).status == 2
    with world.client() as operator:
        assert operator.standing_instructions.get(id).content == "Test it"


def test_the_client_decides_about_patterns_tokens_and_takes_answers_back(world: World) -> None:
    with world.client() as operator, world.client("manager") as manager:
        pattern = operator.patterns.get(world.ids["pattern"])
        assert pattern.failures == 1
        assert [each.id for each in operator.patterns.list(q="TypeError")] == [pattern.id]
        [failure] = operator.patterns.failures(pattern.id)
        assert failure.agent == "coder" and "TypeError" in failure.message
        assert operator.patterns.resolve(pattern.id, note="fixed").state == "resolved"
        assert operator.patterns.reopen(pattern.id).state == "open"
        assert operator.patterns.ignore(pattern.id, until="2099-01-01T00:00:00Z").ignored_until
        operator.patterns.reopen(pattern.id)
        assert sum(len(ids) for ids in operator.patterns.retry(pattern.id).values()) == 1
        made = manager.tokens.create("reader", name="board")
        assert made.secret and "secret" not in repr(made)
        assert manager.tokens.get(made.id).secret == ""
        rotated = manager.tokens.rotate(made.id, overlap_hours=1)
        assert rotated.secret and rotated.secret != made.secret
        assert manager.tokens.revoke(rotated.id).revoked_at
        assert made.id in {each.id for each in manager.tokens.list()}
        with pytest.raises(TenfourError) as refused:
            next(operator.tokens.list())
        assert refused.value.code == "scope_missing"
        with Client(world.server.url, made.secret) as reader, pytest.raises(TenfourError) as late:
            reader.escalations.undo(world.ids["escalation"])
        assert late.value.code == "human_required"
