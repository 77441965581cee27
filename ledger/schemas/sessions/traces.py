"""Schemas of the response to spans: OTLP's ExportTraceServiceResponse as JSON."""

from ledger.schemas.shapes import Part, Shape, field

EXAMPLE = {
    "rejectedSpans": "2",
    "errorMessage": "Not stored: 2 spans without a valid trace id, span id, start and end.",
}


class PartialSuccessOut(Part):
    rejectedSpans: str = field("number of spans that were not stored, as a string", "2")
    errorMessage: str = field("why they were not stored, and what to do", EXAMPLE["errorMessage"])


class TracesStoredOut(Shape):
    partialSuccess: PartialSuccessOut = field(
        "missing if all spans were stored", EXAMPLE, default=None
    )
