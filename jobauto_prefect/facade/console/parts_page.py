"""The parts of the installation on all machines, and what they do not have alike."""

import asyncio

from fastapi import Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.engine.topology import describe_parts, topology_findings
from jobauto_prefect.facade.console.jobs.workers import tell_clock
from jobauto_prefect.facade.console.records.cells import Column, Draw, moment, text, text_cell
from jobauto_prefect.facade.console.visit import CurrentVisit
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.http import late_routes

PARTS = f"{CONSOLE}/parts"
PERMISSION = "system.config"
"""They name machines, processes and versions."""


def _if_known(field: str, draw: Draw) -> Draw:
    """Draw a cell of what a part reports of itself; of workers less is known."""
    return lambda part, visit: text_cell("") if part[field] is None else draw(part, visit)


COLUMNS = (
    Column(Text("Part"), text("part")),
    Column(Text("Machine"), text("host")),
    Column(Text("Process"), _if_known("pid", text("pid"))),
    Column(Text("Version"), _if_known("version", text("version"))),
    Column(Text("Prefect"), _if_known("prefect", text("prefect"))),
    Column(Text("Started"), _if_known("started_at", moment("started_at"))),
    Column(Text("Last seen"), moment("seen_at")),
    Column(Text("Clock"), tell_clock),
)

router = late_routes.router(include_in_schema=False)


@router.get(PARTS)
async def show_parts(visit: CurrentVisit) -> Response:
    visit.require(PERMISSION, None)
    settings, ledger = visit.service.settings, visit.service.ledger
    parts, findings = await asyncio.gather(
        asyncio.to_thread(describe_parts, ledger),
        asyncio.to_thread(topology_findings, settings, ledger),
    )
    return visit.respond(
        "parts.html",
        visit.translate("Parts"),
        columns=COLUMNS,
        rows=[[column.draw(part, visit) for column in COLUMNS] for part in parts],
        findings=findings,
    )
