"""Time claims while agents' programs send 1,000 spans of 2 KB a second, and look for lost ones."""

import secrets
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx2

from bench.figures import Figure, Say, Scale, at_most, ratios
from bench.http import run_web_server
from bench.servers import Sandbox
from bench.steering import open_client
from bench.stress import fetch_count

RATE, BATCH = 1_000, 250  # spans a second, and of a request
SPAN_BYTES = 2_048
PER_ATTEMPT = 4_000  # of the 5,000 that an attempt may have
SECONDS, QUICK_SECONDS = 60, 10
PAUSE_S = 0.01
STORED = "select coalesce(sum(spans), 0)::bigint from retries_attempttrace"
TEXT = "The planner reads the file, runs its tests, and reports which of them fail. "
MEDIA = {"Content-Type": "application/x-protobuf"}


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_traces")
    tokens, producer = sandbox.seed(
        url,
        ("agents", {"count": 2}),
        ("tokens", {"count": 2}),
        ("project_token", {"kind": "orchestrator"}),
    )[1:]
    (worker_name, worker_token), (sender_name, sender_token) = tokens.items()
    seconds = QUICK_SECONDS if scale.quick else SECONDS
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    sent = Sent()
    with ExitStack() as stack:
        address = stack.enter_context(run_web_server(sandbox, "config.wsgi:application", url))
        boss, worker, sender = (
            open_client(stack, address, token) for token in (producer, worker_token, sender_token)
        )
        time_claims(boss, worker, worker_name, 2)
        for number in range(scale.rounds):
            alone.append(time_claims(boss, worker, worker_name, seconds))
            traces = open_traces(boss, sender, sender_name, 1 + RATE * seconds // PER_ATTEMPT)
            ended = threading.Event()
            thread = threading.Thread(target=send_spans, args=(sender, traces, sent, ended))
            thread.start()
            beside.append(time_claims(boss, worker, worker_name, seconds))
            ended.set()
            thread.join()
            say(
                f"round {number + 1}: claim p50 {1000 * p50(alone[-1]):.1f} ms, beside spans "
                f"{1000 * p50(beside[-1]):.1f} ms; p95 {1000 * p95(alone[-1]):.1f} and "
                f"{1000 * p95(beside[-1]):.1f} ms; {sent.acknowledged:,} spans in {sent.took:.0f} s"
            )
    lost = sent.acknowledged - fetch_count(url, STORED)
    return [
        Figure(
            f"traces: claim and report beside {RATE:,} spans of 2 KB a second, p50 / without",
            ratios([p50(each) for each in beside], [p50(each) for each in alone]),
            target=at_most(1.2),
        ),
        Figure(
            "traces: the same, p95",
            ratios([p95(each) for each in beside], [p95(each) for each in alone]),
        ),
        Figure("traces: spans stored", [sent.acknowledged / sent.took], unit="/s"),
        Figure("traces: acknowledged spans that are lost", [float(lost)], "", at_most(0)),
        Figure("traces: requests with spans that were refused", [float(sent.refused)], ""),
    ]


def p50(times: Sequence[float]) -> float:
    return statistics.median(times)


def p95(times: Sequence[float]) -> float:
    return sorted(times)[len(times) * 95 // 100]


def enqueue(boss: httpx2.Client, agent: str, count: int) -> None:
    body = {"tasks": [{"agent": agent, "type": "bench"}] * count}
    boss.post("/v1/tasks/bulk", json=body).raise_for_status()


def time_claims(
    boss: httpx2.Client, worker: httpx2.Client, agent: str, seconds: float
) -> list[float]:
    """Claim tasks and report success, one after the other; return the seconds of each pair."""
    times: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if len(times) % 100 == 0:
            enqueue(boss, agent, 100)
        began = time.perf_counter()
        claimed = worker.post("/v1/claims", json={}).raise_for_status().json()["data"][0]
        path = f"/v1/attempts/{claimed['attempt']['id']}/result"
        worker.post(path, json={"status": "success"}).raise_for_status()
        times.append(time.perf_counter() - began)
        time.sleep(PAUSE_S)
    return times


# ---- spans


@dataclass
class Sent:
    """The spans that the server acknowledged, and how long sending took."""

    acknowledged: int = 0
    refused: int = 0
    took: float = 0.0
    ids: Iterator[int] = field(default_factory=lambda: iter(range(1, 2**62)))


def open_traces(boss: httpx2.Client, sender: httpx2.Client, agent: str, count: int) -> list[str]:
    """Claim as many tasks, each in a trace of its own; return the traces."""
    traces = []
    enqueue(boss, agent, count)
    for _ in range(count):
        trace = secrets.token_hex(16)
        headers = {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"}
        body = {"worker_id": trace}
        found = sender.post("/v1/claims", json=body, headers=headers).raise_for_status().json()
        assert found["data"], found
        traces.append(trace)
    return traces


def send_spans(
    sender: httpx2.Client, traces: Sequence[str], sent: Sent, ended: threading.Event
) -> None:
    began, number = time.monotonic(), 0
    while not ended.is_set() and number * BATCH < len(traces) * PER_ATTEMPT:
        body = build_request(traces[number % len(traces)], sent.ids).SerializeToString()
        while sender.post("/v1/traces", content=body, headers=MEDIA).status_code != 200:
            sent.refused += 1
            time.sleep(1)
        sent.acknowledged += BATCH
        number += 1
        ended.wait(max(0.0, began + number * BATCH / RATE - time.monotonic()))
    sent.took += time.monotonic() - began


def build_request(trace: str, ids: Iterator[int]) -> Any:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    end = time.time_ns()
    text = (TEXT * (SPAN_BYTES // len(TEXT)))[: SPAN_BYTES - 200]
    for number in range(BATCH):
        span = spans.add(
            trace_id=bytes.fromhex(trace),
            span_id=next(ids).to_bytes(8, "big"),
            name="chat gpt-5" if number % 10 == 0 else "execute_tool read_file",
            kind=3,
            start_time_unix_nano=end - 10**9,
            end_time_unix_nano=end,
        )
        span.attributes.add(key="gen_ai.input.messages").value.string_value = text
        span.attributes.add(key="gen_ai.request.model").value.string_value = "gpt-5"
        if number % 10 == 0:
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 812
            span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = 40
    return request
