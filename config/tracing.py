"""OpenTelemetry: export the spans of requests, claims, reports and answers (extra `[otel]`).

It is off, and neither tracer nor exporter is imported, unless OTEL_EXPORTER_OTLP_ENDPOINT names a
receiver of OTLP over HTTP. All other variables of the SDK count too, such as OTEL_TRACES_SAMPLER.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import util
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config import __version__
from ledger.secrets.redaction import redacted
from ledger.tracing import spans
from ledger.tracing.spans import Value
from ledger.tracing.trace_context import TraceContext, received

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
MIDDLEWARE = "config.tracing.RequestSpans"
SERVER_ERROR = 500
# These are not traced: they are requested all the time and their spans mean nothing.
QUIET_PATHS = ("/healthz", "/readyz", "/metrics", "/static/")


def is_configured() -> bool:
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not disabled and any(os.environ.get(name) for name in ENDPOINTS)


def check_template(template: str) -> str:
    parts = urlsplit(template)
    if template and (
        parts.scheme not in ("http", "https") or not parts.hostname or "{trace_id}" not in template
    ):
        raise ImproperlyConfigured(
            "TENFOUR_TRACE_URL must look like https://traces.example.org/trace/{trace_id}, "
            f"not {template!r}."
        )
    return template


def install() -> None:
    if not is_configured():
        return
    try:
        import opentelemetry.exporter.otlp.proto.http
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry is not installed. Install "
            "requirements/otel.lock, or unset the variable."
        ) from error
    spans.tracer = Exporter()


class OpenSpan:
    """A span of OpenTelemetry, as `ledger` uses it."""

    def __init__(self, span: Any) -> None:
        self.span = span
        self.is_recording: bool = span.is_recording()
        self.context: TraceContext | None = context_of(span)

    def set(self, attributes: dict[str, Value]) -> None:
        given = {name: value for name, value in attributes.items() if value not in (None, "")}
        self.span.set_attributes(given)

    def link(self, context: TraceContext) -> None:
        self.span.add_link(remote_context(context))


class Exporter:
    """OpenTelemetry's SDK, started by the first span of a process.

    The web server loads the application before it forks its workers, and a thread that exports
    does not survive a fork.
    """

    def __init__(self) -> None:
        self.pid = 0
        self.tracer: Any = None

    @contextmanager
    def start(self, name: str) -> Iterator[OpenSpan]:
        with self.open(name, context=None) as span:
            yield span

    @contextmanager
    def open(self, name: str, *, context: Any, **more: Any) -> Iterator[OpenSpan]:
        tracer = self.started()
        with tracer.start_as_current_span(
            name, context, record_exception=False, set_status_on_exception=False, **more
        ) as span:
            try:
                yield OpenSpan(span)
            except Exception as error:
                span.set_attribute("error.type", getattr(error, "code", type(error).__name__))
                raise

    @contextmanager
    def enter(self, context: TraceContext) -> Iterator[None]:
        from opentelemetry import trace

        with trace.use_span(trace.NonRecordingSpan(remote_context(context))):
            yield

    def started(self) -> Any:
        if self.pid != os.getpid():
            self.tracer, self.pid = start_sdk(), os.getpid()
        return self.tracer


def start_sdk() -> Any:
    # A thread exports the spans, and the last ones are sent at the end.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {"service.version": __version__}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        named["service.name"] = "tenfour"
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # Not `atexit`, which forked workers don't run.
    util.Finalize(None, provider.shutdown, exitpriority=10)
    return provider.get_tracer("tenfour", __version__)


def remote_context(context: TraceContext) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(context.is_sampled),
    )


def context_of(span: Any) -> TraceContext | None:
    found = span.get_span_context()
    if not found.is_valid:
        return None
    sampled = found.trace_flags.sampled
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", sampled)


class RequestSpans:
    """Open a span for each request, below the caller's if it names one.

    It is only among the middleware if spans are exported.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        exporter = spans.tracer
        if not isinstance(exporter, Exporter) or request.path.startswith(QUIET_PATHS):
            return self.get_response(request)
        from opentelemetry import trace

        caller = received.get()
        parent = trace.NonRecordingSpan(remote_context(caller)) if caller else trace.INVALID_SPAN
        method = request.method or "GET"
        with exporter.open(
            method, context=trace.set_span_in_context(parent), kind=trace.SpanKind.SERVER
        ) as span:
            response = self.get_response(request)
            route = route_of(request)
            span.span.update_name(f"{method} {route}".strip())
            span.set(
                {
                    "http.request.method": method,
                    "http.route": route,
                    "url.path": redacted(request.path),
                    "http.response.status_code": response.status_code,
                    "tenfour.request_id": getattr(request, "id", None),
                }
            )
            if response.status_code >= SERVER_ERROR:
                span.set({"error.type": str(response.status_code)})
                span.span.set_status(trace.StatusCode.ERROR)
        return response


def route_of(request: HttpRequest) -> str:
    found = request.resolver_match
    return f"/{found.route}" if found else ""
