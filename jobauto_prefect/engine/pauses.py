"""Pausing and resuming in Prefect's UI, taken over into the record."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobauto_prefect.engine.deployments import (
    Found,
    differences,
    is_only_switched,
    schedule_in,
)
from jobauto_prefect.engine.drift import note_restored
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.plans import plan_of
from jobauto_prefect.engine.rescheduling import take_over_schedule
from jobauto_prefect.engine.runs import PAGE
from jobauto_prefect.jobs.windows import keep_windows
from jobauto_prefect.ledger import keeping
from jobauto_prefect.ledger.audit import Actor, WritingSession
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.settings import Settings

SOMEBODY = Actor(name="prefect", door="ui")
"""Prefect does not know who clicks in its pages."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What Prefect was last told of a template's deployment, and when the record was written."""

    template_id: int
    deployment_id: UUID
    paused: bool
    updated_at: datetime


async def take_over_some(near: Neighbours, after_id: int) -> int:
    """Look at a page of deployments, those of the templates above an id.

    Returns the last template's id; 0: there are no more.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    applied = await asyncio.to_thread(_applied, near.ledger, after_id)
    await _take_over(near, applied)
    return applied[-1].template_id if len(applied) == PAGE else 0


async def take_over(near: Neighbours, template_ids: Collection[int]) -> set[int]:
    """Of these templates, those whose deployments somebody paused or resumed; the records follow.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    applied = await asyncio.to_thread(_applied, near.ledger, 0, template_ids)
    return await _take_over(near, applied)


def _applied(
    ledger: Ledger, after_id: int, template_ids: Collection[int] | None = None
) -> list[Applied]:
    with ledger.reading() as session:
        found = keeping.applied_pauses(session, after_id, PAGE, template_ids)
        return [Applied(*one) for one in found]


async def _take_over(near: Neighbours, applied: list[Applied]) -> set[int]:
    if not applied:
        return set()
    wanted = [str(one.deployment_id) for one in applied]
    body = {"deployments": {"id": {"any_": wanted}}, "limit": PAGE}
    found = {UUID(one["id"]): one for one in await near.prefect.post("/deployments/filter", body)}
    changed = [
        (one, found[one.deployment_id])
        for one in applied
        if one.deployment_id in found and is_switched(found[one.deployment_id], one.paused)
    ]
    if not changed:
        return set()
    return await asyncio.to_thread(_write, near, changed)


def is_switched(deployment: Found, paused: bool) -> bool:
    """Whether a deployment is not what it was applied as; it can be switched as a whole, or its
    schedule: either counts.
    """
    ours = schedule_in(deployment)
    said = [deployment["paused"], *([not ours["active"]] if ours else [])]
    return any(one != paused for one in said)


def _write(near: Neighbours, changed: list[tuple[Applied, Found]]) -> set[int]:
    taken: set[int] = set()
    for one, deployment in changed:
        with near.ledger.writing(SOMEBODY) as session:
            template = session.get_one(
                RunTemplate, one.template_id, with_for_update={"key_share": True}
            )
            # What was written or applied while we looked is newer than what we saw.
            known = Applied(
                one.template_id, one.deployment_id, template.applied_paused is True,
                template.updated_at,
            )  # fmt: skip
            if (
                known != one
                or template.retired_at
                or keeping.awaits_application(session, template.id)
            ):
                continue
            template.active = one.paused
            template.applied_paused = not one.paused
            take_over_schedule(template, deployment, near.settings)  # the wish would undo it
            keep_windows(session, template, near.settings)
            note_restored(session, template, _left(session, template, deployment, near.settings))
            wish(session, WishKind.APPLY_TEMPLATE, template.id)
            taken.add(template.id)
    return taken


def _left(
    session: WritingSession, template: RunTemplate, deployment: Found, settings: Settings
) -> set[str]:
    """What of a deployment still is not as its record says, which has followed it."""
    plan = plan_of(session, template, settings)
    switched = {"paused", "schedule"} if is_only_switched(plan, deployment) else {"paused"}
    return {*differences(plan, deployment)} - switched
