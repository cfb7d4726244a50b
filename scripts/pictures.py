"""Makes the pictures of the console in docs/images, from a facade with records of a fixed day.

    python -m scripts.pictures

Needs Chromium, as the tests in the browser do. Run twice, it makes the same files.
"""

import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from selenium.webdriver import Chrome
from sqlalchemy import insert, select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.database import migration
from jobauto_prefect.ledger.database.engine import make_engine
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import (
    Delivery,
    Event,
    EventRule,
    Job,
    OutputLine,
    RunTemplate,
    Task,
    WorkerRecord,
)
from jobauto_prefect.ledger.secrets import create_key
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from tests.support.browser import chromium
from tests.support.console import PASSWORD, add_user
from tests.support.documents import smallest
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.records import BANK_TYPE
from tests.support.servers import client, facade, user_token

IMAGES = ROOT / "docs" / "images"
WIDTH, TALLEST = 1280, 1200
NOW = datetime(2026, 5, 13, 7, 40, tzinfo=UTC)
DAY = timedelta(days=1)

APPS = (
    ("Bank statements", "Downloads the statements of a day", "bank-statements"),
    ("Invoice import", "Books the invoices of the shop", "invoice-import"),
    ("Root file system", "Warns before a disk is full", "disk-report"),
    ("Stock levels", "Sends the stock to the shop", "stock-levels"),
    ("Nightly digest", "Mails what happened", "digest"),
)
ENVIRONMENT = {
    "SINCE": {"type": "string", "description": "First day", "defval": "2026-05-01"},
    "FORMAT": {"type": "set", "options": ["pdf", "xml"], "defval": "pdf"},
}
COMPANIES = (("acme", "Acme Ltd."), ("globex", "Globex, a. s."))
SCHEDULES: Mapping[str, Mapping[str, Any]] = {
    "Bank statements": {"interv": "d", "delay": 4 * 3600},
    "Invoice import": {"interv": "h"},
    "Root file system": {"interv": "h", "delay": 600},
    "Stock levels": {"interv": "c", "cron": "30 6 * * 1-5"},
    "Nightly digest": {"interv": "c", "cron": "0 12 * * *"},
}
WARNED = "7 of 310 rows had no VAT number"


def main() -> None:
    """Make all of them."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            home=Path(folder),
            url=f"http://127.0.0.1:{free_port()}",
            prefect_api_url="http://127.0.0.1:9/api",  # where nobody answers
            timezone="Europe/Prague",
        )
        create_key(settings.key_path)
        engine = make_engine(settings.ledger_url)
        migration.upgrade(engine)
        engine.dispose()
        ledger = open_ledger(settings, clock=lambda: NOW)
        with facade(settings, ledger) as url, client(f"{url}/api/v1", user_token(ledger)) as rest:
            pages = make_records(rest, ledger)
            add_user(ledger, "eva")
            with chromium() as browser:
                sign_in(browser, url)
                for name, path in pages.items():
                    take(browser, f"{url}{path}", IMAGES / f"{name}.png")
        ledger.close()


def sign_in(browser: Chrome, url: str) -> None:
    """Fill in the form of the console."""
    browser.get(url)
    for name, text in (("login", "eva"), ("password", PASSWORD)):
        browser.find_element("name", name).send_keys(text)
    browser.find_element("css selector", "main form button").click()


def take(browser: Chrome, url: str, file: Path) -> None:
    """Take a picture of a page, or of the beginning of a long one."""
    browser.set_window_size(WIDTH, 600)
    browser.get(url)
    browser.execute_script("document.documentElement.style.overflow = 'hidden'")  # no scroll bar
    height = browser.execute_script("return document.documentElement.scrollHeight")
    browser.set_window_size(WIDTH, min(int(height), TALLEST))
    browser.save_screenshot(str(file))
    sys.stdout.write(f"{file.relative_to(ROOT)}\n")


def make_records(rest: httpx.Client, ledger: Ledger) -> Mapping[str, str]:
    """Make two companies with two weeks of jobs; return the page of each picture."""

    def post(path: str, **body: Any) -> int:
        answer = rest.post(path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.text}")
        return int(answer.json()["id"])

    kind = post("/credential_type/", **BANK_TYPE)
    apps = {
        name: post("/app/", **smallest(name=name, description=text, executable=program,
                                       environment=ENVIRONMENT))
        for name, text, program in APPS
    }  # fmt: skip
    templates: dict[tuple[str, str], int] = {}
    credential = 0
    for slug, title in COMPANIES:
        company = post("/company/", slug=slug, name=title, env={"TOWN": "Praha"})
        values = {"BANK_USER": slug, "BANK_PIN": "4711"}
        credential = post("/credential/", company_id=company, credential_type_id=kind,
                          name="Main account", values=values)  # fmt: skip
        for app, number in apps.items():
            templates[slug, app] = post("/runtemplate/", app_id=number, company_id=company,
                                        name=app, **SCHEDULES[app])  # fmt: skip
    source = post("/eventsource/", name="erp", db_connection="sqlite", db_database="/srv/erp.db")
    for slug, operation, app in (
        ("acme", "create", "Invoice import"),
        ("globex", "update", "Stock levels"),
    ):
        post("/eventrule/", event_source_id=source, evidence="invoice", operation=operation,
             runtemplate_id=templates[slug, app])  # fmt: skip
    post("/eventrule/", runtemplate_source_id=templates["acme", "Bank statements"],
         runtemplate_id=templates["acme", "Nightly digest"])  # fmt: skip
    rest.headers["X-Request-ID"] = "nightly-change-17"
    post("/company/", id=1, email="it@acme.example", retention={"jobs_days": 400})
    entry = max(map(int, rest.get("/auditlog.json").raise_for_status().json()))
    post("/user/", login="tom", email="tom@acme.example", roles=["editor"])
    job, task, event = _add_past(ledger, templates, source)
    template = templates["globex", "Bank statements"]
    return {
        "console-start": "/",
        "console-run-templates": "/console/runtemplates",
        "console-job": f"/console/jobs/{job}",
        "console-jobs": "/console/jobs",
        "console-task": f"/console/tasks/{task}",
        "console-calendar": f"/console/tasks/calendar?template={template}",
        "console-company-form": "/console/companies/1/edit",
        "console-credential-form": f"/console/credentials/{credential}/edit",
        "console-event": f"/console/events/{event}",
        "console-rules": "/console/rules",
        "console-audit-entry": f"/console/audit/{entry}",
        "console-users": "/console/users",
        "facade-jobs": "/api/v1/jobs.html",
    }


def _add_past(
    ledger: Ledger, templates: Mapping[tuple[str, str], int], source: int
) -> tuple[int, int, int]:
    """Add jobs, windows, workers and an event; return a failed job, its task and the event."""
    with ledger.writing(SERVICE) as session:
        found = {each.id: each for each in session.scalars(select(RunTemplate))}

        def job(place: tuple[str, str], due: datetime, state: str, **more: Any) -> Job:
            template = found[templates[place]]
            fields: dict[str, Any] = {
                "app_id": template.app_id,
                "company_id": template.company_id,
                "runtemplate_id": template.id,
                "schedule_type": "scheduled",
                "executor": "Native",
                "schedule": due,
                "begin": due,
                "end": due + timedelta(seconds=40 + due.hour * 13),
                "state": state,
                "command": f"{template.app.document['executable']} --since 2026-05-01",
                "worker": "vm1-jobauto",
            }
            if state == "succeeded":
                fields |= {"severity": "success", "exitcode": 0}
            made = Job(**{**fields, **more})
            session.add(made)
            session.flush()
            return made

        places = list(templates)
        for day in range(13, 0, -1):
            for number in range(13, -1, -1):
                due = NOW - day * DAY - timedelta(hours=number, minutes=20)
                place = places[(number * 3 + day) % len(places)]
                if (day * day + number) % (9 + day) == 3:
                    job(place, due, "failed", severity="error", exitcode=1,
                        message="the bank did not answer within 30 s")  # fmt: skip
                else:
                    job(place, due, "succeeded")
            start = NOW.replace(hour=22, minute=0) - (day + 1) * DAY
            ended = {"state": "failed", "reason": "outcome"} if day == 6 else {"state": "fulfilled"}
            task = Task(runtemplate_id=templates["globex", "Bank statements"], window_start=start,
                        window_end=start + DAY, deadline=start + DAY, attempts=1)  # fmt: skip
            task.reason, task.state = ended.get("reason"), ended["state"]
            session.add(task)
        for hours, place in ((3, ("globex", "Bank statements")), (7, ("globex", "Invoice import"))):
            job(place, NOW - timedelta(hours=hours), "warning", severity="warning", exitcode=2,
                message=WARNED)  # fmt: skip
        window = NOW.replace(hour=0, minute=0) - timedelta(hours=2)
        task = Task(runtemplate_id=templates["acme", "Bank statements"], window_start=window - DAY,
                    window_end=window, deadline=window + timedelta(hours=6), state="failed",
                    reason="outcome", message="no attempt is left", attempts=1)  # fmt: skip
        missed = Task(runtemplate_id=templates["globex", "Stock levels"], window_start=window,
                      window_end=window + DAY, deadline=window + timedelta(hours=1),
                      state="missed", reason="misfire",
                      message="its window passed while no worker was alive")  # fmt: skip
        session.add_all([task, missed])
        session.flush()
        failed = job(("acme", "Bank statements"), NOW - timedelta(hours=3, minutes=20), "failed",
                     severity="error", exitcode=1, task_id=task.id, attempt=1,
                     message="the bank did not answer within 30 s")  # fmt: skip
        running = {"end": None, "exitcode": None}
        job(("acme", "Invoice import"), NOW - timedelta(minutes=2), "running", **running)
        job(("globex", "Nightly digest"), NOW - timedelta(minutes=75), "running", **running)
        waiting = {"begin": None, "worker": None, "command": None, **running}
        job(("globex", "Bank statements"), NOW - timedelta(minutes=7), "scheduled", **waiting)
        job(("acme", "Nightly digest"), NOW + timedelta(hours=4), "scheduled", **waiting)
        for number, (name, pool, seen) in enumerate(
            (("vm1-jobauto", "jobauto", NOW), ("vm2-batch", "batch", NOW - timedelta(hours=5)))
        ):
            worker = WorkerRecord(name=name, pool=pool, host=name.partition("-")[0], limit=4)
            worker.instance, worker.seen_at = UUID(int=number + 1), seen
            session.add(worker)
        rule = session.scalars(select(EventRule).order_by(EventRule.id)).first()
        assert rule is not None
        event = Event(kind="change", event_source_id=source, evidence="invoice", operation="create",
                      inversion=4711, record_id="2026-0815", created_at=NOW,
                      emitted_at=NOW, data={"total": 1210, "currency": "CZK"})  # fmt: skip
        session.add(event)
        session.flush()
        session.add(Delivery(event_id=event.id, rule_id=rule.id, state="dead", created_at=NOW,
                             error="the run template is not active"))  # fmt: skip
        lines = (
            "reads https://bank.example/statements since 2026-05-01",
            "account 1234: 3 statements",
            "account 5678: waits for the bank …",
        )
        texts = [(line, "stdout") for line in lines]
        texts += [("the bank did not answer within 30 s", "stderr")]
        session.execute(insert(OutputLine), [
            {"job_id": failed.id, "seq": seq, "stream": stream, "at": failed.begin, "text": text}
            for seq, (text, stream) in enumerate(texts, 1)
        ])  # fmt: skip
        return failed.id, task.id, event.id


if __name__ == "__main__":
    main()
