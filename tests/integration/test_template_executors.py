"""What a run template says about executors, over REST and at the claim."""

from typing import Any

import httpx

from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.definitions import PROBE
from tests.integration.test_claims import DEPLOYMENT, claim_of, granted, refused

IMAGE = "docker.io/acme/probe:1"
SETTINGS = {"memory": "64m", "cpu": 0.5, "network": "none", "ulimits": {"nofile": "1024"}}


def template(rest: httpx.Client, image: str | None = IMAGE, **members: Any) -> httpx.Response:
    rest.post("/app/", json=PROBE | ({"ociimage": image} if image else {}))
    rest.post("/company/", json={"slug": "acme", "name": "Acme"})
    body = {"company": "acme", "app_uuid": PROBE["uuid"], "name": "Contained", **members}
    return rest.post("/runtemplate/", json=body)


def deployed(rest: httpx.Client, ledger: Ledger, **members: Any) -> dict[str, Any]:
    """A template that Prefect knows by a deployment."""
    made: dict[str, Any] = template(rest, **members).json()
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).deployment_id = DEPLOYMENT
    return made


def pointers(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    return [fault["pointer"] for fault in answer.json()["details"]]


def test_executor_and_settings_are_kept_and_go_into_the_launch(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    made = deployed(rest, ledger, executor="Docker", executor_settings=SETTINGS)
    shown = rest.get(f"/runtemplate/{made['id']}.json").json()
    assert (shown["executor"], shown["executor_settings"]) == ("Docker", SETTINGS)
    launch = granted(claims, claim_of())
    assert {
        name: launch[name] for name in ("executor", "executor_settings", "image", "company")
    } == {
        "executor": "Docker",
        "executor_settings": SETTINGS,
        "image": IMAGE,
        "company": "acme",
    }
    assert launch["environment"]["JOBAUTO_EXECUTOR"] == "Docker"


def test_a_job_can_have_another_executor_with_the_same_settings(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    made = deployed(rest, ledger, executor="Docker", executor_settings=SETTINGS)
    answer = rest.post("/job/", json={"runtemplate_id": made["id"], "executor": "Podman"})
    assert answer.status_code == 201, answer.text
    assert answer.json()["executor"] == "Podman"


def test_what_cannot_run_is_refused_with_what_is_missing(rest: httpx.Client) -> None:
    answer = template(rest, None, executor="Docker", executor_settings={"memory": "much", "x": 1})
    assert pointers(answer) == ["/executor", "/executor_settings/x", "/executor_settings/memory"]
    assert "no ociimage" in answer.text
    unknown = template(rest, executor="Slurm")
    assert "there is no executor Slurm; use Docker, Kubernetes, Native, Podman" in unknown.text
    made = template(rest, None).json()
    job = rest.post("/job/", json={"runtemplate_id": made["id"], "executor": "Podman"})
    assert pointers(job) == ["/executor"]


def test_an_image_that_went_is_missed_at_the_launch(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    deployed(rest, ledger, executor="Docker")
    assert rest.post("/app/", json=PROBE).status_code == 201
    assert refused(claims, claim_of()) == (
        "executor",
        "FAILED",
        "executor Docker runs an image, and the application has no ociimage",
    )


def test_the_name_alone_is_changed(rest: httpx.Client) -> None:
    made = template(rest, executor="Docker", executor_settings=SETTINGS).json()
    for name in ("Podman", "Kubernetes", "Native"):
        answer = template(rest, executor=name)
        assert answer.status_code == 201, answer.text
        shown = rest.get(f"/runtemplate/{made['id']}.json").json()
        assert (shown["executor"], shown["executor_settings"]) == (name, SETTINGS)
