"""Traces by OpenTelemetry, if the extra `traces` is installed and OTEL_* says where they go.

A trace continues from a traceparent (W3C Trace Context): that of the current request is in
`logs.current_log_context()`, those of jobs and events are in the ledger. Without a tracer nothing
is imported and no span is created, but a request's traceparent is still passed on.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jobauto_prefect.logs import current_log_context

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger(__name__)

Attributes = Mapping[str, str | int | float]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACEPARENT = "traceparent"

_tracers: "list[Tracer]" = []
"""The tracer of this process, if it has one."""

_ends: list[Callable[[], None]] = []
"""Sends what is unsent; also done at the end of the process."""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the standard variables ask for traces to be exported."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    return exporter == "otlp" or (not exporter and any(map(environment.get, ENDPOINTS)))


def is_on() -> bool:
    """Whether this process creates spans."""
    return bool(_tracers)


def begin_tracing(part: str) -> None:
    """Start creating spans, if wanted; they are sent in batches, and at the end."""
    if not is_wanted(os.environ) or is_on():
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning(
            "OTEL_* ask for traces, but the tracing libraries are not installed:"
            " pip install 'jobauto-prefect[traces]'"
        )
        return
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"jobauto-{part}"}
    # Not the global provider, which Prefect and other libraries would use.
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracers.append(provider.get_tracer("jobauto_prefect"))
    _ends.append(provider.shutdown)


def end_tracing() -> None:
    """Stop creating spans, and send all that were created."""
    _tracers.clear()
    while _ends:
        _ends.pop()()


@contextlib.contextmanager
def span(
    name: str, parent: str | None = None, attributes: Attributes | None = None
) -> Iterator["Span | None"]:
    """Trace the block as a span, from which nested work continues; None without a tracer.

    `parent` is a traceparent; the default is that of the current context.
    """
    noted = current_log_context()
    before = noted.traceparent
    parent = parent or before
    if not _tracers:
        noted.traceparent = parent
        try:
            yield None
        finally:
            noted.traceparent = before
        return
    from opentelemetry.trace import Status, StatusCode

    made = _tracers[0].start_span(name, _context(parent), attributes=attributes)
    noted.traceparent = _traceparent(made)
    try:
        yield made
    except Exception as error:
        # Only its type: the message may contain anything.
        made.set_status(Status(StatusCode.ERROR, type(error).__name__))
        raise
    finally:
        made.end()
        noted.traceparent = before


def note(
    name: str,
    parent: str | None = None,
    attributes: Attributes | None = None,
    seconds: float = 0.0,
) -> str | None:
    """Record a span of a past operation with its duration; return its traceparent.

    Without a parent it starts a trace. Without a tracer this returns `parent`, which may be None.
    """
    if not _tracers:
        return parent
    ended = time.time_ns()
    began = ended - int(seconds * 1e9)
    made = _tracers[0].start_span(name, _context(parent), attributes=attributes, start_time=began)
    made.end(ended)
    return _traceparent(made)


def _context(traceparent: str | None) -> "Context":
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {TRACEPARENT: traceparent} if traceparent else {}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _traceparent(made: "Span") -> str:
    context: Any = made.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
