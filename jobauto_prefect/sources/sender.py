"""Sending due rows of the ledger: webhooks, and messages with notices.

Only stored rows are sent, so no job waits for a server. A recipient may get a message twice, with
the same id, if this process dies before it has recorded the acceptance.
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

import httpx

from jobauto_prefect import certificates
from jobauto_prefect.errors import JobautoError, SourceUnavailable
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger import queues
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.targets import TargetRules, address_of, web_target, webhook_rules

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.2

Claim = TypeVar("Claim")

Message = TypeVar("Message")


class Sender(ABC, Generic[Claim, Message]):
    """Sends due messages, each until it is accepted or given up.

    Several processes may do so at once: each sends only what it has claimed.
    """

    def __init__(
        self, ledger: Ledger, settings: Settings, wanted: asyncio.Event | None = None
    ) -> None:
        """Prepare to send.

        `wanted` is set when there may be something to send; None: the ledger is polled.
        """
        self.ledger = ledger
        self.settings = settings
        self.rules = webhook_rules(settings)
        self.sending: Counter[str] = Counter()
        """Number of messages under way, by recipient."""

        self._wanted = wanted or asyncio.Event()
        self._poll_seconds = POLL_SECONDS if wanted is None else None

    @abstractmethod
    def is_due(self, session: ReadingSession) -> bool:
        """Whether there is anything to send."""

    @abstractmethod
    def claim(self, session: WritingSession) -> Sequence[Claim]:
        """Claim due messages, as far as their recipients have room in `sending`."""

    @abstractmethod
    def load(self, session: ReadingSession, claim: Claim) -> Message | None:
        """Read a claimed message; None if nothing is left of it."""

    @abstractmethod
    def name(self, claim: Claim) -> str:
        """Return the name of a claimed message in the log; it must not reveal secrets."""

    @abstractmethod
    def postpone(self, session: WritingSession, claim: Claim, error: str) -> None:
        """Retry a claimed but unreadable message later, until it is given up."""

    @abstractmethod
    def recipient(self, message: Message) -> str:
        """Return the key by which messages to one recipient are counted."""

    @abstractmethod
    def label(self, message: Message) -> str:
        """Return the name of a message in the log; it must not reveal secrets."""

    @abstractmethod
    async def send(self, client: httpx.AsyncClient, message: Message) -> str | None:
        """Send a message; return why it was not accepted, None if it was."""

    @abstractmethod
    def renew(self, session: WritingSession, message: Message) -> None:
        """Keep the claim of a message that is still being sent."""

    @abstractmethod
    def release(self, session: WritingSession, message: Message) -> None:
        """Release a claimed message for another process."""

    @abstractmethod
    def record(self, session: WritingSession, message: Message, error: str | None) -> None:
        """Record that a message was accepted, or why it was not."""

    async def run(self) -> None:
        """Send due messages until cancelled."""
        async with await asyncio.to_thread(webhook_client) as client, asyncio.TaskGroup() as group:
            while True:
                for message in await self._next():
                    self.sending[self.recipient(message)] += 1
                    task = group.create_task(self._send(client, message))
                    task.add_done_callback(lambda _: self._wanted.set())  # there is room again
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll_seconds):
                        await self._wanted.wait()
                self._wanted.clear()

    async def _next(self) -> list[Message]:
        try:
            return await asyncio.to_thread(self._claim)
        except JobautoError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("what is to be sent can't be read; it is looked for again")
        return []

    def _claim(self) -> list[Message]:
        with self.ledger.reading() as session:
            if not self.is_due(session):
                return []  # this is polled all the time, so it must not write
        with self.ledger.writing(SERVICE) as session:
            claims = self.claim(session)
        messages: list[Message] = []
        for claim in claims:
            put_aside = partial(self._put_aside, claim)
            with apart(self.name(claim), put_aside), self.ledger.reading() as session:
                message = self.load(session, claim)
                messages += [] if message is None else [message]
        return messages

    def _put_aside(self, claim: Claim, reason: str) -> None:
        self._write(lambda session: self.postpone(session, claim, reason))

    async def _send(self, client: httpx.AsyncClient, message: Message) -> None:
        recipient = self.recipient(message)
        keep = partial(self._write, lambda session: self.renew(session, message))
        try:
            async with queues.renewed(keep):
                error = await self.send(client, message)
        except asyncio.CancelledError:  # this process is ending; another one need not wait for it
            self._write(lambda session: self.release(session, message))
            raise
        except Exception:
            logger.exception("%s failed", self.label(message))
            error = "an error in this program; see the log of jobauto services"
        if error is not None:
            logger.warning("%s not accepted: %s", self.label(message), error)
        await asyncio.to_thread(self._write, lambda session: self.record(session, message, error))
        # Only now, because a message is under way until it is recorded as sent.
        self.sending[recipient] -= 1
        if not self.sending[recipient]:
            del self.sending[recipient]

    def _write(self, work: Callable[[WritingSession], None]) -> None:
        """Write to the ledger; what can't be recorded is sent again."""
        try:
            with self.ledger.writing(SERVICE) as session:
                work(session)
        except JobautoError as error:
            logger.warning("%s", error)


ANSWER_SECONDS = 10.0


def webhook_client() -> httpx.AsyncClient:
    """Return a client for `post`, without proxies, which would get names already checked here."""
    verify = certificates.load_certificates(by_environment=False)
    return httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False, verify=verify)


async def post(
    client: httpx.AsyncClient,
    rules: TargetRules,
    url: str,
    content: bytes,
    headers: Mapping[str, str],
) -> str | None:
    """POST content; return why it was not accepted, without the address; None if it was."""
    try:
        request = await asyncio.to_thread(_request, client, rules, url, content, headers)
        async with asyncio.timeout(ANSWER_SECONDS), contextlib.AsyncExitStack() as stack:
            answer = await client.send(request, stream=True)
            stack.push_async_callback(answer.aclose)  # only its status matters
    except SourceUnavailable as error:
        return str(error)
    except (httpx.TimeoutException, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:g} seconds"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        return f"it can't be reached ({type(error).__name__})"
    if answer.is_redirect:
        return f"HTTP {answer.status_code}; redirects are not followed"
    return None if answer.is_success else f"HTTP {answer.status_code}"


def _request(
    client: httpx.AsyncClient,
    rules: TargetRules,
    url: str,
    content: bytes,
    headers: Mapping[str, str],
) -> httpx.Request:
    """Build a request to the checked address: resolving the name again could lead elsewhere.

    Raises:
        SourceUnavailable: the target is forbidden.
    """
    target = httpx.URL(url)
    return client.build_request(
        "POST",
        target.copy_with(host=address_of(web_target(url), rules)),
        content=content,
        headers={"Host": target.netloc.decode("ascii"), **headers},
        extensions={"sni_hostname": target.host},
    )
