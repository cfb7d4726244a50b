"""Run templates of two companies with jobs, credentials and hostile names, for the console."""

from dataclasses import dataclass
from datetime import timedelta
from http.cookiejar import Cookie
from typing import Any

import httpx
from sqlalchemy import select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import CompanyUser, Job, User
from jobauto_prefect.ledger.store import Ledger
from tests.support.beginnings import begin_with
from tests.support.console import add_user, cookie_name, submit, visitor
from tests.support.definitions import PROBE
from tests.support.records import BANK_PIN, BANK_TYPE, ok
from tests.support.secrets import SECRET

HOSTILE = '<script>alert("x")</script> & Co.'


@dataclass(frozen=True)
class Records:
    """Ids of what there is; `template` has jobs, values of every source and a credential."""

    app: int
    company: int
    template: int
    credential: int
    kind: int
    foreign: dict[str, int]
    """A company, a run template and a credential whose names are hostile."""


def make_records(rest: httpx.Client, ledger: Ledger) -> Records:
    """Make them."""
    app = ok(rest.post("/app/", json=PROBE), 201)["id"]
    kind = ok(rest.post("/credential_type/", json=BANK_TYPE), 201)["id"]
    ok(rest.post("/topic/", json={"name": "sklad"}), 201)
    made = []
    for slug, name in (("acme", "Acme"), ("globex", HOSTILE)):
        env = {"COMPANY_TOWN": f"{slug} town"}
        body = {"slug": slug, "name": name, "env": env}
        company = ok(rest.post("/company/", json=body), 201)["id"]
        values = {"BANK_USER": "eva", "BANK_PIN": BANK_PIN}
        body = {"company_id": company, "credential_type_id": kind, "values": values}
        credential = ok(rest.post("/credential/", json={**body, "name": f"{name} bank"}), 201)["id"]
        template = _make_template(rest, app, company, credential, f"{name} invoices")
        made.append({"company": company, "credential": credential, "template": template})
    acme, globex = made
    _add_jobs(ledger, app, acme, ("failed", "warning", "succeeded", "running"))
    _add_jobs(ledger, app, globex, ("succeeded",))
    return Records(app, acme["company"], acme["template"], acme["credential"], kind, foreign=globex)


def _make_template(rest: httpx.Client, app: int, company: int, credential: int, name: str) -> int:
    body = {
        "app_id": app,
        "company_id": company,
        "name": name,
        "interv": "c",
        "cron": "30 6 * * 1-5",
        "topics": ["sklad"],
        "env": {"GREETING": HOSTILE, "PASSWORD": SECRET},
        "credentials": [credential],
    }
    return int(ok(rest.post("/runtemplate/", json=body), 201)["id"])


def _add_jobs(ledger: Ledger, app: int, ids: dict[str, int], states: tuple[str, ...]) -> None:
    now = ledger.clock()
    with ledger.writing(SERVICE) as session:
        session.add_all(
            Job(
                app_id=app,
                company_id=ids["company"],
                runtemplate_id=ids["template"],
                schedule_type="adhoc",
                executor="Native",
                schedule=now - timedelta(hours=1),
                begin=now - timedelta(hours=1),
                end=None if state == "running" else now - timedelta(minutes=5),
                state=state,
                overrides={"GREETING": "ahoj", "COUNT": "9"},
            )
            for state in states
        )


def sign_in(
    url: str, ledger: Ledger, login: str, role: str, company: int | None = None, **more: Any
) -> httpx.Client:
    """Somebody of this role, who belongs to a company, signed in to the console."""

    def make() -> Cookie:
        add_user(ledger, login, role)
        if company is not None:
            with ledger.writing(SERVICE) as session:
                user = session.scalars(select(User).where(User.login == login)).one()
                member = CompanyUser(company_id=company, user_id=user.id, role="viewer")
                member.created_at = ledger.clock()
                session.add(member)
        with visitor(url) as browser:
            assert submit(browser, login).status_code == 303
            return next(iter(browser.cookies.jar))

    kept = begin_with(ledger, f"{login}, {role} of {company}, signed in", make)
    kept.name = cookie_name(url)  # which has the port
    browser = visitor(url, **more)
    browser.cookies.jar.set_cookie(kept)
    return browser
