"""The Python client against a real server, over a line that can break."""

import time
from collections.abc import Iterator

import pytest
from tenfour import Client, ServerAway, TenfourError
from tenfour.version import __version__

from tests.client.faulty import CUT, DROPPED, Fault, FaultyLine, problem
from tests.serving import Tenfour

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def shaky(tenfour_server: Tenfour, line: FaultyLine) -> Iterator[Client]:
    """An orchestrator behind the line that breaks; the agent `coder` is known."""
    tenfour_server.token("agent", "coder")
    with Client(line.url, tenfour_server.token("orchestrator")) as client:
        yield client


def test_an_instruction_goes_from_its_producer_to_its_agent_and_back(
    producer: Client, agent_client: Client
) -> None:
    sent = producer.instructions.send("coder", "Look", max_retries=5, on_failed="record")
    assert (sent.state, sent.max_retries, sent.tracked) == ("queued", 5, True)
    (pulled,) = agent_client.instructions.pull()
    assert (pulled.id, pulled.text, pulled.state) == (sent.id, "Look", "delivered")
    acked = agent_client.instructions.ack(pulled.id, outcome="accepted", note="on it")
    assert (acked.state, acked.outcome, acked.note) == ("acknowledged", "accepted", "on it")
    now = producer.instructions.get(sent.id)
    assert now.is_acknowledged and now.agent == "coder" and not now.is_open


def test_the_same_instruction_is_sent_once(producer: Client, agent_client: Client) -> None:
    first = producer.instructions.send("coder", "Look")
    second = producer.instructions.send("coder", "Look")
    assert second.id == first.id
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert len(agent_client.instructions.pull()) == 1


def test_a_signal_acknowledges_what_expects_it_and_its_data_is_kept(
    producer: Client, agent_client: Client
) -> None:
    expect = {"type": "fs_command", "match": {"command": "openspec"}}
    sent = producer.instructions.send("coder", "Run openspec", expect=expect)
    agent_client.instructions.pull()
    assert agent_client.signal("fs_command", {"command": "git"}) == ()
    assert agent_client.signal("fs_command", {"command": "openspec", "found": True}) == (sent.id,)
    assert agent_client.signal("fs_command", {"command": "openspec", "found": False}) == ()
    now = producer.instructions.get(sent.id)
    assert now.data == {"command": "openspec", "found": True}


def test_the_type_alone_can_be_expected(producer: Client, agent_client: Client) -> None:
    sent = producer.instructions.send("coder", "Look", expect="looked")
    assert agent_client.signal("looked") == (sent.id,)


def test_priority_comes_first_and_plain_is_delivered_too(
    producer: Client, agent_client: Client
) -> None:
    producer.instructions.send("coder", "first")
    producer.instructions.send("coder", "plain", tracked=False)
    producer.instructions.send("coder", "urgent", priority=True)
    texts = [each.text for each in agent_client.instructions.pull(limit=2)]
    assert texts == ["urgent", "first"]
    rest = agent_client.instructions.pull()
    assert [(each.text, each.tracked) for each in rest] == [("plain", False)]
    assert not agent_client.instructions.pull()


def test_a_list_of_acks_has_a_result_for_each(producer: Client, agent_client: Client) -> None:
    ids = [producer.instructions.send("coder", text).id for text in ("a", "b")]
    results = agent_client.instructions.ack([ids[1], UNKNOWN, ids[0]])
    assert [(each.id, each.status) for each in results] == [
        (ids[1], 200),
        (UNKNOWN, 404),
        (ids[0], 200),
    ]
    assert results[0].instruction is not None and results[0].instruction.is_acknowledged
    assert results[1].instruction is None


def test_a_list_of_acks_has_no_note(agent_client: Client) -> None:
    with pytest.raises(TypeError, match="apply to one instruction"):
        agent_client.instructions.ack([UNKNOWN], note="?")  # type: ignore[call-overload]


def test_a_late_ack_says_so(producer: Client, agent_client: Client) -> None:
    sent = producer.instructions.send("coder", "Look")
    assert producer.instructions.cancel(sent.id).state == "cancelled"
    late = agent_client.instructions.ack(sent.id)
    assert late.late and late.state == "cancelled"


def test_what_is_settled_cannot_be_cancelled(producer: Client, agent_client: Client) -> None:
    sent = producer.instructions.send("coder", "Look")
    agent_client.instructions.ack(sent.id)
    with pytest.raises(TenfourError) as raised:
        producer.instructions.cancel(sent.id)
    assert (raised.value.status, raised.value.code) == (409, "invalid_transition")
    assert raised.value.problem["current"] == "acknowledged"


def test_the_list_walks_through_all_pages(producer: Client, agent_client: Client) -> None:
    ids = [producer.instructions.send("coder", f"number {n}", tracked=False).id for n in range(105)]
    assert [each.id for each in producer.instructions.list()] == ids[::-1]
    agent_client.instructions.pull(limit=5)
    delivered = producer.instructions.list(state=["delivered", "failed"], agent="coder")
    assert {each.id for each in delivered} == set(ids[:5])


def test_an_unknown_agent_is_refused_with_the_nearest_names_unless_it_is_to_be_made(
    producer: Client, agent_client: Client
) -> None:
    with pytest.raises(TenfourError) as raised:
        producer.instructions.send("codr", "Look")
    assert raised.value.code == "unknown_agent"
    assert "coder" in raised.value.sentence
    assert raised.value.request_id
    assert producer.instructions.send("codr", "Look", register=True).state == "queued"
    assert {each.name for each in producer.agents.list()} == {"coder", "codr"}


@pytest.mark.parametrize("content", ["", "  ", "a\x00b", "x" * 8193, "\ud800"])
def test_what_is_no_instruction_is_refused_with_a_sentence(
    producer: Client, agent_client: Client, content: str
) -> None:
    with pytest.raises(TenfourError) as raised:
        producer.instructions.send("coder", content)
    assert (raised.value.status, raised.value.code) == (422, "validation_error")
    assert raised.value.sentence and raised.value.hint


def test_a_wrong_token_is_refused(tenfour_server: Tenfour) -> None:
    with (
        Client(tenfour_server.url, "tenfour_agt_nonsense") as client,
        pytest.raises(TenfourError) as raised,
    ):
        client.me()
    assert (raised.value.status, raised.value.code) == (401, "token_invalid")


def test_me_says_who_asks(tenfour_server: Tenfour, agent_client: Client, producer: Client) -> None:
    me = agent_client.me()
    assert (me.kind, me.agent) == ("agent", "coder")
    assert me.project["name"] == tenfour_server.project.name
    assert "instructions:ack" in me.scopes and me.version and me.server_time
    assert producer.me().agent is None


def test_the_numbers_add_up(producer: Client, agent_client: Client) -> None:
    producer.instructions.send("coder", "a")
    agent_client.instructions.ack(producer.instructions.send("coder", "b").id)
    stats = producer.stats("1h")
    assert stats.window_s == 3600
    assert (stats.project.sent, stats.project.acknowledged, stats.project.waiting) == (2, 1, 1)
    assert [each.name for each in stats.agents] == ["coder"]


def test_an_answer_that_got_lost_does_not_make_a_second_instruction(
    shaky: Client, line: FaultyLine
) -> None:
    line.faults.append(Fault(503, {"Retry-After": "0"}, b"", after=True))
    # Plain, so that the idempotency key alone can keep it from being sent twice.
    sent = shaky.instructions.send("coder", "Look", tracked=False)
    assert [each.id for each in shaky.instructions.list()] == [sent.id]
    first, second, _ = line.seen
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.headers["User-Agent"] == f"tenfour-python/{__version__}"


def test_a_program_can_keep_its_key_across_its_own_restart(shaky: Client) -> None:
    both = [
        shaky.instructions.send("coder", "Look", tracked=False, idempotency_key="run-41")
        for _ in range(2)
    ]
    assert both[0].id == both[1].id
    with pytest.raises(TenfourError) as raised:
        shaky.instructions.send("coder", "Look again", idempotency_key="run-41")
    assert raised.value.code == "idempotency_key_reused"


def test_it_gives_up_after_two_more_tries(shaky: Client, line: FaultyLine) -> None:
    line.faults.extend([problem(503, "temporarily_unavailable", X_Request_Id="r-9")] * 4)
    with pytest.raises(TenfourError) as raised:
        shaky.me()
    assert raised.value.status == 503 and raised.value.retryable
    assert raised.value.request_id == "r-9"
    assert len(line.seen) == 3


def test_retry_after_is_waited_for(shaky: Client, line: FaultyLine) -> None:
    line.faults.append(problem(429, "rate_limited", Retry_After="1"))
    start = time.monotonic()
    shaky.me()
    assert time.monotonic() - start >= 1


def test_a_long_retry_after_is_left_to_the_caller(shaky: Client, line: FaultyLine) -> None:
    line.faults.append(problem(429, "rate_limited", Retry_After="600"))
    with pytest.raises(TenfourError) as raised:
        shaky.me()
    assert raised.value.retry_after_s == 600 and len(line.seen) == 1


def test_a_connection_that_breaks_after_the_request_is_not_repeated_blindly(
    shaky: Client, line: FaultyLine
) -> None:
    line.faults.append(DROPPED)
    with pytest.raises(ServerAway) as raised:
        shaky.me()
    assert "check before you repeat it" in raised.value.hint and len(line.seen) == 1


def test_a_response_that_breaks_off_is_not_repeated_blindly_and_its_key_finds_it(
    shaky: Client, line: FaultyLine
) -> None:
    """The call took effect; the same key again returns the same instruction."""
    line.faults.append(CUT)
    with pytest.raises(ServerAway, match="did not respond") as raised:
        shaky.instructions.send("coder", "Look", tracked=False, idempotency_key="run-42")
    assert "may have taken effect" in raised.value.hint and len(line.seen) == 1
    again = shaky.instructions.send("coder", "Look", tracked=False, idempotency_key="run-42")
    assert [each.id for each in shaky.instructions.list()] == [again.id]


def test_a_request_in_progress_is_waited_for(shaky: Client, line: FaultyLine) -> None:
    line.faults.append(problem(409, "idempotency_in_progress", Retry_After="0"))
    assert shaky.instructions.send("coder", "Look").state == "queued"
    line.faults.append(problem(409, "invalid_transition", Retry_After="0"))
    with pytest.raises(TenfourError):
        shaky.instructions.send("coder", "Look")
    assert [each.path for each in line.seen] == ["/v1/instructions"] * 3


def test_nobody_listening_is_tried_three_times() -> None:
    start = time.monotonic()
    with Client("http://127.0.0.1:1", "tenfour_x") as client, pytest.raises(ServerAway) as raised:
        client.me()
    assert time.monotonic() - start >= 0.75
    assert "make up" in raised.value.hint and raised.value.retryable


def test_a_closed_client_opens_again(agent_client: Client) -> None:
    agent_client.me()
    agent_client.close()
    assert agent_client.me().kind == "agent"


def test_the_verbs_show_their_arguments_and_what_they_do(agent_client: Client) -> None:
    import inspect

    assert "max_retries" in inspect.signature(agent_client.instructions.send).parameters
    assert (agent_client.instructions.send.__doc__ or "").startswith("Send an instruction")
