"""What a message of notices says: as mail, and as JSON in the form of Slack's incoming webhooks."""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.definitions.records.notices import Occasion
from jobauto_prefect.ledger.notices import Batch
from jobauto_prefect.ledger.records import Notice
from jobauto_prefect.settings import Settings
from jobauto_prefect.wording import escape_controls

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
    """One notice for people: what, more about it, and where it can be read."""

    title: str
    details: str
    links: Mapping[str, str]


def title_of(batch: Batch) -> str:
    """Return what a message says in one line."""
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
    """Return text on one line; what is not to be seen in it is shown as codes."""
    return " ".join(escape_controls(text).split())


def _rest(batch: Batch) -> str:
    """Return how many there are besides those that are told one by one."""
    rest = batch.counts - _first_counts(batch)
    counted = (f"{rest[name]} more {word}" for name, word in WORDS.items() if rest[name])
    return ", ".join(counted)


def _first_counts(batch: Batch) -> Any:
    return type(batch.counts)(notice.occasion for notice in batch.first)


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
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody answers that they are away
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
    """Return a message in Slack's form: `text` where one line is shown, `blocks` elsewhere."""
    title = title_of(batch).translate(SLACK_ESCAPES)
    lines = [line_of(notice, settings) for notice in batch.first]
    texts = [_marked(line) for line in lines]
    if batch.counts.total() > 1:
        texts.insert(0, f"*{title}*")
    rest = _rest(batch)
    return {
        "text": title,
        "blocks": [_section(text) for text in [*texts, *([rest] if rest else [])]],
    }


def _marked(line: Line) -> str:
    links = ", ".join(
        f"<{url.translate(SLACK_ESCAPES)}|{name}>" for name, url in line.links.items()
    )
    title, details = (text.translate(SLACK_ESCAPES) for text in (line.title, line.details))
    return "\n".join(part for part in (f"*{title}*", details, links) if part)


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}
