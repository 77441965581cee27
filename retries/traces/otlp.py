"""Read spans from OTLP over HTTP, and write its response: protobuf or JSON, plain or gzip.

The packages of OTLP are imported by the first request, so that a server without traces does not
hold them in memory.
"""

import math
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from ledger.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from ledger.secrets.forms import LONGEST_SECRET
from ledger.secrets.names import is_secret_name
from ledger.secrets.redaction import clean, redacted, stripped
from ledger.tracing import genai_attributes as genai
from ledger.values.text import truncate
from retries.traces.usage import read_usage

PROTOBUF, JSON = "application/x-protobuf", "application/json"
UNPACKED_BYTES = 4 * 1024 * 1024
# Reading one of a few bytes takes as long as a large one: resources and scopes of a request, and
# objects of its JSON.
MOST_GROUPS, MOST_OBJECTS = 10_000, 200_000
ATTEMPT = "tenfour.attempt_id"
SERVICE = "service.name"
# limits of one span; texts are cut, and then attributes that don't fit are left out
NAME_LENGTH, KEY_LENGTH, MESSAGE_LENGTH = 200, 128, 2000
VALUE_BYTES, SPAN_BYTES = 2048, 16_384
MOST_ATTRIBUTES, MOST_EVENTS, DEEPEST = 128, 16, 6
LONG_TEXT = 256
OTHERS = "tenfour.left_out"
EARLIEST = datetime(2001, 1, 1, tzinfo=UTC).timestamp()
LATEST = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentSpan:
    """A span as it is stored; `attempt` is the id that it names, if it names one."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    started_at: datetime
    ended_at: datetime
    status: int
    message: str
    attributes: dict[str, Any]
    usage: dict[str, Any] | None
    is_call: bool  # of a model: its usage is no sum of other spans'
    attempt: UUID | None


# ---- the request and the response


def read_message(body: bytes, *, media: str, encoding: str) -> Any:
    """Return the request in a body; raises BadRequest, PayloadTooLarge, UnsupportedMediaType."""
    if media not in (PROTOBUF, JSON):
        raise UnsupportedMediaType(
            f"The body's content type is '{media[:80]}', not {PROTOBUF} or {JSON}.",
            hint="Export with OTLP over HTTP, as protobuf or JSON.",
        )
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    data, message = unpack(body, encoding), ExportTraceServiceRequest()
    try:
        if media == PROTOBUF:
            message.ParseFromString(data)
        else:
            refuse_many(data.count(b"{"), MOST_OBJECTS, "objects")
            json_format.Parse(data, message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError) as error:
        raise BadRequest(f"The body is no ExportTraceServiceRequest: {str(error)[:300]}") from error
    return message


def unpack(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise UnsupportedMediaType(
            f"The body's encoding is '{encoding[:80]}', not gzip.", hint="Compress it with gzip."
        )
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        data = unpacker.decompress(body, UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise BadRequest(f"The body is not valid gzip: {error}") from error
    if len(data) > UNPACKED_BYTES:
        raise PayloadTooLarge(
            f"The body has more than {UNPACKED_BYTES} bytes without its compression.",
            limit_bytes=UNPACKED_BYTES,
        )
    if not unpacker.eof or unpacker.unused_data:
        raise BadRequest("The body is not one whole gzip stream.")
    return data


def write_response(media: str, *, rejected: int, reason: str) -> bytes:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = reason
    if media == PROTOBUF:
        whole: bytes = response.SerializeToString()
        return whole
    return to_json(json_format.MessageToDict(response))


# ---- its spans


def count_spans(message: Any) -> int:
    """Return the number of spans; raises PayloadTooLarge if they are in too many groups."""
    groups = message.resource_spans
    refuse_many(len(groups), MOST_GROUPS, "resources")
    refuse_many(sum(len(each.scope_spans) for each in groups), MOST_GROUPS, "scopes")
    return sum(len(scope.spans) for each in groups for scope in each.scope_spans)


def refuse_many(count: int, most: int, kind: str) -> None:
    if count > most:
        raise PayloadTooLarge(f"The body has {count:,} {kind}, and at most {most:,} are read.")


def read_spans(message: Any, *, media: str) -> Iterator[SentSpan | None]:
    """Yield each span, and None for one whose ids or times are malformed."""
    # The JSON of OTLP has ids in hexadecimal, where that of protobuf has base64: read as base64
    # and written as base64, the digits are back.
    read_id = bytes.hex if media == PROTOBUF else write_base64
    for sent in message.resource_spans:
        resource = {
            each.key: read_value(each.value)
            for each in sent.resource.attributes[:MOST_ATTRIBUTES]
            if each.key in (ATTEMPT, SERVICE)
        }
        for scope in sent.scope_spans:
            for span in scope.spans:
                yield read_span(span, resource, read_id)


def write_base64(data: bytes) -> str:
    return b64encode(data).decode().lower()


def read_span(span: Any, resource: Mapping[str, Any], read_id: Any) -> SentSpan | None:
    trace_id, span_id, parent_id = map(read_id, (span.trace_id, span.span_id, span.parent_span_id))
    started_at = read_time(span.start_time_unix_nano)
    ended_at = read_time(span.end_time_unix_nano)
    if not (is_id(trace_id, 32) and is_id(span_id, 16) and started_at and ended_at):
        return None
    given = {each.key: read_value(each.value) for each in span.attributes[:MOST_ATTRIBUTES]}
    usage = read_usage(given)
    named = given.pop(ATTEMPT, None) or resource.get(ATTEMPT)
    return SentSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id if is_id(parent_id, 16) else "",
        name=clean_label(span.name, NAME_LENGTH) or "unnamed",
        kind=min(max(span.kind, 0), 5),
        started_at=started_at,
        ended_at=max(started_at, ended_at),
        status=span.status.code if span.status.code in (1, 2) else 0,
        message=clean_value(span.status.message)[:MESSAGE_LENGTH],
        attributes=clean_attributes(list_attributes(span, given, resource)),
        usage=usage,
        is_call=usage is not None and str(given.get(genai.OPERATION)) not in genai.WHOLES,
        attempt=read_uuid(named),
    )


def is_id(text: str, length: int) -> bool:
    return len(text) == length and HEX.issuperset(text) and bool(text.strip("0"))


def read_time(nanoseconds: int) -> datetime | None:
    seconds = nanoseconds / 10**9
    if not EARLIEST <= seconds <= LATEST:
        return None
    return datetime.fromtimestamp(nanoseconds // 1000 / 10**6, tz=UTC)


def read_uuid(value: Any) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def read_value(value: Any, depth: int = 0) -> Any:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            number = value.double_value
            return number if math.isfinite(number) else str(number)
        case "bytes_value":
            return f"{len(value.bytes_value)} bytes"
        case "array_value" if depth < DEEPEST:
            values = value.array_value.values[:MOST_ATTRIBUTES]
            return [read_value(each, depth + 1) for each in values]
        case "kvlist_value" if depth < DEEPEST:
            pairs = value.kvlist_value.values[:MOST_ATTRIBUTES]
            return {each.key: read_value(each.value, depth + 1) for each in pairs}
    return None


def list_attributes(
    span: Any, given: Mapping[str, Any], resource: Mapping[str, Any]
) -> Iterable[tuple[str, Any]]:
    yield from ((name, value) for name, value in resource.items() if name == SERVICE)
    # Short values say which call it was; a prompt of some kilobytes must not crowd them out.
    yield from sorted(given.items(), key=lambda pair: is_long(pair[1]))
    for number, event in enumerate(span.events[:MOST_EVENTS], start=1):
        pairs = event.attributes[:MOST_ATTRIBUTES]
        attributes = {each.key: read_value(each.value, 1) for each in pairs}
        yield f"event {number}: {event.name}", attributes


def is_long(value: Any) -> bool:
    return not isinstance(value, int | float) and len(value or ()) > LONG_TEXT


# ---- without secrets, within the limits


def clean_attributes(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return attributes without secrets; those beyond the span's limit are counted."""
    kept: dict[str, Any] = {}
    room, left_out = SPAN_BYTES, 0
    for name, value in pairs:
        if room <= 0:
            left_out += 1
            continue
        key = clean_label(name, KEY_LENGTH)
        cleaned = clean_value(value, is_secret=is_secret_name(name))
        if isinstance(cleaned, list | dict) and len(text := to_json(cleaned)) > VALUE_BYTES:
            cleaned = clean(text.decode(), limit_bytes=VALUE_BYTES)
        room -= len(key.encode()) + len(to_json(cleaned))
        if room < 0:
            left_out += 1
        else:
            kept[key] = cleaned
    return kept | ({OTHERS: left_out} if left_out else {})


def clean_value(value: Any, *, is_secret: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            clean_label(name, KEY_LENGTH): clean_value(
                each, is_secret=is_secret or is_secret_name(name)
            )
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [clean_value(each, is_secret=is_secret) for each in value]
    if not isinstance(value, str):
        return value
    masked = mask_start(value, VALUE_BYTES, is_secret=is_secret)
    if len(value) <= VALUE_BYTES + LONGEST_SECRET:
        return clean(masked, limit_bytes=VALUE_BYTES)
    mark = f"\n[… cut: {len(value)} characters were sent]"
    start = stripped(masked).encode()[: VALUE_BYTES - len(mark.encode())]
    return start.decode(errors="ignore") + mark


def clean_label(text: str, limit: int) -> str:
    # Names repeat from span to span.
    return clean_known(text, limit) if len(text) <= LONG_TEXT else clean_name(text, limit)


def clean_name(text: str, limit: int) -> str:
    return truncate(stripped(mask_start(text, limit)), limit)


clean_known = lru_cache(maxsize=4096)(clean_name)


def mask_start(text: str, limit: int, *, is_secret: bool = False) -> str:
    # A secret that begins within the limit ends in the part that is searched. The end of that part
    # may be half a secret, and is dropped.
    searched = text[: limit + LONGEST_SECRET]
    masked: str = redacted({"secret": searched})["secret"] if is_secret else redacted(searched)
    if len(searched) == len(text):
        return masked
    return masked[: max(0, len(masked) - LONGEST_SECRET)]
