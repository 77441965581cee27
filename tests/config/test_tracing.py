"""Traces: the caller's, kept per attempt and linked, and Tenfour's own, exported over OTLP."""

import os
import subprocess
import sys
from typing import Any
from uuid import UUID

import httpx2
import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from config import tracing
from config.local.listeners import open_listener
from ledger.models import Agent, Attempt
from ledger.tracing import spans
from tests.config.mcp.calls import Mcp
from tests.config.otlp_receiver import ReceivedSpan, Receiver, receive_spans
from tests.config.web_processes import Served, ending
from tests.conftest import Api
from tests.factories import make_agent, make_project, make_token
from tests.retries.moves import attempt_of, claim, make_task
from tests.serving import Tenfour, serve
from tests.waiting import PATIENCE_S, wait_until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
OTHER = "0af7651916cd43dd8448eb211c80319c"
# redis-py imports the SDK's metrics where it finds them.
LOADED = (
    "opentelemetry.sdk.trace",
    "opentelemetry.exporter",
    "opentelemetry.proto",
    "google.protobuf",
)
TEMPLATE = "https://traces.example.org/trace/{trace_id}?span={span_id}"


def parent(trace: str = TRACE, span: str = SPAN) -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{span}-01"}


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.TENFOUR, "TRACE_URL", TEMPLATE)


# ---- the caller's trace


def test_an_attempt_keeps_the_trace_of_its_caller(linked: None, agent: Agent, coder: Api) -> None:
    task = make_task(agent)
    claimed = coder("POST", "/claims", {"worker_id": "w"}, **parent()).body["data"][0]
    url = f"https://traces.example.org/trace/{TRACE}?span={SPAN}"
    trace = {"trace_id": TRACE, "span_id": SPAN, "url": url}
    assert claimed["task"]["trace"] == trace
    attempt = claimed["attempt"]["id"]
    # the worker's next claim gets the same attempt, which stays in its trace
    again = coder("POST", "/claims", {"worker_id": "w"}, **parent(OTHER)).body["data"][0]
    assert again["attempt"]["id"] == attempt
    assert coder("GET", f"/attempts/{attempt}").body["trace"] == trace
    assert coder("GET", f"/tasks/{task}").body["trace"] == trace
    # the report opens the next attempt, in a trace of its own
    failed = {"status": "failure", "failure": {"message": "it broke"}, "reclaim": True}
    coder("POST", f"/attempts/{attempt}/result", failed, **parent(OTHER))
    assert coder("GET", f"/tasks/{task}/attempts").body["data"][-1]["trace"] == trace


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00-short",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"01-{TRACE}-{SPAN}-01-{'x' * 300}",
    ],
)
def test_a_malformed_header_is_no_trace(agent: Agent, coder: Api, header: str) -> None:
    make_task(agent)
    claimed = coder("POST", "/claims", {}, traceparent=header).body["data"][0]
    assert claimed["task"]["trace"] is None
    assert coder("GET", f"/attempts/{claimed['attempt']['id']}").body["trace"] is None


def test_a_trace_does_not_leak_into_the_next_request(agent: Agent, coder: Api) -> None:
    """The threads of the web server serve one request after the other."""
    make_task(agent)
    make_task(agent)
    assert coder("POST", "/claims", {}, **parent()).body["data"][0]["task"]["trace"]
    assert coder("POST", "/claims", {}).body["data"][0]["task"]["trace"] is None


def test_a_tool_call_names_its_trace_in_its_meta(tenfour_server: Tenfour) -> None:
    make_task(make_agent("tracer", project=tenfour_server.project))
    mcp = Mcp(tenfour_server.url, tenfour_server.token("agent", "tracer"))
    with mcp.http:
        call = {"name": "claim_task", "arguments": {}, "_meta": parent()}
        assert mcp.request("tools/call", call).status_code == 200
    assert Attempt.objects.get().trace_id == TRACE


def test_the_page_of_a_task_links_to_the_traces_of_its_attempts(
    linked: None, admin_client: Client, agent: Agent, coder: Api
) -> None:
    task = make_task(agent)
    coder("POST", "/claims", {}, **parent())
    page = admin_client.get(f"/tasks/{task}/").content.decode()
    assert f'href="https://traces.example.org/trace/{TRACE}?span={SPAN}"' in page
    settings.TENFOUR["TRACE_URL"] = ""  # the fixture restores it
    assert "Trace of attempt" not in admin_client.get(f"/tasks/{task}/").content.decode()


@pytest.mark.parametrize(
    "bad", ["traces.example.org/{trace_id}", "https://x/", "ftp://x/{trace_id}"]
)
def test_a_template_that_makes_no_link_stops_the_start(bad: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="TENFOUR_TRACE_URL must look like"):
        tracing.check_template(bad)


# ---- Tenfour's own spans


def test_nothing_is_loaded_unless_it_is_configured() -> None:
    assert spans.tracer is None
    program = (
        "import sys, django; django.setup(); import config.urls; from django.conf import settings;"
        f"print([n for n in sys.modules if n.startswith({LOADED!r})],"
        "'config.tracing.RequestSpans' in settings.MIDDLEWARE)"
    )
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"}
    for more, expected in (
        ({}, "[] False"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, "[] False"),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", program], env=env | more, capture_output=True, text=True
        )
        assert ran.stdout.strip() == expected, ran.stderr


def test_claims_reports_and_answers_arrive_as_spans(transactional_db: None) -> None:
    """S: a task fails, is retried, and is escalated; every step is in the trace of its caller."""
    agent = make_agent(project=make_project("traced"))
    task = make_task(agent, max_attempts=2, on_exhausted="escalate")
    worker = {"Authorization": f"Bearer {make_token('agent', agent=agent)}"}
    person = {"Authorization": f"Bearer {make_token('operator', project=agent.project)}"}
    failed = {"status": "failure", "failure": {"message": "secret words", "type": "timeout"}}
    with receive_spans() as receiver, open_listener("127.0.0.1", 0) as listener:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        with ending(serve(listener.fileno(), workers=2, **env)) as process:
            server = Served(process, listener.getsockname()[:2])
            wait_until(server.is_healthy)
            url = "http://{}:{}/v1".format(*server.address)
            with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:

                def post(path: str, body: Any, **headers: str) -> Any:
                    answer = http.post(path, json=body, headers=headers)
                    assert answer.is_success, answer.text
                    return answer.json()

                attempts: list[str] = []
                for trace in (TRACE, OTHER):
                    own = worker | parent(trace)
                    wait_until(lambda own=own: bool(claim_once(post, own, attempts)))
                    decision = post(f"/attempts/{attempts[-1]}/result", failed, **own)
                escalation = decision["escalation"]["id"]
                post(f"/escalations/{escalation}/resolve", {"action": "skip"}, **person)
            # Each worker sends its own spans when it gets to it.
            wait_until(lambda: has_all_spans(receiver))
            process.terminate()
            process.wait(timeout=PATIENCE_S)
        check_spans(receiver, task, attempts)


def claim_once(post: Any, headers: dict[str, str], attempts: list[str]) -> bool:
    found = post("/claims", {"worker_id": "session:chat-7"}, **headers)["data"]
    attempts += [each["attempt"]["id"] for each in found]
    return bool(found)


def find_claim(receiver: Receiver, number: int) -> ReceivedSpan | None:
    """Return the span of the claim that made this attempt; one that found no task has none."""
    claims = receiver.named("tenfour.claim")
    found = (each for each in claims if each.attributes.get("tenfour.attempt.number") == number)
    return next(found, None)


def has_all_spans(receiver: Receiver) -> bool:
    first, retried = find_claim(receiver, 1), find_claim(receiver, 2)
    return bool(
        first
        and retried
        and any(span.span_id == first.parent for span in list(receiver.spans))
        and len(receiver.named("tenfour.report")) == 2
        and receiver.named("tenfour.resolve")
    )


def check_spans(receiver: Receiver, task: UUID, attempts: list[str]) -> None:
    requests = [span for span in receiver.spans if span.kind == 2]  # of a server
    # the caller's span is the parent of the request, and that one of what it does
    first, retried = find_claim(receiver, 1), find_claim(receiver, 2)
    assert first and retried
    asked = next(span for span in requests if span.span_id == first.parent)
    assert (asked.name, asked.trace_id, asked.parent) == ("POST /v1/claims", TRACE, SPAN)
    assert asked.attributes["http.response.status_code"] == 200
    assert asked.resource["service.name"] == "tenfour"
    assert first.attributes == {
        "tenfour.tasks": 1,
        "tenfour.task.id": str(task),
        "tenfour.attempt.id": attempts[0],
        "tenfour.attempt.number": 1,
        "tenfour.worker.id": "session:chat-7",
        "gen_ai.agent.id": first.attributes["gen_ai.agent.id"],
        "gen_ai.agent.name": "coder",
        "gen_ai.conversation.id": "chat-7",
    }
    # a retry is a trace of its own, linked to the attempt before
    assert (retried.trace_id, retried.links) == (OTHER, [SPAN])
    reports = {span.trace_id: span for span in receiver.named("tenfour.report")}
    assert reports[TRACE].attributes["tenfour.decision"] == "wait"
    assert reports[OTHER].attributes["tenfour.decision"] == "escalated"
    assert reports[OTHER].attributes["error.type"] == "timeout"
    answered = receiver.named("tenfour.resolve")[0]
    assert answered.attributes["tenfour.action"] == "skip"
    assert answered.attributes["tenfour.task.id"] == str(task)
    # text of failures stays here
    said = [str(value) for span in receiver.spans for value in span.attributes.values()]
    assert not [text for text in said if "secret words" in text]
    assert not [span for span in requests if "/healthz" in span.name]


def test_code_in_the_same_process_traces_nothing(agent: Agent) -> None:
    make_task(agent)
    attempt = Attempt.objects.get(pk=attempt_of(claim(agent)))
    assert (attempt.trace_id, attempt.span_id) == ("", "")
