"""Topics, calendars and credential types in the console: pages and forms."""

import re
from typing import Any

import httpx
import pytest
from markupsafe import escape

from jobauto_prefect.ledger.store import Ledger
from tests.support.console import form_fields, links, post
from tests.support.console_records import HOSTILE, Records, sign_in
from tests.support.records import ok


@pytest.fixture
def editor(facade_url: str, records: Records, ledger: Ledger) -> httpx.Client:
    """Somebody who may change what one company has."""
    return sign_in(facade_url, ledger, "ida", "editor", records.company)


@pytest.fixture
def pages(rest: httpx.Client, records: Records) -> dict[str, str]:
    """The addresses of lists and of hostile records."""
    body: dict[str, Any] = {"name": HOSTILE, "description": HOSTILE, "color": "FF0000"}
    body["company_id"] = str(records.company)
    topic = ok(rest.post("/topic/", json=body), 201)["id"]
    closed = {"date": "2026-12-24", "until": "2026-12-26", "yearly": True, "title": HOSTILE}
    body = {"name": HOSTILE, "days": [closed]}
    calendar = ok(rest.post("/calendar/", json=body), 201)["id"]
    field = {"keyword": "A_KEY", "name": HOSTILE, "hint": HOSTILE, "default_value": HOSTILE}
    body = {"code": "hostile", "name": HOSTILE, "description": HOSTILE, "fields": [field]}
    body |= {"url": f"javascript:{HOSTILE}", "company_id": records.company}
    kind = ok(rest.post("/credential_type/", json=body), 201)["id"]
    return {
        "topics": "/console/topics",
        "topic": f"/console/topics/{topic}",
        "calendars": "/console/calendars",
        "calendar": f"/console/calendars/{calendar}",
        "types": "/console/credentialtypes",
        "type": f"/console/credentialtypes/{kind}",
    }


def test_pages_lead_to_each_other_and_names_are_texts(
    browser: httpx.Client, pages: dict[str, str]
) -> None:
    for path in (*pages.values(), *(f"{list_}/new" for list_ in _lists(pages))):
        page = browser.get(path).text
        assert "<script" not in page, path
        assert page.count('aria-current="true"') == 1, path
        for address in sorted(links(page)):
            assert browser.get(address).status_code == 200, (path, address)
    for name in _records(pages):
        assert str(escape(HOSTILE)) in browser.get(pages[name]).text


def _lists(pages: dict[str, str]) -> list[str]:
    return [path for name, path in pages.items() if name.endswith("s")]


def _records(pages: dict[str, str]) -> list[str]:
    return [name for name in pages if not name.endswith("s")]


def test_a_viewer_sees_no_button_and_sends_nothing(
    viewer: httpx.Client, pages: dict[str, str]
) -> None:
    for path in pages.values():
        answer = viewer.get(path)
        assert answer.status_code == 200
        assert not re.search('class="action["\\s]', answer.text), path
    forms = [f"{pages[name]}/edit" for name in _records(pages)]
    for form in (*forms, *(f"{path}/new" for path in _lists(pages))):
        assert viewer.get(form).status_code == 403
        assert post(viewer, form, {"/name": "x"}).status_code == 403


def test_an_editor_changes_what_is_of_the_company_and_nothing_shared(
    editor: httpx.Client, pages: dict[str, str], rest: httpx.Client
) -> None:
    shared = next(key for key, topic in rest.get("/topics.json").json().items()
                  if topic["company_id"] is None)  # fmt: skip
    assert f"{pages['topic']}/edit" in links(editor.get(pages["topic"]).text)
    answer = post(editor, f"{pages['topic']}/edit", {"/description": "changed"})
    assert answer.status_code == 303, answer.text
    assert f"/console/topics/{shared}/edit" not in editor.get(f"/console/topics/{shared}").text
    assert editor.get(f"/console/topics/{shared}/edit").status_code == 403


def test_a_topic_is_made_changed_and_shows_who_bears_it(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = "/console/topics/new"
    sent = {**form_fields(browser.get(path).text), "/name": "night"}
    refused = post(browser, path, {**sent, "/color": "red"})
    assert refused.status_code == 400
    assert 'aria-invalid="true"' in refused.text
    made = post(browser, path, sent)
    assert made.status_code == 303, made.text
    again = post(browser, path, {**form_fields(browser.get(path).text), "/name": "night"})
    assert again.status_code == 412
    address = made.headers["location"].partition("?")[0]
    assert "No run template has this topic." in browser.get(address).text
    assert post(browser, f"{address}/edit", {"/color": "00FF00"}).status_code == 303
    topic = rest.get(f"/topic/{address.rpartition('/')[2]}.json").json()
    assert (topic["name"], topic["color"], topic["company_id"]) == ("night", "00FF00", None)
    body = {"id": records.template, "topics": ["night"]}
    rest.post("/runtemplate/", json=body).raise_for_status()
    page = browser.get(address).text
    assert "Acme invoices" in page
    assert topic["prefect_url"].replace("&", "&amp;") in page


def test_a_calendar_is_made_of_lines_and_changed(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = "/console/calendars/new"
    sent = {
        **form_fields(browser.get(path).text),
        "/name": "Feasts",
        "/days": "2026-12-24/2026-12-26 yearly Christmas\r\n\r\n2026-05-01",
        "/times": "22:00-6:00 sat,sun night",
    }
    wrong = post(browser, path, {**sent, "/days": "2026-02-30 there is none"})
    assert wrong.status_code == 400
    assert "2026-02-30 there is none" in wrong.text
    assert 'aria-invalid="true"' in wrong.text
    refused = post(browser, path, {**sent, "/periods": "2026-02-02T10:00/2026-02-02T09:00"})
    assert refused.status_code == 400
    assert "it must end after its start" in refused.text
    made = post(browser, path, sent)
    assert made.status_code == 303, made.text
    address = made.headers["location"].partition("?")[0]
    number = address.rpartition("/")[2]
    calendar = rest.get(f"/calendar/{number}.json").json()
    christmas = {"date": "2026-12-24", "until": "2026-12-26", "yearly": True, "title": "Christmas"}
    assert calendar["days"] == [christmas, {"date": "2026-05-01"}]
    night = {"from": "22:00", "to": "06:00", "weekdays": ["sat", "sun"], "title": "night"}
    assert calendar["times"] == [night]
    page = browser.get(address).text
    for text in ("2026-12-24", "Christmas", "Sat, Sun", "22:00"):
        assert text in page

    form = browser.get(f"{address}/edit").text
    assert "2026-12-24/2026-12-26 yearly Christmas\n2026-05-01" in form
    assert post(browser, f"{address}/edit", form_fields(form)).status_code == 303
    assert rest.get(f"/calendar/{number}.json").json()["updated_at"] == calendar["updated_at"]
    assert post(browser, f"{address}/edit", {"/days": ""}).status_code == 303
    changed = rest.get(f"/calendar/{number}.json").json()
    assert (changed["days"], changed["times"]) == ([], [night])


def test_a_credential_type_is_made_changed_and_used(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = "/console/credentialtypes/new"
    sent = {
        **form_fields(browser.get(path).text),
        "/code": "Relay",
        "/name": "en: Relay\r\ncs: Relé",
        "/fields": '[{"keyword": "RELAY_PIN", "type": "password", "default_value": "4711"}]',
        "/tags": "mail, net",
    }
    wrong = post(browser, path, {**sent, "/fields": "[{"})
    assert wrong.status_code == 400
    assert "this is not valid JSON" in wrong.text
    refused = post(browser, path, {**sent, "/fields": '[{"keyword": "no key"}]'})
    assert refused.status_code == 400
    assert 'aria-invalid="true"' in refused.text
    made = post(browser, path, sent)
    assert made.status_code == 303, made.text
    address = made.headers["location"].partition("?")[0]
    kind = rest.get(f"/credential_type/{address.rpartition('/')[2]}.json").json()
    assert kind["translations"] == {"name": {"en": "Relay", "cs": "Relé"}}
    assert (kind["tags"], kind["company_id"]) == (["mail", "net"], None)
    page = browser.get(address, headers={"Accept-Language": "cs"}).text
    assert "<h1>Relé</h1>" in page
    assert "4711" not in page
    assert f"/console/credentials/new?credential_type_id={kind['id']}" in links(page)

    form = form_fields(browser.get(f"{address}/edit").text)
    assert form["/name"] == "en: Relay\ncs: Relé"
    assert post(browser, f"{address}/edit", {**form, "/version": "2"}).status_code == 303
    changed = rest.get(f"/credential_type/{kind['id']}.json").json()
    assert (changed["version"], changed["fields"]) == ("2", kind["fields"])
    assert changed["translations"] == kind["translations"]


def test_pages_are_in_the_language_of_the_visitor(
    browser: httpx.Client, pages: dict[str, str]
) -> None:
    czech = {"Accept-Language": "cs"}
    titles = ("Témata", "Kalendáře", "Typy přístupových údajů")
    for path, title in zip(_lists(pages), titles, strict=True):
        assert f"<h1>{title}</h1>" in browser.get(path, headers=czech).text
    for name in _records(pages):
        assert "Upravit" in browser.get(pages[name], headers=czech).text
