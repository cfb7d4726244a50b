"""Run templates in the console: find one, see how it does, pause it."""

import re

import httpx
import pytest
from sqlalchemy import insert, select

from jobauto_prefect.ledger.records import Company, RunTemplate
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import links, post
from tests.support.console_records import HOSTILE, Records
from tests.support.records import BANK_PIN
from tests.support.secrets import SECRET

LIST = "/console/runtemplates"
MANY = 1200
"""More than the contract gives at a time."""


def _names(page: str) -> set[str]:
    cells = re.findall(r'<td class="is-link" data-label="Name"><a [^>]*>([^<]*)</a>', page)
    return set(cells)


def test_each_row_tells_the_last_jobs_the_next_window_and_the_schedule(
    browser: httpx.Client, records: Records
) -> None:
    page = browser.get(LIST).text

    assert "Acme invoices" in _names(page)
    strips = re.findall(r'<span class="strip">(.*?)</td>', page)
    marks = [re.findall(r'class="mark (\w*)"', strip) for strip in strips]
    assert marks == [["bad", "warn", "good", "live"], ["good"]]
    assert "each Mon\N{EN DASH}Fri at 6:30" in page
    assert re.search(r'data-label="Next start"><time datetime="[^"]+" title="[^"]+">in ', page)
    assert re.search(r'href="/console/jobs/\d+" class="mark bad" title="failed, \d+ min ago"', page)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=acme+inv", True),
        ("name=nothing", False),
        ("topic=sklad", True),
        ("credential_id={credential}", True),
        ("credential_id=999999", False),
        ("active=false", False),
        ("active=true", True),
        ("company_id={company}", True),
        ("company_id={company}&name=nothing", False),
    ],
)
def test_a_list_is_narrowed_and_its_address_says_how(
    browser: httpx.Client, records: Records, query: str, expected: bool
) -> None:
    page = browser.get(f"{LIST}?{query.format(**vars(records))}").text
    assert ("Acme invoices" in _names(page)) is expected
    assert ("Nothing matches." in page) is not expected
    assert 'href="/console/runtemplates">Show all</a>' in page


def test_a_page_tells_values_with_their_sources_windows_and_credentials(
    browser: httpx.Client, records: Records
) -> None:
    page = browser.get(f"{LIST}/{records.template}").text

    rows = dict(
        re.findall(r'title="(\w+)">[^<]*</span></td>.*?data-label="Source">(.*?)</td>', page)
    )
    assert "this run template" in rows["GREETING"]
    assert "company Acme" in rows["COMPANY_TOWN"]
    assert "application default" in rows["COUNT"]
    assert "Acme town" in page or "acme town" in page
    assert page.count(" UTC</span>") == 12  # six windows with their deadlines
    assert f'href="/console/credentials/{records.credential}"' in page
    assert page.count('class="mark') == 4
    for secret in (SECRET, BANK_PIN):
        assert secret not in page
    assert f'href="/console/runtemplates/{records.template}/run">Run</a>' in page


def test_windows_are_told_by_the_clock_of_their_zone(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    rest.post(f"/runtemplate/{records.template}.json", json={"timezone": "Asia/Tokyo"})
    page = browser.get(f"{LIST}/{records.template}").text
    assert page.count(" 06:30 JST</span>") == 12


def test_names_that_are_hostile_are_text(browser: httpx.Client, records: Records) -> None:
    for path in (LIST, f"{LIST}/{records.foreign['template']}"):
        page = browser.get(path).text
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert HOSTILE not in page


def test_it_is_paused_and_resumed(
    browser: httpx.Client, records: Records, rest: httpx.Client
) -> None:
    address = f"{LIST}/{records.template}"
    for verb, active in (("pause", False), ("resume", True)):
        answer = post(browser, f"{address}/{verb}")
        assert answer.status_code == 303
        done = browser.get(answer.headers["location"])
        assert '<p class="notification" role="status">' in done.text
        assert rest.get(f"/runtemplate/{records.template}.json").json()["active"] is active
        assert (f'action="{address}/resume"' in done.text) is not active
        assert (f'action="{address}/pause"' in done.text) is active
        assert (f"{address}/run" in done.text) is active
    assert "no jobs start until it is resumed" not in done.text


def test_a_viewer_sees_no_button_and_nothing_of_others(
    viewer: httpx.Client, records: Records
) -> None:
    listed = viewer.get(LIST).text
    assert _names(listed) == {"Acme invoices"}
    assert "New run template" not in listed
    page = viewer.get(f"{LIST}/{records.template}").text
    assert 'class="action' not in page
    assert viewer.get(f"{LIST}/{records.foreign['template']}").status_code == 404
    for verb in ("pause", "resume"):
        assert post(viewer, f"{LIST}/{records.template}/{verb}").status_code == 403
    assert post(viewer, f"{LIST}/{records.foreign['template']}/pause").status_code == 404


def test_it_is_in_the_language_of_the_visitor(browser: httpx.Client, records: Records) -> None:
    czech = {"Accept-Language": "cs"}
    listed = browser.get(LIST, headers=czech).text
    assert "vždy po\N{EN DASH}pá v 6:30" in listed
    assert "Poslední úlohy" in listed
    page = browser.get(f"{LIST}/{records.template}", headers=czech).text
    for text in ("Sonda", "tato šablona", "společnost Acme", "Příští okna", "Pozastavit"):
        assert text in page, text


def test_every_link_leads_somewhere(browser: httpx.Client, records: Records) -> None:
    for path in (LIST, f"{LIST}/{records.template}"):
        for address in sorted(links(browser.get(path).text)):
            if not address.startswith("/console/jobs"):  # some of the next pages
                assert browser.get(address).status_code == 200, address


def test_filters_and_forms_offer_all_there_are(
    browser: httpx.Client, records: Records, ledger: Ledger
) -> None:
    fields = {"created_at": ledger.clock(), "updated_at": ledger.clock()}
    companies, templates = Company.__table__, RunTemplate.__table__
    chosen = select(templates).where(templates.c.id == records.template)
    with ledger.engine.connect() as connection:
        example = dict(connection.execute(chosen).one()._mapping) | fields
    del example["id"]
    named = [{**example, "name": f"Template {number}"} for number in range(MANY)]
    # A transaction that has read first is refused by SQLite where somebody wrote since.
    with ledger.engine.begin() as connection:
        connection.execute(insert(templates), named)
        slugs = [{"slug": f"c{number}", "name": f"Company {number}"} for number in range(MANY)]
        filled = {"env": {}, "secrets": {}, "notices": {}, "notice_secrets": {}}
        connection.execute(insert(companies), [{**slug, **filled, **fields} for slug in slugs])
    page = browser.get(LIST).text
    assert page.count(">Company ") == MANY
    page = browser.get(f"{LIST}/{records.template}/edit").text
    for number in (0, MANY - 1):
        assert f'<option value="acme/Template {number}">' in page
