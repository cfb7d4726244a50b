"""Companies, credentials and applications in the console: pages and forms."""

import base64
import re

import httpx
import pytest
from markupsafe import escape

from jobauto_prefect.facade.console.notifications import NOTIFICATIONS
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import add_user, form_fields, links, post, post_file
from tests.support.console_records import HOSTILE, Records
from tests.support.records import BANK_PIN, ok
from tests.support.secrets import SECRET, secret

LOGO = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
"""A picture of one point."""

NEW_PIN = secret("n3w-p1n")


def _pages(records: Records) -> list[str]:
    return [
        "/console/companies",
        f"/console/companies/{records.company}",
        f"/console/companies/{records.foreign['company']}",
        "/console/credentials",
        f"/console/credentials/{records.credential}",
        f"/console/credentials/{records.foreign['credential']}",
        "/console/applications",
        f"/console/applications/{records.app}",
    ]


def test_pages_lead_to_each_other_and_show_no_secret(
    browser: httpx.Client, records: Records
) -> None:
    for path in _pages(records):
        page = browser.get(path).text
        assert SECRET not in page, path
        assert BANK_PIN not in page, path
        assert "<script" not in page, path
        assert HOSTILE not in page, path
        for address in sorted(links(page)):
            if not address.startswith("/console/jobs"):
                assert browser.get(address).status_code == 200, (path, address)


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/console/companies/{company}", ["acme town", "Acme invoices", "Acme bank"]),
        ("/console/credentials/{credential}", ["eva", "********", "443", "Acme invoices"]),
        (
            "/console/applications/{app}",
            ["Probe", "What to say", "COUNT", "Half done", "critical", "Acme invoices", HOSTILE],
        ),
    ],
)
def test_a_page_tells_what_there_is(
    browser: httpx.Client, records: Records, path: str, texts: list[str]
) -> None:
    page = browser.get(path.format(**vars(records))).text
    for text in texts:
        assert str(escape(text)) in page, text


def test_a_company_is_made_and_mended(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = "/console/companies/new"
    fields = form_fields(browser.get(path).text)
    sent = {
        **fields,
        "/name": "Wayne",
        "/timezone": "Europe/Prague",
        "name:/env/+0": "TOWN",
        "value:/env/+0": "Gotham",
    }
    answer = post(browser, path, sent)
    assert answer.status_code == 303, answer.text
    assert post(browser, path, sent).headers["location"] == answer.headers["location"]
    number = re.findall(r"/companies/(\d+)", answer.headers["location"])[0]
    company = rest.get(f"/company/{number}.json").json()
    assert (company["name"], company["slug"], company["enabled"]) == ("Wayne", "wayne", True)
    assert company["env"] == {"TOWN": "Gotham"}

    path = f"/console/companies/{number}/edit"
    fields = form_fields(browser.get(path).text)
    assert fields["/env/TOWN"] == "Gotham"
    sent = {**fields, "/enabled": "", "/env/TOWN": "", "/topics": "sklad"}
    assert post(browser, path, sent).status_code == 303
    company = rest.get(f"/company/{number}.json").json()
    assert (company["enabled"], company["env"], company["topics"]) == (False, {}, ["sklad"])


def test_a_company_has_a_logo_people_to_tell_and_bounds(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = f"/console/companies/{records.company}/edit"
    page = browser.get(path).text
    assert 'enctype="multipart/form-data"' in page
    sent = {
        **form_fields(page),
        "/customer": "4711",
        "/settings": "colour=red\nsize=9",
        "/notices/mail/on": "failure",
        "/notices/mail/to": "eva@example.com",
        "/retention/events_days": "0",
        "/labels": "shared",
    }
    assert post_file(browser, path, sent, "/logo", LOGO).status_code == 303
    company = rest.get(f"/company/{records.company}.json").json()
    picture = f"data:image/png;base64,{base64.b64encode(LOGO).decode()}"
    assert (company["logo"], company["customer"]) == (picture, 4711)
    assert company["settings"].splitlines() == ["colour=red", "size=9"]
    assert company["notices"] == {"mail": {"on": ["failure"], "to": ["eva@example.com"]}}
    assert (company["retention"], company["labels"]) == ({"events_days": 0}, ["shared"])
    assert f'<img src="{picture}"' in browser.get(f"/console/companies/{records.company}").text

    page = browser.get(path).text
    assert f'src="{picture}"' in page
    assert post_file(browser, path, form_fields(page), "/logo", b"").status_code == 303
    assert rest.get(f"/company/{records.company}.json").json() == company
    address = "https://example.com/logo.png"
    assert post(browser, path, {"/logo": address}).status_code == 303
    assert rest.get(f"/company/{records.company}.json").json()["logo"] == address
    assert post(browser, path, {"/logo": ""}).status_code == 303
    assert rest.get(f"/company/{records.company}.json").json()["logo"] is None


def test_a_logo_stays_chosen_where_something_else_is_wrong(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = f"/console/companies/{records.company}/edit"
    fields = form_fields(browser.get(path).text)
    answer = post_file(browser, path, {**fields, "/customer": "many"}, "/logo", LOGO)
    assert answer.status_code == 400
    again = form_fields(answer.text)
    assert again["/customer"] == "many"
    assert post_file(browser, path, {**again, "/customer": "5"}, "/logo", b"").status_code == 303
    company = rest.get(f"/company/{records.company}.json").json()
    assert company["logo"].startswith("data:image/png;base64,")
    assert post(browser, path, {"remove:/logo": "true"}).status_code == 303
    assert rest.get(f"/company/{records.company}.json").json()["logo"] is None

    text = post_file(browser, path, fields, "/logo", HOSTILE.encode(), "text/html")
    assert text.status_code == 400
    assert "choose a PNG" in text.text
    assert HOSTILE not in text.text
    broken = {"Content-Type": "multipart/form-data", "Sec-Fetch-Site": "same-origin"}
    assert browser.post(path, content=b"--", headers=broken).status_code == 400


def test_a_new_company_is_no_other(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    before = rest.get(f"/company/{records.company}.json").json()
    path = "/console/companies/new"
    sent = {**form_fields(browser.get(path).text), "/name": "Acme", "/email": "x@example.com"}
    answer = post(browser, path, sent)
    assert answer.status_code == 412
    assert "this name is taken by" in answer.text
    assert rest.get(f"/company/{records.company}.json").json() == before


def test_a_credential_is_made_of_the_fields_of_its_type_and_its_secrets_stay(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    assert "credential_type_id" in browser.get("/console/credentials/new").text
    path = (
        f"/console/credentials/new?company_id={records.company}&credential_type_id={records.kind}"
    )
    page = browser.get(path).text
    assert page.count('type="password"') == 1
    fields = form_fields(page)
    assert fields["/values/BANK_MODE"] == ""
    sent = {**fields, "/name": "Second", "/values/BANK_USER": "bob", "/values/BANK_PIN": NEW_PIN}
    wrong = post(browser, path, {**sent, "/values/BANK_PORT": "many"})
    assert wrong.status_code == 400
    assert 'aria-invalid="true"' in wrong.text
    assert NEW_PIN not in wrong.text
    answer = post(browser, path, {**sent, "/values/BANK_MODE": "test"})
    assert answer.status_code == 303, answer.text
    number = re.findall(r"/credentials/(\d+)", answer.headers["location"])[0]
    values = rest.get(f"/credential/{number}.json").json()["values"]
    assert values == {"BANK_USER": "bob", "BANK_PIN": "********", "BANK_MODE": "test"}

    path = f"/console/credentials/{number}/edit"
    page = browser.get(path).text
    assert "A value is stored. Leave empty to keep it." in page
    sent = {**form_fields(page), "/values/BANK_USER": "carl", "/max_jobs": "2"}
    assert post(browser, path, sent).status_code == 303
    credential = rest.get(f"/credential/{number}.json").json()
    assert credential["values"] == values | {"BANK_USER": "carl"}
    assert credential["max_jobs"] == 2


def test_a_viewer_sees_no_button_and_nothing_of_others(
    viewer: httpx.Client, records: Records
) -> None:
    for path in _pages(records):
        answer = viewer.get(path)
        foreign = path.endswith(f"/{records.foreign['company']}") and "applications" not in path
        assert answer.status_code == (404 if foreign else 200), path
        assert not re.search('class="action["\\s]', answer.text), path
        assert "&lt;script" not in answer.text, path
    for path in (
        f"/console/companies/{records.company}/edit",
        f"/console/credentials/{records.credential}/edit",
        "/console/companies/new",
    ):
        assert viewer.get(path).status_code == 403
        assert post(viewer, path, {"/name": "x"}).status_code == 403


def test_pages_are_in_the_language_of_the_visitor(browser: httpx.Client, records: Records) -> None:
    czech = {"Accept-Language": "cs"}
    for path, text in zip(
        _pages(records),
        ["Nová společnost", "Přístupové údaje", "Upravit", "Nové přístupové údaje", "Banka",
         "Hodnoty", "Sonda", "Dřívější verze"],
        strict=True,
    ):  # fmt: skip
        assert text in browser.get(path, headers=czech).text, (path, text)


def test_lists_are_narrowed(browser: httpx.Client, records: Records) -> None:
    def cells(query: str) -> int:
        return browser.get(f"/console/{query}").text.count('data-label="Name"')

    assert cells("companies?name=ACM") == 1
    assert cells("companies?enabled=false") == 0
    assert cells(f"credentials?company_id={records.company}") == 1
    assert cells(f"credentials?credential_type_id={records.kind}") == 2
    assert cells("applications?name=prob") == 1


def test_a_member_is_added_changed_and_removed(
    browser: httpx.Client, records: Records, rest: httpx.Client, ledger: Ledger
) -> None:
    add_user(ledger, "nina", "editor")
    nina = next(
        user["id"] for user in rest.get("/users.json").json().values() if user["login"] == "nina"
    )
    company = f"/console/companies/{records.company}"
    form = f"/console/members?company_id={records.company}"
    assert form in links(browser.get(company).text)
    assert f"/console/members?user_id={nina}" in links(browser.get(f"/console/users/{nina}").text)
    for path, role, back in (
        (f"/console/members?user_id={nina}", "viewer", f"/console/users/{nina}"),
        (f"{form}&user_id={nina}", "manager", company),
    ):
        fields = form_fields(browser.get(path).text)
        assert fields["/user_id"] == "nina"
        sent = {**fields, "/company_id": str(records.company), "/role": role}
        answer = post(browser, path, sent)
        assert (answer.status_code, answer.headers["location"]) == (303, back)
        assert f"{role}: " in browser.get(company).text
        assert f"{role}: " in browser.get(f"/console/users/{nina}").text
    answer = post(browser, path, {**sent, "/role": ""})
    assert "The membership was removed." in browser.get(answer.headers["location"]).text
    assert rest.get(f"/company/{records.company}/users.json").json() == {}
    for wrong in ({"/role": ""}, {"/user_id": "nobody"}, {"/user_id": ""}):
        refused = post(browser, path, {**sent, **wrong})
        assert refused.status_code == 400, wrong
        assert 'role="alert"' in refused.text


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([("TOWN", "Brno"), ("TOWN", "Praha")], "a value TOWN exists already; change it there"),
        ([("COMPANY_TOWN", "Brno")], "a value COMPANY_TOWN exists already; change it there"),
        ([("", "Brno")], "give this value a name"),
    ],
)
def test_a_row_that_can_not_be_kept_is_told_and_stays(
    browser: httpx.Client, records: Records, rest: httpx.Client,
    rows: list[tuple[str, str]], problem: str,
) -> None:  # fmt: skip
    path = f"/console/companies/{records.company}/edit"
    before = rest.get(f"/company/{records.company}.json").json()["env"]
    fields = form_fields(browser.get(path).text)
    for number, (name, value) in enumerate(rows):
        fields |= {f"name:/env/+{number}": name, f"value:/env/+{number}": value}
    answer = post(browser, path, fields)
    assert answer.status_code == 400
    assert problem in answer.text
    again = form_fields(answer.text)
    assert again == fields
    assert rest.get(f"/company/{records.company}.json").json()["env"] == before


def test_a_form_that_comes_again_with_other_values_is_heeded(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = "/console/companies/new"
    fields = form_fields(browser.get(path).text)
    made = [
        post(browser, path, {**fields, "/name": name}).headers["location"]
        for name in ("One", "Two", "Two")
    ]
    assert made[0] != made[1] == made[2]
    path = f"/console/companies/{records.company}/edit"
    fields = form_fields(browser.get(path).text)
    for mail in ("a@x.example", "b@x.example", "a@x.example"):
        assert post(browser, path, {**fields, "/email": mail}).status_code == 303
        assert rest.get(f"/company/{records.company}.json").json()["email"] == mail


@pytest.mark.parametrize("done", NOTIFICATIONS)
def test_an_address_does_not_say_what_was_done(
    browser: httpx.Client, records: Records, done: str
) -> None:
    """Neither by its query nor by what was done on another page."""
    answer = post(browser, f"/console/runtemplates/{records.template}/pause")
    assert "?" not in answer.headers["location"]
    for page in (f"companies/{records.company}", f"runtemplates/{records.foreign['template']}"):
        text = browser.get(f"/console/{page}?done={done}").text
        assert '<p class="notification' not in text
    text = browser.get(answer.headers["location"]).text
    assert "The run template was paused" in text
    assert '<p class="notification' not in browser.get(answer.headers["location"]).text


def test_names_show_hidden_characters_as_codes_and_forms_keep_them(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    name, note, shown = "in\u202eseciov", "one\ntwo\u2066\u200b", "in\\u202eseciov"
    body = {"slug": "zoo", "name": name}
    company = ok(rest.post("/company/", json=body), 201)["id"]
    body = {"app_id": records.app, "company_id": company, "name": name, "note": note}
    template = ok(rest.post("/runtemplate/", json=body), 201)["id"]
    for path in (
        *("/console/companies", f"/console/companies/{company}", "/console/runtemplates"),
        *(f"/console/runtemplates/{template}", "/console/rules/new", "/console/jobs"),
        *(f"/console/companies/{company}/edit", f"/api/v1/company/{company}.html"),
    ):
        page = browser.get(path).text
        assert shown in page, path
        assert "\u202e" not in page or path.endswith("/edit"), path
    edit = f"/console/runtemplates/{template}/edit"
    page = browser.get(edit).text
    assert f'value="{name}"' in page
    assert post(browser, edit, form_fields(page)).status_code == 303
    stored = rest.get(f"/runtemplate/{template}.json").json()
    assert (stored["name"], stored["note"]) == (name, note)


def test_choices_name_the_company_where_names_repeat(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    company = rest.post("/company/", json={"slug": "zoo", "name": "Zoo"}).json()["id"]
    body = {"app_id": records.app, "company_id": company, "name": "Acme invoices"}
    rest.post("/runtemplate/", json=body).raise_for_status()
    for path, times in (("/console/rules/new", 2), ("/console/tasks/calendar", 1)):
        page = browser.get(path).text
        for label in ("Acme / Acme invoices", "Zoo / Acme invoices"):
            assert page.count(f">{label}</option>") == times, (path, label)


def test_rules_name_the_company_where_names_repeat(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    company = ok(rest.post("/company/", json={"slug": "zoo", "name": "Zoo"}), 201)["id"]
    body = {"app_id": records.app, "company_id": company, "name": "Acme invoices"}
    template = ok(rest.post("/runtemplate/", json=body), 201)["id"]
    body = {"runtemplate_source_id": records.template, "runtemplate_id": template}
    rule = ok(rest.post("/eventrule/", json=body), 201)["id"]
    listed, shown = (browser.get(f"/console/rules{path}").text for path in ("", f"/{rule}"))
    for label in ("Acme / Acme invoices", "Zoo / Acme invoices"):
        assert f"<title>{label}</title>" in listed
        assert f">{label}</a>" in listed
        assert f">{label}</a>" in shown


def test_what_the_console_does_is_audited_as_its_own(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    path = f"/console/runtemplates/{records.template}/run"
    answer = post(browser, path, form_fields(browser.get(path).text))
    page = browser.get(answer.headers["location"]).text
    assert "eva, in the console" in page
    job = int(answer.headers["location"].rpartition("/")[2])
    asked = {"entity_type": "Job", "entity_id": job}
    assert {e["door"] for e in rest.get("/auditlog.json", params=asked).json().values()} == {
        "console"
    }
    post(browser, "/logout")
    last = rest.get("/auditlog.json", params={"entity_type": "Token", "limit": 2}).json()
    assert {entry["door"] for entry in last.values()} == {"console"}
