"""Webhooks: URLs are notified of changes and ends of jobs.

A webhook that is sent again has the same header `webhook-id`.
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import httpx

from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.events import pending_actions
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.queries.jobs import artifacts_of, job_with_context
from jobauto_prefect.ledger.records import Event, EventSource, PendingAction
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.sources.sender import Sender, post

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


class WebhookSender(Sender[PendingAction, Message]):
    """Sends webhooks, a few at a time to each address."""

    def is_due(self, session: ReadingSession) -> bool:
        """Whether there is any webhook to send."""
        return pending_actions.webhooks_are_due(session, self.ledger.clock())

    def claim(self, session: WritingSession) -> Sequence[PendingAction]:
        """Claim due webhooks, as far as their addresses have room."""
        return pending_actions.claim_webhooks(session, self.sending, EACH)

    def load(self, session: ReadingSession, claim: PendingAction) -> Message:
        """Build the body and the headers of a webhook."""
        event = claim.event
        content = json.dumps(body_of(session, event), ensure_ascii=False).encode()
        # A new ledger counts from 1 again: its key distinguishes its events from earlier ones.
        name = f"{self.ledger.box.fingerprint} {event.id} {event.created_at.isoformat()}"
        headers = {
            "Content-Type": "application/json",
            "webhook-id": str(uuid5(NAMESPACE, f"{name} {claim.target}")),
            "webhook-timestamp": str(int(self.ledger.clock().timestamp())),
        }
        key, token = self.settings.webhook_secret, self.settings.webhook_token
        # Others than those the settings name do not get the settings' key and token.
        is_receiver = claim.target in self.settings.webhook_urls
        secret = None
        if claim.secret is not None:
            secret = self.ledger.box.open({"secret": claim.secret})["secret"]
        elif key is not None and is_receiver:
            secret = key.get_secret_value()
        if secret:
            signed = headers["webhook-id"], headers["webhook-timestamp"], content
            headers["webhook-signature"] = signature(secret, *signed)
        if token is not None and is_receiver:
            headers[TOKEN_HEADER] = token.get_secret_value()
        return Message(claim.id, claim.target, content, headers)

    def name(self, claim: PendingAction) -> str:
        """Return the number of the webhook."""
        return f"webhook {claim.id}"

    def postpone(self, session: WritingSession, claim: PendingAction, error: str) -> None:
        """Retry it later."""
        self._record(session, claim.id, error)

    def recipient(self, message: Message) -> str:
        """Return the address."""
        return message.url

    def label(self, message: Message) -> str:
        """Return the number of the webhook, because its address may be a secret."""
        return f"webhook {message.action_id}"

    async def send(self, client: httpx.AsyncClient, message: Message) -> str | None:
        """POST a webhook; return why it was not accepted, None if it was."""
        return await post(client, self.rules, message.url, message.content, message.headers)

    def renew(self, session: WritingSession, message: Message) -> None:
        """Keep the claim of a webhook that is still being sent."""
        pending_actions.renew(session, message.action_id)

    def release(self, session: WritingSession, message: Message) -> None:
        """Release a claimed webhook for another process."""
        pending_actions.release(session, [message.action_id])

    def record(self, session: WritingSession, message: Message, error: str | None) -> None:
        """Complete the action of a webhook, or retry it later."""
        self._record(session, message.action_id, error)

    def _record(self, session: WritingSession, action_id: int, error: str | None) -> None:
        action = pending_actions.lock_pending(session, action_id)
        if action is None:
            return  # another process has sent it, too
        if error is None:
            pending_actions.complete(session, action)
        else:
            pending_actions.retry_later(session, action, error)


ENCODED_KEY = "whsec_"
"""Prefix of a key in Base64."""

Body = dict[str, Any]


def body_of(session: ReadingSession, event: Event) -> Body:
    """Return the body of a webhook."""
    body = _change(session, event) if event.kind == EventKind.CHANGE else _end(session, event)
    return {"event": body.pop("event"), "ts": event.created_at.isoformat(), **body}


def _change(session: ReadingSession, event: Event) -> Body:
    source = session.get_one(EventSource, event.event_source_id)
    names = ("inversion", "evidence", "operation", "recordid", "externalids")
    return {
        "event": "webhook.change",
        "source_id": source.id,
        "source_name": source.name,
        "adapter_type": source.adapter_type,
        **{name: event.data.get(name) for name in names},
    }


def _end(session: ReadingSession, event: Event) -> Body:
    job = job_with_context(session, event.job_id or 0)
    names = ("app_id", "company_id", "exitcode", "schedule_type", "executor")
    return {
        "event": "job.completed",
        "job_id": job.id,
        "runtemplate_id": job.runtemplate_id,
        "app_uuid": job.runtemplate.app.uuid,
        **{name: getattr(job, name) for name in names},
        "begin": _time(job.begin),
        "end": _time(job.end),
        "artifacts": [
            {
                "id": artifact.id,
                "filename": artifact.path,
                "content_type": artifact.content_type,
                "note": artifact.name,
                "created_at": _time(artifact.created_at),
            }
            for artifact in artifacts_of(session, job.id)
        ],
    }


def _time(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def signature(secret: str, message_id: str, timestamp: str, content: bytes) -> str:
    """Return the header `webhook-signature`, according to https://www.standardwebhooks.com."""
    key = secret.encode()
    if secret.startswith(ENCODED_KEY):
        with contextlib.suppress(binascii.Error):
            key = base64.b64decode(secret.removeprefix(ENCODED_KEY), validate=True)
    signed = f"{message_id}.{timestamp}.".encode() + content
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
