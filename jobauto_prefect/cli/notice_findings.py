"""Notices that nobody gets: no mail server, or one that does not answer."""

from collections.abc import Iterator

from jobauto_prefect.cli.findings import Finding
from jobauto_prefect.definitions.notices import Channel
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.mailing import MailFailed, try_server

NAME = "notices"


def notice_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Of the mail server, where one is set, and of what could not be sent."""
    with ledger.reading() as session:
        failing = notices.failing(session)
    return [*_mail(settings, failing), *_failing(failing)]


def _mail(settings: Settings, failing: list[notices.Failing]) -> Iterator[Finding]:
    if settings.smtp_host is None:
        if any(one.channel == Channel.MAIL for one in failing):
            message = "mails wait, and there is no server for them"
            yield Finding(NAME, "warning", message, "set JOBAUTO_SMTP_HOST (docs/notices.md)")
        return
    server = f"{settings.smtp_host}:{settings.smtp_port_used}"
    try:
        try_server(settings)
    except MailFailed as error:
        help_ = "see to the server, or correct JOBAUTO_SMTP_… (docs/notices.md)"
        yield Finding(NAME, "warning", f"mails can't be sent over {server}: {error}", help_)
    else:
        yield Finding(NAME, "ok", f"the mail server {server} answers")


def _failing(failing: list[notices.Failing]) -> Iterator[Finding]:
    for one in failing:
        if one.channel != Channel.SLACK:
            continue
        message = f"{one.number} notices to Slack are not accepted: {one.error}"
        help_ = "write the address again: notices.slack.uri of the company or run template"
        yield Finding(NAME, "warning", message, help_)
