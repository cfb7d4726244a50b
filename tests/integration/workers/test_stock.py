"""The compiled flow in Prefect's own process worker, beside the jobauto worker."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.flows import Flow, load_flow_from_entrypoint
from pydantic import SecretStr

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.applications import load
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.outbox_worker import OutboxWorker
from jobauto_prefect.errors import FacadeUnavailable
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from tests.support.paths import ROOT
from tests.support.stock_workers import stock_worker, told
from tests.support.waits import eventually
from tests.support.workers import Plant


def with_stock_pool(plant: Plant) -> Plant:
    """The same plant, with a template of its own for a pool of stock workers."""
    pool = f"{plant.pool}-stock"
    plant.prefect.post("/work_pools/", json={"name": pool, "type": "process"}).raise_for_status()
    return plant.with_template("stock", pool)


@pytest.fixture
def stock(plant: Plant) -> Plant:
    """A plant of the test's own for stock workers."""
    return with_stock_pool(plant)


@pytest.fixture(scope="module")
def manned_by_both(shared_plant: Plant) -> Iterator[Plant]:
    """The shared plant, with a stock worker beside its own."""
    plant = with_stock_pool(shared_plant)
    with stock_worker(plant):
        yield plant


@pytest.fixture
def manned_stock(manned_by_both: Plant, tmp_path: Path) -> Plant:
    """The same with marks of the test's own."""
    return replace(manned_by_both, marks=tmp_path)


def test_both_workers_tell_the_same_story(manned_stock: Plant) -> None:
    ends = [{"EXIT_WITH": 0}, {"EXIT_WITH": 3}, {"EXIT_WITH": 7}]
    stock, ours = manned_stock, manned_stock.other_template("daily")
    runs = [(ours.click_run(**end), stock.click_run(**end)) for end in ends]
    for own_run, stock_run in runs:
        assert told(ours, own_run) == told(stock, stock_run)
    assert stock.marked("overlaps") == []
    assert len(stock.marked("starts")) == 2 * len(ends)


def test_a_good_run_ends_without_an_error_in_the_log(stock: Plant) -> None:
    with stock_worker(stock, PREFECT_LOGGING_LEVEL="INFO"):
        stock.run_in(stock.click_run(), "COMPLETED")
        eventually(lambda: "Finished in state" in stock.log_of("stock"))
    assert "Finished in state Completed" in stock.log_of("stock")
    assert "ERROR" not in stock.log_of("stock")


def test_an_end_that_the_services_tell_too_counts_once(manned_stock: Plant) -> None:
    stock = manned_stock
    clicked = [stock.click_run(**end) for end in ({}, {"EXIT_WITH": 7})]
    shown = [stock.run_in(run, "COMPLETED", "FAILED")["state_type"] for run in clicked]
    assert shown == ["COMPLETED", "FAILED"]
    with stock.ledger.writing(SERVICE) as session:
        for run in clicked:
            (job,) = stock.jobs_of(run)
            enqueue(session, OutboxKind.SHOW_JOB, job["id"])
    asyncio.run(carry_all(stock))
    for run, end in zip(clicked, shown, strict=True):
        history = stock.prefect.get("/flow_run_states/", params={"flow_run_id": run}).json()
        assert [state["type"] for state in history].count(end) == 1


async def carry_all(plant: Plant) -> None:
    """Tell Prefect all that it is still to be told."""
    async with PrefectApi(plant.settings.prefect_api_url) as api:
        await OutboxWorker(EngineContext(plant.ledger, api, plant.settings)).handle_all()


def test_cancelling_a_run_of_a_stock_worker_ends_its_process(manned_stock: Plant) -> None:
    clicked = manned_stock.click_run(SECONDS_TO_SLEEP=60)
    eventually(lambda: manned_stock.marked("pids"))
    manned_stock.set_state(clicked, "CANCELLING")
    manned_stock.run_in(clicked, "CANCELLED")
    (job,) = manned_stock.jobs_of(clicked)
    assert manned_stock.ended(job["id"])["state"] == "cancelled"
    manned_stock.until_gone()


def test_a_flow_that_can_not_be_loaded_fails_with_a_sentence(stock: Plant) -> None:
    with stock_worker(stock, JOBAUTO_WORKER_TOKEN="wrong"):
        clicked = stock.click_run()
        run = stock.run_in(clicked, "FAILED", "CRASHED")
        assert run["state_type"] == "FAILED"
        assert "can't be loaded" in run["state"]["message"]
        assert "token" in run["state"]["message"]
    assert stock.marked("starts") == []


@pytest.mark.parametrize(
    "module", ["jobauto_prefect.engine.applications.", f"{ROOT}/flows/applications.py:"]
)
def test_an_entry_point_loads_the_application(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    for name, value in plant.environment().items():
        monkeypatch.setenv(name, value)
    entrypoint = f"{module}app_{plant.template['app_id']}"
    flow: Flow[Any, Any] = load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)
    assert flow.name.startswith("Probe ")
    assert "COMPANY" in flow.parameters.properties
    assert "PASSWORD" not in flow.parameters.properties


async def test_a_facade_that_stays_away_is_named(plant: Plant) -> None:
    plant.serving.stop()
    token = SecretStr(plant.token)
    settings = plant.settings.model_copy(update={"worker_token": token})
    with pytest.raises(FacadeUnavailable, match="does not answer"):
        await load(1, settings, patience_seconds=0.5)
