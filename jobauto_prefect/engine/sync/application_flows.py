"""The flow of an application: there from its import on, gone with it or with its last run."""

import asyncio
from uuid import UUID

from jobauto_prefect.compiler.deployments import flow_plan
from jobauto_prefect.compiler.plan import FlowPlan
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.deployments import ensure_flow, retire_flow
from jobauto_prefect.engine.sync.flow_names import name_is_shared, reserve_name
from jobauto_prefect.jobs.isolation import apart
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.jobs.windows import is_flow_in_use, retired_flows
from jobauto_prefect.ledger.records import App, OutboxMessage


async def apply_app(context: EngineContext, message: OutboxMessage) -> None:
    """Change the flow to what the record says; safe to repeat.

    Under a new name there is a new flow; the old one goes where nothing is left of it.
    """
    read = await asyncio.to_thread(_plan, context, message.subject_id)
    if read is None:
        return
    plan, remembered = read
    flow_id = await ensure_flow(context.prefect, plan, remembered, [])
    if flow_id != remembered:
        await asyncio.to_thread(_remember, context, message.subject_id, flow_id)
        if remembered is not None and not await asyncio.to_thread(_is_in_use, context, remembered):
            await retire_flow(context.prefect, str(remembered))


def _plan(context: EngineContext, app_id: int) -> tuple[FlowPlan, UUID | None] | None:
    with context.ledger.reading() as session:
        app = session.get(App, app_id)
        if app is None or app.retired_at is not None:
            return None
    language = context.settings.language
    reserve_name(context.ledger, app_id, language)
    with context.ledger.reading() as session:
        app = session.get_one(App, app_id)
        shared = name_is_shared(session, app, language)
        plan = flow_plan(
            app.id,
            app.definition,
            language,
            name_is_shared=shared,
            topics=app.topics,
        )
        return plan, app.flow_id


def _remember(context: EngineContext, app_id: int, flow_id: UUID | None) -> None:
    with context.ledger.writing(SERVICE) as session:
        app = session.get(App, app_id)
        if app is not None:
            app.flow_id = flow_id


async def retire_app(context: EngineContext, message: OutboxMessage) -> None:
    """Delete the flow of a deleted application; one that has runs stays as long as they do."""
    flow_id = UUID(message.payload["id"])
    if not await asyncio.to_thread(_is_in_use, context, flow_id):
        await _retire(context, message.subject_id, flow_id)


async def _retire(context: EngineContext, app_id: int, flow_id: UUID) -> None:
    if await retire_flow(context.prefect, str(flow_id)):
        await asyncio.to_thread(_remember, context, app_id, None)


def _is_in_use(context: EngineContext, flow_id: UUID) -> bool:
    with context.ledger.reading() as session:
        return is_flow_in_use(session, flow_id)


async def delete_unused_flows(context: EngineContext) -> None:
    """Delete the flows of deleted applications whose last run has gone with retention."""
    for app_id, flow_id in (await asyncio.to_thread(_retired, context)).items():
        with apart(f"the flow of application {app_id}"):
            await _retire(context, app_id, flow_id)


def _retired(context: EngineContext) -> dict[int, UUID]:
    with context.ledger.reading() as session:
        return retired_flows(session)
