"""Event emitter: sends the events of the ledger to Prefect, in order, each once.

An event that got lost on the way is sent again with the same id, which Prefect counts once. If
Prefect loses it afterwards, `engine/services/event_dispatch.py` takes over.
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
from jobauto_prefect.errors import Conflict, NotFound, PrefectFailed
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger import locks
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events import event_store
from jobauto_prefect.ledger.events.deliveries import EventKind
from jobauto_prefect.ledger.events.event_store import Unemitted
from jobauto_prefect.ledger.records import Event
from jobauto_prefect.ledger.store import Ledger

logger = logging.getLogger(__name__)

NAMESPACE = UUID("4c0f3f0e-6a53-4c2b-9d5c-6f2f3c1c9f10")
LOCK_NAME = "emission"
LOCK_DURATION = timedelta(seconds=10)
PATIENCE = timedelta(seconds=15)
"""How long Prefect's automations have to make a run before we look for it."""

TOGETHER_SECONDS = 0.3
"""Minimum pause between emissions. Without it each end of a burst would be an emission of its own,
with two transactions here and a request to Prefect."""

FAILED_SECONDS = 1.0
"""The same after Prefect failed on an event."""

FAILURE = "failure"
Body = dict[str, Any]
Emission = tuple[Unemitted, list[Body]]
"""An event of the ledger, and the Prefect events made from it."""

EXTERNAL_IDS_SHOWN = 300  # characters
MOST_FAILURES = 10  # of Prefect on one event, until it is given up


class EventEmitter:
    """Emits pending events; only one process at a time, to keep their order."""

    def __init__(self, ledger: Ledger, prefect: PrefectApi) -> None:
        self._ledger = ledger
        self._prefect = prefect
        self._lock = locks.HeldLock(LOCK_NAME, uuid4())
        self._failures: Counter[int] = Counter()

    async def emit_all(self) -> None:
        """Emit pending events: the first at once, those that closely follow it in a batch.

        Raises:
            PrefectUnavailable: Prefect does not answer; unsent events are sent again.
        """
        is_more = True
        while is_more:
            batch, is_more = await asyncio.to_thread(self._next_batch)
            if not batch:
                return
            try:
                answers = await self._emit(batch)
            except BaseException:
                await asyncio.shield(asyncio.to_thread(self._release_lock))
                raise
            await asyncio.to_thread(self._record_answers, batch, answers)
            is_failing = len(answers) < len(batch)
            is_more |= is_failing
            await asyncio.sleep(FAILED_SECONDS if is_failing else TOGETHER_SECONDS)

    def _release_lock(self) -> None:
        with self._ledger.writing(SERVICE) as session:
            locks.release(session, *self._lock)

    def _next_batch(self) -> tuple[list[Emission], bool]:
        """Return the next batch (holding the lock if it has any) and whether more are left."""
        emissions: list[Emission] = []
        with self._ledger.writing(SERVICE) as session:
            if not locks.acquire(session, *self._lock, LOCK_DURATION):
                return [], False
            while not emissions and (events := event_store.unemitted_events(session)):
                for unemitted in events:
                    give_up = partial(event_store.mark_emitted, session, [unemitted], PATIENCE)
                    with apart(f"event {unemitted.event.id}", give_up):
                        emissions.append((unemitted, self._bodies(unemitted)))
            if not emissions:
                locks.release(session, *self._lock)
                return [], False
            return emissions, len(events) == event_store.EMITTED_AT_ONCE

    def _record_answers(self, batch: Sequence[Emission], answers: Mapping[int, str | None]) -> None:
        """Store the answers, and release the lock."""
        with self._ledger.writing(SERVICE) as session:
            lock: locks.HeldLock | None = self._lock
            for error in set(answers.values()):
                told = {event for event, answer in answers.items() if answer == error}
                events = [each for each, _ in batch if each.event.id in told]
                event_store.mark_emitted(session, events, PATIENCE, error, lock)
                lock = None
            if lock is not None:
                locks.release(session, *lock)

    async def _emit(self, batch: Sequence[Emission]) -> Mapping[int, str | None]:
        """Send a batch; return why Prefect refused each event, None if it accepted it.

        An event on which Prefect fails is omitted, to be sent again, until it has failed too often.
        """
        try:
            await self._prefect.post("/events", [body for _, bodies in batch for body in bodies])
        except (Conflict, PrefectFailed) as error:
            if len(batch) > 1:
                half = len(batch) // 2
                return {**await self._emit(batch[:half]), **await self._emit(batch[half:])}
            event_id = batch[0][0].event.id
            self._failures[event_id] += 1
            if isinstance(error, PrefectFailed) and self._failures[event_id] < MOST_FAILURES:
                logger.warning("event %s is sent again: %s", event_id, error)
                return {}
            del self._failures[event_id]
            logger.warning("Prefect refuses event %s: %s", event_id, error)
            return {event_id: storable_text(str(error))}
        return {unemitted.event.id: None for unemitted, _ in batch}

    def _bodies(self, unemitted: Unemitted) -> list[Body]:
        """Build the Prefect events of an event; each has a stable id."""
        event = unemitted.event
        # A new ledger counts from 1 again: its key distinguishes its events from former ones.
        name = f"{self._ledger.box.fingerprint} {event.id} {event.created_at.isoformat()}"
        change = event.kind == EventKind.CHANGE
        bodies = [_change(unemitted)] if change else _ends(unemitted)
        occurred = event.created_at.isoformat()
        return [
            {"id": str(uuid5(NAMESPACE, f"{name} {body['event']}")), "occurred": occurred, **body}
            for body in bodies
        ]


def _ends(unemitted: Unemitted) -> list[Body]:
    """Return the end itself and, if the job succeeded, the events its application emits."""
    end = _end(unemitted)
    if unemitted.event.operation == FAILURE:
        return [end]
    bodies = [end]
    for name, declaration in unemitted.emits.items():
        evidence = declaration.get("evidence") or ""
        operation = declaration.get("operation") or "any"
        labels = {"jobauto.evidence": evidence, "jobauto.operation": operation}
        about = {"evidence": evidence, "operation": operation}
        bodies.append(
            end
            | {
                "event": emitted_event(name),
                "resource": end["resource"] | labels,
                "payload": end["payload"] | about,
            }
        )
    return bodies


def _change(unemitted: Unemitted) -> Body:
    event, source = unemitted.event, unemitted.source
    if event.event_source_id is None or source is None:
        raise NotFound(f"event {event.id} is a change of a source that is gone")
    evidence, record_id = event.evidence or "record", event.record_id or ""
    external_ids = str(event.data.get("externalids") or "")[:EXTERNAL_IDS_SHOWN]
    return {
        "event": change_event(event.event_source_id),
        "resource": {
            "prefect.resource.id": f"jobauto.source.{event.event_source_id}.{evidence}.{record_id}",
            "prefect.resource.name": f"{evidence} {record_id}".strip(),
            **_labels(event),
        },
        "related": [
            {
                "prefect.resource.id": f"jobauto.source.{event.event_source_id}",
                "prefect.resource.role": "event-source",
                "prefect.resource.name": source,
            }
        ],
        "payload": {
            "event": event.id,
            "source": source,
            "inversion": event.inversion,
            "recordid": event.record_id,
            "evidence": event.evidence,
            "operation": event.operation,
            "externalids": external_ids,
        },
    }


def _end(unemitted: Unemitted) -> Body:
    event = unemitted.event
    if event.runtemplate_id is None:
        raise NotFound(f"event {event.id} is the end of a run template that is gone")
    deployment = {
        "prefect.resource.id": f"prefect.deployment.{unemitted.deployment_id}",
        "prefect.resource.role": "deployment",
        "prefect.resource.name": unemitted.template,
    }
    return {
        "event": end_event(event.runtemplate_id, event.operation),
        "resource": {
            "prefect.resource.id": f"jobauto.job.{event.job_id}",
            "prefect.resource.name": f"{unemitted.company} / {unemitted.template} #{event.job_id}",
            **_labels(event),
        },
        "related": [] if unemitted.deployment_id is None else [deployment],
        "payload": {"event": event.id, "job": event.job_id, "result": event.operation},
    }


def _labels(event: Event) -> dict[str, str]:
    return {
        "jobauto.event": str(event.id),
        "jobauto.evidence": event.evidence or "",
        "jobauto.operation": event.operation,
    }
