"""Every real definition: imported, registered, run with its own defaults by both workers."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.corpus import needs_corpus, readable_names
from tests.support.corpus_expectations import check
from tests.support.corpus_runs import (
    PATIENCE,
    SAMPLE,
    Works,
    document_of,
    documents,
    open_works,
    path_of,
    todays,
)
from tests.support.stock_workers import stock_worker, told
from tests.support.waits import eventually

pytestmark = [needs_corpus, pytest.mark.soak]


@pytest.fixture(scope="module")
def works(
    prefect_server: str, migrated_file: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Works]:
    """A plant for all definitions."""
    with open_works(prefect_server, migrated_file, tmp_path_factory.mktemp("corpus")) as works:
        yield works


@pytest.mark.soak
@pytest.mark.parametrize("name", readable_names())
def test_a_real_definition_runs_with_its_own_defaults(works: Works, name: str) -> None:
    document = document_of(name)
    check(works.run(name), document)


def test_both_workers_run_real_definitions_alike(works: Works) -> None:
    _alike(works, todays())


@pytest.mark.soak
def test_both_workers_run_every_real_definition_alike(works: Works) -> None:
    names = list(documents())
    for first in range(0, len(names), SAMPLE):
        _alike(works, names[first : first + SAMPLE])


def _alike(works: Works, names: list[str]) -> None:
    plant, pool = works.plant, f"{works.plant.pool}-stock"
    answer = plant.prefect.post("/work_pools/", json={"name": pool, "type": "process"})
    assert answer.status_code in (httpx.codes.CREATED, httpx.codes.CONFLICT)
    ours = [works.run(name) for name in names]
    theirs = works.start(names, pool)
    with stock_worker(plant, PATH=path_of(plant)):
        for name, one, other in zip(names, ours, theirs, strict=True):
            eventually(lambda run=other: plant.flow_run(run.flow_run_id)["end_time"], PATIENCE)
            check(one, documents()[name])
            check(other, documents()[name])
            assert told(plant, one.flow_run_id) == told(plant, other.flow_run_id)
