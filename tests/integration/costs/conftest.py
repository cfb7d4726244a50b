"""Facades whose statements and requests are counted."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.counted_facade import CountedFacade, counted_facade
from tests.support.counting_proxy import Counted as Calls
from tests.support.counting_proxy import counted as prefect_counted


@pytest.fixture
def migrated_postgresql(migrate_once: Callable[[str], str]) -> str:
    """The URL of a PostgreSQL database with our tables to copy."""
    return migrate_once("postgresql")


@pytest.fixture
async def counted(migrated_postgresql: str, tmp_path: Path) -> AsyncIterator[CountedFacade]:
    """With nothing beside the requests: what they leave for Prefect stays."""
    async with counted_facade(migrated_postgresql, tmp_path) as (counted, _):
        yield counted


@pytest.fixture
async def carrying(
    migrated_postgresql: str, tmp_path: Path, prefect_server: str
) -> AsyncIterator[tuple[CountedFacade, Calls]]:
    """A facade that carries out its own messages, and what Prefect was called for."""
    with prefect_counted(prefect_server, tmp_path) as calls:
        async with (
            counted_facade(migrated_postgresql, tmp_path, calls.url) as (counted, app),
            app.router.lifespan_context(app),
        ):
            yield counted, calls
