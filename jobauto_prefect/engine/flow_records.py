"""The flow of an application: there from its import on, gone with it or with its last run."""

import asyncio
from uuid import UUID

from jobauto_prefect.compiler.plan import FlowPlan
from jobauto_prefect.compiler.planning import flow_plan
from jobauto_prefect.definitions import parse
from jobauto_prefect.engine.apply import ensure_flow, retire_flow
from jobauto_prefect.engine.naming import name_is_shared, reserve_name
from jobauto_prefect.engine.neighbours import Neighbours
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.keeping import is_flow_in_use, retired_flows
from jobauto_prefect.ledger.records import App, Wish


async def apply_app(near: Neighbours, wish: Wish) -> None:
    """Bring the flow to what the record says; safe to repeat.

    Under a new name there is a new flow; the old one goes where nothing is left of it.
    """
    read = await asyncio.to_thread(_plan, near, wish.subject_id)
    if read is None:
        return
    plan, known = read
    flow_id = await ensure_flow(near.prefect, plan, known, [])
    if flow_id != known:
        await asyncio.to_thread(_remember, near, wish.subject_id, flow_id)
        if known is not None:
            await retire_flow(near.prefect, str(known))


def _plan(near: Neighbours, app_id: int) -> tuple[FlowPlan, UUID | None] | None:
    with near.ledger.reading() as session:
        app = session.get(App, app_id)
        if app is None or app.retired_at is not None:
            return None
    language = near.settings.language
    reserve_name(near.ledger, app_id, language)
    with near.ledger.reading() as session:
        app = session.get_one(App, app_id)
        shared = name_is_shared(session, app, language)
        plan = flow_plan(
            app.id,
            parse(app.document),
            language,
            name_is_shared=shared,
            topics=app.topics,
        )
        return plan, app.flow_id


def _remember(near: Neighbours, app_id: int, flow_id: UUID | None) -> None:
    with near.ledger.writing(SERVICE) as session:
        app = session.get(App, app_id)
        if app is not None:
            app.flow_id = flow_id


async def retire_app(near: Neighbours, wish: Wish) -> None:
    """The flow of a deleted application goes; one that has runs stays as long as they do."""
    flow_id = UUID(wish.payload["id"])
    if not await asyncio.to_thread(_is_in_use, near, flow_id):
        await _retire(near, wish.subject_id, flow_id)


async def _retire(near: Neighbours, app_id: int, flow_id: UUID) -> None:
    if await retire_flow(near.prefect, str(flow_id)):
        await asyncio.to_thread(_remember, near, app_id, None)


def _is_in_use(near: Neighbours, flow_id: UUID) -> bool:
    with near.ledger.reading() as session:
        return is_flow_in_use(session, flow_id)


async def clear_retired(near: Neighbours) -> None:
    """Delete the flows of deleted applications whose last run has gone with retention."""
    for app_id, flow_id in (await asyncio.to_thread(_retired, near)).items():
        await _retire(near, app_id, flow_id)


def _retired(near: Neighbours) -> dict[int, UUID]:
    with near.ledger.reading() as session:
        return retired_flows(session)
