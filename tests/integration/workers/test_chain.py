"""The end of one real job starts the next with its values: a real Prefect, a real worker."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from tests.support.corpus import example, needs_corpus
from tests.support.documents import smallest
from tests.support.waits import eventually
from tests.support.workers import Plant

DOCUMENTED = "VitexSoftware__multiflexi-doc-en__source_concepts_job-chaining.rst__{}.json"
DRAWN = "VitexSoftware__node-red-contrib-multiflexi__examples_job-chaining.flow.json"
INVOICES = {
    "invoice_number": "2026-7",
    "total": 1500.5,
    "customer": {"id": 42},
    "lines": [1, "two"],
}

EXPORT = f"""#!/bin/sh
echo '{json.dumps(INVOICES)}' > "$RESULT_FILE"
"""
PROCESS = """#!/bin/sh
echo "min $4" && cat "$2"
"""
READ = """#!/bin/sh
echo "$LINE"
"""


def application(plant: Plant, executable: Path, script: str, members: dict[str, Any]) -> int:
    """An application of a script of its own; its id."""
    executable.write_text(script)
    executable.chmod(0o755)
    own = {"name": f"{executable.name} {plant.pool}", "uuid": str(uuid4())}
    body = smallest(**members) | own | {"executable": str(executable)}
    made: int = plant.rest.post("/app/", json=body).raise_for_status().json()["id"]
    return made


def template(plant: Plant, app_id: int, name: str) -> Plant:
    """The plant with a run template of that application, known to Prefect."""
    body = {"app_id": app_id, "company": plant.pool, "name": name}
    plant.rest.post("/runtemplate/", json=body).raise_for_status()
    made = plant.other_template(name)
    made.deployment_id()
    return made


def after(first: Plant, then: Plant, **members: Any) -> int:
    """A rule from the end of one to the start of the other, once Prefect has it; its id."""
    body = {"runtemplate_source_id": first.template["id"], "runtemplate_id": then.template["id"]}
    rule: int = first.rest.post("/eventrule/", json=body | members).raise_for_status().json()["id"]
    query = {"automations": {"name": {"like_": f"{then.pool}/{then.template['name']} when"}}}
    eventually(lambda: first.prefect.post("/automations/filter", json=query).json())
    return rule


def tell(plant: Plant) -> None:
    """What `jobauto services` does all the time: Prefect hears what happened."""

    async def emit() -> None:
        async with PrefectApi(plant.settings.prefect_api_url) as prefect:
            await EventEmitter(plant.ledger, prefect).emit_all()

    asyncio.run(emit())


def jobs_of(plant: Plant, count: int) -> list[dict[str, Any]]:
    """The jobs of the plant's template with their output, once so many are over."""

    def over() -> list[dict[str, Any]]:
        query = {"runtemplate_id": plant.template["id"], "order": "id"}
        found = plant.rest.get("/jobs.json", params=query).raise_for_status().json().values()
        return [one for one in found if one["end"]] if len(found) == count else []

    found = eventually(lambda: len(done := over()) == count and done)
    return [plant.job(one["id"]) for one in found]


@pytest.mark.spec("1.7", "6.7")
@needs_corpus
def test_the_published_example_runs_as_a_chain(manned: Plant) -> None:
    producer, consumer = (example(DOCUMENTED.format(number)) for number in (2, 3))
    drawn = next(one for one in example(DRAWN) if one["type"] == "multiflexi-map")
    exporting = application(manned, manned.marks / "invoice-export", EXPORT, producer)
    processing = application(manned, manned.marks / "invoice-processor", PROCESS, consumer)
    lines = {"LINE": {"type": "text", "required": True}}
    reading = application(manned, manned.marks / "reader", READ, {"environment": lines})
    export = template(manned, exporting, "export")
    process, read = template(manned, processing, "process"), template(manned, reading, "read")
    rule = after(export, process, env_mapping=drawn["envMapping"])
    after(export, read, env_mapping={"LINE": "invoices.lines"}, fan_out=True)
    job_id = export.post_job()
    assert export.ended(job_id)["state"] == "succeeded"
    tell(manned)

    (job,) = jobs_of(process, 1)
    first, content = job["stdout"].splitlines()
    assert (first, json.loads(content)) == ("min 1500.5", INVOICES)
    assert job["env"]["INPUT_FILE"].endswith("/tmp/inputs/INPUT_FILE/invoices-result.json")
    assert (job["schedule_type"], job["eventrule_id"]) == ("chained", rule)
    assert job["artifacts"] == []
    assert [one["stdout"] for one in jobs_of(read, 2)] == ["1\n", "two\n"]

    event = f"{manned.settings.url}/console/events/{job['event_id']}"
    (page,) = eventually(lambda: process.artifacts_of(job["flow_run_id"]))
    assert f"[event {job['event_id']}]({event})" in page["data"]
    shown = manned.rest.get(f"/job/{job['id']}.html").text
    assert f"/event/{job['event_id']}.html" in shown
    assert f"/eventrule/{rule}.html" in shown

    def labelled() -> bool:
        labels = process.flow_run(job["flow_run_id"])["labels"]
        return (labels.get("jobauto.event"), labels.get("jobauto.rule")) == (job["event_id"], rule)

    eventually(labelled)
