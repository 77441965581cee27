"""Take the spans that agents' programs export with OTLP over HTTP."""

from threading import BoundedSemaphore
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from ninja import Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest, stamp_of
from ledger.errors import Refusal
from ledger.schemas.sessions.traces import TracesStoredOut
from ledger.tracing import genai_attributes as genai
from retries.traces import otlp
from retries.traces.storing import receive_spans

router = Router(tags=["attempts"])

MOST_BODY_BYTES = 4 * 1024 * 1024
# Requests whose spans this process reads at once: a quarter of its web threads.
READERS = BoundedSemaphore(max(1, settings.TENFOUR["WEB_THREADS"] // 4))
EXAMPLE = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "coder"}}]
            },
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
                            "spanId": "00f067aa0ba902b7",
                            "name": "chat gpt-5",
                            "kind": 3,
                            "startTimeUnixNano": "1795348800000000000",
                            "endTimeUnixNano": "1795348802500000000",
                            "attributes": [
                                {
                                    "key": genai.TOKENS["input_tokens"][0],
                                    "value": {"intValue": "812"},
                                }
                            ],
                        }
                    ]
                }
            ],
        }
    ]
}
CONTENT: dict[str, Any] = {
    otlp.JSON: {"schema": {"type": "object"}, "example": EXAMPLE},
    otlp.PROTOBUF: {
        "schema": {"type": "string", "format": "binary"},
        "example": "the same message as protobuf",
    },
}


class TracesBusy(Refusal):
    """Too many spans at once"""

    code = "traces_busy"
    retryable = True
    hint = "Send the same spans again after 'retry_after_s' seconds."


@router.post(
    "/traces",
    auth=PrincipalAuth("sessions:write", body_bytes=MOST_BODY_BYTES),
    response={200: TracesStoredOut},
    openapi_extra={"requestBody": {"required": True, "content": CONTENT}},
)
def traces_create(request: PrincipalRequest) -> HttpResponse:
    """Store the spans of attempts, as exporters of OTLP over HTTP send them.

    The body is an ExportTraceServiceRequest as protobuf or JSON, plain or with gzip, and the
    response has the same type. A span belongs to the attempt that it names in the attribute
    `tenfour.attempt_id`, or to the one that was claimed with the header `traceparent` of its trace.
    Other spans are counted in the partial success, with a sentence that says what to do. Spans that
    are sent again change nothing. Problems are problem+json, whatever the type of the body.
    """
    media = request.content_type or ""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if not READERS.acquire(blocking=False):
        raise TracesBusy("Too many requests are storing spans on this server.", retry_after_s=1)
    try:
        message = otlp.read_message(request.body, media=media, encoding=encoding)
        received = receive_spans(
            otlp.read_spans(message, media=media),
            count=otlp.count_spans(message),
            principal=request.auth,
            stamp=stamp_of(request),
        )
    finally:
        READERS.release()
    body = otlp.write_response(
        media, rejected=received.rejected.total(), reason=received.describe()
    )
    return HttpResponse(body, content_type=media)
