"""Notices: people are notified of jobs by mail and in Slack's format.

A mail that is sent again has the same `Message-ID`, unless notices were added.
"""

import asyncio
import html
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

import httpx

from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.definitions.records.notices import Channel, Occasion
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.notices import Batch
from jobauto_prefect.ledger.records import Notice
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.mail import MailFailed
from jobauto_prefect.sources.mail import send as send_mail
from jobauto_prefect.sources.sender import Sender, post
from jobauto_prefect.wording import escape_controls

MAILS_AT_ONCE = 2  # all go to the same server

NAMESPACE = UUID("4f1b7a52-93c5-4a0d-8d0e-5e0a6f6f2c11")


class NoticeSender(Sender[tuple[UUID, str], Batch]):
    """Sends notices, one message at a time to each recipient."""

    def __init__(
        self, ledger: Ledger, settings: Settings, wanted: asyncio.Event | None = None
    ) -> None:
        super().__init__(ledger, settings, wanted)
        self._span = timedelta(seconds=settings.notice_seconds)
        self._name = uuid4()
        self._mails = asyncio.Semaphore(MAILS_AT_ONCE)

    def is_due(self, session: ReadingSession) -> bool:
        """Whether there is any notice to send."""
        return notices.are_due(session, self.ledger.clock())

    def claim(self, session: WritingSession) -> list[tuple[UUID, str]]:
        """Claim messages of due notices, for recipients without a message under way."""
        return notices.claim(session, self._name, self._span, self.sending)

    def load(self, session: ReadingSession, claim: tuple[UUID, str]) -> Batch | None:
        """Read a claimed message; None if none of its notices is left."""
        return notices.batch_of(session, *claim)

    def name(self, claim: tuple[UUID, str]) -> str:
        """Return the message's number, because Slack's address is a secret."""
        return f"message {claim[0]} with notices"

    def postpone(self, session: WritingSession, claim: tuple[UUID, str], error: str) -> None:
        """Retry its notices later."""
        notices.postpone(session, *claim, error)

    def recipient(self, message: Batch) -> str:
        """Return the address."""
        return message.target

    def label(self, message: Batch) -> str:
        """Return the recipient, but not Slack's address, which is a secret."""
        if message.channel == Channel.MAIL:
            return f"notices to {message.target}"
        return f"notices to Slack ({message.target[:8]})"

    def renew(self, session: WritingSession, message: Batch) -> None:
        """Keep the claim of a message that is still being sent."""
        notices.renew(session, message)

    def release(self, session: WritingSession, message: Batch) -> None:
        """Release a claimed message for another process."""
        notices.release(session, message)

    def record(self, session: WritingSession, message: Batch, error: str | None) -> None:
        """Mark the notices of a message as sent, or retry them later."""
        if error is None:
            notices.mark_sent(session, message)
        else:
            notices.retry_later(session, message, error)

    async def send(self, client: httpx.AsyncClient, message: Batch) -> str | None:
        """Send a message by mail or to Slack; return why it was not accepted, None if it was."""
        if message.channel == Channel.SLACK:
            secret = self.ledger.box.open({"uri": message.secret or ""})
            content = json.dumps(slack_of(message, self.settings), ensure_ascii=False).encode()
            headers = {"Content-Type": "application/json"}
            return await post(client, self.rules, secret["uri"], content, headers)
        async with self._mails:
            return await asyncio.to_thread(self._mail, message)

    def _mail(self, batch: Batch) -> str | None:
        numbers = f"{batch.first[0].id} {batch.first[-1].id} {batch.counts.total()}"
        # A new ledger counts from 1 again: its key distinguishes its notices from earlier ones.
        name = f"{self.ledger.box.fingerprint} {batch.target} {numbers}"
        domain = (self.settings.smtp_from or "").rpartition("@")[2]
        message_id = f"{uuid5(NAMESPACE, name)}@{domain}"
        try:
            send_mail(mail_of(batch, self.settings, self.ledger.clock(), message_id), self.settings)
        except MailFailed as error:
            return str(error)
        return None


WORDS: Mapping[str, str] = {
    Occasion.FAILURE: "failed",
    Occasion.RECOVERY: "recovered",
    Occasion.MISSED: "missed",
    Occasion.LATE: "late",
    Occasion.SLOW: "slow",
}
"""In the order in which a summary counts them."""

LONGEST_TITLE = 200

SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Line:
    """One notice for people: subject, details, and link."""

    title: str
    details: str
    links: Mapping[str, str]


def title_of(batch: Batch) -> str:
    """Return a message's subject."""
    if batch.counts.total() == 1:
        return line_of(batch.first[0]).title
    counted = (f"{batch.counts[name]} {word}" for name, word in WORDS.items() if batch.counts[name])
    return f"jobs: {', '.join(counted)}"


def line_of(notice: Notice, settings: Settings | None = None) -> Line:
    """Return one notice; without settings it has no links."""
    data = notice.data
    title = _flat(f"{data['company']} / {data['template']} {WORDS[notice.occasion]}")
    links = dict(_links(notice, settings)) if settings is not None else {}
    return Line(title[:LONGEST_TITLE], "; ".join(_details(data)), links)


def _details(data: Mapping[str, Any]) -> Iterator[str]:
    if data.get("message"):
        yield _flat(data["message"])
    if data.get("exitcode") is not None:
        yield f"exit code {data['exitcode']}"
    if data.get("severity"):
        yield f"severity {data['severity']}"
    if (data.get("attempt") or 1) > 1:
        yield f"attempt {data['attempt']}"
    if data.get("window"):
        yield f"window from {_time(data['window'])}"
    if data.get("at"):
        yield f"at {_time(data['at'])}"


def _links(notice: Notice, settings: Settings) -> Iterator[tuple[str, str]]:
    if notice.job_id is not None:
        yield f"job {notice.job_id}", page_address(settings.url, "job", notice.job_id)
    elif notice.task_id is not None:
        yield f"task {notice.task_id}", page_address(settings.url, "task", notice.task_id)
    run = notice.data.get("flow_run_id")
    if run:
        yield "run in Prefect", f"{settings.prefect_ui}/runs/flow-run/{run}"


def _time(text: str) -> str:
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def _flat(text: str) -> str:
    """Return text on one line, with invisible characters as codes."""
    return " ".join(escape_controls(text).split())


def _rest(batch: Batch) -> str:
    """Return the numbers of notices beyond the listed ones."""
    rest = batch.counts - Counter(notice.occasion for notice in batch.first)
    counted = (f"{rest[name]} more {word}" for name, word in WORDS.items() if rest[name])
    return ", ".join(counted)


def mail_of(batch: Batch, settings: Settings, now: datetime, message_id: str) -> EmailMessage:
    """Return a message as mail; `message_id` without brackets."""
    lines = [line_of(notice, settings) for notice in batch.first]
    rest = _rest(batch)
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = f"[jobauto] {title_of(batch)}"
    mail["From"] = Address(addr_spec=settings.smtp_from or "")
    mail["To"] = Address(addr_spec=batch.target)
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
    mail.set_content("\n\n".join([*map(_plain, lines), *([rest] if rest else [])]) + "\n")
    body = "".join(map(_html, lines)) + (f"<p>{html.escape(rest)}</p>" if rest else "")
    mail.add_alternative(f"<!doctype html><html><body>{body}</body></html>\n", subtype="html")
    return mail


def _plain(line: Line) -> str:
    links = (f"  {name}: {url}" for name, url in line.links.items())
    return "\n".join([line.title, f"  {line.details}", *links])


def _html(line: Line) -> str:
    links = ", ".join(
        f'<a href="{html.escape(url)}">{html.escape(name)}</a>' for name, url in line.links.items()
    )
    return f"<p><b>{html.escape(line.title)}</b><br>{html.escape(line.details)}<br>{links}</p>"


def slack_of(batch: Batch, settings: Settings) -> dict[str, Any]:
    """Return a message in Slack's format: `text` for one-line displays, `blocks` elsewhere."""
    title = title_of(batch).translate(SLACK_ESCAPES)
    lines = [line_of(notice, settings) for notice in batch.first]
    texts = [_marked(line) for line in lines]
    if batch.counts.total() > 1:
        texts.insert(0, f"*{title}*")
    rest = _rest(batch)
    return {
        "text": title,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": text}}
            for text in [*texts, *([rest] if rest else [])]
        ],
    }


def _marked(line: Line) -> str:
    links = ", ".join(
        f"<{url.translate(SLACK_ESCAPES)}|{name}>" for name, url in line.links.items()
    )
    title, details = (text.translate(SLACK_ESCAPES) for text in (line.title, line.details))
    return "\n".join(part for part in (f"*{title}*", details, links) if part)
