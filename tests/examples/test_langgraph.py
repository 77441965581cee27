"""`tenfour.langgraph` with the real package: the example, and graphs of other kinds."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client, Escalation, langgraph

from tests.serving import ROOT, Tenfour
from tests.waiting import PATIENCE_S, wait_until

EXAMPLE = ROOT / "examples" / "langgraph_node.py"
# Graphs that other programs would have; the first word of the command line names the story.
STORIES = ROOT / "tests" / "examples" / "langgraph_stories.py"

Start = Callable[..., Any]


@pytest.fixture
def start(langgraph_python: Path, tenfour_server: Tenfour) -> Start:
    """Starts a program of the agent `coder`; the block ends once the program has ended."""
    token = tenfour_server.token("agent", "coder")

    @contextmanager
    def start(program: Path, *args: str) -> Iterator["subprocess.Popen[str]"]:
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "client"),
            "TENFOUR_URL": tenfour_server.url,
            "TENFOUR_TOKEN": token,
        }
        process = subprocess.Popen(
            [langgraph_python, program, *args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    return start


def finish(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out


def wait_for_question(operator: Client) -> Escalation:
    return wait_until(lambda: list(operator.escalations.list(state="open")))[0]


def test_the_example_asks_a_person_and_goes_on(
    start: Start, producer: Client, operator: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "announcement", {"topic": "shelves"}, register=True)
    with start(EXAMPLE) as process:
        question = wait_for_question(operator)
        assert question.question == "Publish this?\n\nWe are glad to announce shelves."
        assert [choice["name"] for choice in question.choices] == ["publish", "drop"]
        assert producer.tasks.get(sent.id).state == "escalated"
        operator.escalations.resolve(question.id, "answer: publish")
        assert finish(process).split() == [sent.id, "done"]
    now = producer.tasks.get(sent.id)
    assert now.result["published"] is True and now.result["answer"] == "publish"


def test_an_answer_that_ends_the_task_ends_the_graph(
    start: Start, producer: Client, operator: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "announcement", {"topic": "shelves"}, register=True)
    with start(EXAMPLE) as process:
        operator.escalations.resolve(wait_for_question(operator).id, "skip")
        assert finish(process).split() == [sent.id, "None"]
    assert producer.tasks.get(sent.id).state == "skipped"


@pytest.mark.parametrize("story", ["human", "human_async"])
def test_a_human_interrupt_becomes_a_form(
    story: str, start: Start, producer: Client, operator: Client
) -> None:
    """Two at once, and arguments that are no JSON are asked for again."""
    sent = producer.tasks.enqueue("coder", "code", register=True)
    with start(STORIES, story) as process:
        question = wait_for_question(operator)
        assert question.question and "Look first." in question.question
        schema = question.response_schema or {}
        allowed = ["accept", "edit", "response", "ignore"]
        assert schema["properties"]["decision"]["enum"] == allowed
        wrong = {"decision": "edit", "args": "{"}
        operator.escalations.resolve(question.id, action="answer", response=wrong)
        again = wait_for_question(operator)
        assert (again.question or "").startswith("The arguments must be a JSON object. ")
        right = {"decision": "edit", "args": '{"path": "b"}'}
        operator.escalations.resolve(again.id, action="answer", response=right)
        second = wait_for_question(operator)
        operator.escalations.resolve(second.id, "answer: later")
        finish(process)
    assert producer.tasks.get(sent.id).result == {
        "first": {"type": "edit", "args": {"action": "delete", "args": {"path": "b"}}},
        "second": "later",
    }


def test_a_retry_goes_on_from_the_last_checkpoint(
    start: Start, producer: Client, operator: Client
) -> None:
    sent = producer.tasks.enqueue(
        "coder", "code", {"n": 1}, register=True, backoff={"base_delay_ms": 0}
    )
    with start(STORIES, "retry") as process:
        finish(process)
    assert producer.tasks.get(sent.id).result == {"steps": ["first", "second"], "calls": [1, 2]}


def test_an_answer_to_a_process_that_is_gone_is_not_asked_for_again(
    start: Start, producer: Client, operator: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "announcement", {"topic": "shelves"}, register=True)
    with start(STORIES, "gone") as process:
        operator.escalations.resolve(wait_for_question(operator).id, "answer: publish")
        finish(process)
    assert producer.tasks.get(sent.id).result["published"] is True
    assert len(list(operator.escalations.list())) == 1


def test_a_graph_without_a_checkpointer_is_refused(start: Start, producer: Client) -> None:
    sent = producer.tasks.enqueue("coder", "code", register=True, max_attempts=1)
    with start(STORIES, "no_checkpointer") as process:
        finish(process)
    (made,) = producer.tasks.attempts(sent.id)
    assert made.failure and "Compile it with one" in made.failure["message"]


def test_values_of_interrupts_as_questions() -> None:
    assert langgraph.question_of({"a": 1})["question"] == json.dumps({"a": 1}, indent=2)
    assert langgraph.question_of("") == {"question": "The graph waits for an answer."}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert langgraph.question_of("How many?", schema)["response_schema"] == schema
    human = {"action_request": {"action": "run", "args": {}}, "config": {"allow_ignore": True}}
    question = langgraph.question_of([human])
    assert question["response_schema"]["properties"] == {
        "decision": {"type": "string", "enum": ["ignore"]}
    }
    answered = Escalation(id="x", resolution={"action": "fix", "instruction": "trim first"})
    assert langgraph.value_of([human], answered) == [{"type": "response", "args": "trim first"}]
    assert langgraph.value_of("May I?", answered) == "trim first"
