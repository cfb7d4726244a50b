"""What needs an administrator: at the write, and again at the claim."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobauto_prefect.cli.checks.examination import approval_findings
from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.engine.sync.deployment_plans import desired_deployment
from jobauto_prefect.facade.compat.translation import PREFIXES
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.claims import DEPLOYMENT, claim_of, granted, refused
from tests.support.definitions import PROBE
from tests.support.ports import free_port
from tests.support.records import PROBE_IMAGE, make_template, ok, post
from tests.support.servers import client, facade, member_token

IMAGED = PROBE | {"ociimage": PROBE_IMAGE}
CHART, NAMESPACE, ACCOUNT = "oci://registry.example.org/erp", "erp-jobs", "erp"
HELM = {"enabled": True, "releaseName": "erp", "chart": CHART, "namespace": NAMESPACE}

RESERVED: dict[str, Any] = {
    "user": "0:0",
    "network": "bridge",
    "ulimits": {"nproc": "-1"},
    "runtime": "crun",
    "service_account": ACCOUNT,
    "image_pull_secrets": ["theirs"],
    "labels": {"app": "theirs"},
    "node_selector": {"zone": "theirs"},
}
ANYONES: dict[str, Any] = {
    "memory": "64m",
    "cpu": 0.5,
    "pull": "never",
    "read_only": True,
    "init": True,
    "network": "none",
    "memory_request": "1m",
    "cpu_request": 0.1,
    "user": None,
}


@pytest.fixture
def ledger_settings(ledger_settings: Settings) -> Settings:
    """An installation whose administrators have lists; the company is the first one."""
    lists = {
        "company_pools": ("1=own", "2=theirs", "all", "1=both", "2=both"),
        "helm_charts": (f"1={CHART}", "oci://registry.example.org/other"),
        "kubernetes_namespaces": (f"1={NAMESPACE}",),
        "kubernetes_service_accounts": ("listed",),
    }
    return ledger_settings.model_copy(update=lists)


@pytest.fixture
def made(rest: httpx.Client, ledger: Ledger) -> dict[str, Any]:
    """A run template in Podman, of an application of the company's own, which has an image."""
    made = make_template(rest, name="Contained")
    own = {**IMAGED, "company_id": made["company_id"]}
    post(rest, f"/app/{made['app_id']}.json", **own)
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).deployment_id = DEPLOYMENT
    return post(rest, f"/runtemplate/{made['id']}.json", executor="Podman")


@pytest.fixture
def manager(
    facade_url: str, rest: httpx.Client, ledger: Ledger, made: dict[str, Any]
) -> Iterator[httpx.Client]:
    """The contract as a manager of that company uses it."""
    token = member_token(rest, ledger, "manager", "viewer", "manager")
    with client(f"{facade_url}/api/v1", token) as http:
        yield http


def test_who_takes_the_image_away_does_not_get_out_of_it(
    rest: httpx.Client, manager: httpx.Client, claims: httpx.Client, made: dict[str, Any]
) -> None:
    app, template = f"/app/{made['app_id']}.json", f"/runtemplate/{made['id']}.json"
    for document in (PROBE, IMAGED):
        post(manager, app, **document)
        for members in ({"executor": "Native"}, {"executors": ["Native"]}):
            refused = ok(manager.post(template, json=members), 403)
            assert "outside its container image" in refused["message"]
    post(rest, app, **PROBE)  # an administrator may
    post(manager, template, executor="Native")
    assert granted(claims, claim_of())["executor"] == "Native"


def test_who_last_changed_the_definition_counts_at_the_claim(
    rest: httpx.Client, manager: httpx.Client, claims: httpx.Client, made: dict[str, Any]
) -> None:
    app, template = f"/app/{made['app_id']}.json", f"/runtemplate/{made['id']}.json"
    post(rest, template, executor="Native")
    for document in ({**IMAGED, "executable": "/bin/sh"}, {**PROBE, "executable": "/bin/sh"}):
        post(manager, app, **document)
        reason, state, message = refused(claims, claim_of())
        assert (reason, state) == ("not_approved", "FAILED")
        assert "no administrator saved its current definition" in message
    post(rest, app, **IMAGED)
    assert granted(claims, claim_of())["executor"] == "Native"


def test_who_chose_the_executor_counts_at_the_claim(
    rest: httpx.Client, manager: httpx.Client, claims: httpx.Client, made: dict[str, Any]
) -> None:
    app, template = f"/app/{made['app_id']}.json", f"/runtemplate/{made['id']}.json"
    post(rest, app, **PROBE)
    post(manager, template, executor="Native")
    assert granted(claims, claim_of())["executor"] == "Native"
    post(rest, app, **IMAGED)
    reason, _, message = refused(claims, claim_of())
    assert reason == "not_approved"
    assert "have an administrator save the run template" in message
    post(rest, template, note="seen")
    assert granted(claims, claim_of())["executor"] == "Native"


@pytest.mark.parametrize("name", RESERVED)
def test_what_reaches_further_is_for_administrators(
    rest: httpx.Client,
    manager: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    made: dict[str, Any],
    name: str,
) -> None:
    path, settings = f"/runtemplate/{made['id']}.json", {name: RESERVED[name]}
    assert name in ok(manager.post(path, json={"executor_settings": settings}), 403)["message"]
    # What was kept before anybody asked who chose it is asked for when it is used.
    executor = "Kubernetes" if name in ("service_account", *list(RESERVED)[5:]) else "Podman"
    with ledger.writing(SERVICE) as session:
        template = session.get_one(RunTemplate, made["id"])
        template.executor_settings, template.executor = settings, executor
    assert refused(claims, claim_of())[0] == "not_approved"
    (finding,) = approval_findings(ledger_settings, ledger)
    reason = f"only an administrator can choose the executor setting {name}"
    assert f"jobs of acme/Contained don't start: {reason}" in finding.message
    post(rest, path, note="seen")
    assert approval_findings(ledger_settings, ledger) == []
    post(manager, path, interv="d", executor_settings=settings)
    assert granted(claims, claim_of())["executor_settings"] == settings


def test_no_other_way_leads_around_it(
    rest: httpx.Client, manager: httpx.Client, facade_url: str, made: dict[str, Any]
) -> None:
    path, members = f"/runtemplate/{made['id']}.json", {"executor_settings": {"user": "0:0"}}
    manager.base_url = facade_url
    for prefix in PREFIXES:
        assert manager.post(f"{prefix}{path}", json=members).status_code == 403
    new = {"kind": "runtemplate", "company": "acme", "app": "Probe", "name": "New"}
    for more in (members, members | {"name": "Contained"}, {"executor": "Native"}, {"pool": "x"}):
        file = {"name": "t.json", "text": json.dumps({**new, **more})}
        asked = {"files": [file], "auto_approve": True}
        plan = ok(manager.post("/api/v1/apply.json", json=asked))
        assert (plan["applied"], [one["rule"] for one in plan["forbidden"]]) == (
            False,
            ["forbidden"],
        )
    shown = rest.get(path).json()
    assert (shown["executor"], shown["executor_settings"], shown["pool"]) == ("Podman", {}, None)


def test_the_other_settings_are_for_whoever_configures(
    manager: httpx.Client, claims: httpx.Client, made: dict[str, Any]
) -> None:
    path = f"/runtemplate/{made['id']}.json"
    post(manager, path, executor_settings=ANYONES)
    post(manager, path, executor_settings=ANYONES | {"service_account": "listed"})
    assert granted(claims, claim_of())["executor_settings"]["memory"] == "64m"


def test_what_was_approved_is_so_for_its_application_alone(
    rest: httpx.Client, manager: httpx.Client, made: dict[str, Any]
) -> None:
    post(
        rest,
        f"/runtemplate/{made['id']}.json",
        executor="Native",
        executor_settings={"user": "0:0"},
    )
    company = made["company_id"]
    uuid = "6a2c6d4e-30e4-4f6b-9d6e-7c8ad9f2b0ff"
    other = post(rest, "/app/", **IMAGED | {"uuid": uuid, "name": "Other", "company_id": company})
    answer = manager.post(f"/runtemplate/{made['id']}.json", json={"app_id": other["id"]})
    assert answer.status_code == 403
    assert "user" in answer.json()["message"]
    assert "outside its container image" in answer.json()["message"]


def test_a_work_pool_is_administrators_to_choose(
    rest: httpx.Client, manager: httpx.Client, claims: httpx.Client, made: dict[str, Any]
) -> None:
    """It says on which machine a job runs, and as whom."""
    path = f"/runtemplate/{made['id']}.json"
    refused = ok(manager.post(path, json={"pool": "theirs"}), 403)
    assert "JOBAUTO_COMPANY_POOLS" in refused["message"]
    post(manager, path, pool="own")
    post(rest, path, pool="theirs")
    post(manager, path, interv="d")
    post(manager, path, pool="jobauto")
    granted(claims, claim_of())


def told(ledger: Ledger, settings: Settings, template_id: int) -> int | None:
    """The priority that Prefect is told for the queue of a run template."""
    with ledger.reading() as session:
        plan = desired_deployment(session, session.get_one(RunTemplate, template_id), settings)
    return plan.work_queue.priority


def test_the_order_of_a_pool_that_others_use_is_administrators_to_choose(
    rest: httpx.Client,
    manager: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    made: dict[str, Any],
) -> None:
    """A queue has one priority, for the jobs of all companies in its pool."""
    path = f"/runtemplate/{made['id']}.json"
    for members in (
        {"queue_priority": 1},
        {"queue": "default", "queue_priority": 99},
        {"queue": "new", "queue_priority": 3},
        {"pool": "all", "queue_priority": 1},
        {"pool": "both", "queue_priority": 1},
    ):
        answer = manager.post(path, json=members)
        assert answer.status_code == 403, (members, answer.text)
        assert "the jobs of all companies in the work pool" in answer.json()["message"]
    post(manager, path, pool="own", queue="soon", queue_priority=1)
    assert told(ledger, ledger_settings, made["id"]) == 1
    assert manager.post(path, json={"pool": None}).status_code == 403
    post(rest, path, pool=None, queue="night", queue_priority=7)
    post(manager, path, interv="d")
    assert told(ledger, ledger_settings, made["id"]) == 7
    for members in ({"queue": None}, {"queue_priority": 6}, {"pool": "all"}):
        assert manager.post(path, json=members).status_code == 403, members
    post(manager, path, queue="day", queue_priority=None)
    assert manager.post(path, json={"queue_priority": 7}).status_code == 403


def test_a_priority_nobody_approved_is_not_told(
    rest: httpx.Client,
    manager: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    ledger_settings: Settings,
    made: dict[str, Any],
) -> None:
    path = f"/runtemplate/{made['id']}.json"
    post(manager, path, pool="own", queue_priority=4)
    assert told(ledger, ledger_settings, made["id"]) == 4
    for shared in ({"company_pools": ("own",)}, {"pool": "own"}):
        changed = ledger_settings.model_copy(update=shared)
        assert told(ledger, changed, made["id"]) is None, shared
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, made["id"]).pool = None
    assert told(ledger, ledger_settings, made["id"]) is None
    granted(claims, claim_of())  # no job is refused for it
    post(manager, path, interv="d")


def document(**helm: Any) -> dict[str, Any]:
    return IMAGED | {"kubernetes": {"helm": HELM | helm}}


def test_charts_and_namespaces_of_a_companys_own_definition_are_listed(
    rest: httpx.Client, manager: httpx.Client, claims: httpx.Client, made: dict[str, Any]
) -> None:
    app = f"/app/{made['app_id']}.json"
    post(manager, f"/runtemplate/{made['id']}.json", executor="Kubernetes")
    for helm in (
        {"chart": "oci://registry.example.org/theirs"},
        {"chart": "./theirs"},
        {"chart": "bitnami/nginx"},
        {"namespace": "kube-system"},
        {"enabled": False, "namespace": "kube-system"},
    ):
        answer = manager.post(app, json=document(**helm))
        assert answer.status_code == 403, (helm, answer.text)
        post(rest, app, **document(**helm))  # an administrator may
        assert granted(claims, claim_of())["kubernetes"]["namespace"]
        if helm.get("enabled", True):
            changed = document(**helm, set={"image": "theirs"})
            assert manager.post(app, json=changed).status_code == 403
    post(manager, app, **document())
    launch = granted(claims, claim_of())
    assert launch["kubernetes"]["helm"]["release"] == f"{NAMESPACE}/erp"


def test_helm_is_judged_by_the_lists_there_are_at_the_claim(
    manager: httpx.Client,
    claims: httpx.Client,
    ledger: Ledger,
    facade_settings: Settings,
    made: dict[str, Any],
) -> None:
    members = {"executor": "Kubernetes", "executor_settings": {"service_account": "listed"}}
    post(manager, f"/runtemplate/{made['id']}.json", **members)
    post(manager, f"/app/{made['app_id']}.json", **document())
    changed = {"helm_charts": (f"2={CHART}",), "kubernetes_service_accounts": ()}
    address = {"url": f"http://127.0.0.1:{free_port()}", **changed}
    with facade(facade_settings.model_copy(update=address), ledger) as url:
        claims.base_url = f"{url}/internal/v1"
        reason, _, message = refused(claims, claim_of())
    assert reason == "not_approved"
    for text in (f"chart {CHART}", "JOBAUTO_HELM_CHARTS", "setting service_account"):
        assert text in message
    assert "namespace" not in message


@pytest.mark.parametrize("address", [CONTRACT, *PREFIXES])
def test_administrators_alone_change_the_slug_of_a_company(
    facade_url: str, rest: httpx.Client, ledger: Ledger, made: dict[str, Any], address: str
) -> None:
    path, key = f"/company/{made['company_id']}.json", "slug" if address == CONTRACT else "code"
    token = member_token(rest, ledger, "chief", "editor", "admin")
    with client(f"{facade_url}{address}", token) as http:
        answer = http.post(path, json={key: "globex"})
        assert answer.status_code == 403, answer.text
        assert http.post(path, json={key: "acme", "email": "a@example.org"}).status_code == 201
    assert post(rest, path, slug="globex")["slug"] == "globex"
