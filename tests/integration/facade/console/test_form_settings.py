"""What a run template's form has beside values and times: executors, actions, notices and so on."""

import html
import re
from typing import Any

import httpx
import pytest

from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import form_fields, post
from tests.support.console_records import Records, sign_in
from tests.support.definitions import PROBE
from tests.support.records import ok
from tests.support.secrets import secret

LIST = "/console/runtemplates"
HOOK = "https://hooks.example.com/services/T1"
KEY = secret("signed w1th this")


@pytest.fixture
def boxed(rest: httpx.Client, records: Records) -> int:
    """A run template whose application has an image."""
    uuid = "0ca1b6b2-9a0f-4d17-9a3a-2f8c1b3d0b11"
    definition = {**PROBE, "name": "Boxed", "uuid": uuid, "ociimage": "example.com/probe:1"}
    app = ok(rest.post("/app/", json=definition), 201)["id"]
    body = {"name": "Boxed", "company_id": records.company, "app_id": app, "executor": "Docker"}
    return int(ok(rest.post("/runtemplate/", json=body), 201)["id"])


def _send(browser: httpx.Client, template: int, **changed: str) -> httpx.Response:
    """Send the form of a run template with these fields changed; `__` stands for a slash."""
    path = f"{LIST}/{template}/edit"
    named = {name.replace("__", "/"): text for name, text in changed.items()}
    fields = form_fields(browser.get(path).text)
    return post(browser, path, {**fields, **named})


def _saved(browser: httpx.Client, rest: httpx.Client, template: int, **changed: str) -> Any:
    answer = _send(browser, template, **changed)
    assert answer.status_code == 303, answer.text
    return rest.get(f"/runtemplate/{template}.json").json()


def _problem(page: str, pointer: str) -> str:
    """What stands at a field as wrong."""
    (control,) = re.findall(rf'<(?:input|textarea) [^>]*name="{pointer}"[^>]*>', page)
    name = re.findall(r'aria-describedby="[^"]*?([\w-]+-error)"', control)[0]
    return html.unescape(re.findall(rf'id="{name}">(.*?)</p>', page)[0])


def test_an_executor_is_chosen_and_told_what_it_takes(
    browser: httpx.Client, rest: httpx.Client, boxed: int
) -> None:
    template = _saved(
        browser, rest, boxed,
        __executor="Kubernetes", __executors="Podman", __queue="late", __queue_priority="3",
        __executor_settings__cpu="0.5", __executor_settings__memory="512m",
        __executor_settings__labels="acme.example/part=a\r\ntier=b\r\n",
        __executor_settings__image_pull_secrets="one\r\ntwo",
        __executor_settings__read_only="true", __executor_settings__pull="always",
    )  # fmt: skip
    assert (template["executor"], template["executors"]) == ("Kubernetes", ["Podman"])
    assert (template["queue"], template["queue_priority"]) == ("late", 3)
    assert template["executor_settings"] == {
        "cpu": 0.5,
        "memory": "512m",
        "labels": {"acme.example/part": "a", "tier": "b"},
        "image_pull_secrets": ["one", "two"],
        "read_only": True,
        "pull": "always",
    }
    template = _saved(
        browser, rest, boxed, __executor_settings__cpu="", __executor_settings__pull=""
    )
    assert sorted(template["executor_settings"]) == [
        "image_pull_secrets", "labels", "memory", "read_only",
    ]  # fmt: skip


def test_what_an_executor_does_not_take_stands_at_its_field_as_typed(
    browser: httpx.Client, boxed: int
) -> None:
    assert _problem(_send(browser, boxed, __queue_priority="0").text, "/queue_priority")
    typed = {"__executor_settings__cpu": "many", "__executor_settings__memory": "1.5 GB"}
    page = _send(browser, boxed, **typed).text
    for name, text in typed.items():
        pointer = name.replace("__", "/")
        assert form_fields(page)[pointer] == text
        assert _problem(page, pointer)
    page = _send(browser, boxed, __executor_settings__labels="tier", __blocks="nothing").text
    assert "name=value" in _problem(page, "/executor_settings/labels")
    assert "name=value" in _problem(page, "/blocks")


def test_executors_are_those_that_can_run_the_application(
    facade_url: str, ledger: Ledger, browser: httpx.Client, records: Records, boxed: int
) -> None:
    plain = browser.get(f"{LIST}/{records.template}/edit").text
    assert '<option value="Native" selected>' in plain
    assert "Docker" not in plain
    owner = sign_in(facade_url, ledger, "olga", "editor", records.company)
    app = re.findall(r'href="/console/applications/(\d+)"', owner.get(f"{LIST}/{boxed}").text)[0]
    path = f"{LIST}/new?company_id={records.company}&app_id={app}"
    page = owner.get(path).text
    assert "Native" not in page
    sent = {**form_fields(page), "/name": "Boxed, too"}
    assert sent["/executor"] == "Docker"
    answer = post(owner, path, sent)
    assert answer.status_code == 303, answer.text


def test_what_follows_the_end_of_a_job_is_chosen(
    browser: httpx.Client, rest: httpx.Client, records: Records, boxed: int
) -> None:
    page = browser.get(f"{LIST}/{boxed}/edit").text
    assert '<option value="acme/Acme invoices">' in page
    template = _saved(
        browser, rest, boxed,
        __success__ChainRuntemplate__runtemplate_id="acme/Acme invoices",
        __success__Stop="true",
        __fail__Reschedule__delay="600",
        __fail__WebHook__uri=HOOK, __fail__WebHook__secret=KEY,
    )  # fmt: skip
    chained = {"runtemplate_id": records.template}
    assert template["success"] == {"ChainRuntemplate": chained, "Stop": {}}
    hooked = {"uri": HOOK, "secret": MASK}
    assert template["fail"] == {"Reschedule": {"delay": 600}, "WebHook": hooked}
    page = browser.get(f"{LIST}/{boxed}/edit").text
    assert KEY not in page
    fields = form_fields(page)
    assert fields["/success/ChainRuntemplate/runtemplate_id"] == "acme/Acme invoices"
    assert fields["/success/Stop"] == "true"

    template = _saved(browser, rest, boxed, __fail__Reschedule__delay="", __success__Stop="")
    assert (template["success"], template["fail"]) == (
        {"ChainRuntemplate": chained},
        {"WebHook": hooked},
    )
    moved = _send(browser, boxed, __fail__WebHook__uri=f"{HOOK}/other")
    assert moved.status_code == 400
    assert _problem(moved.text, "/fail/WebHook/secret")
    template = _saved(browser, rest, boxed, **{"remove:/fail/WebHook/secret": "true"})
    assert template["fail"] == {"WebHook": {"uri": HOOK}}
    template = _saved(browser, rest, boxed, __fail__WebHook__uri="")
    assert template["fail"] == {}


def test_wrong_actions_stand_at_their_fields(
    browser: httpx.Client, rest: httpx.Client, boxed: int
) -> None:
    page = _send(
        browser, boxed,
        __success__ChainRuntemplate__runtemplate_id="acme/None such",
        __fail__Reschedule__delay="soon", __fail__WebHook__secret=KEY,
    ).text  # fmt: skip
    assert "None such" in _problem(page, "/success/ChainRuntemplate/runtemplate_id")
    assert KEY not in page
    page = _send(browser, boxed, __fail__Reschedule__delay="soon", __fail__WebHook__secret=KEY).text
    assert _problem(page, "/fail/Reschedule/delay")
    assert _problem(page, "/fail/WebHook/uri")
    page = _send(browser, boxed, __success__ChainRuntemplate__runtemplate_id="acme/Boxed").text
    group = page.split("After a success")[1].split("</details>")[0]
    assert 'class="problem" role="alert"' in group


def test_people_are_told_by_mail_and_by_a_webhook(
    browser: httpx.Client, rest: httpx.Client, boxed: int
) -> None:
    address = secret(f"{HOOK}/B2/xyz")
    template = _saved(
        browser, rest, boxed,
        __notices__mail__on="failure", __notices__mail__to="eva@example.com\r\nota@example.com",
        __notices__slack__on="late", __notices__slack__uri=address,
        __notices__finished_by="06:30",
    )  # fmt: skip
    mail = {"on": ["failure"], "to": ["eva@example.com", "ota@example.com"]}
    assert template["notices"] == {
        "mail": mail,
        "slack": {"on": ["late"], "uri": MASK},
        "finished_by": "06:30",
    }
    page = browser.get(f"{LIST}/{boxed}/edit").text
    assert address not in page
    assert form_fields(page)["/notices/mail/to"] == "eva@example.com\nota@example.com"

    template = _saved(browser, rest, boxed, __notices__slack__silent="true")
    assert template["notices"]["slack"] == {"on": [], "uri": MASK}
    assert template["notices"]["mail"] == mail
    template = _saved(browser, rest, boxed, **{"remove:/notices/slack/uri": "true"})
    assert "slack" not in template["notices"]
    page = _send(browser, boxed, __notices__mail__on="").text
    assert "select at least one event" in page
    template = _saved(
        browser, rest, boxed, __notices__mail__on="", __notices__mail__to="",
        __notices__finished_by="",
    )  # fmt: skip
    assert template["notices"] == {}


def test_what_the_contract_warns_of_is_said_once(browser: httpx.Client, boxed: int) -> None:
    answer = _send(
        browser, boxed, __notices__mail__on="failure", __notices__mail__to="eva@example.com"
    )
    assert answer.status_code == 303
    following = answer.headers["location"]
    assert "no mail is sent until JOBAUTO_SMTP_HOST is set" in browser.get(following).text
    assert "no mail is sent" not in browser.get(following).text
    browser.cookies.set("jobauto_done", "<b>", path="/console")
    assert "Please note" not in browser.get(following).text


def test_wrong_notices_stand_at_their_fields(browser: httpx.Client, boxed: int) -> None:
    page = _send(
        browser, boxed,
        __notices__mail__on="failure", __notices__mail__to="eva@example.com\r\nnobody",
        __notices__finished_by="<soon>",
    ).text  # fmt: skip
    assert (
        _problem(page, "/notices/mail/to")
        == "entry 2: must be a mail address, such as eva@example.com"
    )
    page = _send(browser, boxed, __notices__finished_by="<soon>").text
    assert _problem(page, "/notices/finished_by")
    assert form_fields(page)["/notices/finished_by"] == "<soon>"


def test_what_is_kept_has_bounds(browser: httpx.Client, rest: httpx.Client, boxed: int) -> None:
    template = _saved(browser, rest, boxed, __retention__jobs_days="30", __retention__runs_days="0")
    assert template["retention"] == {"jobs_days": 30, "runs_days": 0}
    template = _saved(browser, rest, boxed, __retention__jobs_days="")
    assert template["retention"] == {"runs_days": 0}
    page = _send(browser, boxed, __retention__output_days="many").text
    assert _problem(page, "/retention/output_days")


def test_blocks_are_named_by_those_who_may(
    facade_url: str, ledger: Ledger, rest: httpx.Client, browser: httpx.Client, records: Records
) -> None:
    typed = "GREETING=secret/acme-db/value\r\nTARGET=json/acme/value.a.b"
    template = _saved(browser, rest, records.template, __blocks=typed)
    assert template["blocks"] == [
        {"block": "secret/acme-db", "env": {"GREETING": "value"}},
        {"block": "json/acme", "env": {"TARGET": "value.a.b"}},
    ]
    page = _send(browser, records.template, __blocks="GREETING=acme-db").text
    assert "type/name/field" in _problem(page, "/blocks")
    page = _send(browser, records.template, __blocks="UNKNOWN=secret/acme-db/value").text
    assert "UNKNOWN" in _problem(page, "/blocks")
    owner = sign_in(facade_url, ledger, "olga", "editor", records.company)
    assert "/blocks" not in form_fields(owner.get(f"{LIST}/{records.template}/edit").text)
    assert _saved(browser, rest, records.template, __blocks="")["blocks"] == []


def test_a_form_that_nobody_changed_changes_nothing_however_much_there_is(
    browser: httpx.Client, rest: httpx.Client, records: Records, boxed: int
) -> None:
    _saved(
        browser, rest, boxed,
        __executor_settings__labels="a=b", __executor_settings__cpu="2", __labels="one\r\ntwo",
        __success__ChainRuntemplate__runtemplate_id="acme/Acme invoices", __success__Stop="true",
        __fail__WebHook__uri=HOOK, __fail__WebHook__secret=KEY,
        __notices__mail__on="failure", __notices__mail__to="eva@example.com",
        __notices__slack__on="late", __notices__slack__uri=HOOK,
        __retention__jobs_count="5",
    )  # fmt: skip
    before = rest.get(f"/runtemplate/{boxed}.json").json()
    assert before["labels"] == ["one", "two"]
    trail = rest.get("/auditlog.json").headers["X-Total-Count"]
    assert _saved(browser, rest, boxed) == before
    assert rest.get("/auditlog.json").headers["X-Total-Count"] == trail
