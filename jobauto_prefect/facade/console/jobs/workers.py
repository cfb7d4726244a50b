"""Workers: their states, problems and jobs, and the form that declares one lost.

The contract identifies workers by name, so addresses contain names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Response

from jobauto_prefect.console_addresses import CONTRACT, list_address, page_of
from jobauto_prefect.facade.answers import prefect_link
from jobauto_prefect.facade.console.contract import ContractError
from jobauto_prefect.facade.console.jobs.labels import badge_of
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    AnyCell,
    Column,
    Draw,
    Record,
    badge,
    code,
    link,
    link_to,
    moment,
    text,
    text_cell,
)
from jobauto_prefect.facade.console.records.pages import (
    SHOWN_AGAIN,
    Action,
    Filter,
    RecordForm,
    RecordPages,
    Table,
    respond_with_form,
)
from jobauto_prefect.facade.console.visit import Choices, CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text, Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.kinds import Kind
from jobauto_prefect.ledger.states import JobState

LOSE = "system.config"
TONES: Mapping[str, str] = {
    "silent": "bad",
    "hindered": "warn",
    "frozen": "warn",
    "working": "good",
    "lost": "",
}
"""By state, in the order in which workers are listed."""

ORDER = {state: place for place, state in enumerate(TONES)}


def worker_address(name: str) -> str:
    """Return the address of a worker's page."""
    return page_of("worker", quote(name))


def sort_by_state(workers: Sequence[Record]) -> list[Record]:
    """Return workers sorted by state: those that do not work first, lost ones last."""
    return sorted(workers, key=lambda worker: ORDER[worker["state"]])


def count_jobs(worker: Record) -> int:
    """Return how many jobs a worker runs, including those the visitor may not see."""
    limit = worker["limit"]
    return len(worker["jobs"]) if limit is None else int(limit - worker["free"])


def tell_load(worker: Record, translate: Translator) -> str:
    """Format how many jobs a worker runs, with its limit."""
    running = count_jobs(worker)
    if worker["limit"] is None:
        return str(running)
    return translate("{running} of {limit}", running=running, limit=worker["limit"])


def tell_hindrances(worker: Record) -> str:
    """Format why a worker does not work."""
    return "; ".join(str(why) for why in worker["hindrances"].values())


def tell_clock(worker: Record, visit: Visit) -> AnyCell:
    """Draw how far the clock of a worker, or of another part, differs."""
    ahead = worker["clock_ahead"]
    seconds = f"{abs(ahead):.1f}"
    if ahead < 0:
        return text_cell(visit.translate("{seconds} s behind the service", seconds=seconds))
    return text_cell(visit.translate("{seconds} s ahead of the service", seconds=seconds))


async def _running_jobs(worker: Record, visit: Visit) -> list[Any]:
    """Return the worker's jobs, including those that are lost because it is silent."""
    query = {"worker": worker["name"], "state": f"{JobState.RUNNING},{JobState.LOST}"}
    jobs = await visit.get("/jobs", {**query, "limit": 1000})
    return [jobs.get(str(job_id), {"id": job_id}) for job_id in worker["jobs"]]


async def _pools(visit: Visit) -> Choices:
    workers = await visit.get("/workers")
    return [(pool, pool) for pool in sorted({each["pool"] for each in workers.values()})]


def _of_seen(draw: Draw) -> Draw:
    """Draw a cell of a job that the visitor may see; of others only the id is known."""
    return lambda job, visit: draw(job, visit) if "state" in job else text_cell("")


STATE = badge("state", TONES)
SEEN = Column(Text("Last seen"), moment("seen_at"))
LOAD = Column(Text("Jobs"), lambda worker, visit: text_cell(tell_load(worker, visit.translate)))
MACHINE = Column(Text("Machine"), text("host"))


class WorkerPages(RecordPages):
    """The pages of the workers of the work pools that the visitor uses."""

    kind = Kind("worker", "workers", "Worker", "Workers", "workerName", "jobs", ())
    columns = (
        Column(
            Text("Name"), lambda worker, _: link(worker["name"], worker_address(worker["name"]))
        ),
        Column(Text("Work pool"), text("pool")),
        Column(Text("State"), STATE),
        SEEN,
        LOAD,
        MACHINE,
        Column(
            Text("Instance"),
            lambda worker, _: Cell(
                "code", worker["instance"].partition("-")[0], title=worker["instance"]
            ),
        ),
        Column(Text("Problems"), lambda worker, _: text_cell(tell_hindrances(worker))),
    )
    filters = (
        Filter("pool", Text("Work pool"), _pools),
        Filter("state", Text("State"), [(state, Text(state)) for state in TONES]),
    )
    empty = Text("No worker has reported. Start one: jobauto worker start --pool NAME")
    about = (text("pool"),)
    badges = (STATE,)
    facts = (
        SEEN,
        LOAD,
        MACHINE,
        Column(Text("Instance"), code("instance")),
        Column(Text("Clock"), tell_clock),
    )
    tables = (
        Table(
            "hindrances",
            Text("Problems"),
            lambda worker, _: worker["hindrances"].items(),
            (
                Column(Text("Problem"), lambda pair, _: Cell("code", pair[0])),
                Column(Text("Reason"), lambda pair, _: text_cell(str(pair[1]))),
            ),
            Text("No known problems."),
        ),
        Table(
            "jobs",
            Text("Running jobs"),
            _running_jobs,
            (
                Column(Text("Job"), lambda job, _: link_to("job", job["id"])),
                Column(
                    Text("Run template"),
                    _of_seen(lambda job, visit: text_cell(visit.named(job, "runtemplate_id"))),
                ),
                Column(
                    Text("Company"),
                    _of_seen(lambda job, visit: text_cell(visit.named(job, "company_id"))),
                ),
                Column(Text("State"), _of_seen(badge_of)),
                Column(Text("Began"), _of_seen(moment("begin"))),
            ),
            Text("No running jobs."),
            lambda worker: f"{list_address('job')}?{urlencode({'worker': worker['name']})}",
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.item_path = f"{self.address}/{{worker:path}}"

    def contract_page(self, _key: object) -> str:
        """Return the address of the contract's list: it has no page for one worker."""
        return f"{CONTRACT}/workers.html"

    async def read_list(self, visit: Visit) -> tuple[View, Sequence[Any]]:
        """Read the workers that match the filters, those that do not work first."""
        view = await visit.read("/workers")
        asked = visit.asked("pool", "state")
        shown = [
            worker
            for worker in sort_by_state(list(view.data.values()))
            if all(worker[name] == value for name, value in asked.items())
        ]
        return replace(view, total=len(shown)), shown

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read a worker, with the address of its work pool in Prefect."""
        workers: Mapping[str, Record] = await visit.get("/workers")
        if key not in workers:
            raise ContractError(404, f"there is no worker {key}")
        worker = workers[key]
        pool = quote(worker["pool"], safe="")
        url = prefect_link(visit.service.settings, "work-pools/work-pool", pool)
        return {**worker, "prefect_url": url}

    def title(self, record: Record, _visit: Visit) -> str:
        return str(record["name"])

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the possible actions: a silent worker can be declared lost."""
        if record["state"] != "silent" or not visit.who.rights.may(LOSE, None):
            return []
        return [Action(Text("Declare lost…"), f"{worker_address(record['name'])}/lost")]

    def router(self) -> APIRouter:
        """Return the routes; names may contain slashes, so the route that ends with one is last."""
        router = late_routes.router(include_in_schema=False)
        router.get(f"{self.item_path}/lost")(self.show_lost_form)
        router.post(f"{self.item_path}/lost")(self.declare_lost)
        router.routes.extend(super().router().routes)
        return router

    async def show_lost_form(self, worker: str, visit: CurrentVisit) -> Response:
        """Ask for confirmation, and say what follows."""
        visit.require(LOSE, None)
        return respond_with_form(visit, _lost_form(await self.read(visit, worker)))

    async def declare_lost(self, worker: str, visit: CurrentVisit) -> Response:
        """Declare a worker lost."""
        visit.require(LOSE, None)
        try:
            await visit.contract.write("POST", f"/worker/{worker}/lost.json")
        except ContractError as error:
            if error.status not in SHOWN_AGAIN:
                raise
            form = _lost_form(await self.read(visit, worker))
            return respond_with_form(visit, form, error=error)
        return redirect_after(visit.request, worker_address(worker), "lost")


def _lost_form(worker: Record) -> RecordForm:
    address = worker_address(worker["name"])
    return RecordForm(
        title=Text("Declare {name} lost", name=worker["name"]),
        action=f"{address}/lost",
        target="",
        kind="worker",
        groups=[],
        values={},
        back=address,
        submit=Text("Declare lost"),
        is_dangerous=True,
        facts=[
            (Text("Machine"), text_cell(worker["host"])),
            (Text("Jobs"), Cell("number", str(len(worker["jobs"])))),
        ],
        note=Text(
            "Do this only if the machine is gone or all its processes have certainly ended: the "
            "jobs become lost at once and are retried elsewhere, even if they still run there."
        ),
    )


router = WorkerPages().router()
