"""Events, event rules, audit and users in the console."""

import html
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from markupsafe import escape
from sqlalchemy.event import listen, remove

from jobauto_prefect.facade.auth import token_cache
from jobauto_prefect.facade.console.records import events, rules
from jobauto_prefect.facade.resources import lists
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import (
    Credential,
    CredentialType,
    Delivery,
    Event,
    EventRule,
)
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import form_fields, post
from tests.support.console_records import HOSTILE, Records
from tests.support.ledger_rows import fetch_one
from tests.support.records import ok
from tests.support.secrets import SECRET, secret
from tests.support.waits import eventually

PASSWORD = secret("modrá Tatra jede 5")


@pytest.fixture
def rule(rest: httpx.Client, records: Records) -> int:
    """The end of the one company's run template starts a second one of it."""
    body = {"app_id": records.app, "company_id": records.company, "name": f"{HOSTILE} after"}
    after = ok(rest.post("/runtemplate/", json=body), 201)["id"]
    body = {"runtemplate_source_id": records.template, "runtemplate_id": after, "on": "failure"}
    return int(ok(rest.post("/eventrule/", json=body), 201)["id"])


@pytest.fixture
def dead_event(rule: int, records: Records, ledger: Ledger) -> int:
    """An event whose delivery to the rule died."""
    with ledger.writing(SERVICE) as session:
        event = Event(
            kind="completion",
            runtemplate_id=records.template,
            company_id=records.company,
            job_id=1,
            operation="failure",
            data={"note": HOSTILE},
            depth=0,
            created_at=session.clock(),
        )
        session.add(event)
        session.flush()
        session.add(
            Delivery(
                event_id=event.id,
                rule_id=rule,
                state="dead",
                error=f"no work pool for {HOSTILE}",
                created_at=session.clock(),
            )
        )
        return event.id


def test_an_event_tells_what_it_started_and_is_tried_again(
    browser: httpx.Client, dead_event: int, ledger: Ledger
) -> None:
    listed = browser.get("/console/events?state=dead").text
    assert f'href="/console/events/{dead_event}"' in listed
    page = browser.get(f"/console/events/{dead_event}").text
    assert '<span class="badge bad">dead</span>' in page
    assert "no work pool for &lt;script&gt;" in page

    answer = post(browser, f"/console/events/{dead_event}/replay")
    assert answer.status_code == 303
    done = browser.get(answer.headers["location"]).text
    assert "The starts were repeated." in done
    assert "Repeat failed starts" not in done
    delivery = fetch_one(ledger, Delivery)
    assert (delivery.state, delivery.error) != ("dead", f"no work pool for {HOSTILE}")


def test_rules_are_a_picture_and_a_table(
    browser: httpx.Client, rule: int, records: Records
) -> None:
    page = browser.get("/console/rules").text
    assert page.count('<rect class="template"') == 2
    assert len(re.findall(r'<path class="arrow" d="M[\d., C-]+"', page)) == 1
    assert f'data-label="Origin"><a href="/console/runtemplates/{records.template}"' in page
    assert "After failure" in page
    assert 'href="/console/runtemplates/' in page


def test_more_rules_than_a_page_shows_are_said_turned_and_narrowed(
    browser: httpx.Client,
    rule: int,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
    rest: httpx.Client,
) -> None:
    monkeypatch.setattr(rules.RulePages, "page_length", 1)
    body = {"runtemplate_source_id": records.foreign["template"]}
    body |= {"runtemplate_id": records.template}
    other = ok(rest.post("/eventrule/", json=body), 201)["id"]
    page = browser.get("/console/rules").text
    assert "Diagram and table show 1 of 2 rules." in page
    assert f'href="/console/rules/{rule}"' in page
    assert f'href="/console/rules/{other}"' not in page
    (following,) = re.findall(r'href="(/console/rules\?[^"]*cursor=[^"]*)"', page)
    assert f'href="/console/rules/{other}"' in browser.get(html.unescape(following)).text
    query = f"runtemplate_source_id={records.foreign['template']}"
    narrowed = browser.get(f"/console/rules?{query}").text
    assert f'href="/console/rules/{other}"' in narrowed
    assert "There are" not in narrowed
    assert str(escape(f"{HOSTILE} invoices")) in narrowed


def test_an_event_names_its_run_templates_whatever_the_list_of_rules_holds(
    browser: httpx.Client, dead_event: int, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MAX_PAGE", 0)
    page = browser.get(f"/console/events/{dead_event}").text
    assert "Co. after</a>" in page
    assert "Start &lt;script&gt;" in page
    monkeypatch.setattr(events, "MAX_NAMED", 0)
    page = browser.get(f"/console/events/{dead_event}").text
    assert "Co. after" not in page
    assert 'data-label="Event rule"><span class="text">#' in page


def test_rules_and_credentials_lead_to_what_prefect_has_of_them(
    browser: httpx.Client, rule: int, records: Records, ledger: Ledger
) -> None:
    made = uuid4()
    with ledger.writing(SERVICE) as session:
        session.get_one(EventRule, rule).automation_id = made
        session.get_one(Credential, records.credential).block_document_id = made
        session.get_one(CredentialType, records.kind).block_type_id = made
    page = browser.get(f"/console/rules/{rule}").text
    assert f"/automations/automation/{made}" in page
    page = browser.get(f"/console/credentials/{records.credential}").text
    assert f"/blocks/block/{made}" in page


def test_without_rules_the_page_says_what_they_are_for(
    browser: httpx.Client, records: Records
) -> None:
    page = browser.get("/console/rules").text
    assert "There are no event rules yet." in page
    assert '<svg class="rules"' not in page


def test_a_rule_is_made_and_changed_by_a_form(
    browser: httpx.Client, rule: int, records: Records, rest: httpx.Client
) -> None:
    made = {
        "/runtemplate_source_id": str(records.foreign["template"]),
        "/runtemplate_id": str(records.template),
        "/on": "any",
        "/env_mapping": '{"GREETING": "message"}',
        "/enabled": "",
    }
    answer = post(browser, "/console/rules/new", made)
    assert answer.status_code == 303, answer.text
    page = browser.get(answer.headers["location"]).text
    assert "Saved." in page
    assert re.search(r"<code>GREETING</code></td>\s*<td[^>]*><code>message</code>", page)
    address = answer.headers["location"].partition("?")[0]
    assert "GREETING" in browser.get(f"{address}/edit").text
    refused = post(browser, f"{address}/edit", {"/env_mapping": "{"})
    assert refused.status_code == 400
    assert 'role="alert"' in refused.text
    assert post(browser, f"{address}/edit", {"/priority": "7"}).status_code == 303
    stored = rest.get(f"/eventrule/{address.rpartition('/')[2]}.json").json()
    assert (stored["priority"], stored["enabled"]) == (7, False)
    assert stored["env_mapping"] == {"GREETING": "message"}


def test_a_rule_is_shown_and_changed_where_lists_are_longer_than_a_page(
    browser: httpx.Client, rule: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MAX_PAGE", 1)  # the run template that it starts comes later
    page = browser.get(f"/console/rules/{rule}").text
    assert f'href="/console/rules/{rule}/edit"' in page
    assert "Co. after</a>" in page
    assert browser.get(f"/console/rules/{rule}/edit").status_code == 200


def test_a_source_is_made_asked_and_its_password_never_shown(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    fields = {
        "/name": f"{HOSTILE} source",
        "/db_connection": "pgsql",
        "/db_database": "nowhere",
        "/db_host": "127.0.0.1",
        "/db_port": "9",
        "/db_password": SECRET,
        "/enabled": "",
    }
    answer = post(browser, "/console/sources/new", fields)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"].partition("?")[0]
    asked = post(browser, f"{address}/test")
    assert (asked.status_code, asked.headers["location"]) == (303, address)
    asked = browser.get(address)
    assert "The connection does not work." in asked.text
    assert asked.text.count('role="alert"') == 2
    assert 'role="alert"' not in browser.get(address).text
    for page in (
        answer.text,
        asked.text,
        *(browser.get(address + end).text for end in ("", "/edit")),
    ):
        assert SECRET not in page
        assert "<script>alert" not in page
    assert "A value is stored" in browser.get(f"{address}/edit").text
    assert post(browser, f"{address}/edit", {"/poll_interval": "30"}).status_code == 303
    stored = rest.get(f"/eventsource/{address.rpartition('/')[2]}.json").json()
    assert (stored["poll_interval"], stored["db_password"]) == (30, "********")
    assert "&lt;script&gt;" in browser.get("/console/sources").text


def test_an_entry_of_the_audit_shows_before_and_after(
    browser: httpx.Client, rest: httpx.Client, records: Records
) -> None:
    rest.post("/runtemplate/", json={"id": records.template, "note": HOSTILE}).raise_for_status()
    query = f"entity_type=RunTemplate&entity_id={records.template}&action=update"
    listed = browser.get(f"/console/audit?{query}").text
    newest = re.findall(r'href="(/console/audit/\d+)"', listed)[0]
    page = browser.get(newest).text
    (row,) = re.findall(r"<code>note</code></td>(.*?)</tr>", page, re.DOTALL)
    assert "&lt;script&gt;" in row
    assert 'data-label="Before"><span class="none">' in row
    assert f'href="/console/runtemplates/{records.template}"' in page


def test_a_user_is_made_changed_and_told_what_is_wrong(
    browser: httpx.Client, rest: httpx.Client, records: Records
) -> None:
    weak = secret("petr petr")
    fields = {"/login": "petr", "/enabled": "true", "/roles": "editor", "/password": weak}
    refused = post(browser, "/console/users/new", fields)
    assert refused.status_code == 400
    assert 'value="petr"' in refused.text
    assert re.search(r'class="problem" role="alert"[^>]*>[^<]*password', refused.text)
    assert weak not in refused.text

    made = post(browser, "/console/users/new", {**fields, "/password": PASSWORD})
    assert made.status_code == 303, made.text
    page = browser.get(made.headers["location"]).text
    assert "Saved." in page
    assert "Changes and runs existing records" in page
    address = made.headers["location"].partition("?")[0]
    changed = {"/login": "petr", "/enabled": "", "/firstname": HOSTILE, "/roles": ""}
    assert post(browser, f"{address}/edit", changed).status_code == 303
    user = rest.get(f"/user/{address.rpartition('/')[2]}.json").json()
    assert (user["enabled"], user["firstname"], user["roles"]) == (False, HOSTILE, [])
    assert "&lt;script&gt;" in browser.get(address).text


def test_a_viewer_sees_no_button_and_nothing_of_others(
    viewer: httpx.Client, dead_event: int, records: Records
) -> None:
    page = viewer.get(f"/console/events/{dead_event}").text
    assert "/replay" not in page
    assert post(viewer, f"/console/events/{dead_event}/replay").status_code == 403
    assert "There are no entries yet." in viewer.get("/console/audit").text
    users = viewer.get("/console/users").text
    assert ("New user" in users, ">eva<" in users, ">tom<" in users) == (False, False, True)
    assert 'href="/console/audit"' not in users


BESIDE = ("outbox_message", "clock_timestamp")
"""Asked beside the pages: what waits for Prefect, and the time."""


def test_of_what_a_visitor_may_not_see_a_rule_tells_the_number_alone(
    viewer: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    foreign = records.foreign["template"]
    body = {"runtemplate_source_id": foreign, "runtemplate_id": records.template}
    rule = ok(rest.post("/eventrule/", json=body), 201)["id"]
    for path in ("/console/rules", f"/console/rules/{rule}"):
        page = viewer.get(path).text
        assert f'<span class="text">#{foreign}</span>' in page
        assert f"/console/runtemplates/{foreign}" not in page
        assert str(escape(HOSTILE)) not in page
        assert "Acme invoices</a>" in page
    assert '<svg class="rules"' not in viewer.get("/console/rules").text


PATHS = (
    "/console/events",
    "/console/rules",
    "/console/sources",
    "/console/audit",
    "/console/users",
)


@pytest.mark.parametrize(
    ("language", "titles"),
    [
        ("en", ("Events", "Event rules", "Event sources", "Audit log", "Users")),
        ("cs", ("Události", "Pravidla událostí", "Zdroje událostí", "Auditní log", "Uživatelé")),
    ],
)
def test_pages_speak_the_visitors_language_and_names_are_texts(
    browser: httpx.Client, dead_event: int, language: str, titles: tuple[str, ...]
) -> None:
    for path, title in zip(PATHS, titles, strict=True):
        page = browser.get(path, headers={"Accept-Language": language}).text
        assert f"<h1>{title}</h1>" in page
        assert page.count('aria-current="page"') == 1
        assert f'<html lang="{language}">' in page
        assert "<script" not in page


def test_reading_takes_as_many_statements_for_many_as_for_one(
    browser: httpx.Client,
    dead_event: int,
    records: Records,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_cache, "REMEMBER_FOR", timedelta(days=1))
    browser.get(PATHS[0]).raise_for_status()
    few = {path: min(_asked(browser, ledger, path) for _ in range(5)) for path in PATHS}
    with ledger.writing(SERVICE) as session:
        session.add_all(
            Event(
                kind="completion",
                runtemplate_id=records.foreign["template"],
                company_id=records.foreign["company"],
                job_id=number,
                operation="success",
                data={},
                depth=0,
                created_at=session.clock(),
            )
            for number in range(100, 130)
        )
    for path in PATHS:  # now and then Prefect is tried beside it
        eventually(lambda path=path: _asked(browser, ledger, path) <= few[path])


def _asked(browser: httpx.Client, ledger: Ledger, path: str) -> int:
    """How many statements reading a page takes."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if not any(words in statement for words in BESIDE):
            asked.append(statement)

    listen(ledger.engine, "before_cursor_execute", note)
    try:
        browser.get(path).raise_for_status()
    finally:
        remove(ledger.engine, "before_cursor_execute", note)
    return len(asked)


def test_the_port_of_a_source_follows_its_kind(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    def port(number: str) -> str:
        return str(rest.get(f"/eventsource/{number}.json").json()["db_port"])

    path = "/console/sources/new"
    fields = form_fields(browser.get(path).text)
    assert fields["/db_port"] == ""
    sent = {**fields, "/name": "bank", "/db_connection": "pgsql", "/db_database": "x"}
    number = post(browser, path, sent).headers["location"].rpartition("/")[2]
    assert port(number) == "5432"
    path = f"/console/sources/{number}/edit"
    for changed, expected in (
        ({"/db_connection": "mysql"}, "3306"),
        ({"/db_connection": "pgsql"}, "5432"),
        ({"/db_port": "6000"}, "6000"),
        ({"/db_connection": "mysql"}, "6000"),
        ({"/db_port": ""}, "3306"),
    ):
        fields = form_fields(browser.get(path).text)
        assert post(browser, path, {**fields, **changed}).status_code == 303
        assert port(number) == expected
