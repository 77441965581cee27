"""Requests of OTLP as exporters send them."""

import gzip
import json
from base64 import b64encode
from datetime import datetime, timedelta
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ledger.models import Agent
from retries.traces.otlp import JSON, PROTOBUF
from tests.conftest import Api
from tests.factories import NOW
from tests.retries.moves import make_task

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECOND = timedelta(seconds=1)


def value_of(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [value_of(each) for each in value]}}
        case dict():
            return {"kvlistValue": {"values": attributes_of(value)}}
    return {"stringValue": value}


def attributes_of(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value_of(value)} for name, value in values.items()]


def nanoseconds(at: datetime) -> str:
    return str(int(at.timestamp() * 10**6) * 1000)


def span(
    number: int,
    name: str = "chat gpt-5",
    *,
    parent: int = 0,
    trace: str = TRACE,
    at: datetime = NOW,
    length: timedelta = SECOND,
    more: dict[str, Any] | None = None,
    **attributes: Any,
) -> dict[str, Any]:
    """Return a span as JSON; its attributes have underscores in place of dots."""
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        **({"parentSpanId": f"{parent:016x}"} if parent else {}),
        "name": name,
        "kind": 3,
        "startTimeUnixNano": nanoseconds(at),
        "endTimeUnixNano": nanoseconds(at + length),
        "attributes": attributes_of(named),
        **(more or {}),
    }


def call(number: int, tokens: int = 100, **more: Any) -> dict[str, Any]:
    """Return the span of a model's call."""
    used = {"gen_ai.usage.input_tokens": tokens - 10, "gen_ai.usage.output_tokens": 10}
    named = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "claude-sonnet-4-5"}
    return span(number, **{**named, **used, **more})


def request_of(*spans: dict[str, Any], **resource: Any) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in resource.items()}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": attributes_of({"service.name": "coder", **named})},
                "scopeSpans": [{"scope": {"name": "tests"}, "spans": list(spans)}],
            }
        ]
    }


def as_protobuf(request: dict[str, Any]) -> bytes:
    # protobuf's own JSON has base64 where OTLP's has hexadecimal digits
    message = json_format.ParseDict(request, ExportTraceServiceRequest())
    for group in message.resource_spans:
        for scope in group.scope_spans:
            for each in scope.spans:
                for field in ("trace_id", "span_id", "parent_span_id"):
                    setattr(each, field, digits_of(getattr(each, field)))
    return message.SerializeToString()


def digits_of(data: bytes) -> bytes:
    return bytes.fromhex(b64encode(data).decode())


def send_protobuf(api: Api, *spans: dict[str, Any], zipped: bool = False, **resource: Any) -> Any:
    """Send spans; return the response with its number of rejected spans and their reason."""
    body = as_protobuf(request_of(*spans, **resource))
    more = {"Content_Encoding": "gzip"} if zipped else {}
    sent = gzip.compress(body) if zipped else body
    response = api("POST", "/traces", sent, Content_Type=PROTOBUF, **more)
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == PROTOBUF
    said = ExportTraceServiceResponse.FromString(response.content).partial_success
    response.rejected, response.reason = said.rejected_spans, said.error_message
    return response


def send_json(api: Api, *spans: dict[str, Any], **resource: Any) -> Any:
    body = json.dumps(request_of(*spans, **resource))
    response = api("POST", "/traces", body, Content_Type=JSON)
    assert response.status_code == 200, response.content
    return response


def claim_in(api: Api, agent: Agent, trace: str = TRACE, **more: Any) -> Any:
    """Enqueue a task and claim it in a trace; return its attempt's id."""
    make_task(agent, **more)
    header = f"00-{trace}-{SPAN}-01"
    found = api("POST", "/claims", {"worker_id": trace[:4]}, traceparent=header)
    return found.body["data"][0]["attempt"]["id"]
