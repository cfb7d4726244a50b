"""A run template: how it does, when it runs next, with which values; run, pause and change it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT
from jobauto_prefect.definitions.records.actions import ActionMode
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.fields import variable_field
from jobauto_prefect.facade.console.records.pages import (
    NOTHING,
    Action,
    AnyCell,
    RecordPage,
    Section,
    language_parts,
    link,
    moment_cell,
    name_of,
    respond_with_record,
    state_badge,
    text_cell,
)
from jobauto_prefect.facade.console.run_templates.job_strips import draw_strip, read_last_jobs
from jobauto_prefect.facade.console.run_templates.schedules import describe_schedule
from jobauto_prefect.facade.console.run_templates.template_list_page import ADDRESS
from jobauto_prefect.facade.console.run_templates.template_records import (
    TemplateRecords,
    read_template,
)
from jobauto_prefect.facade.console.run_templates.value_sources import (
    SourcedValue,
    ValueSource,
    describe_source,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.service import CurrentService

MAX_WINDOWS = 6
AHEAD = 366  # days

router = late_routes.router(include_in_schema=False)


@router.get(f"{ADDRESS}/{{runtemplate:int}}")
async def show_run_template(
    runtemplate: int, request: Request, contract: CurrentContract, service: CurrentService
) -> Response:
    """Show a run template."""
    translate, languages = language_parts(request)
    records = await read_template(contract, runtemplate)
    template, app, company = records.template, records.app, records.company
    jobs = await read_last_jobs(service, contract.who, runtemplate)
    query = {"runtemplate_id": runtemplate, "days": AHEAD, "limit": MAX_WINDOWS}
    forecast = (await contract.read("/forecast", query)).data
    now = service.ledger.clock()
    zone = template["timezone"] or company["timezone"] or service.settings.timezone
    page = RecordPage(
        title=template["name"],
        about=[
            link(company["name"], f"{CONSOLE}/companies/{company['id']}"),
            link(name_of(app, languages), f"{CONSOLE}/applications/{app['id']}"),
        ],
        badges=[state_badge(template, translate)],
        actions=list(_actions(contract.who, template, translate)),
        facts=list(_facts(template, zone, translate)),
        sections=[
            Section(
                "jobs",
                translate("Last jobs"),
                [translate("The newest last")],
                [[draw_strip(jobs, now, translate)]] if jobs else [],
                translate("It has not run yet."),
                f"{CONSOLE}/jobs?runtemplate_id={runtemplate}",
            ),
            _windows(template, forecast["windows"], now, translate),
            Section(
                "values",
                translate("Values"),
                [translate("Name"), translate("Value"), translate("From")],
                [_value_row(value, languages, translate) for value in records.values],
                translate("The application takes no values."),
            ),
            _credentials(records, languages, translate),
            *_followers(template, translate),
        ],
        contract_href=f"{CONTRACT}/runtemplate/{runtemplate}.html",
        prefect_url=template["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here="Run templates")


@router.post(f"{ADDRESS}/{{runtemplate:int}}/pause")
async def pause(runtemplate: int, request: Request, contract: CurrentContract) -> Response:
    """Let a run template start no more jobs."""
    return await _set_active(request, contract, runtemplate, active=False)


@router.post(f"{ADDRESS}/{{runtemplate:int}}/resume")
async def resume(runtemplate: int, request: Request, contract: CurrentContract) -> Response:
    """Let a run template start jobs again."""
    return await _set_active(request, contract, runtemplate, active=True)


async def _set_active(
    request: Request, contract: Contract, template_id: int, *, active: bool
) -> Response:
    await contract.write("POST", f"/runtemplate/{template_id}.json", {"active": active})
    done = "resumed" if active else "paused"
    return redirect_after(request, f"{ADDRESS}/{template_id}", done)


def _actions(who: Identity, template: Mapping[str, Any], translate: Translator) -> Iterator[Action]:
    """Yield what the visitor may do."""
    address, company = f"{ADDRESS}/{template['id']}", template["company_id"]
    if template["active"] and who.rights.may("jobs.create", company):
        yield Action(translate("Run"), f"{address}/run", is_main=True)
    if who.rights.may("jobs.update", company):
        if template["active"]:
            yield Action(translate("Pause"), f"{address}/pause", posts=True)
        else:
            yield Action(translate("Resume"), f"{address}/resume", posts=True, is_main=True)
        yield Action(translate("Edit"), f"{address}/edit")


def _facts(
    template: Mapping[str, Any], zone: str, translate: Translator
) -> Iterator[tuple[str, AnyCell]]:
    schedule = describe_schedule(template["interv"], template["cron"], translate)
    yield translate("Schedule"), text_cell(schedule)
    if template["interv"] != "n":
        yield translate("Time zone"), text_cell(zone)
    if template["deadline_offset"]:
        yield translate("Deadline"), Cell("code", template["deadline_offset"])
    yield translate("Executor"), text_cell(template["executor"])
    if template["all_topics"]:
        topics = [Cell("text", name) for name in template["all_topics"]]
        yield translate("Topics"), Cell("chips", rows=[topics])
    if template["calendars"]:
        yield translate("Calendars"), text_cell(", ".join(template["calendars"]))
    if template["note"]:
        yield translate("Note"), text_cell(template["note"])


def _windows(
    template: Mapping[str, Any],
    windows: Sequence[Mapping[str, Any]],
    now: datetime,
    translate: Translator,
) -> Section:
    nothing = (
        translate("It has no schedule: it runs when somebody or something asks for it.")
        if template["active"]
        else translate("It is paused: nothing starts until it is resumed.")
    )
    return Section(
        "windows",
        translate("Next windows"),
        [translate("Starts"), translate("At"), translate("Deadline"), translate("Remark")],
        [_window_row(window, now, translate) for window in windows],
        nothing,
    )


def _window_row(window: Mapping[str, Any], now: datetime, translate: Translator) -> list[AnyCell]:
    zone = ZoneInfo(window["timezone"])
    starts, deadline = (
        datetime.fromisoformat(window[name]).astimezone(zone) for name in ("launch_at", "deadline")
    )
    remark = NOTHING
    if window["excused"]:
        remark = Cell("text", translate("excused: {reason}", reason=window["closed"]))
    elif window["moved_from"]:
        remark = Cell("text", translate("moved: {reason}", reason=window["closed"]))
    return [
        moment_cell(starts, now, translate),
        Cell("text", f"{starts:%Y-%m-%d %H:%M %Z}"),
        Cell("text", f"{deadline:%Y-%m-%d %H:%M %Z}"),
        remark,
    ]


def _value_row(
    value: SourcedValue, languages: Sequence[str], translate: Translator
) -> list[AnyCell]:
    label = value.key
    if value.variable is not None:
        label = variable_field(value.variable, languages, translate).label
    return [
        Cell("text", label, title=value.key),
        Cell("code", value.text) if value.text else NOTHING,
        _source_cell(value.source, translate),
    ]


def _source_cell(source: ValueSource | None, translate: Translator) -> Cell:
    if source is None:
        return NOTHING
    text = describe_source(source, translate)
    return link(text, source.href) if source.href else Cell("text", text)


def _credentials(
    records: TemplateRecords, languages: Sequence[str], translate: Translator
) -> Section:
    rows: list[Sequence[AnyCell]] = [
        [
            link(credential["name"], f"{CONSOLE}/credentials/{credential['id']}"),
            text_cell(name_of(records.types[credential["credential_type_id"]], languages)),
        ]
        for credential in records.credentials
    ]
    heads = [translate("Name"), translate("Type")]
    return Section("credentials", translate("Credentials"), heads, rows, translate("It has none."))


def _followers(template: Mapping[str, Any], translate: Translator) -> Iterator[Section]:
    """Yield what follows the end of a job, where something does."""
    titles = {
        ActionMode.SUCCESS: translate("After a success"),
        ActionMode.FAIL: translate("After a failure"),
    }
    for mode, title in titles.items():
        if template[mode]:
            rows = [
                [Cell("text", str(name)), Cell("code", json.dumps(about, ensure_ascii=False))]
                for name, about in template[mode].items()
            ]
            yield Section(mode, title, [translate("Action"), translate("Settings")], rows, "")
