"""A receiver of OTLP over HTTP: a real server that decodes what arrives."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class ReceivedSpan:
    """A span as it arrived, with ids as hexadecimal digits."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent: str
    links: list[str]
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class Receiver:
    port: int
    spans: list[ReceivedSpan] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in list(self.spans) if span.name == name]

    def take(self, path: str, media: str, body: bytes) -> int:
        if path != "/v1/traces" or media != "application/x-protobuf":
            return 404
        sent = ExportTraceServiceRequest.FromString(body)
        for group in sent.resource_spans:
            resource = values_of(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [read_span(span, resource) for span in scope.spans]
        return 200


def read_span(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=span.kind,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        links=[link.span_id.hex() for link in span.links],
        attributes=values_of(span.attributes),
        resource=resource,
    )


def values_of(attributes: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value")
        for each in attributes
    }


@contextmanager
def receive_spans() -> Iterator[Receiver]:
    receiver: Receiver

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.take(self.path, self.headers["Content-Type"], body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
