"""What webhooks say: the published bodies, and the signature of one."""

import base64
import binascii
import hashlib
import hmac
from datetime import datetime
from typing import Any

from jobauto_prefect.ledger import queries
from jobauto_prefect.ledger.deliveries import EventKind
from jobauto_prefect.ledger.records import Artifact, Event, EventSource
from jobauto_prefect.ledger.store import ReadingSession

ENCODED_KEY = "whsec_"
"""Begins a key that is written in Base64."""

Body = dict[str, Any]


def body_of(session: ReadingSession, event: Event) -> Body:
    """What a receiver is told of an event."""
    said = _change(session, event) if event.kind == EventKind.CHANGE else _end(session, event)
    return {"event": said.pop("event"), "ts": event.created_at.isoformat(), **said}


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
    job = queries.job_with_context(session, event.job_id or 0)
    names = ("app_id", "company_id", "exitcode", "schedule_type", "executor")
    return {
        "event": "job.completed",
        "job_id": job.id,
        "runtemplate_id": job.runtemplate_id,
        "app_uuid": job.runtemplate.app.uuid,
        **{name: getattr(job, name) for name in names},
        "begin": _time(job.begin),
        "end": _time(job.end),
        "artifacts": [_artifact(one) for one in queries.artifacts_of(session, job.id)],
    }


def _artifact(artifact: Artifact) -> Body:
    return {
        "id": artifact.id,
        "filename": artifact.path,
        "content_type": artifact.content_type,
        "note": artifact.name,
        "created_at": _time(artifact.created_at),
    }


def _time(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def signature(secret: str, message_id: str, timestamp: str, content: bytes) -> str:
    """The header `webhook-signature`, as https://www.standardwebhooks.com has it."""
    signed = f"{message_id}.{timestamp}.".encode() + content
    digest = hmac.new(_key(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes:
    """The key's bytes: those of its text, or behind `whsec_` those that Base64 says."""
    if secret.startswith(ENCODED_KEY):
        try:
            return base64.b64decode(secret.removeprefix(ENCODED_KEY), validate=True)
        except binascii.Error:
            pass
    return secret.encode()
