"""Run templates after each other: what the job of one leaves gives the next one its values."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, granted, own_run_of, report
from tests.support.definitions import PROBE
from tests.support.records import ok


def make_rule(
    rest: httpx.Client, template: dict[str, Any], source: int | None, **members: Any
) -> dict[str, Any]:
    body = {"event_source_id": source, "runtemplate_id": template["id"], **members}
    return ok(rest.post("/eventrule/", json=body), 201)


def run_of(event: int, rule: dict[str, Any], **members: Any) -> dict[str, Any]:
    """The claim of a flow run that the rule's automation made."""
    return claim_of(parameters={"jobauto": {"event": event, "rule": rule["id"]}}, **members)


class Chain:
    """A template after another one, and a rule between the two."""

    def __init__(
        self,
        claims: httpx.Client,
        rest: httpx.Client,
        ledger: Ledger,
        template: dict[str, Any],
    ) -> None:
        self.claims, self.rest, self.ledger = claims, rest, ledger
        self.deployment = uuid4()
        self.first = template
        self.then: dict[str, Any] = {}
        self.rule: dict[str, Any] = {}

    def between(
        self, produces: dict[str, Any], consumer: dict[str, Any], **rule: Any
    ) -> dict[str, Any]:
        """The first application produces this, the other one has these members besides."""
        newer = PROBE | {"produces": produces, "version": "99.0"}
        self.rest.post("/app/", json=newer).raise_for_status()
        other = PROBE | {"uuid": str(uuid4()), "name": "Consumer"} | consumer
        app = self.rest.post("/app/", json=other).raise_for_status().json()
        body = {"app_id": app["id"], "company": "acme", "name": "after"}
        self.then = self.rest.post("/runtemplate/", json=body).raise_for_status().json()
        with self.ledger.writing(SERVICE) as session:
            session.get_one(RunTemplate, self.then["id"]).deployment_id = self.deployment
        self.rule = make_rule(
            self.rest, self.then, None, runtemplate_source_id=self.first["id"], **rule
        )
        return self.rule

    def end(self, written: Sequence[bytes] = (), **files: bytes) -> int:
        """A job of the first template leaves pieces of output and files; the event's id."""
        launch = granted(self.claims, claim_of())
        raws = {place: b64encode(piece).decode() for place, piece in enumerate(written)}
        texts = [ascii(piece) if piece else "7 bytes are missing here" for piece in written]
        lines = {"seq": 1, "stream": "stdout", "at": datetime.now(UTC).isoformat()}
        body = {"claim_id": launch["claim_id"], "output": []}
        if written:
            body["output"].append(lines | {"texts": texts, "raws": raws})
        self.claims.post(f"/jobs/{launch['job_id']}/output", json=body).raise_for_status()
        for name, content in files.items():
            path = name.replace("_", ".")
            where = {"claim_id": launch["claim_id"], "path": path, "name": path}
            to = f"/jobs/{launch['job_id']}/artifacts"
            self.claims.put(to, params=where, content=content).raise_for_status()
        report(self.claims, launch)
        return max(map(int, self.rest.get("/events.json").json()))

    def claim(self, event: int) -> dict[str, Any]:
        """The claim of the flow run that the rule's automation makes."""
        return run_of(event, self.rule, deployment_id=str(self.deployment))

    def claim_job(self, job_id: int) -> dict[str, Any]:
        """The claim of a flow run that this service makes for a job."""
        return own_run_of(self.ledger, job_id, deployment_id=str(self.deployment))

    def deliveries(self, event: int) -> list[dict[str, Any]]:
        """What the event owes, as it is shown."""
        found: list[dict[str, Any]] = self.rest.get(f"/event/{event}.json").json()["deliveries"]
        return found
