"""Workers: which are there, what keeps them from working, what they run, and the one that is lost.

The contract knows a worker by its name alone, so addresses here have names.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.facade.answers import prefect_link
from jobauto_prefect.facade.console.contract import Contract, ContractError, CurrentContract
from jobauto_prefect.facade.console.jobs.labels import JobWords
from jobauto_prefect.facade.console.jobs.workers import (
    TONES,
    WORKERS,
    most_wanted,
    tell_load,
    worker_address,
)
from jobauto_prefect.facade.console.moments import CurrentTime
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.pages import (
    SHOWN_AGAIN,
    Action,
    AnyCell,
    ListFilter,
    ListPage,
    RecordForm,
    RecordPage,
    Section,
    language_parts,
    link,
    moment_cell,
    require,
    respond_with_form,
    respond_with_list,
    respond_with_record,
    text_cell,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService
from jobauto_prefect.ledger.states import JobState

HERE = "Workers"
CONTRACT_HREF = f"{CONTRACT}/workers.html"
LOSE = "system.config"

Worker = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(WORKERS)
async def list_workers(request: Request, contract: CurrentContract, now: CurrentTime) -> Response:
    """List the workers of the work pools that the visitor uses, those that do not work first."""
    translate, _ = language_parts(request)
    view = await contract.read("/workers")
    workers = most_wanted(list(view.data.values()))
    asked = {name: request.query_params.get(name) for name in ("pool", "state")}
    shown = [
        worker
        for worker in workers
        if all(value in (None, "", worker[name]) for name, value in asked.items())
    ]
    pools = sorted({worker["pool"] for worker in workers})
    page = ListPage(
        collection="workers",
        title=HERE,
        heads=[
            translate("Name"),
            translate("Work pool"),
            translate("State"),
            translate("Last sign of life"),
            translate("Jobs"),
            translate("Machine"),
            translate("Instance"),
            translate("What keeps it from working"),
        ],
        rows=[_row(worker, now, translate) for worker in shown],
        filters=[
            ListFilter("pool", translate("Work pool"), [(pool, pool) for pool in pools]),
            ListFilter("state", translate("State"), [(state, translate(state)) for state in TONES]),
        ],
        empty=translate("No worker has reported. Start one: jobauto worker start --pool NAME"),
    )
    return respond_with_list(request, contract.who, page, view, total=len(shown))


@router.get(f"{WORKERS}/{{worker:path}}/lost")
async def show_lost_form(worker: str, request: Request, contract: CurrentContract) -> Response:
    """Ask whether a worker is gone for good, and say what follows."""
    require(contract.who, LOSE, None)
    form = _lost_form(request, await _read_worker(contract, worker))
    return respond_with_form(request, contract.who, form)


@router.post(f"{WORKERS}/{{worker:path}}/lost")
async def declare_lost(worker: str, request: Request, contract: CurrentContract) -> Response:
    """Declare a worker lost with its machine."""
    require(contract.who, LOSE, None)
    try:
        await contract.write("POST", f"/worker/{worker}/lost.json")
    except ContractError as error:
        if error.status not in SHOWN_AGAIN:
            raise
        form = _lost_form(request, await _read_worker(contract, worker))
        return respond_with_form(request, contract.who, form, error=error)
    return redirect_after(request, worker_address(worker), "lost")


@router.get(f"{WORKERS}/{{worker:path}}")
async def show_worker(
    worker: str,
    request: Request,
    contract: CurrentContract,
    service: CurrentService,
    now: CurrentTime,
) -> Response:
    """Show a worker: whether it works, what keeps it from that, and what it runs."""
    translate, _ = language_parts(request)
    shown = await _read_worker(contract, worker)
    page = RecordPage(
        title=worker,
        about=[text_cell(shown["pool"])],
        badges=[_state(shown, translate)],
        actions=list(_actions(contract, shown, translate)),
        facts=list(_facts(shown, now, translate)),
        sections=[
            Section(
                "hindrances",
                translate("What keeps it from working"),
                [translate("What"), translate("Why")],
                [
                    [Cell("code", what), text_cell(str(why))]
                    for what, why in shown["hindrances"].items()
                ],
                translate("Nothing that it knows of."),
            ),
            await _running_jobs(contract, shown, now, translate),
        ],
        contract_href=CONTRACT_HREF,
        prefect_url=prefect_link(
            service.settings, "work-pools/work-pool", quote(shown["pool"], safe="")
        ),
    )
    return respond_with_record(request, contract.who, page, here=HERE)


async def _read_worker(contract: Contract, name: str) -> Worker:
    workers: Mapping[str, Worker] = (await contract.read("/workers")).data
    if name not in workers:
        raise ContractError(404, f"there is no worker {name}")
    return workers[name]


async def _running_jobs(
    contract: Contract, worker: Worker, now: datetime, translate: Translator
) -> Section:
    """Return the jobs it holds, also those that are lost since it is silent."""
    query = {"worker": worker["name"], "state": f"{JobState.RUNNING},{JobState.LOST}"}
    view = await contract.read("/jobs", {**query, "limit": 1000})
    words = JobWords(view, now, translate)
    rows: list[Sequence[AnyCell]] = []
    for job_id in worker["jobs"]:
        job = view.data.get(str(job_id))
        address = f"{CONSOLE}/jobs/{job_id}"
        if job is None:
            rows.append([link(f"#{job_id}", address), *[text_cell("")] * 4])
            continue
        line = words.line_of(job)
        rows.append(
            [
                link(f"#{job_id}", address),
                text_cell(line.template),
                text_cell(line.company),
                Cell("badge", line.badge.text, tone=line.badge.tone),
                moment_cell(job["begin"], now, translate),
            ]
        )
    return Section(
        "jobs",
        translate("Jobs it runs"),
        [
            translate("Job"),
            translate("Run template"),
            translate("Company"),
            translate("State"),
            translate("Began"),
        ],
        rows,
        translate("It runs no job."),
        f"{CONSOLE}/jobs?{urlencode({'worker': worker['name']})}",
    )


def _row(worker: Worker, now: datetime, translate: Translator) -> list[AnyCell]:
    instance = worker["instance"]
    return [
        link(worker["name"], worker_address(worker["name"])),
        text_cell(worker["pool"]),
        _state(worker, translate),
        moment_cell(worker["seen_at"], now, translate),
        text_cell(tell_load(worker, translate)),
        text_cell(worker["host"]),
        Cell("code", instance.partition("-")[0], title=instance),
        text_cell("; ".join(str(why) for why in worker["hindrances"].values())),
    ]


def _state(worker: Worker, translate: Translator) -> Cell:
    return Cell("badge", translate(worker["state"]), tone=TONES[worker["state"]])


def _actions(contract: Contract, worker: Worker, translate: Translator) -> Iterator[Action]:
    """Yield what is possible: only a worker that gives no sign of life can be declared lost."""
    if worker["state"] == "silent" and contract.who.rights.may(LOSE, None):
        yield Action(translate("Declare it lost…"), f"{worker_address(worker['name'])}/lost")


def _facts(worker: Worker, now: datetime, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    yield translate("Last sign of life"), moment_cell(worker["seen_at"], now, translate)
    yield translate("Jobs"), text_cell(tell_load(worker, translate))
    yield translate("Machine"), text_cell(worker["host"])
    yield translate("Instance"), Cell("code", worker["instance"])
    yield translate("Its clock"), text_cell(_clock(worker["clock_ahead"], translate))


def _clock(ahead: float, translate: Translator) -> str:
    seconds = f"{abs(ahead):.1f}"
    if ahead < 0:
        return translate("{seconds} s behind the service's", seconds=seconds)
    return translate("{seconds} s ahead of the service's", seconds=seconds)


def _lost_form(request: Request, worker: Worker) -> RecordForm:
    translate, _ = language_parts(request)
    address = worker_address(worker["name"])
    return RecordForm(
        title=translate("Declare {name} lost", name=worker["name"]),
        here=HERE,
        action=f"{address}/lost",
        target="",
        collection="workers",
        groups=[],
        values={},
        back=address,
        submit=translate("Declare it lost"),
        is_dangerous=True,
        facts=[
            (translate("Machine"), text_cell(worker["host"])),
            (translate("Jobs it has"), Cell("number", str(len(worker["jobs"])))),
        ],
        note=translate(
            "Only where its machine is gone, or its processes are ended for sure: its jobs are "
            "lost at once and tried again elsewhere, whether they still run there or not."
        ),
    )
