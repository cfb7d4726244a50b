"""The last jobs of run templates as strips of marks."""

from collections.abc import Collection, Mapping
from datetime import datetime

from starlette.concurrency import run_in_threadpool

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.moments import format_span
from jobauto_prefect.facade.console.records.pages import Mark, Strip
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import TONES
from jobauto_prefect.facade.resources.forecasts import next_launches
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.queries.jobs import LastJob, last_jobs_of

IN_LIST = 12  # jobs of a strip
ON_PAGE = 30


async def read_activity(
    service: Service, who: Identity, template_ids: Collection[int]
) -> tuple[Mapping[int, list[LastJob]], Mapping[int, datetime]]:
    """Return the last jobs of these run templates, and when each starts next."""

    def read() -> tuple[Mapping[int, list[LastJob]], Mapping[int, datetime]]:
        companies = who.rights.companies_with("jobs.read")
        with service.ledger.reading() as session:
            jobs = last_jobs_of(session, template_ids, IN_LIST, companies)
            launches = next_launches(session, service, who, template_ids)
        return jobs, {template_id: launch.at for template_id, launch in launches.items()}

    return await run_in_threadpool(read)


async def read_last_jobs(service: Service, who: Identity, template_id: int) -> list[LastJob]:
    """Return the last jobs of one run template, the newest last."""

    def read() -> list[LastJob]:
        companies = who.rights.companies_with("jobs.read")
        with service.ledger.reading() as session:
            return last_jobs_of(session, [template_id], ON_PAGE, companies)[template_id]

    return await run_in_threadpool(read)


def draw_strip(jobs: Collection[LastJob], now: datetime, translate: Translator) -> Strip:
    """Draw jobs as marks that lead to them; each says its state and when that was."""
    marks = [_draw_mark(job, now, translate) for job in jobs]
    return Strip(marks, translate("It has not run yet."))


def _draw_mark(job: LastJob, now: datetime, translate: Translator) -> Mark:
    when = job.end or job.begin or job.schedule
    left = when - now
    wording = "{time} ago" if left.total_seconds() <= 0 else "in {time}"
    note = f"{translate(job.state)}, {translate(wording, time=format_span(abs(left)))}"
    return Mark(f"{CONSOLE}/jobs/{job.id}", TONES.get(job.state, ""), note)
