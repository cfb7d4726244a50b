"""Forms of run templates in the console: run one, change one, make one."""

import html
import re
from typing import Any

import httpx
import pytest

from jobauto_prefect.ledger.records import Job
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import form_fields, post
from tests.support.console_records import Records, sign_in
from tests.support.ledger_rows import fetch_all
from tests.support.secrets import SECRET, secret

LIST = "/console/runtemplates"
NEW_SECRET = secret("another s3cret")


def _overrides(ledger: Ledger) -> dict[str, Any]:
    job = fetch_all(ledger, Job)[-1]
    return {**job.overrides, **dict.fromkeys(job.override_secrets, "sealed")}


def test_a_job_gets_what_was_changed_in_the_form_and_nothing_else(
    browser: httpx.Client, records: Records, ledger: Ledger
) -> None:
    path = f"{LIST}/{records.template}/run"
    page = browser.get(path).text
    assert SECRET not in page
    assert page.count('type="password"') == 1
    assert 'name="remove:' not in page  # a job can't do without what its run template has
    assert "<code>COUNT</code>" in page
    fields = form_fields(page)
    assert fields["/env/COUNT"] == "3"
    assert fields["/env/LOUD"] == "false"
    assert fields["/env/PASSWORD"] == ""

    sent = {**fields, "/env/COUNT": "7", "/env/PASSWORD": NEW_SECRET}
    answer = post(browser, path, sent)
    assert answer.status_code == 303
    assert re.fullmatch(r"/console/jobs/\d+", answer.headers["location"])
    assert _overrides(ledger) == {"COUNT": "7", "PASSWORD": "sealed"}
    # The same form again is the same job: a second click, a page that is loaded anew.
    assert post(browser, path, sent).headers["location"] == answer.headers["location"]
    assert post(browser, path, form_fields(browser.get(path).text)).status_code == 303
    assert _overrides(ledger) == {}


def test_a_job_runs_when_the_clock_of_its_zone_shows_the_time(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    rest.post(f"/runtemplate/{records.template}.json", json={"timezone": "Europe/Prague"})
    path = f"{LIST}/{records.template}/run"
    page = browser.get(path).text
    assert "In the time zone Europe/Prague" in page
    sent = {**form_fields(page), "/scheduled": "2031-07-01T10:00"}
    number = re.findall(r"/jobs/(\d+)", post(browser, path, sent).headers["location"])[0]
    assert rest.get(f"/job/{number}.json").json()["schedule"] == "2031-07-01T08:00:00+00:00"


@pytest.mark.parametrize(("pointer", "typed"), [("/env/COUNT", "<many>"), ("/scheduled", '"soon"')])
def test_what_is_wrong_stands_at_its_field_with_what_was_typed(
    browser: httpx.Client, records: Records, pointer: str, typed: str
) -> None:
    path = f"{LIST}/{records.template}/run"
    sent = form_fields(browser.get(path).text)
    answer = post(browser, path, {**sent, pointer: typed, "/env/PASSWORD": NEW_SECRET})

    assert answer.status_code == 400
    assert NEW_SECRET not in answer.text
    again = form_fields(answer.text)
    assert again[pointer] == typed
    assert again["idempotency-key"] == sent["idempotency-key"]
    (control,) = re.findall(rf'<input [^>]*name="{pointer}"[^>]*>', answer.text)
    assert 'aria-invalid="true"' in control
    described = re.findall(r'aria-describedby="[^"]*?([\w-]+-error)"', control)[0]
    assert f'role="alert" lang="en" id="{described}"' in answer.text


def test_a_job_is_run_again_with_its_values_and_without_its_secrets(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    env = {"COUNT": 11, "PASSWORD": NEW_SECRET}
    job = rest.post("/job/", json={"runtemplate_id": records.template, "env": env}).json()["id"]
    page = browser.get(f"{LIST}/{records.template}/run?job={job}").text
    assert form_fields(page)["/env/COUNT"] == "11"
    assert NEW_SECRET not in page
    foreign = browser.get(f"{LIST}/{records.foreign['template']}/run?job={job}").text
    assert form_fields(foreign)["/env/COUNT"] == "3"
    assert browser.get(f"{LIST}/{records.template}/run?job=99999").status_code == 404


def test_a_form_that_nobody_changed_changes_nothing(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    before = rest.get(f"/runtemplate/{records.template}.json").json()
    path = f"{LIST}/{records.template}/edit"
    answer = post(browser, path, form_fields(browser.get(path).text))
    assert answer.headers["location"] == f"{LIST}/{records.template}"
    assert rest.get(f"/runtemplate/{records.template}.json").json() == before


def test_values_are_mended_taken_away_and_secrets_stay(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = f"{LIST}/{records.template}/edit"
    page = browser.get(path).text
    assert "Empty means: acme town (company Acme)" in html.unescape(page)
    sent = {
        **form_fields(page),
        "/env/GREETING": "",
        "/env/COUNT": "12",
        "/cron": "0 7 * * *",
        "/credentials": "",
    }
    assert post(browser, path, sent).status_code == 303
    template = rest.get(f"/runtemplate/{records.template}.json").json()
    assert template["env"] == {"COUNT": "12", "PASSWORD": "********"}
    assert (template["cron"], template["credentials"]) == ("0 7 * * *", [])
    assert post(browser, path, {"remove:/env/PASSWORD": "true"}).status_code == 303
    template = rest.get(f"/runtemplate/{records.template}.json").json()
    assert template["env"] == {"COUNT": "12"}


def test_errors_of_a_run_template_stand_at_theirform_fields(
    browser: httpx.Client, records: Records
) -> None:
    path = f"{LIST}/{records.template}/edit"
    wrong = {"/name": "", "/cron": "61 * * * *", "/max_attempts": "many"}
    answer = post(browser, path, {**form_fields(browser.get(path).text), **wrong})
    assert answer.status_code == 400
    assert answer.text.count('class="problem"') >= 1
    assert form_fields(answer.text)["/cron"] == "61 * * * *"
    assert '<details class="group" open>' in answer.text


def test_a_new_run_template_is_made_in_two_steps(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    first = browser.get(f"{LIST}/new").text
    assert f'<option value="{records.company}"' in first
    assert 'method="get"' in first
    query = f"company_id={records.company}&app_id={records.app}"
    path = f"{LIST}/new?{query}"
    fields = form_fields(browser.get(path).text)
    assert fields["/active"] == "true"
    sent = {**fields, "/name": "Nightly", "/interv": "d", "/env/COUNT": "5"}
    sent["/credentials"] = str(records.credential)
    answer = post(browser, path, sent)
    assert answer.status_code == 303, answer.text
    assert post(browser, path, sent).headers["location"] == answer.headers["location"]
    number = re.findall(r"/runtemplates/(\d+)", answer.headers["location"])[0]
    template = rest.get(f"/runtemplate/{number}.json").json()
    assert template["name"] == "Nightly"
    assert (template["interv"], template["active"]) == ("d", True)
    assert template["env"] == {"COUNT": "5"}
    assert template["credentials"] == [records.credential]


def test_who_may_only_operate_may_pause_and_note_and_a_viewer_nothing(
    facade_url: str, records: Records, ledger: Ledger, rest: httpx.Client
) -> None:
    operator = sign_in(facade_url, ledger, "ota", "user", records.company)
    path = f"{LIST}/{records.template}/edit"
    fields = form_fields(operator.get(path).text)
    assert set(fields) == {"idempotency-key", "/active", "/note"}
    assert post(operator, path, {**fields, "/active": "", "/note": "out"}).status_code == 303
    template = rest.get(f"/runtemplate/{records.template}.json").json()
    assert (template["active"], template["note"]) == (False, "out")
    assert operator.get(f"{LIST}/new?company_id={records.company}&app_id=1").status_code == 403

    viewer = sign_in(facade_url, ledger, "tom", "viewer", records.company)
    for verb in ("edit", "run"):
        assert viewer.get(f"{LIST}/{records.template}/{verb}").status_code == 403
        assert post(viewer, f"{LIST}/{records.template}/{verb}").status_code == 403
        foreign = f"{LIST}/{records.foreign['template']}/{verb}"
        assert viewer.get(foreign).status_code == 404


def test_forms_are_in_the_language_of_the_visitor(browser: httpx.Client, records: Records) -> None:
    czech = {"Accept-Language": "cs"}
    page = browser.get(f"{LIST}/{records.template}/run", headers=czech).text
    for text in ("Spustit", "Čas spuštění", "Hodnoty"):
        assert text in page, text
    page = browser.get(f"{LIST}/{records.template}/edit", headers=czech).text
    for text in ("Uložit", "Frekvence", "Přístupové údaje"):
        assert text in page, text
