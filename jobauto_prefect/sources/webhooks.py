"""Telling addresses what happened: each webhook until it is accepted, or given up.

Only rows of the ledger are sent, so no job waits for a receiver. A receiver may hear of something
twice, where this process dies before it has written down the answer; the header `webhook-id` is
then the same.
"""

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid5

import httpx

from jobauto_prefect.errors import JobautoError
from jobauto_prefect.ledger import actions
from jobauto_prefect.ledger.audit import SERVICE, WritingSession
from jobauto_prefect.ledger.records import OwedAction
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.known import webhook_rules
from jobauto_prefect.sources.messages import body_of, signature
from jobauto_prefect.sources.posting import post, posting_client

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
EACH = 4  # webhooks under way to one address
NAMESPACE = UUID("0d5f2f43-5d0c-4f6c-8f58-3a9c2f0a7b1e")
TOKEN_HEADER = "X-MultiFlexi-Token"  # noqa: S105 - the name of a header


@dataclass(frozen=True, slots=True)
class Message:
    """One webhook, ready to be sent."""

    action_id: int
    url: str
    content: bytes
    headers: Mapping[str, str]


class Webhooks:
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
        self._sending: Counter[str] = Counter()

    async def run(self) -> None:
        """Look what is to be sent and send it, until cancelled."""
        async with (
            posting_client() as client,
            asyncio.TaskGroup() as group,
        ):
            while True:
                for message in await self._next():
                    self._sending[message.url] += 1
                    sending = group.create_task(self._send(client, message))
                    sending.add_done_callback(lambda _: self._wanted.set())  # there is room
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), self._look_seconds)
                self._wanted.clear()

    async def _next(self) -> list[Message]:
        try:
            return await asyncio.to_thread(self._take)
        except JobautoError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("webhooks can't be read; they are looked for again")
        return []

    def _take(self) -> list[Message]:
        with self._ledger.reading() as session:
            if not actions.webhooks_are_due(session, self._ledger.clock()):
                return []  # looked for all the time: without writing anything
        with self._ledger.writing(SERVICE) as session:
            taken = actions.take_webhooks(session, self._sending, EACH)
        with self._ledger.reading() as session:
            return [self._message(session, one) for one in taken]

    def _message(self, session: ReadingSession, action: OwedAction) -> Message:
        event = action.event
        content = json.dumps(body_of(session, event), ensure_ascii=False).encode()
        # A ledger begun anew counts from 1 again: its key tells its events from former ones.
        name = f"{self._ledger.box.fingerprint} {event.id} {event.created_at.isoformat()}"
        headers = {
            "Content-Type": "application/json",
            "webhook-id": str(uuid5(NAMESPACE, f"{name} {action.target}")),
            "webhook-timestamp": str(int(self._ledger.clock().timestamp())),
        }
        secret = self._secret(action)
        if secret:
            said = headers["webhook-id"], headers["webhook-timestamp"], content
            headers["webhook-signature"] = signature(secret, *said)
        token = self._settings.webhook_token
        if token is not None and self._is_receiver(action):
            headers[TOKEN_HEADER] = token.get_secret_value()
        return Message(action.id, action.target, content, headers)

    def _secret(self, action: OwedAction) -> str | None:
        if action.secret is not None:
            return self._ledger.box.open({"secret": action.secret})["secret"]
        key = self._settings.webhook_secret
        return key.get_secret_value() if key is not None and self._is_receiver(action) else None

    def _is_receiver(self, action: OwedAction) -> bool:
        """Whether the settings name it: others have no business with what the settings hold."""
        return action.target in self._settings.webhook_urls

    async def _send(self, client: httpx.AsyncClient, message: Message) -> None:
        try:
            error = await post(client, self._rules, message.url, message.content, message.headers)
        except asyncio.CancelledError:  # this process ends; another one need not wait for it
            self._write(lambda session: actions.give_back(session, [message.action_id]))
            raise
        finally:
            self._sending[message.url] -= 1
        await asyncio.to_thread(self._write, lambda session: _note(session, message, error))

    def _write(self, work: Callable[[WritingSession], None]) -> None:
        """What can't be written down is sent again."""
        try:
            with self._ledger.writing(SERVICE) as session:
                work(session)
        except JobautoError as error:
            logger.warning("%s", error)


def _note(session: WritingSession, message: Message, error: str | None) -> None:
    action = actions.owed(session, message.action_id)
    if action is None:
        return  # another process has told it, too
    if error is None:
        actions.done(session, action)
    else:
        logger.warning("webhook %s is not accepted: %s", message.action_id, error)
        actions.put_off(session, action, error)
