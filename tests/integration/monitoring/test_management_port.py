"""The management port: what it answers, where it listens, and what it never shares."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.monitoring.health import check_answers, check_loops
from jobauto_prefect.monitoring.monitor import Monitor
from jobauto_prefect.monitoring.ports import Part, management_port, ports_of
from jobauto_prefect.settings import MANAGEMENT_PORTS, Settings, load_settings
from tests.support.metrics import scraped
from tests.support.ports import free_range


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, management_port=free_range())


@pytest.fixture
def taken(settings: Settings) -> Iterator[None]:
    """Somebody has the ports of the facade and of the first worker."""
    first = settings.management_port or 0
    with (
        closing(socket.create_server(("127.0.0.1", first + Part.FACADE))),
        closing(socket.create_server(("127.0.0.1", first + Part.WORKER))),
    ):
        yield


async def _get(settings: Settings, part: Part, path: str, ahead: int = 0) -> httpx.Response:
    port = (settings.management_port or 0) + part + ahead
    async with httpx.AsyncClient() as http:
        return await http.get(f"http://127.0.0.1:{port}{path}")


async def test_metrics_and_health_are_answered_and_nothing_else(settings: Settings) -> None:
    monitor = Monitor("services")
    with monitor.loops.loop("seal").round():
        pass
    async with management_port(settings, Part.SERVICES, monitor):
        found = scraped(await _get(settings, Part.SERVICES, "/metrics"))
        alive = await _get(settings, Part.SERVICES, "/healthz")
        other = await _get(settings, Part.SERVICES, "/api/v1/status")
    assert found.value("jobauto_loop_rounds_total", loop="seal") == 1
    assert (alive.status_code, alive.json()) == (200, {"ok": True, "checks": {}})
    assert other.status_code == 404
    with pytest.raises(httpx.ConnectError):
        await _get(settings, Part.SERVICES, "/healthz")


async def test_readiness_says_what_is_missing(settings: Settings) -> None:
    monitor = Monitor("services")
    monitor.checks["prefect"] = check_answers("http://127.0.0.1:9/api/health")
    monitor.checks["loops"] = check_loops(monitor.loops)
    async with management_port(settings, Part.SERVICES, monitor):
        ready = await _get(settings, Part.SERVICES, "/readyz")
        alive = await _get(settings, Part.SERVICES, "/healthz")
    assert (ready.status_code, alive.status_code) == (503, 200)
    found = ready.json()
    assert found["ok"] is False
    assert found["checks"]["loops"] == "ok"
    assert "http://127.0.0.1:9/api/health does not answer" in found["checks"]["prefect"]


async def test_a_round_without_an_end_is_a_loop_that_is_stuck(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobauto_prefect.monitoring.loops.STUCK_SECONDS", 0.0)
    monitor = Monitor("services")
    monitor.loops.loop("turns")
    check = check_loops(monitor.loops)
    assert await check() is None
    with monitor.loops.loop("reaper").round():
        await asyncio.sleep(0.01)
        assert str(await check()).endswith("reaper")
    assert await check() is None


@pytest.mark.usefixtures("taken")
async def test_workers_take_the_next_port_and_a_part_without_one_goes_on(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        management_port(settings, Part.WORKER, Monitor("worker")),
        management_port(settings, Part.WORKER, Monitor("worker")),
        management_port(settings, Part.FACADE, Monitor("facade")),
    ):
        for ahead in (1, 2):
            assert (await _get(settings, Part.WORKER, "/healthz", ahead)).status_code == 200
    assert f"127.0.0.1:{settings.management_port} can't be listened on" in caplog.text


async def test_without_the_setting_there_is_none(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert [ports_of(settings, part) for part in Part] == [()] * 4


@pytest.mark.parametrize("name", ["api_port", "prefect_port"])
def test_it_is_never_the_port_of_the_contract_or_of_prefect(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"JOBAUTO_{name.upper()} must not be among them"):
        load_settings(management_port=9000, **{name: 9000 + MANAGEMENT_PORTS - 1})
    load_settings(management_port=9000, **{name: 9000 + MANAGEMENT_PORTS})
