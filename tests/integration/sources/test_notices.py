"""Notices over real sockets: who is told of which end of a job, in how many messages."""

import asyncio
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import select, update

from jobauto_prefect.cli.checks.examination import notice_findings
from jobauto_prefect.jobs import notices as told
from jobauto_prefect.jobs.windows import tasks
from jobauto_prefect.ledger import notices, queues
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.opening import open_ledger
from jobauto_prefect.ledger.records import AuditEntry, Company, Job, Notice, RunTemplate, Task
from jobauto_prefect.ledger.states import TaskReason
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.notices import NoticeSender
from tests.support.background_service import beside
from tests.support.certificates import self_made
from tests.support.claims import claim_of, granted, refused, report
from tests.support.databases import both_databases
from tests.support.ledger_rows import fetch, fetch_all
from tests.support.mail_server import PASSWORD, USER, MailServer, mail_server
from tests.support.ports import free_port
from tests.support.processes import forked
from tests.support.records import ok
from tests.support.secrets import secret
from tests.support.waits import eventually
from tests.support.webhook_receiver import Receiver, receiver

OPS = "ops@acme.example"
ALL = ["failure", "recovery", "missed", "slow", "late"]
SENDER = "jobauto@service.example"


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as made:
        yield made


@pytest.fixture
def slack() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def smtp(ledger_settings: Settings, mails: MailServer) -> Settings:
    """Settings with this mail server, and no pause between messages."""
    return with_mail(ledger_settings, mails.port)


def with_mail(settings: Settings, port: int, **members: Any) -> Settings:
    server = {"smtp_host": "127.0.0.1", "smtp_port": port, "smtp_tls": "none", "smtp_from": SENDER}
    return Settings(
        home=settings.home,
        database_url=settings.database_url,
        **{**server, "notice_seconds": 0, **members},
    )


def sending(ledger: Ledger, settings: Settings) -> AbstractContextManager[None]:
    """What `jobauto services` does with notices, meanwhile."""
    return beside(NoticeSender(ledger, settings).run)


def rows(ledger: Ledger) -> list[Notice]:
    return fetch_all(ledger, Notice)


def occasions(ledger: Ledger) -> list[str]:
    return [row.occasion for row in rows(ledger)]


def all_sent(ledger: Ledger) -> bool:
    with ledger.reading() as session:  # of thousands only the states
        return set(session.scalars(select(Notice.state).distinct())) == {"sent"}


def say(rest: httpx.Client, kind: str, number: int, notices: Any) -> dict[str, Any]:
    return ok(rest.post(f"/{kind}/", json={"id": number, "notices": notices}), 201)


def tell_company(rest: httpx.Client, **channels: Any) -> dict[str, Any]:
    """Notices of all jobs of the company of `template`."""
    return say(rest, "company", 1, channels)


def by_mail(*to: str, on: list[str] = ALL) -> dict[str, Any]:
    return {"on": on, "to": [*to] or [OPS]}


def run_job(claims: httpx.Client, **members: Any) -> int:
    launch = granted(claims, claim_of())
    report(claims, launch, **members)
    number: int = launch["job_id"]
    return number


def fail(claims: httpx.Client) -> int:
    return run_job(claims, exit_code=1)


def text_of(mail: Any) -> str:
    body = mail.get_body(("plain",))
    return str(body.get_content())


def test_failure_and_recovery_are_told_by_mail(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, smtp: Settings, mails: MailServer,
    template: dict[str, Any],
) -> None:  # fmt: skip
    tell_company(rest, mail=by_mail())
    run_job(claims)
    assert rows(ledger) == []  # nothing was wrong before
    job = fail(claims)
    with sending(ledger, smtp):
        eventually(lambda: all_sent(ledger))
        run_job(claims)
        run_job(claims)  # good again: no news
        eventually(lambda: len(mails.mails) == 2)
    failed, recovered = mails.mails
    assert failed["Subject"] == "[jobauto] Acme / daily failed"
    assert recovered["Subject"] == "[jobauto] Acme / daily recovered"
    assert (failed["From"], failed["To"]) == (SENDER, OPS)
    assert failed["Auto-Submitted"] == "auto-generated"
    text = text_of(failed)
    assert "exit code 1" in text
    assert "severity error" in text
    assert f"{smtp.url}/console/jobs/{job}" in text
    assert f"{smtp.prefect_ui}/runs/flow-run/" in text
    page = failed.get_body(("html",))
    assert page is not None
    assert f'href="{smtp.url}/console/jobs/{job}"' in page.get_content()
    assert occasions(ledger) == ["failure", "recovery"]


def test_slack_is_told_and_its_address_is_nowhere(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, smtp: Settings, slack: Receiver,
    template: dict[str, Any], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    key = secret("address-of-slack")
    shown = tell_company(rest, slack={"on": ALL, "uri": f"{slack.url}/services/{key}"})
    assert shown["notices"] == {"slack": {"on": ALL, "uri": "********"}}
    fail(claims)
    slack.statuses = [500]
    with sending(ledger, smtp):
        eventually(lambda: slack.received)
        eventually(lambda: rows(ledger)[0].attempts == 1)
        with ledger.writing(SERVICE) as session:  # not to wait for the second attempt
            session.execute(update(Notice).values(due_at=session.clock()))
        eventually(lambda: all_sent(ledger))
    first, body = slack.received[0], slack.received[1].body
    assert first.path == f"/services/{key}"
    assert body["text"] == "Acme / daily failed"
    (block,) = body["blocks"]
    assert (block["type"], block["text"]["type"]) == ("section", "mrkdwn")
    assert "/console/jobs/1|job 1>" in block["text"]["text"]
    with ledger.reading() as session:
        trail = [str(entry.changes) for entry in session.scalars(select(AuditEntry))]
        company = session.get_one(Company, 1)
        kept = str((company.notices, company.notice_secrets, rows(ledger)[0].secret))
    lists = rest.get("/companies.json").text + rest.get("/company/1.html").text
    for text in (
        *trail,
        kept,
        lists,
        caplog.text,
        str([row.error for row in rows(ledger)]),
    ):
        assert key not in text
    assert any("notice_secrets" in text for text in trail)


def test_an_address_of_slack_stays_until_it_is_given_anew(
    rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    def sealed() -> tuple[Any, Any]:
        company = fetch(ledger, Company, 1)
        return company.notices["slack"].get("target"), company.notice_secrets.get("slack")

    tell_company(rest, slack={"on": ALL, "uri": "https://hooks.slack.example/services/a"})
    before = sealed()
    for uri in ({}, {"uri": None}, {"uri": "********"}):
        shown = tell_company(rest, slack={"on": ["failure"], **uri})
        assert shown["notices"]["slack"] == {"on": ["failure"], "uri": "********"}
        assert sealed() == before
    tell_company(rest, slack={"on": ALL, "uri": "https://hooks.slack.example/services/b"})
    assert sealed()[0] != before[0]
    tell_company(rest)
    company = tell_company(rest, slack={"on": ALL})
    assert company["notices"]["slack"]["uri"] is None
    assert [warning["pointer"] for warning in company["warnings"]] == ["/notices/slack"]
    company = tell_company(rest, mail=by_mail())
    assert [warning["pointer"] for warning in company["warnings"]] == [
        "/notices/mail"
    ]  # no server is set


def test_every_error_of_notices_is_told(rest: httpx.Client, template: dict[str, Any]) -> None:
    wrong = {
        "mail": {"on": ["ever"], "to": ["x", "a@b\r\nBcc: c@d", "a@b.example\n", "a b@c", "ä@b"]},
        "slack": {"on": ["failure"], "uri": "ftp://h/"},
        "pager": {},
        "finished_by": 6,
    }
    for kind in ("company", "runtemplate"):
        answer = rest.post(f"/{kind}/", json={"id": 1, "notices": wrong})
        assert answer.status_code == 400, answer.text
        assert {one["pointer"] for one in answer.json()["details"]} == {
            "/notices/mail/on/0", *(f"/notices/mail/to/{place}" for place in range(5)),
            "/notices/slack/uri", "/notices/pager", "/notices/finished_by",
        }  # fmt: skip
        refusable = {
            "mail": {"on": ["failure"], "to": []},
            "slack": {"on": [], "uri": "http://169.254.169.254/latest"},
            "finished_by": "25:00",
        }
        answer = rest.post(f"/{kind}/", json={"id": 1, "notices": refusable})
        messages = {fault["pointer"]: fault["message"] for fault in answer.json()["details"]}
        assert set(messages) == {
            "/notices/mail/to", "/notices/slack/uri", "/notices/finished_by"
        }  # fmt: skip
        assert "JOBAUTO_WEBHOOK_TARGETS" in messages["/notices/slack/uri"]


def test_a_run_template_says_otherwise_than_its_company(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    tell_company(rest, mail=by_mail(), slack={"on": ALL, "uri": "https://hooks.slack.example/a"})
    number = template["id"]
    assert say(rest, "runtemplate", number, {"mail": by_mail("b@acme.example")})["notices"] == {
        "mail": by_mail("b@acme.example")
    }
    fail(claims)
    known = fetch(ledger, Company, 1).notices["slack"]["target"]
    assert {(row.channel, row.target) for row in rows(ledger)} == {
        ("mail", "b@acme.example"), ("slack", known)
    }  # fmt: skip
    nobody = {"mail": {"on": [], "to": []}, "slack": {"on": []}}
    say(rest, "runtemplate", number, nobody)
    fail(claims)
    assert len(rows(ledger)) == 2
    assert say(rest, "runtemplate", number, None)["notices"] == {}
    fail(claims)
    assert len(rows(ledger)) == 4


def test_what_somebody_wanted_is_not_told(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    tell_company(rest, mail=by_mail())
    launch = granted(claims, claim_of())
    rest.post("/job/", json={"id": launch["job_id"], "state": "cancelled"}).raise_for_status()
    report(claims, launch, ending="cancelled", exit_code=None)
    assert rows(ledger) == []


def test_windows_without_an_attempt_are_told(
    rest: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    tell_company(rest, mail=by_mail())
    for number, reason in enumerate((TaskReason.DEADLINE, TaskReason.CLOSED, TaskReason.INACTIVE)):
        with ledger.writing(SERVICE) as session:
            start = session.clock() + timedelta(hours=number)
            task = Task(
                runtemplate_id=template["id"], window_start=start,
                window_end=start + timedelta(hours=1), deadline=start,
            )  # fmt: skip
            session.add(task)
            session.flush()
            tasks.close_without_attempt(session, [task], reason, "no worker was there")
    (row,) = rows(ledger)
    assert (row.occasion, row.task_id, row.job_id) == ("missed", 1, None)
    assert row.data["message"] == "no worker was there"


def test_a_job_that_could_not_start_is_told_of(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    tell_company(rest, mail=by_mail())
    with ledger.writing(SERVICE) as session:
        session.get_one(RunTemplate, template["id"]).active = False
    refused(claims, claim_of())
    assert [row.occasion for row in rows(ledger)] == ["failure"]


def many_failures(ledger: Ledger, template: dict[str, Any], number: int) -> None:
    """So many jobs fail, some in each transaction."""
    for place in range(0, number, 37):
        with ledger.writing(SERVICE) as session:
            record = session.get_one(RunTemplate, template["id"])
            for _ in range(min(37, number - place)):
                _fail(session, record)


def _fail(session: WritingSession, record: RunTemplate) -> None:
    now = session.clock()
    job = Job(
        app_id=record.app_id, company_id=record.company_id, runtemplate=record,
        state="failed", severity="error", message="no database", exitcode=1, schedule=now,
        schedule_type="adhoc", begin=now, end=now, executor="Native",
    )  # fmt: skip
    session.add(job)
    session.flush()
    told.notify_end(session, job)


@both_databases
def test_a_thousand_failures_are_a_handful_of_messages(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, ledger_settings: Settings,
    mails: MailServer, slack: Receiver, template: dict[str, Any],
) -> None:  # fmt: skip
    tell_company(rest, mail=by_mail(), slack={"on": ALL, "uri": f"{slack.url}/x"})
    span = 3
    settings = with_mail(ledger_settings, mails.port, notice_seconds=span)
    began = time.monotonic()
    with sending(ledger, settings):
        fail(claims)
        eventually(lambda: len(mails.mails) == 1)  # at once
        many_failures(ledger, template, 999)
        eventually(lambda: all_sent(ledger))
    most = 2 + (time.monotonic() - began) / span  # a message in each span, and the first
    total = sum(row.channel == "mail" for row in rows(ledger))
    assert total == 1000
    per_channel = {row.batch: row.channel for row in rows(ledger)}.values()
    assert len(mails.mails) == list(per_channel).count("mail") <= most
    assert len(slack.received) == list(per_channel).count("slack") <= most
    counted = [mail["Subject"].split() for mail in mails.mails[1:]]
    assert 1 + sum(int(words[2]) for words in counted) == 1000
    last = max(mails.mails[1:], key=lambda mail: int(mail["Subject"].split()[2]))
    number = int(last["Subject"].split()[2])
    assert text_of(last).count("Acme / daily failed") == notices.LINES
    assert f"{number - notices.LINES} more failed" in text_of(last)


@both_databases
def test_what_comes_while_another_process_sends_waits_seconds(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    tell_company(rest, mail=by_mail())
    fail(claims)
    with ledger.writing(SERVICE) as session:
        (sending,) = notices.claim(session, uuid4(), timedelta(), ())
    fail(claims)
    with ledger.writing(SERVICE) as session:  # a second process
        assert notices.claim(session, uuid4(), timedelta(), ()) == []
        waits = rows(ledger)[1].due_at - session.clock()
    assert waits <= notices.ASKED_AGAIN_AFTER
    with ledger.writing(SERVICE) as session:
        batch = notices.batch_of(session, *sending)
        assert batch is not None
        notices.mark_sent(session, batch)
        session.execute(update(Notice).values(due_at=session.clock()))  # the seconds are over
        ((_, target),) = notices.claim(session, uuid4(), timedelta(), ())
    assert target == OPS


@both_databases
def test_who_is_away_is_told_later_and_keeps_nobody_waiting(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, ledger_settings: Settings,
    slack: Receiver, template: dict[str, Any], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(notices, "FIRST_WAIT", timedelta(milliseconds=100))
    port = free_port()
    tell_company(rest, mail=by_mail(), slack={"on": ALL, "uri": f"{slack.url}/x"})
    with sending(ledger, with_mail(ledger_settings, port)):
        fail(claims)
        eventually(lambda: slack.received)
        eventually(lambda: max(row.attempts for row in rows(ledger)) > 1)
        fail(claims)
        # A retry that began before is of the first alone; the next one is of both.
        eventually(lambda: all(row.attempts for row in rows(ledger) if row.channel == "mail"))
        assert {row.state for row in rows(ledger) if row.channel == "mail"} == {"owed"}
        with mail_server(port) as mails:
            eventually(lambda: all_sent(ledger))
    # What came meanwhile is in the same message.
    assert [mail["Subject"] for mail in mails.mails] == ["[jobauto] jobs: 2 failed"]


def test_one_refused_recipient_keeps_no_other_waiting(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, smtp: Settings, mails: MailServer,
    template: dict[str, Any],
) -> None:  # fmt: skip
    gone = "gone@acme.example"
    mails.refused.add(gone)
    tell_company(rest, mail=by_mail(gone, OPS))
    with sending(ledger, smtp):
        fail(claims)
        eventually(lambda: mails.recipients == [OPS])
        eventually(lambda: [row for row in rows(ledger) if row.attempts])
    (row,) = (row for row in rows(ledger) if row.target == gone)
    assert row.state == "owed"
    assert "550" in str(row.error)
    with ledger.writing(SERVICE) as session:
        session.execute(
            update(Notice).values(
                created_at=session.clock() - timedelta(days=8), due_at=session.clock()
            )
        )
    with sending(ledger, smtp):
        eventually(lambda: {row.state for row in rows(ledger)} == {"sent", "dead"})


@pytest.mark.parametrize("implicit", [False, True], ids=["starttls", "tls"])
def test_mail_goes_over_tls_with_a_sign_in(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, ledger_settings: Settings,
    template: dict[str, Any], tmp_path: Path, implicit: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    certificate = self_made(tmp_path, "localhost")
    tell_company(rest, mail=by_mail())
    fail(claims)
    with mail_server(certificate=certificate, implicit=implicit) as mails:
        settings = with_mail(
            ledger_settings, mails.port, smtp_host="localhost", smtp_user=USER,
            smtp_password=PASSWORD, smtp_tls="tls" if implicit else "starttls",
        )  # fmt: skip
        with sending(ledger, settings):  # a certificate that nobody vouches for
            error = eventually(lambda: rows(ledger)[0].error)
        assert "no safe connection" in error
        assert mails.mails == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        with ledger.writing(SERVICE) as session:
            session.execute(update(Notice).values(due_at=session.clock()))
        with sending(ledger, settings):
            eventually(lambda: all_sent(ledger))
        assert mails.recipients == [OPS]
        fail(claims)
        with sending(ledger, settings.model_copy(update={"smtp_user": "other"})):
            error = eventually(lambda: rows(ledger)[-1].error)
    assert "the sign-in is refused" in error
    assert PASSWORD not in error


def notifier(settings: Settings) -> BaseProcess:
    """A process that sends."""
    return forked(_send, with_mail(settings, free_port(), notice_seconds=0))


def _send(settings: Settings) -> None:
    queues.HELD_FOR = timedelta(seconds=2)
    asyncio.run(NoticeSender(open_ledger(settings), settings).run())


@both_databases
def test_killed_between_sending_and_writing_down(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, ledger_settings: Settings,
    slack: Receiver, template: dict[str, Any],
) -> None:  # fmt: skip
    slack.hangs = threading.Event()  # it has the message, and answers late
    tell_company(rest, slack={"on": ALL, "uri": f"{slack.url}/x"})
    fail(claims)
    first = notifier(ledger_settings)
    try:
        eventually(lambda: slack.received)
    finally:
        first.kill()
        first.join()
    assert [row.state for row in rows(ledger)] == ["owed"]
    slack.hangs.set()
    slack.hangs = None
    second = notifier(ledger_settings)
    try:
        eventually(lambda: all_sent(ledger))
    finally:
        second.kill()
        second.join()
    assert len(slack.received) == 2
    assert slack.received[0].content == slack.received[1].content


def test_killed_at_any_instant(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, ledger_settings: Settings,
    slack: Receiver, template: dict[str, Any],
) -> None:  # fmt: skip
    tell_company(rest, slack={"on": ALL, "uri": f"{slack.url}/x"})
    chance = random.Random(19)
    failed: set[int] = set()
    for _ in range(4):
        heard = len(slack.received)
        process = notifier(ledger_settings)
        failed.add(fail(claims))
        eventually(lambda before=heard: len(slack.received) > before)  # type: ignore[misc]
        for _ in range(chance.randrange(4)):
            failed.add(fail(claims))
        time.sleep(chance.random() / 50)  # an instant of its own
        process.kill()
        process.join()
    with sending(ledger, ledger_settings.model_copy(update={"notice_seconds": 0})):
        eventually(lambda: all_sent(ledger))
    told_of = Counter(
        int(number) for one in slack.received
        for number in re.findall(r"\|job (\d+)>", one.content.decode())
    )  # fmt: skip
    assert set(told_of) == failed
    assert max(told_of.values()) <= 5  # once more for each process that died with it at most


@both_databases
def test_old_notices_go_but_for_the_newest(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, template: dict[str, Any]
) -> None:
    tell_company(rest, mail=by_mail())
    for _ in range(3):
        fail(claims)
    with ledger.writing(SERVICE) as session:
        session.execute(update(Notice).values(created_at=session.clock() - timedelta(days=31)))
        notices.delete_old(session)
    assert len(rows(ledger)) == 3  # nobody has been told yet
    with ledger.writing(SERVICE) as session:
        session.execute(update(Notice).values(state="sent"))
        notices.delete_old(session)
    assert [row.id for row in rows(ledger)] == [3]
    run_job(claims)
    assert occasions(ledger) == ["failure", "recovery"]


def test_the_doctor_tries_the_mail_server(
    rest: httpx.Client, claims: httpx.Client, ledger: Ledger, ledger_settings: Settings,
    mails: MailServer, template: dict[str, Any],
) -> None:  # fmt: skip
    assert notice_findings(ledger_settings, ledger) == []
    (found,) = notice_findings(with_mail(ledger_settings, mails.port), ledger)
    assert (found.status, found.message) == (
        "ok", f"the mail server 127.0.0.1:{mails.port} answers"
    )  # fmt: skip
    (found,) = notice_findings(with_mail(ledger_settings, free_port()), ledger)
    assert (found.status, "Connection refused" in found.message) == ("warning", True)
    tell_company(rest, mail=by_mail(), slack={"on": ALL, "uri": "http://127.0.0.1:9/"})
    fail(claims)
    with sending(ledger, ledger_settings):
        eventually(lambda: {row.attempts for row in rows(ledger)} == {1})
    mail, slack = notice_findings(ledger_settings, ledger)
    assert "no mail server is set" in mail.message
    assert slack.message.startswith("1 notices to Slack were rejected: it can't be reached")
