"""Log lines, as text or as JSON, and their context: request, job, trace."""

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]

TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
CHATTY = ("httpx", "httpcore", "alembic")
FIELDS = "fields"
"""Key in `extra` of a record: further members of its JSON."""

OF_PREFECT = (
    "PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER",
    "PREFECT_LOGGING_HANDLERS_DEBUG_FORMATTER",
)
"""Prefect's handlers for loggers that bypass ours, such as its server's uvicorn."""

_TRACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(slots=True)
class LogContext:
    """The current context, which all log lines carry.

    `traceparent` is as in W3C Trace Context. All threads and tasks of a request share one object,
    so that the line about the whole request has what a thread finds out.
    """

    request_id: str | None = None
    job_id: int | None = None
    traceparent: str | None = None

    def members(self) -> dict[str, Any]:
        """Return those of request_id, job_id and trace_id that are known."""
        fields = {
            "request_id": self.request_id,
            "job_id": self.job_id,
            "trace_id": trace_id_of(self.traceparent),
        }
        return {name: value for name, value in fields.items() if value is not None}


_ABOUT: ContextVar[LogContext | None] = ContextVar("about", default=None)


@contextlib.contextmanager
def log_context(
    request_id: str | None = None, job_id: int | None = None, traceparent: str | None = None
) -> Iterator[LogContext]:
    """Set the context of log lines in this block, and in tasks and threads begun in it."""
    noted = LogContext(request_id, job_id, traceparent)
    token = _ABOUT.set(noted)
    try:
        yield noted
    finally:
        _ABOUT.reset(token)


def current_log_context() -> LogContext:
    """Return the current context; without one, an unused object."""
    return _ABOUT.get() or LogContext()


def valid_traceparent(text: str | None) -> str | None:
    """Return a traceparent unchanged if it is of version 00 with a trace and a span; else None."""
    match = _TRACE.fullmatch(text or "")
    return text if match and int(match[1], 16) and int(match[2], 16) else None


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the id of the trace; None if there is none."""
    return traceparent.split("-")[1] if traceparent else None


class TextFormatter(logging.Formatter):
    """One line for people, with the context at its end unless the message has it."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format the line, without a traceback."""
        line = super().formatMessage(record)
        fields = {
            name.removesuffix("_id"): value
            for name, value in current_log_context().members().items()
        }
        subjects = " ".join(
            f"{name} {value}" for name, value in fields.items() if str(value) not in record.message
        )
        return f"{line} [{subjects}]" if subjects else line


class JsonFormatter(logging.Formatter):
    """One line of JSON: time, level, logger, message, context, and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the line, including a traceback."""
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **current_log_context().members(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            members["error"] = self.formatException(record.exc_info)
        return json.dumps(members, ensure_ascii=False, default=str)


def log_to_stderr(form: LogFormat) -> None:
    """Log this process's activity, one line each, with Prefect's lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]  # Prefect, if imported before, has set up its own handlers
    root.setLevel(logging.INFO)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if form == "json":
        logging.captureWarnings(True)
        for name in OF_PREFECT:
            os.environ.setdefault(name, "json")
