"""One service for all tests that only use it, and one that is watched from outside."""

import json
from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.support.browser import chromium
from tests.support.ports import free_range
from tests.support.service import EXAMPLES, Service, Watched
from tests.support.webhook_receiver import receiver


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service with the examples applied."""
    home = tmp_path_factory.mktemp("acceptance") / "home"
    service = Service(home, JOBAUTO_LEASE_SECONDS="10", JOBAUTO_GRACE_SECONDS="2")
    service.start()
    try:
        applied = service.jobauto("apply", str(EXAMPLES), "--yes")
        assert applied.returncode == 0, applied.stderr + service.logs()
        yield service
    finally:
        service.stop()


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    """A real browser that nobody is signed in with."""
    with chromium() as browser:
        browser.execute_cdp_cmd("Network.enable", {})
        yield browser


TRACED = [
    {"kind": "company", "slug": "acme", "name": "Acme"},
    {
        "$schema": "https://example.org/schema.json",
        "name": "Say",
        "description": "Says what it goes on with",
        "executable": "sh",
        "cmdparamsTemplate": "-c 'echo $TRACEPARENT'",
        "environment": {"PASSWORD": {"type": "password"}},
    },
    {"kind": "runtemplate", "company": "acme", "app": "Say", "name": "Say"},
    {"kind": "runtemplate", "company": "acme", "app": "Say", "name": "Then"},
    {
        "kind": "eventrule",
        "runtemplate_source": "acme/Say",
        "runtemplate": "acme/Then",
    },
]


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A running service of its own, with the examples applied and an application that traces."""
    place, first = tmp_path_factory.mktemp("watched"), free_range()
    with receiver() as spans:
        service = Service(
            place / "home",
            JOBAUTO_MANAGEMENT_PORT=str(first),
            OTEL_EXPORTER_OTLP_ENDPOINT=spans.url,
            OTEL_BSP_SCHEDULE_DELAY="100",
            JOBAUTO_LOG_FORMAT="json",
            JOBAUTO_GRACE_SECONDS="2",
        )
        (place / "traced.json").write_text(json.dumps(TRACED))
        service.start()
        try:
            for files in (EXAMPLES, place / "traced.json"):
                applied = service.jobauto("apply", str(files), "--yes")
                assert applied.returncode == 0, applied.stderr + service.logs()
            yield Watched(service, first, spans)
        finally:
            service.stop()
