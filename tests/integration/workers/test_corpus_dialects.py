"""Real definitions come, are configured and are run through either dialect alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.corpus import needs_corpus, readable_names
from tests.support.corpus_expectations import check_outcome, check_process
from tests.support.corpus_runs import (
    SECRET,
    STAND_IN,
    Run,
    Works,
    document_of,
    made_up,
    needs_a_value,
    open_works,
    secrets_of,
    todays,
)
from tests.support.records import ok

pytestmark = needs_corpus

DIALECTS: Mapping[str, str] = {
    "own": "/api/v1",
    "published": "/api/VitexSoftware/MultiFlexi/1.0.0",
}


@pytest.fixture(scope="module")
def works(
    prefect_server: str, migrated_file: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Works]:
    """A plant for all definitions."""
    with open_works(prefect_server, migrated_file, tmp_path_factory.mktemp("corpus")) as works:
        yield works


def run_through(works: Works, dialect: str, name: str) -> None:
    """Import a definition, make its run template, start a job: with requests of one dialect."""
    plant, document = works.plant, document_of(name) | {"uuid": str(uuid4())}
    root = str(plant.rest.base_url).partition("/api/")[0] + DIALECTS[dialect]

    def post(item: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return ok(plant.rest.post(f"{root}/{item}/", json=body), 201)

    program = plant.home / "bin" / Path(document["executable"]).name
    program.write_text(STAND_IN.replace("{folder}", str(plant.marks)))
    program.chmod(0o755)
    sent = dict(document)
    if dialect == "published" and "cmdparamsTemplate" in sent:
        sent["cmdparams"] = sent.pop("cmdparamsTemplate")
    number = post("app", sent)["id"]
    app = plant.rest.get(f"/app/{number}.json").json()
    body = {
        "app_id": number,
        "company_id": plant.template["company_id"],
        "name": f"{name[:80]} {dialect} {uuid4().hex[:6]}",
        "env": dict.fromkeys(secrets_of(document), SECRET),
    }
    made = post("runtemplate", body)["id"]
    plant.rest.post("/runtemplate/", json={"id": made, "pool": plant.pool}).raise_for_status()
    template = plant.rest.get(f"/runtemplate/{made}.json").json()
    given = {
        key: made_up(variable)
        for key, variable in document["environment"].items()
        if needs_a_value(variable) and variable.get("type") != "password"
    }
    started = post("job", {"runtemplate_id": made, "env": given})["id"]
    job = plant.ended(started)
    run = Run(plant, app, template, given, job["flow_run_id"], {}, [job])
    check_process(run, document)
    check_outcome(run, document)


@pytest.mark.spec("1.1", "1.3")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_some_real_definitions_run_through_each_dialect(works: Works, dialect: str) -> None:
    for name in todays():
        run_through(works, dialect, name)


@pytest.mark.soak
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", readable_names())
def test_every_real_definition_runs_through_each_dialect(
    works: Works, dialect: str, name: str
) -> None:
    run_through(works, dialect, name)
