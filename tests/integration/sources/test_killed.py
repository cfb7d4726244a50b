"""Pollers that are killed at any moment: no change is lost, none is there twice."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import Delivery, Event
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.poller import Poller
from tests.support.adapters import KINDS, AdapterDatabase, adapter_database, add_source, stored
from tests.support.ledger_rows import count_rows
from tests.support.own_servers import SERVERS, OwnServer, own_adapter
from tests.support.processes import forked
from tests.support.records import make_template
from tests.support.servers import client, facade, user_token


def _poll(settings: Settings) -> None:
    asyncio.run(Poller(open_ledger(settings), settings).run())


@contextmanager
def polling(settings: Settings) -> Iterator[BaseProcess]:
    """A process that polls; it is killed at the end."""
    process = forked(_poll, settings)
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _storm(
    ledger: Ledger,
    settings: Settings,
    adapter: AdapterDatabase,
    *,
    kills: int,
    changes: int,
    server: OwnServer | None = None,
) -> None:
    """Changes come while pollers, two at a time, are killed; then one reads what is left.

    Before every fifth kill, and the first, the adapter's server is killed and comes back.
    """
    with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
        template = make_template(rest)["id"]
        source = add_source(ledger, adapter, poll_interval=1)
        body = {"event_source_id": source, "runtemplate_id": template}
        rest.post("/eventrule/", json=body).raise_for_status()
    chance = random.Random(changes)
    share = changes // kills
    for turn in range(kills):
        with polling(settings) as one, polling(settings) as other:
            adapter.add(turn * share + 1, (turn + 1) * share)
            if server is not None and turn % 5 == 0:
                server.restart(chance.uniform(0.1, 1))
            for process in (one, other):
                process.join(chance.uniform(0.05, 1.5))
                process.kill()
    # The last turn of a killed reader has to end before anybody else may read.
    clock = ledger.clock
    ledger.clock = lambda: clock().replace(year=clock().year + 1)
    Poller(ledger, settings).read(source)
    assert sorted(filter(None, stored(ledger, source))) == list(range(1, kills * share + 1))
    assert adapter.inversions() == []
    assert count_rows(ledger, Event) == count_rows(ledger, Delivery) == kills * share


def test_killed_pollers_lose_and_repeat_nothing(
    ledger: Ledger, facade_settings: Settings, sqlite_adapter: AdapterDatabase
) -> None:
    _storm(ledger, facade_settings, sqlite_adapter, kills=2, changes=1000)


def test_an_adapter_that_is_killed_loses_and_repeats_nothing(
    ledger: Ledger, facade_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with own_adapter("mysql", tmp_path_factory.mktemp("own")) as (adapter, server):
        _storm(ledger, facade_settings, adapter, kills=2, changes=1000, server=server)


@pytest.mark.soak
@pytest.mark.parametrize("kind", SERVERS)
def test_twenty_kills_and_four_of_the_adapter_among_ten_thousand_changes(
    ledger: Ledger, facade_settings: Settings, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with own_adapter(kind, tmp_path_factory.mktemp("own")) as (adapter, server):
        _storm(ledger, facade_settings, adapter, kills=20, changes=10_000, server=server)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_kills_among_ten_thousand_changes(
    ledger: Ledger, facade_settings: Settings, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with adapter_database(kind, Path(tmp_path_factory.mktemp("adapter"))) as adapter:
        _storm(ledger, facade_settings, adapter, kills=20, changes=10_000)
