"""Automations of ours that somebody changed or deleted in Prefect: noticed, audited, put back."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from jobauto_prefect.compiler.rules import AutomationPlan
from jobauto_prefect.engine.automations import differences, plan_of
from jobauto_prefect.engine.drift import Settled
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.engine.runs import PAGE
from jobauto_prefect.ledger import events
from jobauto_prefect.ledger.audit import SERVICE, write_entry
from jobauto_prefect.ledger.records import EventRule
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.ledger.wishes import WishKind, is_owed, wish
from jobauto_prefect.settings import Settings


@dataclass(frozen=True, slots=True)
class Held:
    """An automation as it should be; `id` is Prefect's, and so is the deployment it runs."""

    rule_id: int
    id: UUID | None
    deployment_id: UUID | None
    plan: AutomationPlan


async def restore_automations(near: Neighbours, after_id: int = 0) -> tuple[list[Settled], int]:
    """Have those automations put back that differ, of a page of event rules above an id.

    What differs is looked at twice: the record may have changed just now. With what was settled
    comes the id of the last rule; 0: there are no more.

    Raises:
        PrefectUnavailable: Prefect does not answer.
    """
    held = await asyncio.to_thread(_held, near, after_id)
    suspects = [one.rule_id for one, _ in await _differing(near, held)]
    again = await asyncio.to_thread(_held, near, after_id, suspects) if suspects else []
    found = [
        await asyncio.to_thread(_restore, near, one, members)
        for one, members in await _differing(near, again)
    ]
    restored = [one for one in found if one is not None]
    return restored, held[-1].rule_id if len(held) == PAGE else 0


def _held(near: Neighbours, after_id: int, among: Collection[int] | None = None) -> list[Held]:
    with near.ledger.reading() as session:
        found = events.applied_rules(session, after_id, PAGE, among)
        return [_as_it_should_be(session, one, near.settings) for one in found]


def _as_it_should_be(session: ReadingSession, rule: EventRule, settings: Settings) -> Held:
    deployment_id = rule.runtemplate.deployment_id
    return Held(rule.id, rule.automation_id, deployment_id, plan_of(session, rule, settings))


async def _differing(near: Neighbours, held: list[Held]) -> list[tuple[Held, tuple[str, ...]]]:
    if not held:
        return []
    asked = {"automations": {"id": {"any_": [str(one.id) for one in held]}}, "limit": PAGE}
    there = {UUID(one["id"]): one for one in await near.prefect.post("/automations/filter", asked)}
    compared = [
        (one, differences(one.plan, one.deployment_id, there.get(one.id) if one.id else None))
        for one in held
    ]
    return [(one, members) for one, members in compared if members]


def _restore(near: Neighbours, seen: Held, members: tuple[str, ...]) -> Settled | None:
    """None: the record was written or applied since we looked."""
    with near.ledger.writing(SERVICE) as session:
        rule = session.get_one(EventRule, seen.rule_id, with_for_update=True)
        if rule.retired_at or is_owed(session, WishKind.APPLY_RULE, rule.id):
            return None
        if _as_it_should_be(session, rule, near.settings) != seen:
            return None
        changes = {"differed in Prefect, restored": [", ".join(members), None]}
        company = rule.runtemplate.company_id
        write_entry(session, "EventRule", "update", changes, rule.id, company)
        wish(session, WishKind.APPLY_RULE, rule.id)
        return Settled("eventrule", rule.id, seen.plan.name, restored=members)
