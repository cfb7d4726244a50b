"""Notices: people are told of jobs by mail and in Slack's form.

The `Message-ID` of a mail that is sent again is the same, unless more has come to it.
"""

import asyncio
import json
from datetime import timedelta
from uuid import UUID, uuid4, uuid5

import httpx

from jobauto_prefect.definitions.records.notices import Channel
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.notices import Batch
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.http_post import post
from jobauto_prefect.sources.mail import MailFailed
from jobauto_prefect.sources.mail import send as send_mail
from jobauto_prefect.sources.notice_texts import mail_of, slack_of
from jobauto_prefect.sources.sender import Sender

MAILS_AT_ONCE = 2  # the server is one and the same
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
        """Claim messages of due notices, for recipients that get none just now."""
        return notices.claim(session, self._name, self._span, self.sending)

    def load(self, session: ReadingSession, claim: tuple[UUID, str]) -> Batch | None:
        """Read a claimed message; None: none of its notices is left."""
        return notices.batch_of(session, *claim)

    def name(self, claim: tuple[UUID, str]) -> str:
        """Return the number of the message; Slack's address is a secret."""
        return f"message {claim[0]} with notices"

    def postpone(self, session: WritingSession, claim: tuple[UUID, str], error: str) -> None:
        """Have its notices sent again later."""
        notices.postpone(session, *claim, error)

    def recipient(self, message: Batch) -> str:
        """Return the address."""
        return message.target

    def label(self, message: Batch) -> str:
        """Return the recipient; Slack's address is a secret and is not shown."""
        if message.channel == Channel.MAIL:
            return f"notices to {message.target}"
        return f"notices to Slack ({message.target[:8]})"

    def release(self, session: WritingSession, message: Batch) -> None:
        """Release a claimed message for another process."""
        notices.release(session, message)

    def record(self, session: WritingSession, message: Batch, error: str | None) -> None:
        """Mark the notices of a message as sent, or have them sent again later."""
        if error is None:
            notices.mark_sent(session, message)
        else:
            notices.retry_later(session, message, error)

    async def send(self, client: httpx.AsyncClient, message: Batch) -> str | None:
        """Send a message by mail or to Slack; return why it was not accepted, None: it was."""
        if message.channel == Channel.SLACK:
            secret = self.ledger.box.open({"uri": message.secret or ""})
            content = json.dumps(slack_of(message, self.settings), ensure_ascii=False).encode()
            headers = {"Content-Type": "application/json"}
            return await post(client, self.rules, secret["uri"], content, headers)
        async with self._mails:
            return await asyncio.to_thread(self._mail, message)

    def _mail(self, batch: Batch) -> str | None:
        numbers = f"{batch.first[0].id} {batch.first[-1].id} {batch.counts.total()}"
        # A ledger begun anew counts from 1 again: its key tells its notices from former ones.
        name = f"{self.ledger.box.fingerprint} {batch.target} {numbers}"
        domain = (self.settings.smtp_from or "").rpartition("@")[2]
        message_id = f"{uuid5(NAMESPACE, name)}@{domain}"
        try:
            send_mail(mail_of(batch, self.settings, self.ledger.clock(), message_id), self.settings)
        except MailFailed as error:
            return str(error)
        return None
