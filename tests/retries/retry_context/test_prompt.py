"""The prompt of an attempt: system text, retry context, and the task as XML."""

from typing import Any

import pytest

from retries.retry_context.block import History, render_retry_context
from retries.retry_context.prompt import join_prompt, render_task
from tests.retries.retry_context.test_block import GOLDEN, HOSTILE, read


@pytest.mark.parametrize("attack", HOSTILE)
def test_the_task_keeps_its_form(attack: str) -> None:
    payload = {
        "action": attack,
        "files": [attack],
        "context": [attack],
        "verify": {"command": attack, "text": attack, attack: attack},
        "done": [attack],
        attack: attack,
    }
    root = read(render_task(title=attack, type="code", payload=payload, ref=attack))
    assert [each.tag for each in root] == [
        *("name", "action", "files", "context", "verify", "done", "payload")
    ]
    assert [each.tag for each in root[4]] == ["command", "text"]


def test_the_prompt_is_system_text_context_and_task() -> None:
    """S1.22"""
    task = render_task(
        ref="03-01:task-3",
        title="Create InvalidPlannerIdError",
        type="code",
        payload={
            "action": "Add <T> & use it",
            "files": ["src/domain/PlannerId.ts"],
            "context": ["@docs/adr-4.md"],
            "verify": {
                "command": "npm test && true",
                "timeout_s": 120,
                "expect_exit": 0,
                "by": "me",
                "source": "proposed",
                "proposed_command": "rm -rf build",  # no one has said to run it
            },
            "done": ["Empty and null ids are rejected", "Tests pass"],
            "anything": {"else": [1, "ä"]},
        },
    )
    assert (
        task
        == """\
<task ref="03-01:task-3" type="code">
  <name>Create InvalidPlannerIdError</name>
  <action>Add &lt;T&gt; &amp; use it</action>
  <files>- src/domain/PlannerId.ts</files>
  <context>- @docs/adr-4.md</context>
  <verify>
    <command>npm test &amp;&amp; true</command>
    <timeout_s>120</timeout_s>
    <expect_exit>0</expect_exit>
  </verify>
  <done>- Empty and null ids are rejected
- Tests pass</done>
  <payload>{"anything": {"else": [1, "ä"]}, "verify": {"by": "me"}}</payload>
</task>"""
    )
    assert join_prompt(task, GOLDEN, system="You are careful.\n") == (
        f"You are careful.\n\n{GOLDEN}\n\n{task}"
    )
    assert join_prompt(task) == task


def test_text_keeps_the_joiners_of_its_script() -> None:
    words = "می\u200cخواهم 👩\u200d💻"
    assert f"<action>{words}</action>" in render_task(
        title="", type="code", payload={"action": words}
    )
    past = History(fix=words)
    assert f"fix: {words}</instruction>" in render_retry_context(past, attempt=2, max_attempts=2)


@pytest.mark.parametrize("payload", [None, {}, [], "", 0, "do it", ["a", 1], 7, {"verify": {}}])
def test_any_payload_is_rendered(payload: Any) -> None:
    root = read(render_task(title="", type="code", payload=payload))
    shown = {"do it": "do it", "['a', 1]": '["a", 1]', "7": "7", "[]": "[]", "0": "0"}
    texts = [each.text for each in root]
    assert texts == ([shown[str(payload)]] if str(payload) in shown else [])


@pytest.mark.parametrize("attack", ["Lay the ground", *HOSTILE])
def test_the_task_names_the_needs_that_were_skipped(attack: str) -> None:
    needs = [
        {"id": "01a1", "ref": "03-01:task-1", "title": attack},
        {"id": "01a2", "ref": None, "title": ""},
    ]
    root = read(render_task(title="Build", type="code", skipped_needs=needs))
    assert [each.tag for each in root] == ["name", "skipped_needs"]
    lines = (root[1].text or "").splitlines()
    assert lines[0] == (
        "These tasks were skipped, although this one needs them. Their results may be missing:"
    )
    assert lines[1].startswith("- 03-01:task-1 ") and lines[-1] == "- 01a2"
