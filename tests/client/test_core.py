"""From a call to its result, step by step, without a line in between."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from tenfour import Instruction, ServerAway, TenfourError, tasks
from tenfour.api import calls
from tenfour.http.core import Call, Core, request_for
from tenfour.http.exchange import Answer, NoAnswer, Request, Wait
from tenfour.settings import Settings
from tenfour.version import __version__

SETTINGS = Settings("http://tenfour", "tenfour_agt_x")
AWAY = NoAnswer("refused", connected=False)


def play(call: Any, *replies: Answer | NoAnswer) -> tuple[list[Request | Wait], Any]:
    """The steps that were asked for, and the result."""
    script = Core(SETTINGS, retries=2, rand=lambda: 0.0).perform(call)
    waiting, asked, reply = iter(replies), [], None
    try:
        while True:
            asked.append(script.send(reply))
            reply = next(waiting) if isinstance(asked[-1], Request) else None
    except StopIteration as end:
        return asked, end.value


def ok(body: Any, status: int = 200) -> Answer:
    return Answer(status, {}, json.dumps(body).encode())


def test_the_same_request_with_the_same_key_goes_out_again() -> None:
    asked, sent = play(calls.send("coder", "Look"), AWAY, AWAY, ok({"id": "1"}, 201))
    first, wait, second, longer, third = asked
    assert first == second == third
    assert (wait, longer) == (Wait(0.25), Wait(0.5))
    assert isinstance(first, Request) and first.headers["Idempotency-Key"]
    assert sent == Instruction("1")


def test_a_long_wait_is_logged_and_a_short_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """AGT-23"""
    body = b'{"code": "rate_limited", "retryable": true}'
    with caplog.at_level("WARNING", logger="tenfour"):
        play(calls.stats(), Answer(429, {"retry-after": "5"}, body), ok({}))
        assert caplog.messages == []
        play(calls.stats(), Answer(429, {"retry-after": "40"}, body), ok({}))
    assert caplog.messages == ["The server answered 429. Retrying in 40 s."]


def test_two_sends_have_two_keys_but_a_given_key_is_kept() -> None:
    keys = {
        request_for(calls.send("a", "b", idempotency_key=key), SETTINGS).headers["Idempotency-Key"]
        for key in (None, None, "mine", "mine")
    }
    assert len(keys) == 3 and "mine" in keys


@pytest.mark.parametrize(
    "call", [calls.pull(), calls.ack("1"), calls.signal("t"), tasks.heartbeat("1")]
)
def test_every_post_has_a_key_and_no_other_call(call: Any) -> None:
    assert request_for(call, SETTINGS).headers["Idempotency-Key"]
    assert "Idempotency-Key" not in request_for(calls.me(), SETTINGS).headers


def test_every_request_says_who_asks() -> None:
    headers = request_for(calls.me(), SETTINGS).headers
    assert headers["User-Agent"] == f"tenfour-python/{__version__}"
    assert headers["Authorization"] == "Bearer tenfour_agt_x"


def test_a_program_that_does_not_trace_sends_no_trace_and_imports_nothing() -> None:
    code = """import sys
from tenfour.api import calls
from tenfour.http.core import request_for
from tenfour.settings import Settings
sent = request_for(calls.me(), Settings("http://tenfour", "tenfour_agt_x"))
print("traceparent" in sent.headers, "opentelemetry" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_the_current_span_goes_along() -> None:
    assert "traceparent" not in request_for(calls.me(), SETTINGS).headers
    context = trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        sent = request_for(calls.me(), SETTINGS).headers["traceparent"]
    assert sent == f"00-{'abc':0>32}-{'def':0>16}-01"


USED = {"input_tokens": 5, "model": "opus"}
HOOKED = {"hook_event_name": "Stop", "tenfour": {"managed": False, "usage": USED}}


@pytest.mark.parametrize(
    ("call", "pointer"),
    [
        (tasks.report("1", "success", summary="ok", usage=USED), "/usage"),
        (Call("POST", "/v1/hooks/agent", dict, HOOKED), "/tenfour/usage"),
        (tasks.exit("1", 1, "out", of="verification", usage=USED), "/input_tokens"),
        (tasks.exit("1", 1, "out", usage=USED), "/model"),
    ],
)
def test_a_server_that_does_not_know_usage_gets_the_call_without_it(
    call: Any, pointer: str, caplog: pytest.LogCaptureFixture
) -> None:
    problem = {"code": "validation_error", "errors": [{"pointer": pointer, "detail": "Unknown"}]}
    with caplog.at_level("WARNING", logger="tenfour"):
        asked, _ = play(replace(call, read=dict), ok(problem, 422), ok({}))
    first, second = asked
    assert isinstance(first, Request) and isinstance(second, Request)
    assert "input_tokens" in f"{first.url}{first.content!r}"
    assert "input_tokens" not in f"{second.url}{second.content!r}"
    assert second.headers["Idempotency-Key"] != first.headers["Idempotency-Key"]
    assert "older" in caplog.text
    if call.body == "out":  # the exit code's other fields go along
        query = "?of=verification" if "of=" in first.url else ""
        assert second.url == f"http://tenfour/v1/attempts/1/exit/1{query}"
        assert second.content == b"out"
    else:
        sent, left = (json.loads(each.content or b"") for each in (first, second))
        (sent.get("tenfour") or sent).pop("usage")
        assert left == sent
    with pytest.raises(TenfourError):  # once
        play(call, ok(problem, 422), ok(problem, 422))


def test_a_body_may_be_empty_without_what_the_server_does_not_know() -> None:
    call = Call("POST", "/v1/instructions/pull", dict, {"via": "hook"})
    asked, _ = play(call, ok({"errors": [{"pointer": "/via"}]}, 422), ok({}))
    assert [json.loads(each.content or b"") for each in asked] == [{"via": "hook"}, {}]


def test_a_server_that_does_not_know_evidence_gets_the_report_without_it() -> None:
    checks = [{"command": "make test", "exit_code": 0}]
    call = tasks.report("1", "success", usage=USED, checks=checks, tree={"commit": "9c1f44a"})
    errors = [{"pointer": f"/{name}"} for name in ("checks", "tree", "usage")]
    asked, _ = play(replace(call, read=dict), ok({"errors": errors}, 422), ok({}))
    assert [json.loads(each.content or b"") for each in asked][1] == {"status": "success"}


def test_a_server_that_does_not_know_ways_gets_the_pull_without_one() -> None:
    problem = {"code": "validation_error", "errors": [{"pointer": "/via"}]}
    asked, _ = play(calls.pull(via="cli"), ok(problem, 422), ok({"data": []}))
    bodies = [json.loads(each.content or b"") for each in asked if isinstance(each, Request)]
    assert bodies == [{"limit": 10, "via": "cli"}, {"limit": 10}]


def test_a_wrong_value_of_usage_is_refused_by_its_name() -> None:
    problem = {"code": "validation_error", "errors": [{"pointer": "/usage/cost_usd"}]}
    with pytest.raises(TenfourError):
        play(tasks.report("1", "success", usage={"cost_usd": -1}), ok(problem, 422))


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    url = request_for(calls.get("../agents?x=1#y"), SETTINGS).url
    assert url == "http://tenfour/v1/instructions/..%2Fagents%3Fx%3D1%23y"


def test_what_is_not_given_is_left_to_the_server() -> None:
    assert calls.send("coder", "Look").body == {"agent": "coder", "content": "Look"}
    assert calls.send("coder", "Look", max_retries=0, tracked=False, expect="done").body == {
        "agent": "coder",
        "content": "Look",
        "max_retries": 0,
        "tracked": False,
        "expect": {"type": "done"},
    }


def test_several_states_are_one_parameter() -> None:
    assert calls.instructions(state=["queued", "failed"]).params["state"] == "queued,failed"
    assert calls.instructions(state="failed").params["state"] == "failed"


def test_many_acks_are_cut_to_what_one_call_takes() -> None:
    ids = [str(number) for number in range(250)]
    bodies = [call.body for call in calls.acks(ids)]
    assert [len(body["ids"]) for body in bodies if body] == [100, 100, 50]
    assert [id for body in bodies if body for id in body["ids"]] == ids


def test_a_number_that_is_not_json_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        request_for(calls.signal("t", {"x": float("nan")}), SETTINGS)


def test_a_problem_becomes_an_error_with_the_servers_words() -> None:
    problem = {
        "type": "http://tenfour/problems/unknown_agent",
        "title": "No agent has this name",
        "status": 422,
        "detail": "No agent is called 'codr'.",
        "code": "unknown_agent",
        "retryable": False,
        "hint": "Use one of the nearest names.",
        "request_id": "r-1",
        "nearest": ["coder"],
        "errors": [{"pointer": "/agent", "detail": "Nobody has this name."}],
    }
    with pytest.raises(TenfourError) as raised:
        play(calls.send("codr", "Look"), ok(problem, 422))
    error = raised.value
    assert (error.status, error.code, error.retryable) == (422, "unknown_agent", False)
    assert (error.title, error.hint) == (problem["title"], problem["hint"])
    assert error.request_id == "r-1" and error.problem["nearest"] == ["coder"]
    assert str(error) == (
        "No agent is called 'codr': /agent Nobody has this name. [unknown_agent, request r-1]"
    )


def test_the_request_id_is_read_from_the_header_too() -> None:
    answer = Answer(404, {"x-request-id": "r-2"}, b'{"code": "not_found", "detail": "No."}')
    with pytest.raises(TenfourError) as raised:
        play(calls.get("1"), answer)
    assert raised.value.request_id == "r-2"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {}, b"<html>hello</html>"),
        Answer(200, {}, b"[]"),
        Answer(200, {}, b"{}"),
        Answer(404, {}, b"<html>nothing here</html>"),
        Answer(301, {"location": "https://tenfour/v1/me"}, b""),
    ],
)
def test_another_server_at_the_address_is_told_apart(answer: Answer) -> None:
    with pytest.raises(TenfourError) as raised:
        play(calls.me(), answer)
    assert raised.value.code == "not_tenfour"
    assert "TENFOUR_URL" in raised.value.hint
    assert answer.headers.get("location", "") in raised.value.detail


def test_no_answer_is_an_error_of_its_own() -> None:
    with pytest.raises(ServerAway) as raised:
        play(calls.me(), AWAY, AWAY, AWAY)
    assert raised.value.retryable and "cannot be reached" in raised.value.detail
    with pytest.raises(ServerAway, match="did not respond"):
        play(calls.me(), NoAnswer("it timed out", connected=True))
