"""What a run template says about executors, over REST and at the claim."""

from uuid import uuid4

import httpx
import pytest

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.facade.kinds.run_templates import TemplateBody
from jobauto_prefect.ledger.store import Ledger
from tests.support.claims import claim_of, deploy_template, granted, own_run_of, refused, report
from tests.support.definitions import PROBE
from tests.support.records import PROBE_IMAGE, pointers, post_contained_template
from tests.support.secrets import secret
from tests.support.servers import client, member_token, user_token

SETTINGS = {"memory": "64m", "cpu": 0.5, "network": "none", "ulimits": {"nofile": "1024"}}


def test_executor_and_settings_are_kept_and_go_into_the_launch(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    made = deploy_template(rest, ledger, executor="Docker", executor_settings=SETTINGS)
    shown = rest.get(f"/runtemplate/{made['id']}.json").json()
    assert (shown["executor"], shown["executor_settings"]) == ("Docker", SETTINGS)
    launch = granted(claims, claim_of())
    assert {
        name: launch[name] for name in ("executor", "executor_settings", "image", "company")
    } == {
        "executor": "Docker",
        "executor_settings": SETTINGS,
        "image": PROBE_IMAGE,
        "company": "acme",
    }
    assert launch["environment"]["JOBAUTO_EXECUTOR"] == "Docker"


def test_a_job_can_have_another_executor_with_the_same_settings(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    made = deploy_template(
        rest, ledger, executor="Docker", executors=["Podman"], executor_settings=SETTINGS
    )
    body = {"runtemplate_id": made["id"], "executor": "Podman"}
    job = rest.post("/job/", json=body).json()
    assert job["executor"] == "Podman"
    launch = granted(claims, own_run_of(ledger, job["id"]))
    assert (launch["executor"], launch["executor_settings"]) == ("Podman", SETTINGS)
    report(claims, launch, exit_code=9)
    again = rest.post("/job/", json={"retry_of": job["id"], "executor": "Podman"})
    assert again.status_code == 201, again.text


@pytest.mark.parametrize("address", [CONTRACT, PREFIXES[0]])
def test_a_job_names_no_executor_that_its_run_template_does_not_list(
    facade_url: str, rest: httpx.Client, ledger: Ledger, address: str
) -> None:
    made = deploy_template(rest, ledger, executor="Podman", executors=["Docker"])
    shown = rest.get(f"/runtemplate/{made['id']}.json").json()
    assert shown["executors"] == ["Docker"]
    token = member_token(rest, ledger, "runner", "user", "viewer")
    for signed_in in (token, user_token(ledger, "chief")):
        with client(f"{facade_url}{address}", signed_in) as http:
            for name, status in (("Native", 403), ("Kubernetes", 403), ("Docker", 201)):
                body = {"runtemplate_id": made["id"], "executor": name}
                answer = http.post("/job/", json=body)
                assert answer.status_code == status, (name, answer.text)
            assert http.post("/job/", json=body | {"executor": "Slurm"}).status_code == 400
    ended = rest.post("/job/", json={"runtemplate_id": made["id"]}).json()
    rest.post("/job/", json={"id": ended["id"], "state": "cancelled"}).raise_for_status()
    with client(f"{facade_url}{address}", token) as http:
        answer = http.post("/job/", json={"retry_of": ended["id"], "executor": "Native"})
    assert answer.status_code == 403, answer.text


def test_a_job_that_waited_has_an_executor_its_run_template_has_now(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    made = deploy_template(rest, ledger, executor="Native")
    job = rest.post("/job/", json={"runtemplate_id": made["id"], "executor": "Native"}).json()
    post_contained_template(rest, executor="Podman").raise_for_status()
    launch = granted(claims, own_run_of(ledger, job["id"]))
    assert launch["executor"] == "Podman"


def test_native_for_an_application_with_an_image_is_chosen_by_system_wide_roles(
    facade_url: str, rest: httpx.Client, ledger: Ledger
) -> None:
    made = post_contained_template(rest, executor="Podman").json()
    manager = member_token(rest, ledger, "manager", "viewer", "manager")
    with client(f"{facade_url}/api/v1", manager) as http:
        for members in (
            {"executor": "Native"},
            {"executors": ["Native"]},
            {"name": "Other", "executor": "Native"},
            {"name": "Other"},  # Native is the default
        ):
            answer = post_contained_template(http, **members)
            assert answer.status_code == 403, (members, answer.text)
        assert post_contained_template(http, executor="Docker").status_code == 201
        assert post_contained_template(rest, executors=["Native"]).status_code == 201
        assert post_contained_template(http, executors=["Native"], interv="d").status_code == 201
        assert post_contained_template(http, executors=[]).status_code == 201
        plain = PROBE | {"uuid": str(uuid4()), "name": "Plain"}
        rest.post("/app/", json=plain).raise_for_status()
        body = {"company": "acme", "app_uuid": plain["uuid"], "name": "Plain"}
        assert http.post("/runtemplate/", json=body).status_code == 201
        moved = body | {"app_uuid": PROBE["uuid"]}
        assert http.post("/runtemplate/", json=moved).status_code == 403
    assert rest.get(f"/runtemplate/{made['id']}.json").json()["executor"] == "Docker"


def test_who_runs_a_template_does_not_change_it_and_may_repeat_what_it_says(
    facade_url: str, rest: httpx.Client, ledger: Ledger
) -> None:
    made = post_contained_template(rest, env={"GREETING": "hi", "PASSWORD": secret("of-it")}).json()
    with client(
        f"{facade_url}/api/v1", member_token(rest, ledger, "runner", "user", "viewer")
    ) as http:
        assert post_contained_template(http, name="Mine").status_code == 403
        path = f"/runtemplate/{made['id']}.json"
        for change in (
            {"executor": "Podman"},
            {"env": {"GREETING": "ho"}},
            {"env": {"GREETING": None}},
            {"success": {"Stop": {}}},
            {"company_id": made["company_id"], "name": "x"},
        ):
            answer = http.post(path, json=change)
            assert answer.status_code == 403, (change, answer.text)
            assert "companies.update" in answer.json()["message"]
        known = http.get(path).json()
        same = {name: known[name] for name in TemplateBody.model_fields if name in known}
        answer = http.post(path, json=same | {"active": False, "note": "paused"})
        assert answer.status_code == 201, answer.text
        assert (answer.json()["active"], answer.json()["note"]) == (False, "paused")


def test_what_cannot_run_is_refused_with_what_is_missing(rest: httpx.Client) -> None:
    answer = post_contained_template(
        rest, None, executor="Docker", executor_settings={"memory": "much", "x": 1}
    )
    assert pointers(answer) == ["/executor", "/executor_settings/x", "/executor_settings/memory"]
    assert "add ociimage" in answer.text
    unknown = post_contained_template(rest, executor="Slurm")
    assert "there is no executor Slurm; use Docker, Kubernetes, Native, Podman" in unknown.text
    listed = post_contained_template(rest, None, executors=["Podman"])
    assert pointers(listed) == ["/executors/0"]
    made = post_contained_template(rest, executors=["Podman"]).json()
    assert rest.post("/app/", json=PROBE).is_success
    job = rest.post("/job/", json={"runtemplate_id": made["id"], "executor": "Podman"})
    assert pointers(job) == ["/executor"]


def test_an_image_that_went_is_missed_at_the_launch(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger
) -> None:
    deploy_template(rest, ledger, executor="Docker")
    assert rest.post("/app/", json=PROBE).status_code == 201
    assert refused(claims, claim_of()) == (
        "executor",
        "FAILED",
        "executor Docker needs an image: add ociimage to the application's definition",
    )


def test_the_name_alone_is_changed(rest: httpx.Client) -> None:
    made = post_contained_template(rest, executor="Docker", executor_settings=SETTINGS).json()
    for name in ("Podman", "Kubernetes", "Native"):
        answer = post_contained_template(rest, executor=name)
        assert answer.status_code == 201, answer.text
        shown = rest.get(f"/runtemplate/{made['id']}.json").json()
        assert (shown["executor"], shown["executor_settings"]) == (name, SETTINGS)
