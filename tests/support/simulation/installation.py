"""Ten hourly run templates and 190 from daily to yearly, with the exit codes of real tables."""

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobauto_prefect.compiler import Schedule, Window, windows_between
from jobauto_prefect.engine.sync.deployment_plans import template_schedule
from jobauto_prefect.facade.kinds.applications import write_app
from jobauto_prefect.facade.kinds.companies import write_company
from jobauto_prefect.facade.kinds.run_templates import write_template
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.records import RunTemplate
from tests.support.corpus import valid_documents
from tests.support.documents import smallest
from tests.support.servers import OPERATOR
from tests.support.simulation.habits import Codes, Habits
from tests.support.simulation.matcher import Outage
from tests.support.simulation.world import World

ZONES = ("Europe/Prague", "America/New_York", "UTC", "Asia/Kolkata", "Australia/Lord_Howe")
KINDS: Sequence[tuple[int, Mapping[str, Any]]] = (
    (10, {"interv": "h"}),
    (25, {"interv": "d"}),
    (10, {"interv": "c", "cron": "30 2 * * *"}),
    (5, {"interv": "c", "cron": "0 6,18 * * MON-FRI"}),
    (60, {"interv": "w"}),
    (60, {"interv": "m"}),
    (10, {"interv": "c", "cron": "0 9 31 * *"}),
    (20, {"interv": "y"}),
)
"""How many run templates there are of each kind."""


def tables() -> list[Codes]:
    """The exit codes of the collection's definitions."""
    declared = (document.get("exitCodes") for document in valid_documents().values())
    return [table for table in declared if table]


def install(world: World, codes: Sequence[Codes]) -> dict[int, Schedule]:
    """The records, and the schedules of the run templates."""
    with world.ledger.writing(SERVICE) as session:

        def write(**fields: Any) -> WriteRequest:
            box = world.ledger.box
            return WriteRequest(session, box, world.settings, OPERATOR, fields)

        for number, table in enumerate(codes):
            write_app(write(**smallest(name=f"Simulated {number}", exitCodes=table)))
        write_company(write(slug="acme", name="Acme", timezone="Europe/Prague"))
        session.flush()
        world.template_of, schedules = {}, {}
        for number, members in enumerate(_templates(world.chance)):
            app = number % len(codes)
            fields = {"company": "acme", "app": f"Simulated {app}", "name": f"Template {number}"}
            template: RunTemplate = write_template(write(**fields, **members)).record
            template.deployment_id = UUID(int=number + 1)
            world.template_of[template.deployment_id] = template.id
            usual = timedelta(minutes=world.chance.uniform(0.2, 20))
            world.habits[template.id] = Habits(codes[app], usual)
            schedule = template_schedule(template, world.settings.timezone)
            assert schedule is not None
            schedules[template.id] = schedule
            world.overlaps[template.id] = template.overlap
    return schedules


def _templates(chance: random.Random) -> Iterator[dict[str, Any]]:
    for count, kind in KINDS:
        for _ in range(count):
            hourly = kind["interv"] == "h"
            yield {
                **kind,
                "timezone": chance.choice([None, *ZONES]),
                "delay": chance.choice([0, 0, 0, 90, 1200]),
                "deadline_offset": chance.choice([None, None, "+45m" if hourly else "+6h"]),
                "allow_late": chance.random() < 0.3,
                "max_attempts": chance.choice([None, None, 1, 2, 5]),
                "retry_backoff": chance.choice(["none", "fixed", "linear", "exponential"]),
                "retry_min_gap": chance.choice([0, 30, 300]),
                "retry_undeclared": chance.random() < 0.3,
                "overlap": chance.choice(["wait", "wait", "skip", "parallel"]),
                "misfire": chance.choice(["latest", "latest", "all", "skip"]),
            }


def outages(chance: random.Random, start: datetime, days: int) -> list[Outage]:
    """Parts that are away: for minutes, for hours, some for more than a day."""
    away = []
    for _ in range(days // 2):
        began = start + timedelta(days=chance.uniform(0, days))
        hours = chance.choice([0.02, 0.1, 0.5, 0.5, 2, 5, 30])
        part = chance.choice(["services", "database", "crash", "cut"])
        lasts = timedelta(hours=hours * chance.uniform(0.5, 1.5))
        away.append(Outage(part, began, min(began + lasts, start + timedelta(days=days))))
    return sorted(away, key=lambda outage: outage.start)


def few_outages(start: datetime) -> list[Outage]:
    """One of each part, around full hours, when processes run and windows open."""
    hour = start.replace(minute=0) + timedelta(hours=1)
    minute = timedelta(minutes=1)

    def away(part: str, after: timedelta, lasts: timedelta) -> Outage:
        return Outage(part, hour + after, hour + after + lasts)

    return [
        away("crash", timedelta(hours=3) + minute, 20 * minute),
        away("services", timedelta(hours=8) - 5 * minute, timedelta(hours=3)),
        away("database", timedelta(hours=20) - 5 * minute, 40 * minute),
        away("cut", timedelta(hours=30) + minute, timedelta(hours=5)),
    ]


def owed(
    schedules: Mapping[int, Schedule], start: datetime, end: datetime
) -> dict[int, list[Window]]:
    """The windows whose jobs start within `(start, end]`, of what is installed at `start`."""
    return {
        key: [window for window in windows_between(schedule, start, end) if window.launch_at <= end]
        for key, schedule in schedules.items()
    }
