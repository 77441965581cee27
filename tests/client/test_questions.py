"""A live attempt asks a person, waits, and continues with the answer."""

import threading
from collections.abc import Callable, Iterator

import pytest
from tenfour import AsyncClient, Blocked, Client, TenfourError

from tests.client.faulty import FaultyLine, problem
from tests.loops import run_coroutine
from tests.serving import Tenfour
from tests.waiting import wait_until


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


def answering(operator: Client, **answer: object) -> Callable[[], None]:
    """Answer the first question that opens, in a thread of its own."""

    def answer_first() -> None:
        found = wait_until(lambda: list(operator.escalations.list(state="open")))
        operator.escalations.resolve(found[0].id, **answer)  # type: ignore[arg-type]

    thread = threading.Thread(target=answer_first)
    thread.start()
    return thread.join


def test_the_answer_comes_and_the_same_block_goes_on(
    producer: Client, operator: Client, tenfour_server: Tenfour, line: FaultyLine
) -> None:
    sent = producer.tasks.enqueue("coder", "code", register=True)
    with Client(line.url, tenfour_server.token("agent", "coder"), retries=0) as coder:
        for attempt in coder.attempts(worker_id="w-1"):
            with attempt:
                first = attempt.id
                question = attempt.ask(
                    "Drop the table?",
                    options=["yes", {"name": "no", "title": "Keep it"}],
                    severity="high",
                    client_state={"row": 7},
                )
                assert question.url.endswith(f"/escalations/{question.id}/")
                assert producer.tasks.get(sent.id).state == "escalated"
                line.faults.append(problem(503, "temporarily_unavailable"))
                join = answering(operator, text="answer: yes")
                answer = question.wait(every_s=0.05)
                join()
                assert (answer.action, answer.answer) == ("answer", "yes")
                assert answer.client_state == {"row": 7}
                assert attempt.id != first and not attempt.should_stop
                assert "yes" in attempt.prompt
                attempt.result = answer.answer
    now = producer.tasks.get(sent.id)
    assert (now.state, now.result) == ("done", "yes")


def test_an_answer_with_fields_has_its_values(
    producer: Client, agent_client: Client, operator: Client
) -> None:
    producer.tasks.enqueue("coder", "code")
    schema = {"type": "object", "properties": {"rows": {"type": "integer"}}}
    for attempt in agent_client.attempts():
        with attempt:
            question = attempt.ask("How many rows?", response_schema=schema)
            join = answering(operator, action="answer", response={"rows": 3})
            attempt.result = question.wait(every_s=0.05).answer
            join()
    assert producer.tasks.get(attempt.task.id).result == {"rows": 3}


def test_an_answer_that_ends_the_task_ends_the_block(
    producer: Client, agent_client: Client, operator: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    for attempt in agent_client.attempts():
        with attempt:
            question = attempt.ask("May I?")
            join = answering(operator, text="skip")
            assert question.wait(every_s=0.05).action == "skip"
            join()
            assert attempt.should_stop
    assert producer.tasks.get(sent.id).state == "skipped" and attempt.decision is None


def test_a_question_without_waiting_ends_the_attempt(
    producer: Client, agent_client: Client, operator: Client
) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    for attempt in agent_client.attempts():
        with attempt:
            attempt.ask("May I?")
    now = producer.tasks.get(sent.id)
    assert (now.state, now.retry_count, attempt.decision) == ("escalated", 0, None)
    with pytest.raises(TenfourError):
        agent_client.tasks.ask(attempt.id, "Again?")
    agent_client.escalations.withdraw(now.escalation or "")
    assert producer.tasks.get(sent.id).state == "queued"


def test_the_async_one_waits_too(
    tenfour_server: Tenfour, producer: Client, operator: Client
) -> None:
    secret = tenfour_server.token("agent", "coder")
    sent = producer.tasks.enqueue("coder", "code")

    async def story() -> None:
        async with AsyncClient(tenfour_server.url, secret) as coder:
            async for attempt in coder.attempts():
                async with attempt:
                    question = await attempt.ask("May I?")
                    attempt.result = (await question.wait(every_s=0.05)).answer

    join = answering(operator, text="answer: you may")
    run_coroutine(story())
    join()
    assert producer.tasks.get(sent.id).result == "you may"


def test_blocked_asks_a_person_with_its_code(producer: Client, agent_client: Client) -> None:
    sent = producer.tasks.enqueue("coder", "code")
    for attempt in agent_client.attempts():
        with attempt:
            raise Blocked("The token can't push.", code="permission_denied", suggested_fix="a key")
    assert attempt.decision and attempt.decision.reason == "permission_denied"
    escalation = producer.escalations.get(producer.tasks.get(sent.id).escalation or "")
    assert escalation.is_open and escalation.reason == "permission_denied"
    assert "The token can't push." in escalation.message
    assert [each.id for each in producer.escalations.list(agent="coder")] == [escalation.id]
