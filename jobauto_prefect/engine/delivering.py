"""Starting what events owe where Prefect's automations have not: nothing owed is forgotten.

An automation's run that waits for a worker is looked for first, so that a rule has one run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.runs import PAGE
from jobauto_prefect.ledger import deliveries, starting
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.deliveries import DeliveryState
from jobauto_prefect.ledger.records import Delivery

CLOCKS_APART = timedelta(seconds=60)
"""By so much Prefect's clock may be behind the ledger's."""

LOOK_AGAIN = timedelta(seconds=60)
"""How often to ask whether a run that waits for a worker is still there."""

WAITING = ["SCHEDULED", "PENDING", "RUNNING", "PAUSED"]

Key = tuple[int, int]
"""Event and rule."""


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery to be started; `deployment_id` is its target's, `flow_run_id` a run seen."""

    key: Key
    happened_at: datetime
    deployment_id: UUID | None
    flow_run_id: UUID | None


async def deliver_all(near: Neighbours) -> None:
    """Start all that is due, some at a time.

    Raises:
        PrefectUnavailable: Prefect does not answer, so nobody knows which runs it has.
    """
    while await deliver(near) == deliveries.BATCH:
        pass


async def deliver(near: Neighbours) -> int:
    """Start some of what is due, the most urgent first; how many there were.

    Raises:
        PrefectUnavailable: Prefect does not answer, so nobody knows which runs it has.
    """
    due = await asyncio.to_thread(_due, near)
    if not due:
        return 0
    waiting = await _waiting_runs(near, due)
    ended = await _ended_runs(near, [one for one in due if one.key not in waiting])
    for one in due:
        await asyncio.to_thread(_settle, near, one.key, waiting.get(one.key), ended.get(one.key))
    return len(due)


def _due(near: Neighbours) -> list[Due]:
    with near.ledger.reading() as session:
        return [
            Due(
                (one.event_id, one.rule_id),
                one.event.created_at,
                one.rule.runtemplate.deployment_id,
                one.flow_run_id,
            )
            for one in deliveries.due(session, near.ledger.clock())
        ]


async def _waiting_runs(near: Neighbours, due: Sequence[Due]) -> dict[Key, UUID]:
    """The runs that wait and say that they are for one of these.

    A run from before its event is another ledger's, which counted as this one does.
    """
    happened = {one.key: one.happened_at - CLOCKS_APART for one in due}
    deployments = sorted({str(one.deployment_id) for one in due if one.deployment_id})
    body: dict[str, Any] = {
        "deployments": {"id": {"any_": deployments}},
        "flow_runs": {"state": {"type": {"any_": WAITING}}},
        "sort": "ID_DESC",
        "limit": PAGE,
        "offset": 0,
    }
    found: dict[Key, UUID] = {}
    while deployments:
        page = await near.prefect.post("/flow_runs/filter", body)
        for run in page:
            key = _key(run)
            if key in happened and datetime.fromisoformat(run["created"]) > happened[key]:
                found[key] = UUID(run["id"])
        if len(page) < PAGE:
            break
        body["offset"] += PAGE
    return found


def _key(run: Mapping[str, Any]) -> Key | None:
    said = run["parameters"].get("jobauto")
    if not isinstance(said, dict):
        return None
    event, rule = said.get("event"), said.get("rule")
    return (event, rule) if isinstance(event, int) and isinstance(rule, int) else None


async def _ended_runs(near: Neighbours, due: Sequence[Due]) -> dict[Key, str]:
    """Of the runs we have seen waiting: those that ended without a job, and how."""
    seen = {one.flow_run_id: one.key for one in due if one.flow_run_id}
    found: dict[Key, str] = {}
    ids = [str(one) for one in seen]
    for start in range(0, len(ids), PAGE):
        body = {"flow_runs": {"id": {"any_": ids[start : start + PAGE]}}}
        for run in await near.prefect.post("/flow_runs/filter", body):
            if run["state_type"] not in WAITING:
                found[seen[UUID(run["id"])]] = run["state_type"]
    return found


def _settle(near: Neighbours, key: Key, waiting: UUID | None, ended: str | None) -> None:
    with near.ledger.writing(SERVICE) as session:
        delivery = deliveries.of(session, *key)
        if delivery is None or delivery.state != DeliveryState.OWED:
            return
        if waiting is not None:
            _wait_for(delivery, waiting, near)
        elif ended is not None:
            deliveries.kill(delivery, f"its flow run {delivery.flow_run_id} is {ended.lower()}")
        else:
            starting.start(session, *key)


def _wait_for(delivery: Delivery, flow_run_id: UUID, near: Neighbours) -> None:
    delivery.flow_run_id = flow_run_id
    delivery.due_at = near.ledger.clock() + LOOK_AGAIN
