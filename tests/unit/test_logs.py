"""Log lines: their two forms, and what they are about."""

import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from jobauto_prefect.logs import (
    FIELDS,
    JsonFormatter,
    TextFormatter,
    current_log_context,
    log_context,
    valid_traceparent,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def record() -> logging.LogRecord:
    error = ValueError("no\nroom")
    seen = (ValueError, error, None)
    arguments = ("job %s is\nlate", (7,), seen)
    return logging.LogRecord("jobauto_prefect.x", logging.WARNING, "x.py", 1, *arguments)


def test_a_line_of_json_is_one_line_with_all_that_is_known(record: logging.LogRecord) -> None:
    setattr(record, FIELDS, {"status": 200})
    with log_context("r-1", 7, PARENT):
        line = JsonFormatter().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert "ValueError: no\nroom" in found.pop("error")
    assert found == {
        "level": "warning",
        "logger": "jobauto_prefect.x",
        "message": "job 7 is\nlate",
        "request_id": "r-1",
        "job_id": 7,
        "trace_id": TRACE,
        "status": 200,
    }


def test_a_line_of_text_names_what_it_does_not_say_itself(record: logging.LogRecord) -> None:
    record.exc_info = None
    with log_context("r-1", 7, PARENT):
        assert TextFormatter().format(record).endswith(f"late [request r-1 trace {TRACE}]")
    assert TextFormatter().format(record).endswith("is\nlate")


def test_what_a_thread_finds_out_is_known_to_its_request() -> None:
    def find() -> None:
        current_log_context().job_id = 9

    with log_context("r-1"), ThreadPoolExecutor(1) as threads:
        threads.submit(copy_context().run, find).result()
        assert current_log_context().job_id == 9
    current_log_context().job_id = 1
    assert current_log_context().job_id is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        PARENT.upper(),
        f"01-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{PARENT}\n",
        f"{PARENT}-more",
    ],
)
def test_a_traceparent_that_is_none_is_left_out(text: str) -> None:
    assert valid_traceparent(text) is None
    assert valid_traceparent(PARENT) == PARENT


def test_lines_of_prefect_are_json_too_whenever_it_is_imported() -> None:
    program = """
import logging
from jobauto_prefect.logs import log_to_stderr
log_to_stderr("json")
import prefect.main
for name in ("jobauto_prefect", "prefect.server", "uvicorn.error", "fastapi", "prefect._internal"):
    logging.getLogger(name).error("spoken by %s", name)
logging.getLogger("jobauto_prefect").info("and this")
"""
    argv = [sys.executable, "-c", program]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert len(lines) == 6, ran.stderr
    assert sum("spoken by" in json.dumps(line) for line in lines) == 5
