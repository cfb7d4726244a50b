"""Event rules and the ledger's side of their automations: applied, compared, retired."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from jobauto_prefect.compiler.events.automations import AutomationPlan
from jobauto_prefect.engine.api import PAGE_SIZE
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.automations import (
    apply_automation,
    desired_automation,
    differences,
    retire_automation,
)
from jobauto_prefect.engine.sync.drift import Comparison, Drift, last_of, read_objects
from jobauto_prefect.errors import Conflict, Locked
from jobauto_prefect.ledger import locks, outbox
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.events import event_store
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.prefect_objects import enqueue_deletion
from jobauto_prefect.ledger.records import EventRule, OutboxMessage
from jobauto_prefect.ledger.store import ReadingSession

LOCK_DURATION = timedelta(seconds=30)

Read = tuple[AutomationPlan, UUID, UUID | None]
"""The plan, the target's deployment, and the automation as the ledger remembers it."""


async def apply_rule(context: EngineContext, message: OutboxMessage) -> None:
    """Apply the automation of a rule.

    Raises:
        Locked: somebody else does it.
        Conflict: the run template it starts is not applied; later then.
    """
    me = uuid4()
    read = await asyncio.to_thread(_begin, context, message.subject_id, me)
    if read is None:
        return
    automation_id = await apply_automation(context.prefect, *read)
    await asyncio.to_thread(_end, context, message.subject_id, me, automation_id)


def _lock_name(rule_id: int) -> str:
    return f"rule {rule_id}"


def _begin(context: EngineContext, rule_id: int, me: UUID) -> Read | None:
    with context.ledger.writing(SERVICE) as session:
        # Two at once would make two automations.
        if not locks.acquire(session, _lock_name(rule_id), me, LOCK_DURATION):
            raise Locked(f"the automation of rule {rule_id} is being made already")
        rule = session.get(EventRule, rule_id)
        if rule is None or rule.retired_at is not None:
            return None
        deployment_id = rule.runtemplate.deployment_id
        if deployment_id is None:
            locks.release(session, _lock_name(rule_id), me)
            if outbox.is_pending(session, OutboxKind.APPLY_TEMPLATE, rule.runtemplate_id):
                return None  # applying the template enqueues its rules
            read = None
        else:
            read = (
                desired_automation(session, rule, context.settings, session.clock()),
                deployment_id,
                rule.automation_id,
            )
    if read is None:
        raise Conflict(f"the run template that rule {rule_id} starts is not applied yet")
    return read


def _end(context: EngineContext, rule_id: int, me: UUID, automation_id: UUID) -> None:
    with context.ledger.writing(SERVICE) as session:
        rule = session.get_one(EventRule, rule_id, with_for_update={"key_share": True})
        rule.automation_id = automation_id
        if rule.retired_at is not None:  # meanwhile
            enqueue_deletion(session, rule)
        locks.release(session, _lock_name(rule_id), me)


async def retire_rule(context: EngineContext, message: OutboxMessage) -> None:
    """Delete the automation of a deleted rule."""
    await retire_automation(context.prefect, UUID(message.payload["id"]))


@dataclass(frozen=True, slots=True)
class DesiredAutomation:
    """An automation as it should be; `id` is Prefect's, and so is the deployment it runs."""

    id: UUID | None
    deployment_id: UUID | None
    plan: AutomationPlan

    @property
    def name(self) -> str:
        """The automation's name."""
        return self.plan.name


class AutomationComparison(Comparison[EventRule, DesiredAutomation]):
    """Event rules, and their automations."""

    record, entity, kind = EventRule, "EventRule", "eventrule"
    message = OutboxKind.APPLY_RULE

    async def find(
        self, after_id: int = 0, among: Collection[int] | None = None
    ) -> tuple[list[Drift[DesiredAutomation]], int]:
        """Find what differs on a page of event rules."""
        desired = await asyncio.to_thread(self._applied, after_id, among)
        ids = [str(automation.id) for automation in desired.values()]
        objects = await read_objects(self.context.prefect, "automations", "id", ids)
        present = {UUID(automation["id"]): automation for automation in objects}
        drifts = []
        for rule_id, automation in desired.items():
            actual = present.get(automation.id) if automation.id else None
            if names := differences(automation.plan, automation.deployment_id, actual):
                drifts.append(
                    Drift(rule_id, automation, actual, dict.fromkeys(names, (None, None)))
                )
        return drifts, last_of([*desired])

    def _applied(
        self, after_id: int, among: Collection[int] | None
    ) -> dict[int, DesiredAutomation]:
        with self.context.ledger.reading() as session:
            rules = event_store.applied_rules(session, after_id, PAGE_SIZE, among)
            return {rule.id: self.desired(session, rule) for rule in rules}

    def desired(self, session: ReadingSession, record: EventRule) -> DesiredAutomation:
        """Compute what Prefect should hold of an event rule."""
        context = self.context
        plan = desired_automation(session, record, context.settings, context.ledger.clock())
        return DesiredAutomation(record.automation_id, record.runtemplate.deployment_id, plan)

    def company_of(self, record: EventRule) -> int:
        """Return the id of the company whose run template the rule starts."""
        return record.runtemplate.company_id
