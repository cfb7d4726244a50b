"""Who companies and run templates notify about their jobs."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from jobauto_prefect.compiler import relative_of
from jobauto_prefect.definitions.records.notices import Channel, Occasion
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import (
    JsonObject,
)
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.writes.base import ShortText, WriteRequest
from jobauto_prefect.ledger.records import (
    Company,
    RunTemplate,
)
from jobauto_prefect.settings import EXPECTED_WEB_ADDRESS, WEB_ADDRESS, MailAddress
from jobauto_prefect.sources.targets import fault_of_url, webhook_rules
from jobauto_prefect.text_patterns import matching


class MailNotices(BaseModel):
    """Who is notified by mail, and when."""

    on: list[Occasion] = Field(description="Occasions for a mail; none: no mail is sent.")
    to: list[str] = Field(description="Mail addresses.")


class SlackNotices(BaseModel):
    """When a Slack-compatible webhook is called."""

    on: list[Occasion] = Field(description="Occasions for a call; none: the webhook is not called.")
    uri: Literal["********"] | None = Field(description="The address, masked; null: not set yet.")


class Notices(BaseModel):
    """Who is notified about jobs; a channel that is left out is not configured."""

    mail: MailNotices | None = Field(default=None, description="Mail to these addresses.")
    slack: SlackNotices | None = Field(default=None, description="A Slack-compatible webhook.")
    finished_by: str | None = Field(
        default=None,
        description="When a window counts as late: a time after its start (`+3h`), or the next "
        "occurrence of a time of day in its time zone (`06:30`); without it, at its "
        "deadline.",
    )


Occasions = Annotated[
    list[Occasion], Field(max_length=len(Occasion), json_schema_extra={"uniqueItems": True})
]


SlackAddress = Annotated[
    str, matching(rf"{WEB_ADDRESS}|^\*{{8}}$", EXPECTED_WEB_ADDRESS, max_length=2000)
]


class MailBody(Body):
    """Mail to these addresses, on these occasions. Without occasions no mail is sent, even if the
    company's setting has some.
    """

    record: ClassVar = MailNotices

    on: Occasions
    to: Annotated[list[MailAddress], Field(max_length=20, json_schema_extra={"uniqueItems": True})]


class SlackBody(Body):
    """A Slack-compatible webhook. A `uri` that is masked or left out stays as it is."""

    record: ClassVar = SlackNotices

    on: Occasions
    uri: SlackAddress | None = Field(
        default=None,
        description="The address, stored encrypted; it stays as it is if masked or left out.",
    )


class NoticesBody(Body):
    """Who is notified, by channel. If a run template leaves out a channel, its company's setting
    applies.

    A window is late if it is not done at the time that `finished_by` sets; without `finished_by`,
    at its deadline.
    """

    record: ClassVar = Notices

    mail: MailBody | None = None
    slack: SlackBody | None = None
    finished_by: ShortText | None = None


def apply_notices(
    write: WriteRequest, record: Company | RunTemplate, body: NoticesBody | None
) -> list[Fault]:
    """Replace the notices by the given ones; return the warnings.

    Raises:
        InvalidInput: with every error.
    """
    body = body or NoticesBody()
    faults = [*_faults(write, body)]
    if faults:
        raise InvalidInput(faults)
    channels: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    if body.mail is not None:
        channels[Channel.MAIL] = {
            "on": _unique(body.mail.on), "to": list(dict.fromkeys(body.mail.to))
        }  # fmt: skip
    if body.slack is not None:
        channels[Channel.SLACK] = {"on": _unique(body.slack.on)}
        fingerprint, sealed = _seal_address(write, record, body.slack.uri)
        if sealed is not None:
            channels[Channel.SLACK]["target"] = fingerprint
            secrets[Channel.SLACK] = sealed
    if body.finished_by is not None:
        channels["finished_by"] = body.finished_by
    record.notices, record.notice_secrets = channels, secrets
    return [*_warnings(write, body, secrets)]


def _unique(occasions: list[Occasion]) -> list[str]:
    return list(dict.fromkeys(map(str, occasions)))


def _faults(write: WriteRequest, body: NoticesBody) -> Iterator[Fault]:
    if body.mail is not None and body.mail.on and not body.mail.to:
        yield Fault("/notices/mail/to", "required", "name at least one address, or leave on empty")
    if body.finished_by is not None:
        try:
            relative_of(body.finished_by)
        except InvalidInput as error:
            yield from (replace(fault, pointer="/notices/finished_by") for fault in error.faults)
    uri = body.slack.uri if body.slack is not None else None
    if uri is not None and uri != MASK:
        fault = fault_of_url(uri, webhook_rules(write.settings))
        if fault is not None:
            yield Fault("/notices/slack/uri", "target", fault)


def _warnings(write: WriteRequest, body: NoticesBody, secrets: dict[str, str]) -> Iterator[Fault]:
    if body.mail is not None and body.mail.on and write.settings.smtp_host is None:
        message = "no mail is sent until JOBAUTO_SMTP_HOST is set in the settings"
        yield Fault("/notices/mail", "smtp", message)
    if body.slack is not None and body.slack.on and Channel.SLACK not in secrets:
        message = "nobody is notified: set notices.slack.uri to the address of the webhook"
        yield Fault("/notices/slack", "address", message)


def _seal_address(
    write: WriteRequest, record: Company | RunTemplate, uri: str | None
) -> tuple[str | None, str | None]:
    """Return a fingerprint of a Slack address, and the sealed address; None: there is none."""
    if uri is None or uri == MASK:
        before = (record.notices or {}).get(Channel.SLACK, {})
        return before.get("target"), (record.notice_secrets or {}).get(Channel.SLACK)
    key = write.box.derived("notices").encode()
    fingerprint = hmac.new(key, uri.encode(), hashlib.sha256).hexdigest()[:32]
    return fingerprint, write.box.seal({"uri": uri})["uri"]


def serialize_notices(record: Company | RunTemplate) -> JsonObject:
    """Return the notices as answers show them: whether a webhook has an address, but not which."""
    shown: JsonObject = dict(record.notices)
    if Channel.SLACK in shown:
        uri = MASK if Channel.SLACK in record.notice_secrets else None
        shown[Channel.SLACK] = {"on": shown[Channel.SLACK]["on"], "uri": uri}
    return shown
