"""Telling Prefect what happened: the events of the ledger, in their order, each once.

An event whose telling got lost on the way is told again with the same id, which Prefect counts
once. What Prefect then loses is found by `engine/delivering.py`.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

from jobauto_prefect.compiler.rules import change_event, end_event
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import Conflict
from jobauto_prefect.ledger import events, turns
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.deliveries import EventKind
from jobauto_prefect.ledger.records import Event, EventSource, RunTemplate
from jobauto_prefect.ledger.store import Ledger, ReadingSession

logger = logging.getLogger(__name__)

NAMESPACE = UUID("4c0f3f0e-6a53-4c2b-9d5c-6f2f3c1c9f10")
TURN_NAME = "emission"
TURN = timedelta(seconds=10)
PATIENCE = timedelta(seconds=15)
"""How long Prefect's automations have to make a run before we look for it."""

EXTERNAL_IDS_SHOWN = 300  # characters


class Emitter:
    """Emits what is silent; only one of all processes at a time, or the order would be lost."""

    def __init__(self, ledger: Ledger, prefect: PrefectApi) -> None:
        self._ledger = ledger
        self._prefect = prefect
        self._me = uuid4()

    async def emit_all(self) -> None:
        """Emit until nothing is silent.

        Raises:
            PrefectUnavailable: Prefect does not answer; what it has not heard comes again.
        """
        emitting = False
        try:
            while batch := await asyncio.to_thread(self._next):
                emitting = True
                await self._emit(batch)
        finally:
            if emitting:
                await asyncio.to_thread(self._pass_on)

    def _pass_on(self) -> None:
        with self._ledger.writing(SERVICE) as session:
            turns.pass_on(session, TURN_NAME, self._me)

    def _next(self) -> list[tuple[int, dict[str, Any]]]:
        with self._ledger.reading() as session:
            if not events.silent(session):
                return []  # looked for all the time: without writing anything
        with self._ledger.writing(SERVICE) as session:
            if not turns.take(session, TURN_NAME, self._me, TURN):
                return []
            found = events.silent(session)
            return [(one.id, self._told(session, one)) for one in found]

    async def _emit(self, batch: Sequence[tuple[int, dict[str, Any]]]) -> None:
        try:
            await self._prefect.post("/events", [body for _, body in batch])
        except Conflict as error:
            if len(batch) > 1:
                for one in batch:
                    await self._emit([one])
                return
            logger.warning("Prefect refuses event %s: %s", batch[0][0], error)
            await asyncio.to_thread(self._heard, batch, str(error))
        else:
            await asyncio.to_thread(self._heard, batch, None)

    def _heard(self, batch: Sequence[tuple[int, dict[str, Any]]], error: str | None) -> None:
        with self._ledger.writing(SERVICE) as session:
            events.heard(session, [event_id for event_id, _ in batch], PATIENCE, error)

    def _told(self, session: ReadingSession, event: Event) -> dict[str, Any]:
        # A ledger begun anew counts from 1 again: its key tells its events from former ones.
        name = f"{self._ledger.box.fingerprint} {event.id} {event.created_at.isoformat()}"
        told = _change(session, event) if event.kind == EventKind.CHANGE else _end(session, event)
        return {
            "id": str(uuid5(NAMESPACE, name)),
            "occurred": event.created_at.isoformat(),
            **told,
        }


def _change(session: ReadingSession, event: Event) -> dict[str, Any]:
    source = session.get_one(EventSource, event.event_source_id)
    evidence, record_id = event.evidence or "record", event.record_id or ""
    external_ids = str(event.data.get("externalids") or "")[:EXTERNAL_IDS_SHOWN]
    return {
        "event": change_event(source.id),
        "resource": {
            "prefect.resource.id": f"jobauto.source.{source.id}.{evidence}.{record_id}",
            "prefect.resource.name": f"{evidence} {record_id}".strip(),
            **_labels(event),
        },
        "related": [
            {
                "prefect.resource.id": f"jobauto.source.{source.id}",
                "prefect.resource.role": "event-source",
                "prefect.resource.name": source.name,
            }
        ],
        "payload": {
            "event": event.id,
            "source": source.name,
            "inversion": event.inversion,
            "recordid": event.record_id,
            "evidence": event.evidence,
            "operation": event.operation,
            "externalids": external_ids,
        },
    }


def _end(session: ReadingSession, event: Event) -> dict[str, Any]:
    template = session.get_one(RunTemplate, event.runtemplate_id)
    return {
        "event": end_event(template.id, event.operation),
        "resource": {
            "prefect.resource.id": f"jobauto.job.{event.job_id}",
            "prefect.resource.name": f"{template.company.name} / {template.name} #{event.job_id}",
            **_labels(event),
        },
        "related": _deployment(template),
        "payload": {"event": event.id, "job": event.job_id, "result": event.operation},
    }


def _deployment(template: RunTemplate) -> list[dict[str, str]]:
    if template.deployment_id is None:
        return []
    return [
        {
            "prefect.resource.id": f"prefect.deployment.{template.deployment_id}",
            "prefect.resource.role": "deployment",
            "prefect.resource.name": template.name,
        }
    ]


def _labels(event: Event) -> dict[str, str]:
    return {
        "jobauto.event": str(event.id),
        "jobauto.evidence": event.evidence or "",
        "jobauto.operation": event.operation,
    }
