"""Event emitter: sends the events of the ledger to Prefect, in their order, each once.

An event that got lost on the way is sent again with the same id, which Prefect counts
once. What Prefect then loses is found by `engine/services/event_dispatch.py`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4, uuid5

from jobauto_prefect.compiler.events.automations import change_event, emitted_event, end_event
from jobauto_prefect.definitions.storable import storable_text
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.errors import Conflict, PrefectFailed
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger import locks
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.events import event_store
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.records import Event, EventSource, RunTemplate
from jobauto_prefect.ledger.store import Ledger, ReadingSession

logger = logging.getLogger(__name__)

NAMESPACE = UUID("4c0f3f0e-6a53-4c2b-9d5c-6f2f3c1c9f10")
LOCK_NAME = "emission"
LOCK_DURATION = timedelta(seconds=10)
PATIENCE = timedelta(seconds=15)
"""How long Prefect's automations have to make a run before we look for it."""

TOGETHER_SECONDS = 0.3
"""So long after an emission the next one waits: in a burst each end would be one of its own, with
three transactions here and a request to Prefect."""

FAILURE = "failure"
Body = dict[str, Any]
Emission = tuple[int, list[Body]]
"""An event of the ledger, and what Prefect is told of it."""

EXTERNAL_IDS_SHOWN = 300  # characters
MOST_FAILURES = 3  # of Prefect at one event, until it will not hear of it


class EventEmitter:
    """Emits pending events; only one of all processes at a time, or the order would be lost."""

    def __init__(self, ledger: Ledger, prefect: PrefectApi) -> None:
        self._ledger = ledger
        self._prefect = prefect
        self._me = uuid4()
        self._failures: Counter[int] = Counter()

    async def emit_all(self) -> None:
        """Emit until nothing is pending: the first at once, those that follow it closely together.

        Raises:
            PrefectUnavailable: Prefect does not answer; what it did not get is sent again.
        """
        batch = await asyncio.to_thread(self._next_batch)
        while batch:
            try:
                answers = await self._emit(batch)
            except BaseException:
                await asyncio.shield(asyncio.to_thread(self._release_lock))
                raise
            await asyncio.sleep(TOGETHER_SECONDS)
            batch = await asyncio.to_thread(self._record_answers, answers)

    def _release_lock(self) -> None:
        with self._ledger.writing(SERVICE) as session:
            locks.release(session, LOCK_NAME, self._me)

    def _next_batch(self) -> list[Emission]:
        with self._ledger.reading() as session:
            if not event_store.unemitted_events(session):
                return []  # looked for all the time: without writing anything
        with self._ledger.writing(SERVICE) as session:
            return self._claim_batch(session)

    def _record_answers(self, answers: Mapping[int, str | None]) -> list[Emission]:
        """Note the answers and claim the next batch; release the lock where there is none."""
        with self._ledger.writing(SERVICE) as session:
            for error in set(answers.values()):
                event_ids = [event for event, answer in answers.items() if answer == error]
                event_store.mark_emitted(session, event_ids, PATIENCE, error)
            emissions = self._claim_batch(session)
            if not emissions:
                locks.release(session, LOCK_NAME, self._me)
            return emissions

    def _claim_batch(self, session: WritingSession) -> list[Emission]:
        if not locks.acquire(session, LOCK_NAME, self._me, LOCK_DURATION):
            return []
        emissions: list[Emission] = []
        while not emissions and (events := event_store.unemitted_events(session)):
            for event in events:
                give_up = partial(event_store.mark_emitted, session, [event.id], PATIENCE)
                with apart(f"event {event.id}", give_up):
                    emissions.append((event.id, self._bodies(session, event)))
        return emissions

    async def _emit(self, batch: Sequence[Emission]) -> Mapping[int, str | None]:
        """Send a batch; return event -> why Prefect refuses it, None: it was accepted."""
        try:
            await self._prefect.post("/events", [body for _, bodies in batch for body in bodies])
        except (Conflict, PrefectFailed) as error:
            if len(batch) > 1:
                answers: dict[int, str | None] = {}
                for emission in batch:
                    answers |= await self._emit([emission])
                return answers
            event_id = batch[0][0]
            self._failures[event_id] += 1
            if isinstance(error, PrefectFailed) and self._failures[event_id] < MOST_FAILURES:
                raise
            del self._failures[event_id]
            logger.warning("Prefect refuses event %s: %s", event_id, error)
            return {event_id: storable_text(str(error))}
        return {event_id: None for event_id, _ in batch}

    def _bodies(self, session: ReadingSession, event: Event) -> list[Body]:
        """Build the Prefect events of an event; each has an id that stays the same."""
        # A ledger begun anew counts from 1 again: its key tells its events from former ones.
        name = f"{self._ledger.box.fingerprint} {event.id} {event.created_at.isoformat()}"
        change = event.kind == EventKind.CHANGE
        bodies = [_change(session, event)] if change else _ends(session, event)
        occurred = event.created_at.isoformat()
        return [
            {"id": str(uuid5(NAMESPACE, f"{name} {body['event']}")), "occurred": occurred, **body}
            for body in bodies
        ]


def _ends(session: ReadingSession, event: Event) -> list[Body]:
    """Return the end itself and, where the job did what it should, what its application emits."""
    template = session.get_one(RunTemplate, event.runtemplate_id)
    end = _end(template, event)
    if event.operation == FAILURE:
        return [end]
    declared = (template.app.document.get("events") or {}).get("emits") or {}
    return [end, *(_emitted(end, name, declaration) for name, declaration in declared.items())]


def _emitted(end: Body, name: str, declaration: Mapping[str, Any]) -> Body:
    evidence, operation = declaration.get("evidence") or "", declaration.get("operation") or "any"
    labels = {"jobauto.evidence": evidence, "jobauto.operation": operation}
    about = {"evidence": evidence, "operation": operation}
    return end | {
        "event": emitted_event(name),
        "resource": end["resource"] | labels,
        "payload": end["payload"] | about,
    }


def _change(session: ReadingSession, event: Event) -> Body:
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


def _end(template: RunTemplate, event: Event) -> Body:
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
