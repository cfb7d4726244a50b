"""Flows, work pools and deployments of ours that somebody changed or deleted in Prefect.

Whether a deployment is paused, and its cron expression and time zone, the record takes over; all
else is noted in the audit trail and put back.
"""

import asyncio
from collections.abc import Collection

from jobauto_prefect.engine.deployments import is_only_switched
from jobauto_prefect.engine.drift import Drift, Settled, drift, note_restored
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.pauses import SOMEBODY, is_switched
from jobauto_prefect.engine.plans import plan_of
from jobauto_prefect.engine.rescheduling import take_over_schedule
from jobauto_prefect.engine.runs import PAGE
from jobauto_prefect.jobs.windows import keep_windows
from jobauto_prefect.ledger import keeping
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.settings import Settings


async def settle_some(near: Neighbours, after_id: int = 0) -> tuple[list[Settled], int]:
    """Settle what differs for a page of run templates, those above an id.

    What differs is looked at twice: the record may have changed just now. With what was settled
    comes the id of the last run template; 0: there are no more.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    applied = await asyncio.to_thread(_applied, near, after_id)
    suspects = await _differing(near, applied)
    again = await asyncio.to_thread(_applied, near, after_id, [one.template_id for one in suspects])
    found = [await asyncio.to_thread(_settle, near, one) for one in await _differing(near, again)]
    settled = [one for one in found if one is not None]
    return settled, applied[-1] if len(applied) == PAGE else 0


def _applied(near: Neighbours, after_id: int, among: Collection[int] | None = None) -> list[int]:
    """The run templates of which Prefect was told all it is to be told."""
    with near.ledger.reading() as session:
        found = keeping.applied_pauses(session, after_id, PAGE, among)
        return [template_id for template_id, *_ in found]


async def _differing(near: Neighbours, template_ids: list[int]) -> list[Drift]:
    return await drift(near, among=template_ids) if template_ids else []


def _settle(near: Neighbours, seen: Drift) -> Settled | None:
    """None: the record was written or applied since we looked."""
    with near.ledger.writing(SERVICE) as session:
        template = session.get_one(
            RunTemplate, seen.template_id, with_for_update={"key_share": True}
        )
        if template.retired_at or keeping.awaits_application(session, template.id):
            return None
        if plan_of(session, template, near.settings) != seen.plan:
            return None
        taken_over = _take_over(template, seen, near.settings)
        restored = tuple(sorted({*seen.differences} - _followed(seen, taken_over)))
        note_restored(session, template, restored)
        if taken_over:
            session.actor = SOMEBODY  # whose the changes of the record are
            keep_windows(session, template, near.settings)
        wish(session, WishKind.APPLY_TEMPLATE, template.id)
        return Settled("runtemplate", template.id, seen.deployment, taken_over, restored)


def _take_over(template: RunTemplate, seen: Drift, settings: Settings) -> tuple[str, ...]:
    """Have the record say what the deployment says; which of its members."""
    if seen.found is None:
        return ()
    taken = []
    if template.applied_paused is not None and is_switched(seen.found, template.applied_paused):
        template.active = template.applied_paused
        template.applied_paused = not template.applied_paused
        taken.append("paused")
    if take_over_schedule(template, seen.found, settings):
        taken.append("schedule")
    return tuple(taken)


def _followed(seen: Drift, taken_over: Collection[str]) -> set[str]:
    """The differences that are none any more. A deployment may be switched by its schedule."""
    if (
        seen.found is not None
        and "paused" in taken_over
        and is_only_switched(seen.plan, seen.found)
    ):
        return {*taken_over, "schedule"}
    return {*taken_over}
