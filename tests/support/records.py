"""Records over the REST contract: how tests make them, and read the answers."""

from typing import Any
from uuid import uuid4

import httpx

from tests.support.definitions import PROBE
from tests.support.secrets import secret

HIDDEN = secret("hid-den")
"""A secret of the records that `make_everything` writes."""

PROBE_IMAGE = "docker.io/acme/probe:1"

MAIL_TYPE = {
    "code": "mail",
    "name": "Mail",
    "fields": [
        {"keyword": "MAIL_HOST", "type": "string", "required": True},
        {"keyword": "MAIL_PASSWORD", "type": "password"},
    ],
}
BANK_TYPE: dict[str, Any] = {
    "code": "Bank",
    "name": {"en": "Bank", "cs": "Banka"},
    "fields": [
        {"keyword": "BANK_USER", "required": True},
        {"keyword": "BANK_PIN", "type": "password", "required": True},
        {"keyword": "BANK_PORT", "type": "integer", "default_value": 443},
        {"keyword": "BANK_MODE", "type": "set", "options": ["live", "test"]},
    ],
}
BANK_PIN = secret("s3cret-p1n")


def own_name(kind: str) -> str:
    """A name that no other test has: one Prefect serves many, and names are identities there."""
    return f"{kind}-{uuid4().hex[:8]}"


def ok(answer: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The record in an answer that has this status."""
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


def post(rest: httpx.Client, path: str, status: int = 201, **body: Any) -> dict[str, Any]:
    """The answer to a record that is sent."""
    return ok(rest.post(path, json=body), status)


def errors(answer: httpx.Response, status: int = 400) -> dict[str, str]:
    """Pointer -> message of a refusal."""
    return {one["pointer"]: one["message"] for one in ok(answer, status)["details"]}


def pointers(answer: httpx.Response, status: int = 400) -> list[str]:
    """What a refusal is about."""
    return [one["pointer"] for one in ok(answer, status)["details"]]


def make_template(rest: httpx.Client, **members: Any) -> dict[str, Any]:
    """A run template of the probe, in a company of its own."""
    ok(rest.post("/app/", json=PROBE), 201)
    ok(rest.post("/company/", json={"slug": "acme", "name": "Acme"}), 201)
    body = {"app_uuid": PROBE["uuid"], "company": "acme", "name": "daily", **members}
    return ok(rest.post("/runtemplate/", json=body), 201)


def post_contained_template(
    rest: httpx.Client, image: str | None = PROBE_IMAGE, **members: Any
) -> httpx.Response:
    """The answer to a run template of the probe with an image, which may be there already."""
    rest.post("/app/", json=PROBE | ({"ociimage": image} if image else {}))
    rest.post("/company/", json={"slug": "acme", "name": "Acme"})
    body = {"company": "acme", "app_uuid": PROBE["uuid"], "name": "Contained", **members}
    return rest.post("/runtemplate/", json=body)


def make_everything(rest: httpx.Client) -> dict[str, int]:
    """One record of each kind that clients write: kind -> id."""
    template = make_template(rest)
    ids = {
        "runtemplate": template["id"],
        "app": template["app_id"],
        "company": template["company_id"],
    }
    bodies: dict[str, dict[str, Any]] = {
        "credential_type": MAIL_TYPE,
        "topic": {"name": "bank", "color": "#00ff00"},
        "calendar": {"name": "closing", "days": [{"date": "2026-12-31"}]},
        "eventsource": {"name": "changes", "db_database": "adapter", "db_password": HIDDEN},
        "user": {"login": "eva", "email": "eva@example.com"},
        "job": {"runtemplate_id": template["id"]},
    }
    for item, body in bodies.items():
        ids[item] = ok(rest.post(f"/{item}/", json=body), 201)["id"]
    credential = {
        "name": "mailbox",
        "company": "acme",
        "credential_type": "mail",
        "values": {"MAIL_HOST": "mx", "MAIL_PASSWORD": HIDDEN},
    }
    ids["credential"] = ok(rest.post("/credential/", json=credential), 201)["id"]
    rule = {"event_source_id": ids["eventsource"], "runtemplate_id": ids["runtemplate"]}
    ids["eventrule"] = ok(rest.post("/eventrule/", json=rule), 201)["id"]
    return ids
