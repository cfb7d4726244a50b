"""Telling people of jobs: each message until it is accepted, or given up.

Only rows of the ledger are sent, so no job waits for a server. Somebody may be told twice, where
this process dies before it has written down that the message was accepted; the `Message-ID` of a
mail is then the same, unless more has come to it.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4, uuid5

import httpx

from jobauto_prefect.definitions.notices import Channel
from jobauto_prefect.errors import JobautoError
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.audit import SERVICE, WritingSession
from jobauto_prefect.ledger.notices import Batch
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.known import webhook_rules
from jobauto_prefect.sources.mailing import MailFailed, send
from jobauto_prefect.sources.notice_texts import mail_of, slack_of
from jobauto_prefect.sources.posting import post, posting_client

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
MAILS_AT_ONCE = 2  # the server is one and the same
NAMESPACE = UUID("4f1b7a52-93c5-4a0d-8d0e-5e0a6f6f2c11")


class Notifier:
    """Sends what is owed, until cancelled; several processes may do so at once."""

    def __init__(
        self, ledger: Ledger, settings: Settings, wanted: asyncio.Event | None = None
    ) -> None:
        """`wanted` is set where there may be something to send; None: it is looked for always."""
        self._ledger = ledger
        self._settings = settings
        self._wanted = wanted or asyncio.Event()
        self._look_seconds = LOOK_SECONDS if wanted is None else None
        self._rules = webhook_rules(settings)
        self._span = timedelta(seconds=settings.notice_seconds)
        self._name = uuid4()
        self._sending: set[str] = set()
        self._mails = asyncio.Semaphore(MAILS_AT_ONCE)

    async def run(self) -> None:
        """Look what is to be sent and send it, until cancelled."""
        async with posting_client() as client, asyncio.TaskGroup() as group:
            while True:
                for batch in await self._next():
                    self._sending.add(batch.target)
                    sending = group.create_task(self._send(client, batch))
                    sending.add_done_callback(lambda _: self._wanted.set())  # there is room
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), self._look_seconds)
                self._wanted.clear()

    async def _next(self) -> list[Batch]:
        try:
            return await asyncio.to_thread(self._take)
        except JobautoError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("notices can't be read; they are looked for again")
        return []

    def _take(self) -> list[Batch]:
        with self._ledger.reading() as session:
            if not notices.are_due(session, self._ledger.clock()):
                return []  # looked for all the time: without writing anything
        with self._ledger.writing(SERVICE) as session:
            taken = notices.take(session, self._name, self._span, self._sending)
        with self._ledger.reading() as session:
            found = (notices.batch_of(session, batch, target) for batch, target in taken)
            return [batch for batch in found if batch is not None]

    async def _send(self, client: httpx.AsyncClient, batch: Batch) -> None:
        try:
            error = await self._tell(client, batch)
        except asyncio.CancelledError:  # this process ends; another one need not wait for it
            self._write(lambda session: notices.give_back(session, batch))
            raise
        except Exception:
            logger.exception("a message of notices to %s failed", name_of(batch))
            error = "an error in this program; see the log of jobauto services"
        finally:
            self._sending.discard(batch.target)
        await asyncio.to_thread(self._write, lambda session: _note(session, batch, error))

    def _write(self, work: Callable[[WritingSession], None]) -> None:
        """What can't be written down is sent again."""
        try:
            with self._ledger.writing(SERVICE) as session:
                work(session)
        except JobautoError as error:
            logger.warning("%s", error)

    async def _tell(self, client: httpx.AsyncClient, batch: Batch) -> str | None:
        """Why it was not accepted; None: it was."""
        if batch.channel == Channel.SLACK:
            secret = self._ledger.box.open({"uri": batch.secret or ""})
            content = json.dumps(slack_of(batch, self._settings), ensure_ascii=False).encode()
            headers = {"Content-Type": "application/json"}
            return await post(client, self._rules, secret["uri"], content, headers)
        async with self._mails:
            return await asyncio.to_thread(self._mail, batch)

    def _mail(self, batch: Batch) -> str | None:
        numbers = f"{batch.first[0].id} {batch.first[-1].id} {batch.counts.total()}"
        # A ledger begun anew counts from 1 again: its key tells its notices from former ones.
        name = f"{self._ledger.box.fingerprint} {batch.target} {numbers}"
        domain = (self._settings.smtp_from or "").rpartition("@")[2]
        message_id = f"{uuid5(NAMESPACE, name)}@{domain}"
        try:
            send(mail_of(batch, self._settings, self._ledger.clock(), message_id), self._settings)
        except MailFailed as error:
            return str(error)
        return None


def name_of(batch: Batch) -> str:
    """How the log calls a recipient; of Slack it has no address."""
    return batch.target if batch.channel == Channel.MAIL else f"Slack ({batch.target[:8]})"


def _note(session: WritingSession, batch: Batch, error: str | None) -> None:
    if error is None:
        notices.sent(session, batch)
    else:
        logger.warning("notices to %s are not accepted: %s", name_of(batch), error)
        notices.put_off(session, batch, error)
