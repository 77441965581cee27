"""Spans that agents' programs export: each is stored once, with its attempt, within the limits."""

import gzip
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.models import Agent, Attempt
from retries.api.sessions import traces
from retries.models import AttemptSpan, AttemptTrace
from retries.traces import otlp, storing
from retries.traces.otlp import JSON, PROTOBUF
from tests.conftest import Api
from tests.factories import NOW, make_agent, make_project
from tests.retries.traces.exports import (
    SECOND,
    SPAN,
    TRACE,
    call,
    claim_in,
    send_json,
    send_protobuf,
    span,
)

pytestmark = pytest.mark.django_db

OTHER = "0af7651916cd43dd8448eb211c80319c"
KEY = "AKIAIOSFODNN7EXAMPLE"
EMPTY = b"\n\x00"  # a request with one resource and no spans


def stored() -> list[AttemptSpan]:
    return list(AttemptSpan.objects.order_by("started_at", "span_id"))


# ---- the forms of a request


def test_protobuf_gzip_and_json_store_the_same_spans(agent: Agent, coder: Api) -> None:
    attempt = claim_in(coder, agent)
    failed = {"status": {"code": 2, "message": "rate limited"}}
    event = {"events": [{"name": "exception", "attributes": [], "timeUnixNano": "1"}]}
    spans = [
        span(1, "invoke_agent", length=3 * SECOND, more=failed),
        span(
            2, parent=1, at=NOW + SECOND, more=event, n=7, share=0.5, ok=True, tags=["a", {"b": 1}]
        ),
    ]
    found = []
    for send in (
        lambda: send_protobuf(coder, *spans),
        lambda: send_protobuf(coder, *spans, zipped=True),
        lambda: send_json(coder, *spans),
    ):
        AttemptSpan.objects.all().delete()
        AttemptTrace.objects.all().delete()
        send()
        found.append([{**row.__dict__, "_state": None} for row in stored()])
    assert found[0] == found[1] == found[2]
    first, second = stored()
    assert str(first.attempt_id) == attempt
    assert (first.trace_id, first.span_id, first.parent_id) == (TRACE, f"{1:016x}", "")
    assert (first.name, first.kind, first.status) == ("invoke_agent", 3, 2)
    assert first.message == "rate limited"
    assert (first.started_at, first.ended_at) == (NOW, NOW + 3 * SECOND)
    assert second.parent_id == first.span_id
    assert second.attributes == {
        "service.name": "coder",
        **{"n": 7, "share": 0.5, "ok": True, "tags": ["a", {"b": 1}]},
        "event 1: exception": {},
    }
    trace = AttemptTrace.objects.get()
    assert (str(trace.attempt_id), trace.spans, trace.dropped) == (attempt, 2, 0)


def test_the_response_has_the_type_of_the_request(agent: Agent, coder: Api) -> None:
    claim_in(coder, agent)
    response = send_json(coder, span(1))
    assert (response["Content-Type"], response.body) == (JSON, {})
    assert send_protobuf(coder, span(1)).content == b""
    said = send_json(coder, span(1, trace=OTHER)).body["partialSuccess"]
    assert said["rejectedSpans"] == "1" and "traceparent" in said["errorMessage"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "word"),
    [
        (b"{", {"Content_Type": JSON}, 400, "ExportTraceServiceRequest"),
        (b'{"resourceSpans": 5}', {"Content_Type": JSON}, 400, "ExportTraceServiceRequest"),
        (b"[" * 100_000, {"Content_Type": JSON}, 400, "ExportTraceServiceRequest"),
        (b"\xff\xff", {"Content_Type": PROTOBUF}, 400, "ExportTraceServiceRequest"),
        (b"no gzip", {"Content_Type": PROTOBUF, "Content_Encoding": "gzip"}, 400, "gzip"),
        (gzip.compress(b"x" * 999)[:-9], {"Content_Type": PROTOBUF, "Content_Encoding": "gzip"}, 400, "whole"),
        (EMPTY, {"Content_Type": PROTOBUF, "Content_Encoding": "br"}, 415, "gzip"),
        (b"<x/>", {"Content_Type": "application/xml"}, 415, "application/xml"),
        (
            gzip.compress(bytes(otlp.UNPACKED_BYTES + 1)),
            {"Content_Type": PROTOBUF, "Content_Encoding": "gzip"},
            413,
            "without its compression",
        ),
        (EMPTY * (otlp.MOST_GROUPS + 1), {"Content_Type": PROTOBUF}, 413, "10,001 resources"),
        (b'{"resourceSpans": [' + b"{}," * otlp.MOST_OBJECTS + b"{}]}", {"Content_Type": JSON}, 413, "objects"),
        (bytes(traces.MOST_BODY_BYTES + 1), {"Content_Type": PROTOBUF}, 413, "at most"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(
    body: bytes, headers: dict[str, str], status: int, word: str, coder: Api
) -> None:
    response = coder("POST", "/traces", body, **headers)
    assert response.status_code == status, response.content
    assert word in response.body["detail"]
    assert response["Content-Type"] == "application/problem+json"


def test_a_busy_server_says_when_to_send_again(coder: Api) -> None:
    taken = 0
    while traces.READERS.acquire(blocking=False):
        taken += 1
    try:
        response = coder("POST", "/traces", EMPTY, Content_Type=PROTOBUF)
    finally:
        traces.READERS.release(taken)
    assert (response.status_code, response.body["code"]) == (503, "traces_busy")
    assert response["Retry-After"] == "1"
    assert coder("POST", "/traces", EMPTY, Content_Type=PROTOBUF).status_code == 200


# ---- which attempt a span belongs to


def test_a_span_belongs_to_the_attempt_that_it_names(agent: Agent, coder: Api) -> None:
    first, second = claim_in(coder, agent), claim_in(coder, agent, OTHER)
    assert send_protobuf(coder, span(1, tenfour__attempt_id=second)).rejected == 0
    assert send_protobuf(coder, span(2, trace="f" * 32), tenfour__attempt_id=first).rejected == 0
    assert [(row.span_id[-1], str(row.attempt_id)) for row in stored()] == [
        ("1", second),
        ("2", first),
    ]
    assert all("tenfour.attempt_id" not in row.attributes for row in stored())


def test_a_span_of_several_attempts_belongs_to_the_last_that_had_begun(
    agent: Agent, coder: Api
) -> None:
    ids = []
    for number in range(3):
        ids.append(claim_in(coder, agent))
        coder("POST", f"/attempts/{ids[-1]}/result", {"status": "success"})
        at = NOW + number * 60 * SECOND
        Attempt.objects.filter(pk=ids[-1]).update(started_at=at, ended_at=at + 30 * SECOND)
    sent = [span(n, at=NOW + seconds * SECOND) for n, seconds in enumerate((-5, 0, 61, 500), 1)]
    assert send_protobuf(coder, *sent).rejected == 0
    assert [str(row.attempt_id) for row in stored()] == [ids[0], ids[0], ids[1], ids[2]]


def test_a_token_stores_only_spans_of_attempts_that_it_sees(
    agent: Agent, coder: Api, api: Callable[..., Api]
) -> None:
    attempt = claim_in(coder, agent)
    theirs = api("agent", agent=make_agent("tester"))
    elsewhere = api("orchestrator", project=make_project("other"))
    for each in (theirs, elsewhere):
        assert send_protobuf(each, span(1), span(2, tenfour__attempt_id=attempt)).rejected == 2
    assert not stored()
    assert send_protobuf(api("orchestrator"), span(1)).rejected == 0
    reader = api("reader")("POST", "/traces", EMPTY, Content_Type=PROTOBUF)
    assert reader.body["code"] == "scope_missing"


def test_what_is_rejected_is_counted_and_said(agent: Agent, coder: Api) -> None:
    claim_in(coder, agent)
    bad = [
        span(2, more={"traceId": "0" * 32}),
        span(3, more={"spanId": "0" * 16}),
        span(4, more={"startTimeUnixNano": "0"}),
        span(5, more={"endTimeUnixNano": "18446744073709551615"}),
    ]
    response = send_protobuf(coder, span(1), *bad, span(6, trace=OTHER))
    assert response.rejected == 5
    assert response.reason == (
        "Not stored: 1 span of no attempt of this token: claim with the header traceparent of the "
        "trace, or give the spans or their resource the attribute tenfour.attempt_id; 4 spans "
        "without a valid trace id, span id, start and end."
    )
    assert len(stored()) == 1


# ---- once, and within the limits


def test_spans_that_are_sent_again_change_nothing(agent: Agent, coder: Api) -> None:
    attempt = claim_in(coder, agent)
    spans = [call(1), call(2), span(3)]
    send_protobuf(coder, *spans, *spans)
    before, usage = stored(), Attempt.objects.get().usage
    send_protobuf(coder, *[{**each, "name": "changed"} for each in spans], call(4, 40))
    assert [row.name for row in stored()[:3]] == [row.name for row in before]
    assert AttemptTrace.objects.get().spans == 4
    assert usage["input_tokens"] + usage["output_tokens"] == 200
    assert tokens_of(attempt) == 240


def test_the_first_spans_of_an_attempt_are_kept_and_the_rest_is_counted(
    agent: Agent, coder: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = storing.STORE.replace(str(storing.MOST_SPANS), "3")
    monkeypatch.setattr(storing, "STORE", small.replace(str(storing.MOST_WITH_USAGE), "5"))
    attempt = claim_in(coder, agent)
    assert send_protobuf(coder, *(span(n) for n in range(1, 3))).rejected == 0
    response = send_protobuf(coder, *(span(n) for n in range(3, 7)))
    assert response.rejected == 3 and "beyond the 5,000 of an attempt" in response.reason
    # calls of models still count
    assert send_protobuf(coder, *(call(n) for n in range(10, 13))).rejected == 1
    assert [int(row.span_id, 16) for row in stored()] == [1, 2, 3, 10, 11]
    trace = AttemptTrace.objects.get()
    assert (trace.spans, trace.dropped, tokens_of(attempt)) == (5, 4, 200)


def test_spans_beyond_those_of_a_request_are_counted_but_not_read(
    agent: Agent, coder: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_in(coder, agent)
    read, reads = otlp.read_span, []
    monkeypatch.setattr(otlp, "read_span", lambda *given: reads.append(1) or read(*given))
    monkeypatch.setattr(storing, "MOST_SENT", 3)
    response = send_protobuf(coder, *(span(n) for n in range(1, 7)))
    assert (response.rejected, len(reads), len(stored())) == (3, 3, 3)
    assert "3 spans beyond the 10,000 of a request" in response.reason


@pytest.mark.parametrize("odd", [["chat"], {"a": 1}, True, 1.5])
def test_attributes_of_another_type_cost_no_batch(odd: Any, agent: Agent, coder: Api) -> None:
    attempt = claim_in(coder, agent)
    names = ("gen_ai.operation.name", "gen_ai.response.model", "gen_ai.usage.cost", "service.name")
    strange = call(1, **{name: odd for name in names}, tenfour__attempt_id=odd)
    send_protobuf(coder, strange, call(2), service__name=odd, tenfour__attempt_id=odd)
    assert (len(stored()), tokens_of(attempt)) == (2, 200)


def test_texts_are_redacted_and_cut(agent: Agent, coder: Api) -> None:
    claim_in(coder, agent)
    near = "x" * (otlp.VALUE_BYTES - 10)
    sent = span(
        1,
        f"call {KEY}\x00",
        more={"status": {"code": 2, "message": f"refused {KEY}"}},
        prompt=f"use {KEY}",
        password="hunter2",
        nested={"api_key": "s3cret-value", "list": [f"and {KEY}"]},
        crossing=f"{near} {KEY} tail",
        long="y" * 100_000,
        wide=[f"{n} {'z' * 100}" for n in range(100)],
        model="gpt-5",
    )
    sent["events"] = [{"name": f"event {KEY}", "attributes": []}]
    send_json(coder, sent)
    (row,) = stored()
    text = json.dumps([row.name, row.message, row.attributes])
    assert KEY not in text and KEY[:12] not in text
    assert "hunter2" not in text and "s3cret-value" not in text
    assert row.attributes["model"] == "gpt-5" and row.attributes["prompt"].startswith("use [redac")
    assert "cut:" in row.attributes["long"] and "cut:" in row.attributes["wide"]
    for value in row.attributes.values():
        assert len(json.dumps(value)) <= otlp.VALUE_BYTES + 100


def test_a_span_has_a_limit_and_short_attributes_come_first(agent: Agent, coder: Api) -> None:
    claim_in(coder, agent)
    long = {f"long_{n}": "x" * 2000 for n in range(20)}
    send_protobuf(coder, span(1, **long, last="short"))
    (row,) = stored()
    assert row.attributes["last"] == "short"
    assert len(json.dumps(row.attributes)) <= otlp.SPAN_BYTES + 1000
    kept = sum(name.startswith("long_") for name in row.attributes)
    assert row.attributes[otlp.OTHERS] == 20 - kept > 0


def test_spans_are_stored_by_a_few_statements(
    agent: Agent, coder: Api, django_assert_max_num_queries: Any
) -> None:
    claim_in(coder, agent)
    with django_assert_max_num_queries(7, connection=connection):
        send_protobuf(coder, *(span(n) for n in range(1, 200)))
    assert AttemptTrace.objects.get().spans == 199


def test_each_attempt_has_a_transaction_of_its_own(agent: Agent, coder: Api) -> None:
    attempts = sorted([claim_in(coder, agent), claim_in(coder, agent, OTHER)])
    spans = [span(n, tenfour__attempt_id=attempts[n % 2]) for n in range(1, 5)]
    with CaptureQueriesContext(connection) as found:
        assert send_protobuf(coder, *spans).rejected == 0
    begun = [query["sql"].split()[0].lower() for query in found]
    assert begun.count("release") == 2
    assert [row.attempt_id for row in AttemptTrace.objects.order_by("pk")] == [
        UUID(each) for each in attempts
    ]
    assert len(stored()) == 4


def tokens_of(attempt: str) -> int:
    usage = Attempt.objects.get(pk=attempt).usage or {}
    return int(usage.get("input_tokens", 0) + usage.get("output_tokens", 0))


# ---- usage


def test_the_usage_of_calls_counts_for_the_attempt(agent: Agent, coder: Api) -> None:
    attempt = claim_in(coder, agent)
    cost = {"gen_ai.usage.cost": 0.25}
    send_protobuf(coder, call(1, **cost), call(2, **cost))
    assert Attempt.objects.get(pk=attempt).usage == {
        **{"source": "spans", "model": "claude-sonnet-4-5"},
        **{"input_tokens": 180, "output_tokens": 20, "cost_usd": 0.5},
    }
    # the report has no usage of its own, and later spans still count
    coder("POST", f"/attempts/{attempt}/result", {"status": "success"})
    assert tokens_of(attempt) == 200
    send_protobuf(coder, call(3))
    assert tokens_of(attempt) == 300
    assert "cost_usd" not in Attempt.objects.get(pk=attempt).usage
    assert coder("GET", f"/attempts/{attempt}").body["usage"]["source"] == "spans"


@pytest.mark.parametrize("status", ["success", "failure"])
def test_the_usage_of_a_report_replaces_that_of_spans(
    status: str, agent: Agent, coder: Api
) -> None:
    attempt = claim_in(coder, agent)
    send_protobuf(coder, call(1))
    usage = {"input_tokens": 70, "output_tokens": 7}
    body = {"status": status, "usage": usage}
    more = {"failure": {"message": "it broke"}} if status == "failure" else {}
    assert coder("POST", f"/attempts/{attempt}/result", body | more).status_code == 200
    send_protobuf(coder, call(2))
    assert Attempt.objects.get(pk=attempt).usage == usage
    assert len(stored()) == 2


def test_a_call_and_the_library_below_it_count_once(agent: Agent, coder: Api) -> None:
    attempt = claim_in(coder, agent)
    whole = call(1, 200, **{"gen_ai.operation.name": "invoke_agent"})
    outer, inner = call(2, parent=1), call(3, parent=2)
    # in one request, the inner one counts
    send_protobuf(coder, whole, outer, inner)
    assert tokens_of(attempt) == 100
    # in two, the first one counts
    send_protobuf(coder, call(5, parent=4))
    send_protobuf(coder, call(4, parent=1))
    assert tokens_of(attempt) == 200
    send_protobuf(coder, call(6, parent=1))
    send_protobuf(coder, call(7, parent=6))
    assert tokens_of(attempt) == 300
    assert SPAN not in {row.span_id for row in stored()}


@pytest.mark.parametrize("middle", ["", "invoke_agent"])
@pytest.mark.parametrize("batches", [1, 3])
def test_the_sums_of_agents_that_call_agents_do_not_count(
    batches: int, middle: str, agent: Agent, coder: Api
) -> None:
    attempt = claim_in(coder, agent)
    named = {"gen_ai.operation.name": middle}
    ended = [
        call(3, parent=2),
        call(2, parent=1, **named),
        call(1, **{"gen_ai.operation.name": ""}),
    ]
    for sent in [ended] if batches == 1 else [[each] for each in ended]:
        send_protobuf(coder, *sent)
    assert tokens_of(attempt) == 100
