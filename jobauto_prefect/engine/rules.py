"""Carrying out wishes about event rules."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

from jobauto_prefect.compiler.rules import AutomationPlan
from jobauto_prefect.engine.automations import apply_automation, plan_of, retire_automation
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.errors import Conflict, Locked
from jobauto_prefect.ledger import keeping, turns
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import EventRule, Wish

TURN = timedelta(seconds=30)

Read = tuple[AutomationPlan, UUID, UUID | None]
"""The plan, the target's deployment, and the automation as the ledger remembers it."""


async def apply_rule(near: Neighbours, wish: Wish) -> None:
    """The automation of a rule as its record says.

    Raises:
        Locked: somebody else does it.
        Conflict: the run template it starts is not applied; later then.
    """
    me = uuid4()
    read = await asyncio.to_thread(_begin, near, wish.subject_id, me)
    if read is None:
        return
    automation_id = await apply_automation(near.prefect, *read)
    await asyncio.to_thread(_end, near, wish.subject_id, me, automation_id)


def _turn(rule_id: int) -> str:
    return f"rule {rule_id}"


def _begin(near: Neighbours, rule_id: int, me: UUID) -> Read | None:
    with near.ledger.writing(SERVICE) as session:
        # Two at once would make two automations.
        if not turns.take(session, _turn(rule_id), me, TURN):
            raise Locked(f"the automation of rule {rule_id} is being made already")
        rule = session.get(EventRule, rule_id)
        if rule is None or rule.retired_at is not None:
            return None
        deployment_id = rule.runtemplate.deployment_id
        if deployment_id is None:
            turns.pass_on(session, _turn(rule_id), me)
            if keeping.awaits_application(session, rule.runtemplate_id):
                return None  # whoever applies the template asks for its rules
            read = None
        else:
            read = plan_of(session, rule, near.settings), deployment_id, rule.automation_id
    if read is None:
        raise Conflict(f"the run template that rule {rule_id} starts is not applied yet")
    return read


def _end(near: Neighbours, rule_id: int, me: UUID, automation_id: UUID) -> None:
    with near.ledger.writing(SERVICE) as session:
        rule = session.get_one(EventRule, rule_id)
        rule.automation_id = automation_id
        turns.pass_on(session, _turn(rule_id), me)


async def retire_rule(near: Neighbours, wish: Wish) -> None:
    """The automation of a deleted rule goes."""
    await retire_automation(near.prefect, UUID(wish.payload["id"]))
