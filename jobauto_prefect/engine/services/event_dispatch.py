"""Event dispatch: starts jobs for event rules whose Prefect automation has not.

It first looks for a run of the automation that waits for a worker, so that a rule gets one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.events import deliveries
from jobauto_prefect.ledger.states import DeliveryState
from jobauto_prefect.ledger.store import ReadingSession

CLOCKS_APART = timedelta(seconds=60)
"""How far Prefect's clock may be behind the ledger's."""

LOOK_AGAIN = timedelta(seconds=60)
"""How often to check whether a run that waits for a worker still exists."""

WAITING = ["SCHEDULED", "PENDING", "RUNNING", "PAUSED"]

Key = tuple[int, int]
"""Event and rule."""


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery to start; `deployment_id` is its target's, `flow_run_id` that of a known run."""

    key: Key
    happened_at: datetime
    deployment_id: UUID | None
    flow_run_id: UUID | None


async def dispatch_all(context: EngineContext) -> None:
    """Start all due deliveries, a batch at a time.

    Raises:
        PrefectUnavailable: Prefect does not answer, so its runs are unknown.
    """
    while await dispatch_batch(context) == deliveries.BATCH:
        pass


async def dispatch_batch(context: EngineContext) -> int:
    """Start a batch of due deliveries, the most urgent first; return how many there were.

    Raises:
        PrefectUnavailable: Prefect does not answer, so its runs are unknown.
    """
    due = await context.read(_due, context.ledger.clock())
    if not due:
        return 0
    waiting = await _waiting_runs(context, due)
    ended = await _ended_runs(
        context, [delivery for delivery in due if delivery.key not in waiting]
    )
    for delivery in due:
        event, rule = delivery.key
        with apart(f"event {event} for rule {rule}", partial(_bury, context, delivery.key)):
            await context.write(
                _settle, delivery.key, waiting.get(delivery.key), ended.get(delivery.key)
            )
    return len(due)


def _due(session: ReadingSession, now: datetime) -> list[DueDelivery]:
    return [
        DueDelivery(
            (delivery.event_id, delivery.rule_id),
            delivery.event.created_at,
            delivery.rule.runtemplate.deployment_id,
            delivery.flow_run_id,
        )
        for delivery in deliveries.due_deliveries(session, now)
    ]


async def _waiting_runs(context: EngineContext, due: Sequence[DueDelivery]) -> dict[Key, UUID]:
    """Find the waiting runs that automations made for these deliveries.

    A run older than its event belongs to another ledger with the same event numbers.
    """
    happened = {delivery.key: delivery.happened_at - CLOCKS_APART for delivery in due}
    deployments = sorted(
        {str(delivery.deployment_id) for delivery in due if delivery.deployment_id}
    )
    body: dict[str, Any] = {
        "deployments": {"id": {"any_": deployments}},
        "flow_runs": {"state": {"type": {"any_": WAITING}}},
        "sort": "ID_DESC",
    }
    runs: dict[Key, UUID] = {}
    if not deployments:
        return runs
    async for page in context.prefect.pages("/flow_runs/filter", body):
        for run in page:
            key = _key(run)
            if key in happened and datetime.fromisoformat(run["created"]) > happened[key]:
                runs[key] = UUID(run["id"])
    return runs


def _key(run: Mapping[str, Any]) -> Key | None:
    references = run["parameters"].get("jobauto")
    if not isinstance(references, dict):
        return None
    event, rule = references.get("event"), references.get("rule")
    return (event, rule) if isinstance(event, int) and isinstance(rule, int) else None


async def _ended_runs(context: EngineContext, due: Sequence[DueDelivery]) -> dict[Key, str]:
    """Find the formerly waiting runs that ended without a job, with their state."""
    seen = {delivery.flow_run_id: delivery.key for delivery in due if delivery.flow_run_id}
    endings: dict[Key, str] = {}
    ids = [str(flow_run_id) for flow_run_id in seen]
    for start in range(0, len(ids), PAGE_SIZE):
        body = {"flow_runs": {"id": {"any_": ids[start : start + PAGE_SIZE]}}}
        for run in await context.prefect.post("/flow_runs/filter", body):
            if run["state_type"] not in WAITING:
                endings[seen[UUID(run["id"])]] = run["state_type"]
    return endings


def _settle(session: WritingSession, key: Key, waiting: UUID | None, ended: str | None) -> None:
    delivery = deliveries.lock_delivery(session, *key)
    if delivery is None or delivery.state != DeliveryState.OWED:
        return
    if waiting is not None:
        delivery.flow_run_id = waiting
        delivery.due_at = session.clock() + LOOK_AGAIN
    elif ended is not None:
        deliveries.mark_dead(delivery, f"its flow run {delivery.flow_run_id} is {ended.lower()}")
    else:
        deliveries.start_delivery(session, *key)


def _bury(context: EngineContext, key: Key, reason: str) -> None:
    with context.ledger.writing(SERVICE) as session:
        delivery = deliveries.lock_delivery(session, *key)
        if delivery is not None and delivery.state == DeliveryState.OWED:
            deliveries.mark_dead(delivery, reason)
