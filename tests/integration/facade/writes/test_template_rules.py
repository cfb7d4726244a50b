"""What a run template says about windows and attempts, over REST and in files."""

from typing import Any

import httpx
import pytest

from jobauto_prefect.facade.apply.documents import Document, check_document
from tests.support.definitions import PROBE
from tests.support.records import pointers

RULES: dict[str, Any] = {
    "interv": "c",
    "cron": "0 6 * * MON-FRI",
    "timezone": "Europe/Prague",
    "delay": 90,
    "deadline_offset": "+3h",
    "allow_late": True,
    "max_attempts": 5,
    "retry_backoff": "exponential",
    "retry_min_gap": 60,
    "retry_undeclared": True,
    "overlap": "skip",
    "misfire": "all",
}


def template(rest: httpx.Client, **members: Any) -> httpx.Response:
    rest.post("/app/", json=PROBE)
    rest.post("/company/", json={"slug": "acme", "name": "Acme"})
    body = {"company": "acme", "app_uuid": PROBE["uuid"], "name": "Ruled", **members}
    return rest.post("/runtemplate/", json=body)


def test_rules_are_kept_as_they_are_said(rest: httpx.Client) -> None:
    made = template(rest, **RULES).json()
    again = rest.get(f"/runtemplate/{made['id']}.json").json()
    assert {name: again[name] for name in RULES} == RULES


def test_unsaid_rules_are_the_careful_ones(rest: httpx.Client) -> None:
    made = template(rest).json()
    shown = rest.get(f"/runtemplate/{made['id']}.json").json()
    assert {name: shown[name] for name in RULES} == {
        "interv": "n",
        "cron": None,
        "timezone": None,
        "delay": 0,
        "deadline_offset": None,
        "allow_late": False,
        "max_attempts": None,
        "retry_backoff": "none",
        "retry_min_gap": 0,
        "retry_undeclared": False,
        "overlap": "wait",
        "misfire": "latest",
    }


def test_errors_are_told_together_and_change_nothing(rest: httpx.Client) -> None:
    wrong = {
        "retry_backoff": "double",
        "max_attempts": 0,
        "retry_min_gap": -1,
        "overlap": "",
        "misfire": "maybe",
        "allow_late": "perhaps",
    }
    assert sorted(pointers(template(rest, **RULES | wrong))) == sorted(f"/{name}" for name in wrong)
    times = {"cron": "61 * * * *", "timezone": "Mars/Olympus", "deadline_offset": "soon"}
    assert sorted(pointers(template(rest, **RULES | times))) == sorted(f"/{name}" for name in times)
    late = {"deadline_offset": "+90s"}
    assert pointers(template(rest, **RULES | late)) == ["/delay"]
    assert rest.get("/runtemplates.json").json() == {}


def test_a_companys_zone_must_be_one(rest: httpx.Client) -> None:
    company = {"slug": "zoned", "name": "Zoned", "timezone": "Europe/Prag"}
    assert pointers(rest.post("/company/", json=company)) == ["/timezone"]


def test_a_file_may_say_them_all() -> None:
    content = {"kind": "runtemplate", "company": "acme", "app": "Probe", "name": "Ruled"}
    right = Document("x.yaml", content | RULES, lambda _pointer: None)
    assert list(check_document(right, "runtemplate").faults) == []
    members = content | {"deadline_offset": "3h", "misfire": "no"}
    wrong = Document("x.yaml", members, lambda _pointer: None)
    found = {fault.pointer for fault in check_document(wrong, "runtemplate").faults}
    assert found == {"/deadline_offset", "/misfire"}


CHOOSING = PROBE | {
    "environment": {
        "LEVEL": {"type": "set", "options": ["low", "high"], "defval": "middle"},
        "MODE": {"type": "set", "options": {"a": "Slow", "b": "Fast"}},
        "MAIL": {"type": "email"},
        "PAGE": {"type": "url"},
        "GREETING": {"type": "string"},
        "TARGET": {"type": "string"},
    }
}


def test_a_value_outside_the_options_of_its_set_is_refused(rest: httpx.Client) -> None:
    rest.post("/app/", json=CHOOSING).raise_for_status()
    rest.post("/company/", json={"slug": "acme", "name": "Acme"})
    body = {"company": "acme", "app_uuid": PROBE["uuid"], "name": "Chosen"}
    wrong = rest.post("/runtemplate/", json=body | {"env": {"LEVEL": "up", "MODE": "Slow"}})
    assert pointers(wrong) == ["/env/LEVEL", "/env/MODE"]
    assert "low, high" in wrong.text
    made = rest.post("/runtemplate/", json=body | {"env": {"LEVEL": "low", "MODE": "b"}}).json()
    job = {"runtemplate_id": made["id"], "env": {"LEVEL": "up"}}
    assert pointers(rest.post("/job/", json=job)) == ["/env/LEVEL"]
    for level in ("middle", "{COMPANY_NAME}", "", None):  # its default, a macro, and none
        written = rest.post("/runtemplate/", json=body | {"env": {"LEVEL": level}})
        assert written.status_code == 201, level


def test_an_address_that_can_not_be_right_is_a_warning(rest: httpx.Client) -> None:
    rest.post("/app/", json=CHOOSING).raise_for_status()
    rest.post("/company/", json={"slug": "acme", "name": "Acme"})
    body = {"company": "acme", "app_uuid": PROBE["uuid"], "name": "Written"}
    wrong = {"MAIL": "nobody", "PAGE": "not a url"}
    written = rest.post("/runtemplate/", json=body | {"env": wrong}).json()
    assert [warning["pointer"] for warning in written["warnings"]] == ["/env/MAIL", "/env/PAGE"]
    right = {"MAIL": "a@b.example", "PAGE": "https://b.example/"}
    assert "warnings" not in rest.post("/runtemplate/", json=body | {"env": right}).json()
    job = rest.post(
        "/job/", json={"runtemplate_id": written["id"], "env": {"MAIL": "nobody"}}
    ).json()
    assert [one["pointer"] for one in job["warnings"]] == ["/env/MAIL"]


def test_an_interval_by_cron_needs_one_and_cron_needs_the_interval(rest: httpx.Client) -> None:
    lacking = template(rest, interv="c", cron=None)
    assert (lacking.status_code, pointers(lacking)) == (400, ["/cron"])
    unused = template(rest, interv="d", cron="0 6 * * *").raise_for_status().json()
    (warning,) = [each for each in unused["warnings"] if each["pointer"] == "/cron"]
    assert "set interv to c" in warning["message"]
    heeded = template(rest, interv="c", cron="0 6 * * FRI-SUN").raise_for_status().json()
    assert not [each for each in heeded.get("warnings", []) if each["pointer"] == "/cron"]


@pytest.mark.parametrize("zone", ["posix/Europe/Prague", "right/UTC", "posixrules"])
def test_a_zone_that_prefect_can_not_run_is_refused_wherever_it_comes_in(
    rest: httpx.Client, zone: str
) -> None:
    company = {"slug": "zoned", "name": "Zoned", "timezone": zone}
    calendar = {"name": "Zoned", "timezone": zone}
    answers = (
        template(rest, timezone=zone),
        rest.post("/company/", json=company),
        rest.post("/calendar/", json=calendar),
    )
    assert [pointers(answer) for answer in answers] == [["/timezone"]] * 3
