"""Traces by OpenTelemetry, where the extra `traces` is installed and OTEL_* says where they go.

What a trace goes on from is a traceparent (W3C Trace Context): of the request at hand it is in
`logs.current_log_context()`, of a job and of an event in the ledger. Without a tracer nothing is
imported and no span is made; a traceparent that came with a request is handed on all the same.
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
"""That of this process, once it has one."""

_ends: list[Callable[[], None]] = []
"""Send what has not been sent; done at the end of the process at the latest."""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the standard variables say that traces are exported."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    return exporter == "otlp" or (not exporter and any(map(environment.get, ENDPOINTS)))


def is_on() -> bool:
    """Whether this process makes spans."""
    return bool(_tracers)


def begin_tracing(part: str) -> None:
    """Make spans from now on, if they are wanted; they are sent in batches, and at the end."""
    if not is_wanted(os.environ) or is_on():
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning(
            "OTEL_* ask for traces, and what makes them is not installed:"
            " pip install 'jobauto-prefect[traces]'"
        )
        return
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"jobauto-{part}"}
    # Not the provider of the whole process: Prefect and other libraries would use it.
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracers.append(provider.get_tracer("jobauto_prefect"))
    _ends.append(provider.shutdown)


def end_tracing() -> None:
    """Make no more spans; all that were made are sent."""
    _tracers.clear()
    while _ends:
        _ends.pop()()


@contextlib.contextmanager
def span(
    name: str, parent: str | None = None, attributes: Attributes | None = None
) -> Iterator["Span | None"]:
    """Do something as a span, which what is done then goes on from; None: there is no tracer.

    `parent` is a traceparent; without one that of what is being done.
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
    made = _tracers[0].start_span(name, _context(parent), attributes=attributes)
    noted.traceparent = _traceparent(made)
    try:
        with _failures_shown(made):
            yield made
    finally:
        made.end()
        noted.traceparent = before


def note(
    name: str,
    parent: str | None = None,
    attributes: Attributes | None = None,
    seconds: float = 0.0,
) -> str | None:
    """Record a span of something that is over, having taken so long; return its traceparent.

    Without a parent it begins a trace. Without a tracer it is `parent`, which may be None.
    """
    if not _tracers:
        return parent
    ended = time.time_ns()
    began = ended - int(seconds * 1e9)
    made = _tracers[0].start_span(name, _context(parent), attributes=attributes, start_time=began)
    made.end(ended)
    return _traceparent(made)


@contextlib.contextmanager
def _failures_shown(made: "Span") -> Iterator[None]:
    """Show only the kind of an error in a span: its message may be about anything."""
    from opentelemetry.trace import Status, StatusCode

    try:
        yield
    except Exception as error:
        made.set_status(Status(StatusCode.ERROR, type(error).__name__))
        raise


def _context(traceparent: str | None) -> "Context":
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {TRACEPARENT: traceparent} if traceparent else {}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _traceparent(made: "Span") -> str:
    context: Any = made.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
