"""Secrets are planted in every place, jobs print them, and then they are looked for everywhere."""

import asyncio
import base64
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.services.event_emitter import EventEmitter
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.base import Base
from jobauto_prefect.ledger.events.event_store import SourceChange, store_changes
from jobauto_prefect.ledger.records import EventSource
from tests.support.documents import smallest
from tests.support.secrets import secret
from tests.support.servers import prefect_client
from tests.support.waits import eventually
from tests.support.workers import Plant

PLACES = ("TEMPLATE", "COMPANY", "CREDENTIAL", "OVERRIDE", "EVENT", "BLOCK", "SOURCE")
PRINTED = [f"{place}_SECRET" for place in PLACES if place != "SOURCE"]

PROGRAM = """#!/bin/sh
# Prints what it was told in every form, and stays long enough for its arguments to be seen.
for secret in "$TEMPLATE_SECRET" "$COMPANY_SECRET" "$CREDENTIAL_SECRET" "$OVERRIDE_SECRET" \\
              "$EVENT_SECRET" "$BLOCK_SECRET"; do
    [ -n "$secret" ] || continue
    echo "plain $secret"; echo "plain $secret" >&2
    printf 'url %s\\n' "$(printf %s "$secret" | sed 's/+/%2B/g; s#/#%2F#g; s/&/%26/g')"
    printf 'base64 %s\\n' "$(printf %s "$secret" | base64 -w0)"
    printf 'basic %s\\n' "$(printf 'user:%s' "$secret" | base64 -w0)"
    printf 'cut %s' "$(printf %s "$secret" | cut -c1-9)"; sleep 0.2
    printf '%s\\n' "$(printf %s "$secret" | cut -c10-)"
done
echo "{\\"password\\": \\"$CREDENTIAL_SECRET\\"}" > result.json
sleep 0.5
exit 7
"""


def forms(secret: str) -> set[str]:
    """What of it must not be seen."""
    inside = base64.b64encode(f"user:{secret}".encode()).decode()[8:-4]
    return {secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode(), inside}


@pytest.fixture
def planted() -> dict[str, str]:
    found = {place: f"+{place.lower()}/{uuid4().hex[:12]}&x" for place in PLACES}
    # A job writes these into an artifact, another system into an event.
    written = {"CREDENTIAL", "EVENT"}
    return {place: text if place in written else secret(text) for place, text in found.items()}


def definition(program: Path) -> dict[str, Any]:
    return smallest(
        name=f"Talker {program.parent.parent.name}",
        executable=str(program),
        uuid=str(uuid4()),
        cmdparamsTemplate="--password ${TEMPLATE_SECRET}",
        requirements=["Talk"],
        environment={name: {"type": "password"} for name in PRINTED},
        artifacts=[{"name": "result", "path": "result.json", "type": "application/json"}],
    )


class Talker:
    """A run template that is given secrets from everywhere; every answer is kept."""

    def __init__(self, plant: Plant, planted: dict[str, str]) -> None:
        self.plant, self.planted, self.answers = plant, planted, list[str]()
        for http in (plant.rest, plant.prefect):
            http.event_hooks["response"].append(self._keep)
        program = plant.home / "bin" / "talker"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        app = self.post("app", definition(program))
        secret = {"TEMPLATE_SECRET": planted["TEMPLATE"]}
        self.post("company", {"slug": plant.pool, "env": {"COMPANY_SECRET": planted["COMPANY"]}})
        fields = [{"keyword": "CREDENTIAL_SECRET", "type": "password"}, {"keyword": "HOST"}]
        self.post("credential_type", {"code": "talk", "name": "Talk", "fields": fields})
        values = {"CREDENTIAL_SECRET": planted["CREDENTIAL"], "HOST": "here"}
        named = {"company": plant.pool, "credential_type": "talk", "name": "Main"}
        self.post("credential", named | {"values": values})
        block = self._block()
        self.template = self.post(
            "runtemplate",
            {"app_id": app["id"], "company": plant.pool, "name": "talk", "env": secret,
             "credentials": ["Main"],
             "blocks": [{"block": block, "env": {"BLOCK_SECRET": "value"}}]},
        )  # fmt: skip
        self.source = self.post(
            "eventsource",
            {"name": f"erp-{plant.pool}", "db_database": "d", "db_password": planted["SOURCE"]},
        )
        self.post(
            "eventrule",
            {"event_source_id": self.source["id"], "runtemplate_id": self.template["id"],
             "env_mapping": {"EVENT_SECRET": "context.token"}},
        )  # fmt: skip

    def _keep(self, answer: httpx.Response) -> None:
        answer.read()
        if "include_secrets" not in str(answer.request.url):
            self.answers.append(answer.text)

    def post(self, item: str, body: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = (
            self.plant.rest.post(f"/{item}/", json=body).raise_for_status().json()
        )
        return made

    def _block(self) -> str:
        """A block of somebody else, who gave it its secret."""
        prefect = prefect_client(str(self.plant.prefect.base_url))
        name = f"b-{uuid4().hex[:8]}"
        kind = prefect.get("/block_types/slug/secret").json()
        asked = {"block_schemas": {"block_type_id": {"any_": [kind["id"]]}}}
        schema = prefect.post("/block_schemas/filter", json=asked).json()[0]
        body = {"name": name, "block_type_id": kind["id"], "block_schema_id": schema["id"]}
        data = {"value": self.planted["BLOCK"]}
        prefect.post("/block_documents/", json=body | {"data": data}).raise_for_status()
        return f"secret/{name}"

    def run(self) -> int:
        """A job with a secret of its own."""
        env = {"OVERRIDE_SECRET": self.planted["OVERRIDE"]}
        job: int = self.post("job", {"runtemplate_id": self.template["id"], "env": env})["id"]
        return job

    def happen(self) -> int:
        """A change with a secret in it starts a job."""
        ledger = self.plant.ledger
        row = {"inversion": 1, "recordid": 1, "evidence": "x", "operation": "create",
               "externalids": None, "context": {"token": self.planted["EVENT"]}}  # fmt: skip
        with ledger.writing(SERVICE) as session:
            source = session.get_one(EventSource, self.source["id"])
            store_changes(session, source, [SourceChange(1, row)])

        async def emit() -> None:
            async with PrefectApi(self.plant.settings.prefect_api_url) as api:
                await EventEmitter(ledger, api).emit_all()

        asyncio.run(emit())
        query = {"runtemplate_id": self.template["id"]}

        def started() -> int | None:
            jobs = self.plant.rest.get("/jobs.json", params=query).json().values()
            return next((one["id"] for one in jobs if one["event_id"]), None)

        job: int = eventually(started)
        return job

    def ask_everything(self) -> None:
        """Every list, record, output and artifact list there is, of ours and of Prefect."""
        rest, prefect = self.plant.rest, self.plant.prefect
        for collection in ("apps", "companies", "runtemplates", "jobs", "credentials", "eventrules",
                           "credential_types", "eventsources", "auditlog", "drift"):  # fmt: skip
            listed = rest.get(f"/{collection}.json").raise_for_status().json()
            for suffix in ("html", "xml", "yaml"):
                rest.get(f"/{collection}.{suffix}")
            if collection == "jobs":
                for number in listed:
                    rest.get(f"/job/{number}.json")
                    rest.get(f"/job/{number}/output.txt")
        for kind in ("flow_runs", "logs", "artifacts", "deployments", "events", "automations"):
            body = {} if kind == "events" else {"limit": 200}
            prefect.post(f"/{kind}/filter", json=body)
        prefect.post("/block_documents/filter", json={"limit": 200})


def tables(path: Path, skipped: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Where, and the text of each value in a database."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in names:
            cursor = database.execute(f'SELECT * FROM "{table}"')
            columns = [column[0] for column in cursor.description]
            for row in cursor:
                for column, value in zip(columns, row, strict=True):
                    if value is not None and (table, column) not in skipped:
                        text = value.decode(errors="replace") if isinstance(value, bytes) else value
                        yield f"{path.name} {table}.{column}", str(text)


def files(home: Path) -> Iterator[tuple[str, str]]:
    """Logs and temporary files; job directories are left out, databases are read by tables."""
    for path in home.rglob("*"):
        inside = path.relative_to(home).parts
        if path.is_file() and "work" not in inside and ".db" not in path.name:
            yield str(path), path.read_bytes().decode(errors="replace")


SEALED = {
    (table.name, column.name)
    for table in Base.metadata.sorted_tables
    for column in table.columns
    if column.info.get("sealed")
}
LEFT_OUT = {("artifact", "content"), ("event", "data")}
"""What a job wrote into its artifacts, and what another system said of a change."""


def arguments() -> str:
    """The argument vectors of all processes, but of the job itself."""
    outputs = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "bin/talker" not in words:
            outputs.append(words)
    return "\n".join(outputs)


def test_no_planted_secret_is_found_anywhere(
    plant: Plant, planted: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    talker = Talker(plant, planted)
    with plant.worker():
        job = talker.run()
        eventually(lambda: plant.job(job)["state"] != "scheduled")
        seen = arguments()
        ended = plant.ended(job)
        assert ended["exitcode"] == 7
        of_event = plant.ended(talker.happen())
        assert of_event["exitcode"] == 7
        eventually(lambda: plant.logs_of(plant.run_of(job)))
        talker.ask_everything()
    printed = ended["stdout"].replace("cut \n", "cut ")  # an unfinished line is shown in time
    assert printed.count("plain ********") == 5  # all but the event's
    for form in ("url ********", "base64 ********", "cut ********"):
        assert printed.count(form) == 5
    assert of_event["stdout"].count("plain ********") == 5
    known = tmp_path_factory.getbasetemp().glob("prefect*/prefect/prefect.db")
    servers = {path.resolve() for path in known}
    assert servers
    places = [
        ("arguments", seen),
        *(("answer", answer) for answer in talker.answers),
        *tables(plant.home / "ledger.db", SEALED | LEFT_OUT),
        *(found for server in servers for found in tables(server, set())),
        *files(plant.home),
        *(found for server in servers for found in files(server.parents[1])),
    ]
    looked = {where for where, text in places if plant.pool in text}
    assert looked >= {"answer", "ledger.db company.slug", "prefect.db deployment.name"}
    needles = {form: place for place, secret in planted.items() for form in forms(secret)}
    needles |= {json.dumps(form)[1:-1]: place for form, place in needles.items()}
    found = [(place, where) for where, text in places for form, place in needles.items()
             if form in text]  # fmt: skip
    assert found == []
