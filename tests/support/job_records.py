"""Jobs and windows of all kinds in the ledger, as pages and lists find them."""

from datetime import datetime, timedelta
from typing import Any

import httpx
from sqlalchemy import String, cast, insert, literal, select

from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import Artifact, CompanyUser, Job, OutputLine, Task, User
from jobauto_prefect.ledger.store import Ledger
from tests.support.console import add_user
from tests.support.definitions import PROBE
from tests.support.records import post

HOSTILE = '<script>alert("x")</script> & Co.'


def make_job_template(
    rest: httpx.Client, slug: str = "acme", name: str = "Invoices"
) -> tuple[int, int, int]:
    """The ids of the probe, of a new company, and of its run template."""
    found = rest.get("/app/Probe.json")
    app = found.json()["id"] if found.is_success else post(rest, "/app/", **PROBE)["id"]
    company = post(rest, "/company/", slug=slug, name=f"{slug} Ltd.")["id"]
    body = {"app_id": app, "company_id": company, "name": name}
    return app, company, post(rest, "/runtemplate/", **body)["id"]


class JobRecords:
    """A company with a run template, and jobs of it."""

    def __init__(self, ledger: Ledger, app: int, company: int, template: int) -> None:
        self.ledger, self.app, self.company, self.template = ledger, app, company, template
        self.now: datetime = ledger.clock()

    def job(self, **members: Any) -> int:
        """A job that failed a minute ago, but for what is said."""
        begin = self.now - timedelta(minutes=3)
        fields = {
            "app_id": self.app,
            "company_id": self.company,
            "runtemplate_id": self.template,
            "schedule_type": "adhoc-api",
            "executor": "Native",
            "schedule": begin,
            "state": "failed",
            "severity": "critical",
            "exitcode": 5,
            "message": "no rows",
            "command": "probe --greeting hello",
            "begin": begin,
            "end": self.now - timedelta(minutes=1),
        }
        live = {"severity": None, "exitcode": None, "message": None, "end": None}
        fields |= live if members.get("state") in ("running", "scheduled") else {}
        fields |= {"begin": None} if members.get("state") == "scheduled" else {}
        return self._add(Job(**{**fields, **members}))

    def task(self, **members: Any) -> int:
        """A window of an hour that failed, but for what is said."""
        start = members.get("window_start", self.now - timedelta(hours=2))
        fields = {
            "runtemplate_id": self.template,
            "window_start": start,
            "window_end": start + timedelta(hours=1),
            "deadline": start + timedelta(hours=1),
            "state": "failed",
            "reason": "outcome",
            "message": "no attempt is left",
            "attempts": 1,
        }
        return self._add(Task(**{**fields, **members}))

    def lines(self, job_id: int, *texts: str, stream: str = "stdout", first: int = 1) -> None:
        """Output of a job."""
        named = {"job_id": job_id, "stream": stream, "at": self.now}
        rows = [{**named, "seq": seq, "text": text} for seq, text in enumerate(texts, start=first)]
        with self.ledger.writing(SERVICE) as session:
            session.execute(insert(OutputLine), rows)

    def long_output(self, job_id: int, lines: int, text: str) -> None:
        """So many lines that the database writes itself; in their text :seq is their number."""
        numbers = select(literal(1).label("seq")).cte("numbers", recursive=True)
        numbers = numbers.union_all(select(numbers.c.seq + 1).where(numbers.c.seq < lines))
        before, _, after = text.partition(":seq")
        words = literal(before) + cast(numbers.c.seq, String) + literal(after)
        rows = select(literal(job_id), numbers.c.seq, literal("stdout"), words, literal(self.now))
        with self.ledger.writing(SERVICE) as session:
            columns = ["job_id", "seq", "stream", "text", "at"]
            session.execute(insert(OutputLine).from_select(columns, rows))

    def artifact(self, job_id: int, path: str, content: bytes, kind: str) -> int:
        """A file that a job left behind."""
        fields = {"name": f"Name of {path}", "type": "file", "size": len(content)}
        return self._add(
            Artifact(
                job_id=job_id, path=path, content=content, content_type=kind,
                created_at=self.now, **fields,
            )
        )  # fmt: skip

    def add_member(self, login: str, role: str, *roles: str) -> None:
        """Add somebody who belongs to the company."""
        add_user(self.ledger, login, *(roles or ("viewer",)))
        with self.ledger.writing(SERVICE) as session:
            user = session.scalars(select(User).where(User.login == login)).one()
            session.add(CompanyUser(company_id=self.company, user_id=user.id, role=role))

    def _add(self, record: Any) -> int:
        with self.ledger.writing(SERVICE) as session:
            session.add(record)
            session.flush()
            record_id: int = record.id
            return record_id
