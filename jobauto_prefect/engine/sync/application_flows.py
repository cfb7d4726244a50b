"""The flow of an application: created at import, deleted with it or with its last run.

It has the application's name, with a part of its UUID if another application has that name. An
application keeps its flow's name, because another name would mean another flow. Names are reserved
in the ledger before Prefect gets them, so that two applications applied at the same time can't end
up with one flow.
"""

import asyncio
from uuid import UUID

from jobauto_prefect.compiler.deployments import flow_name, flow_plan
from jobauto_prefect.compiler.plan import FlowPlan
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployment_comparison import PrefectObject, flow_differences
from jobauto_prefect.engine.sync.deployments import ensure_flow, retire_flow
from jobauto_prefect.engine.sync.drift import Differences, ObjectComparison
from jobauto_prefect.engine.sync.record_locks import hold_record
from jobauto_prefect.errors import Locked
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger.audit.trail import SERVICE, WritingSession
from jobauto_prefect.ledger.jobs.windows import is_flow_in_use, retired_flows
from jobauto_prefect.ledger.outbox import OutboxKind
from jobauto_prefect.ledger.queries.applications import (
    applied_apps,
    flow_names_of_others,
    is_flow_leaving,
    lock_applications,
)
from jobauto_prefect.ledger.records import App, OutboxMessage
from jobauto_prefect.ledger.store import Ledger, ReadingSession
from jobauto_prefect.settings import Settings


async def apply_app(context: EngineContext, message: OutboxMessage) -> None:
    """Change the flow to match the record; safe to repeat.

    A new name makes a new flow; the old one is deleted once it has no deployments and no runs.

    Raises:
        Locked: another process is doing it.
    """
    app_id = message.subject_id
    async with hold_record(context, f"app {app_id}"):
        read = await asyncio.to_thread(_plan, context, app_id)
        if read is None:
            return
        plan, remembered = read
        flow_id = await ensure_flow(context.prefect, plan, remembered, [])
        if flow_id == remembered:
            return
        await context.write(_remember, app_id, flow_id)
        if remembered is not None and not await is_in_use(context, remembered):
            await retire_flow(context.prefect, str(remembered))


def _plan(context: EngineContext, app_id: int) -> tuple[FlowPlan, UUID | None] | None:
    with context.ledger.reading() as session:
        app = session.get(App, app_id)
        if app is None or app.retired_at is not None:
            return None
    reserve_name(context.ledger, app_id, context.settings.language)
    with context.ledger.reading() as session:
        app = session.get_one(App, app_id)
        return _desired(session, app, context.settings), app.flow_id


def _desired(session: ReadingSession, app: App, settings: Settings) -> FlowPlan:
    return flow_plan(
        app.id,
        app.definition,
        settings.language,
        name_is_shared=name_is_shared(session, app, settings.language),
        topics=app.topics,
    )


def _remember(session: WritingSession, app_id: int, flow_id: UUID | None) -> None:
    app = session.get(App, app_id)
    if app is not None:
        app.flow_id = flow_id


async def retire_app(context: EngineContext, message: OutboxMessage) -> None:
    """Delete the flow of a deleted application, unless it still has runs."""
    flow_id = UUID(message.payload["id"])
    if not await is_in_use(context, flow_id):
        await _retire(context, message.subject_id, flow_id)


async def _retire(context: EngineContext, app_id: int, flow_id: UUID) -> None:
    if await retire_flow(context.prefect, str(flow_id)):
        await context.write(_remember, app_id, None)


async def is_in_use(context: EngineContext, flow_id: UUID) -> bool:
    """Whether a flow is an application's, with or without deployments."""
    return await context.read(is_flow_in_use, flow_id)


async def delete_unused_flows(context: EngineContext) -> None:
    """Delete the flows of deleted applications once retention has deleted their last run."""
    for app_id, flow_id in (await context.read(retired_flows)).items():
        with apart(f"the flow of application {app_id}"):
            await _retire(context, app_id, flow_id)


class FlowComparison(ObjectComparison[App, FlowPlan]):
    """Applications and their flows."""

    record, entity, kind = App, "App", "app"
    message = OutboxKind.APPLY_APP
    collection = "flows"
    applied = staticmethod(applied_apps)

    def desired(self, session: ReadingSession, record: App) -> FlowPlan:
        """Compute what Prefect should hold for an application."""
        return _desired(session, record, self.context.settings)

    def differences(self, plan: FlowPlan, found: PrefectObject | None) -> Differences:
        """Compare name and tags."""
        return flow_differences(plan, found)


def name_is_shared(session: ReadingSession, app: App, language: str) -> bool:
    """Whether the flow's name needs more than the application's name."""
    own, longer = _names(app, language)
    if app.flow_name in (own, longer):
        return app.flow_name == longer
    return own in flow_names_of_others(session, app)


def has_name(app: App, language: str) -> bool:
    """Whether the flow of an application has its name."""
    return app.flow_name in _names(app, language)


def reserve_name(ledger: Ledger, app_id: int, language: str) -> None:
    """Give the flow of an application its name, unless it has one.

    Raises:
        Locked: the flow of that name is being deleted with its former application; if it were
            reused now, it would be gone a moment later.
    """
    with ledger.reading() as session:
        if has_name(session.get_one(App, app_id), language):
            return
    with ledger.writing(SERVICE) as session:
        lock_applications(session)
        app = session.get_one(App, app_id)
        own, longer = _names(app, language)
        if is_flow_leaving(session, own):
            raise Locked(f"flow {own} is being deleted with its former application")
        app.flow_name = longer if name_is_shared(session, app, language) else own


def _names(app: App, language: str) -> tuple[str, str]:
    definition = app.definition
    own, longer = (flow_name(app.id, definition, language, shared) for shared in (False, True))
    return own, longer
