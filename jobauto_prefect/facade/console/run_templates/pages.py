"""Run templates: the list with their last jobs, the page of one, and its forms."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import Response

from jobauto_prefect.console_addresses import list_address, page_of
from jobauto_prefect.definitions.records.actions import ActionMode
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.console.moments import format_span
from jobauto_prefect.facade.console.notifications import redirect_after
from jobauto_prefect.facade.console.records.cells import (
    NOTHING,
    AnyCell,
    Column,
    Mark,
    Record,
    Strip,
    active,
    code,
    has,
    link,
    link_to,
    moment,
    name_of,
    text,
    text_cell,
)
from jobauto_prefect.facade.console.records.fields import (
    notice_group,
    retention_group,
    shown_with,
    variable_field,
    whole_notices,
    whole_retention,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, WholeValue
from jobauto_prefect.facade.console.records.pages import (
    BY_COMPANY,
    BY_NAME,
    Action,
    Filter,
    RecordForm,
    RecordPages,
    Table,
)
from jobauto_prefect.facade.console.run_templates.form_fields import (
    ATTEMPTS,
    BLOCKS,
    NAMED,
    OPERATED,
    QUEUE,
    TEMPLATES,
    action_groups,
    choice_groups,
    executor_fields,
    possible_executors,
    setting_groups,
    value_fields,
    whole_actions,
    whole_settings,
)
from jobauto_prefect.facade.console.run_templates.schedules import describe_schedule
from jobauto_prefect.facade.console.run_templates.values import (
    SourcedValue,
    TemplateRecords,
    read_new_template,
    read_template,
    read_template_paths,
    resolve_values,
)
from jobauto_prefect.facade.console.visit import Choices, CurrentVisit, Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cells import TONES, Cell
from jobauto_prefect.facade.formats.html.page_language import Text, tell
from jobauto_prefect.facade.resources.forecasts import next_launches
from jobauto_prefect.facade.writes.assignments import BLOCKS_PERMISSION as NAME_BLOCKS
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger.queries.jobs import LastJob, last_jobs_of

IN_LIST = 12  # jobs of a strip
ON_PAGE = 30
MAX_WINDOWS = 6
AHEAD = 366  # days
CONFIGURE = "companies.update"


def _strip(template: Record, visit: Visit) -> Strip:
    """Draw the last jobs as marks with links; their titles tell state and time."""
    marks = [_mark(job, visit) for job in template["last_jobs"]]
    return Strip(marks, visit.translate("No jobs yet."))


def _mark(job: LastJob, visit: Visit) -> Mark:
    left = (job.end or job.begin or job.schedule) - visit.now
    wording = "{time} ago" if left.total_seconds() <= 0 else "in {time}"
    when = visit.translate(wording, time=format_span(abs(left)))
    note = f"{visit.translate(job.state)}, {when}"
    return Mark(page_of("job", job.id), TONES.get(job.state, ""), note)


def _schedule(template: Record, visit: Visit) -> AnyCell:
    return text_cell(describe_schedule(template["interv"], template["cron"], visit.translate))


def _time(field: str) -> Column:
    """Return the column of a window's time in the window's time zone."""
    labels = {"launch_at": Text("Time"), "deadline": Text("Deadline")}

    def draw(window: Record, _visit: Visit) -> AnyCell:
        at = datetime.fromisoformat(window[field]).astimezone(ZoneInfo(window["timezone"]))
        return Cell("text", f"{at:%Y-%m-%d %H:%M %Z}")

    return Column(labels[field], draw)


def _starts(window: Record, visit: Visit) -> AnyCell:
    starts = datetime.fromisoformat(window["launch_at"]).astimezone(ZoneInfo(window["timezone"]))
    return moment("at")({"at": starts}, visit)


def _remark(window: Record, visit: Visit) -> AnyCell:
    if window["excused"]:
        return Cell("text", visit.translate("excused: {reason}", reason=window["closed"]))
    if window["moved_from"]:
        return Cell("text", visit.translate("moved: {reason}", reason=window["closed"]))
    return NOTHING


def _value_name(value: SourcedValue, visit: Visit) -> AnyCell:
    label = value.key
    if value.variable is not None:
        label = variable_field(value.variable, visit.languages, visit.translate).label
    return Cell("text", label, title=value.key)


def _source(value: SourcedValue, visit: Visit) -> AnyCell:
    if value.source is None:
        return NOTHING
    text = tell(value.source.label, visit.translate)
    return link(text, value.source.href) if value.source.href else Cell("text", text)


def _followers(mode: ActionMode, title: str) -> Table:
    """Return the table of the actions after a job's end, shown only if there are any."""
    return Table(
        mode,
        title,
        lambda template, _: template[mode].items(),
        (
            Column(Text("Action"), lambda pair, _: Cell("text", str(pair[0]))),
            Column(
                Text("Settings"),
                lambda pair, _: Cell("code", json.dumps(pair[1], ensure_ascii=False)),
            ),
        ),
        "",
        when=lambda template: template[mode],
    )


def _windows(empty: Text, *, is_active: bool) -> Table:
    return Table(
        "windows",
        Text("Next windows"),
        lambda template, _: template["windows"],
        (
            Column(Text("Start time"), _starts),
            _time("launch_at"),
            _time("deadline"),
            Column(Text("Remark"), _remark),
        ),
        empty,
        when=lambda template: template["active"] is is_active,
    )


async def _only_credential(visit: Visit) -> Choices:
    """Return the credential that the list is filtered by, which its page links to."""
    given = visit.asked("credential_id")["credential_id"]
    names = {str(number): name for number, name, _ in await visit.contract.names("credentials")}
    return [(given, names.get(given, given))]


class TemplatePages(RecordPages):
    """The pages of run templates."""

    kind, new = KINDS["runtemplate"], Text("New run template")
    columns = (
        Column(Text("Name"), lambda each, _: link_to("runtemplate", each["id"], each["name"])),
        Column(Text("Company"), lambda each, visit: text_cell(visit.named(each, "company_id"))),
        Column(Text("Application"), lambda each, visit: text_cell(visit.named(each, "app_id"))),
        Column(Text("Last jobs"), _strip),
        Column(
            Text("Next start"),
            lambda each, visit: (moment("starts") if each["active"] else active)(each, visit),
        ),
        Column(Text("Schedule"), _schedule),
    )
    filters = (
        BY_NAME,
        BY_COMPANY,
        Filter("app_id", Text("Application"), lambda visit: visit.choices("apps")),
        Filter("topic", Text("Topic"), lambda visit: visit.choices_by_name("topics")),
        Filter("active", Text("State"), (("true", Text("active")), ("false", Text("paused")))),
        Filter("credential_id", Text("Credential"), _only_credential),
    )
    empty = Text(
        "There are no run templates yet. A run template defines how a company runs an application."
    )
    about = (
        lambda each, _: link_to("company", each["company_id"], each["records"].company["name"]),
        lambda each, visit: link_to(
            "app", each["app_id"], name_of(each["records"].app, visit.languages)
        ),
    )
    badges = (active,)
    facts = (
        Column(Text("Schedule"), _schedule),
        Column(
            Text("Time zone"),
            lambda each, visit: text_cell(
                each["timezone"] or each["records"].company["timezone"] or visit.zone.key
            ),
            when=lambda each: each["interv"] != "n",
        ),
        Column(Text("Deadline"), code("deadline_offset"), when=has("deadline_offset")),
        Column(Text("Executor"), text("executor")),
        Column(
            Text("Topics"),
            lambda each, _: Cell(
                "chips", rows=[[Cell("text", name) for name in each["all_topics"]]]
            ),
            when=has("all_topics"),
        ),
        Column(Text("Calendars"), text("calendars"), when=has("calendars")),
        Column(Text("Note"), text("note"), when=has("note")),
    )
    tables = (
        Table(
            "jobs",
            Text("Last jobs"),
            lambda each, _: [each] if each["last_jobs"] else [],
            (Column(Text("Newest last"), _strip),),
            Text("No jobs yet."),
            lambda each: f"{list_address('job')}?runtemplate_id={each['id']}",
        ),
        _windows(
            Text("No schedule: jobs start on demand only."),
            is_active=True,
        ),
        _windows(
            Text("Paused: no jobs start until it is resumed."),
            is_active=False,
        ),
        Table(
            "values",
            Text("Values"),
            lambda each, _: each["records"].values,
            (
                Column(Text("Name"), _value_name),
                Column(
                    Text("Value"),
                    lambda value, _: Cell("code", value.text) if value.text else NOTHING,
                ),
                Column(Text("Source"), _source),
            ),
            Text("The application takes no values."),
        ),
        Table(
            "credentials",
            Text("Credentials"),
            lambda each, _: each["records"].typed_credentials,
            (
                Column(
                    Text("Name"),
                    lambda pair, _: link_to("credential", pair[0]["id"], pair[0]["name"]),
                ),
                Column(
                    Text("Type"), lambda pair, visit: text_cell(name_of(pair[1], visit.languages))
                ),
            ),
            Text("None."),
        ),
        _followers(ActionMode.SUCCESS, Text("After a success")),
        _followers(ActionMode.FAIL, Text("After a failure")),
    )

    def filters_of(self, visit: Visit) -> Sequence[Filter]:
        """Return the filters of the list; the credential only where it is in use."""
        is_narrowed = visit.asked("credential_id")
        return [each for each in self.filters if is_narrowed or each.name != "credential_id"]

    def may(self, who: Identity, action: str, record: Record | None = None) -> bool:
        """Whether somebody may do this; to create one, in any company."""
        if record is None:
            return who.rights.anywhere(CONFIGURE)
        return super().may(who, action, record)

    async def read_list(self, visit: Visit) -> tuple[View, Sequence[Any]]:
        """Read run templates with their last jobs and next starts."""
        view, records = await super().read_list(visit)
        ids = [record["id"] for record in records]
        companies = visit.who.rights.companies_with("jobs.read")
        jobs, launches = await visit.query(
            lambda session: (
                last_jobs_of(session, ids, IN_LIST, companies),
                next_launches(session, visit.service, visit.who, ids),
            )
        )
        starts = {number: launch.at for number, launch in launches.items()}
        return view, [
            {**each, "last_jobs": jobs[each["id"]], "starts": starts.get(each["id"])}
            for each in records
        ]

    async def read(self, visit: Visit, key: Any) -> Record:
        """Read a run template with the records it refers to, its last jobs and its next windows."""
        records = await read_template(visit, key)
        companies = visit.who.rights.companies_with("jobs.read")
        jobs = await visit.query(
            lambda session: last_jobs_of(session, [key], ON_PAGE, companies)[key]
        )
        query = {"runtemplate_id": key, "days": AHEAD, "limit": MAX_WINDOWS}
        windows = (await visit.get("/forecast", query))["windows"]
        return {**records.template, "records": records, "last_jobs": jobs, "windows": windows}

    def title(self, record: Record, _visit: Visit) -> str:
        return str(record["name"])

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        address, may = page_of("runtemplate", record["id"]), visit.who.rights.may
        actions = []
        if record["active"] and may("jobs.create", record["company_id"]):
            actions.append(Action(Text("Run"), f"{address}/run", is_main=True))
        if may("jobs.update", record["company_id"]):
            pause = Action(Text("Pause"), f"{address}/pause", posts=True)
            resume = Action(Text("Resume"), f"{address}/resume", posts=True, is_main=True)
            actions.append(pause if record["active"] else resume)
            actions.append(Action(Text("Edit"), f"{address}/edit"))
        return actions

    async def edit_form(self, visit: Visit) -> RecordForm:
        """Return the form of a run template. Raises ContractError."""
        records = await read_template(visit, visit.request.path_params[self.parameter])
        template = records.template
        self.require(visit, "update", template)
        may_configure = visit.who.rights.may(CONFIGURE, template["company_id"])
        paths = await read_template_paths(visit) if may_configure else {}
        wholes = _wholes(template, paths)
        shown = {**(shown_with(template, wholes) or {}), "records": records}
        form = await self.form_of(visit, shown)
        return replace(
            form, wholes=wholes, offers={TEMPLATES: paths.values()}, facts=_facts(visit, records)
        )

    async def new_form(self, visit: Visit) -> RecordForm:
        """Return the form of a new run template; company and application are asked for first."""
        reference = visit.asked_ids("company_id", "app_id")
        company_id, app_id = (reference.get(name) for name in ("company_id", "app_id"))
        if company_id is None or app_id is None:
            app = Filter(
                "app_id",
                Text("Application"),
                lambda visit: visit.choices("apps", {"enabled": "true"}),
            )
            title = Text("Company and application")
            values = {"company_id": company_id, "app_id": app_id}
            return await self.chooser(visit, CONFIGURE, title, app, values)
        visit.require(CONFIGURE, company_id)
        records = await read_new_template(visit, company_id, app_id)
        paths = await read_template_paths(visit)
        form = await self.form_of_new(visit, reference, {"records": records})
        executors = _executors(visit, records)
        return replace(
            form,
            prefilled={"/executor": executors[0]} if "Native" not in executors else {},
            wholes=_wholes(None, {}),
            offers={TEMPLATES: paths.values()},
            facts=_facts(visit, records),
        )

    async def groups(self, visit: Visit, record: Record | None) -> Sequence[FieldGroup]:
        """Return the fields that the visitor may change."""
        assert record is not None  # noqa: S101 - a new one refers to records as well
        records: TemplateRecords = record["records"]
        rights, company_id = visit.who.rights, records.company["id"]
        if not rights.may(CONFIGURE, company_id):
            return [OPERATED]
        inherited = resolve_values(records.definition, records.sources[:-1])
        own = records.template["env"]
        values = value_fields(inherited, own, visit.languages, visit.translate)
        apps = await visit.choices("apps", {"enabled": "true"})
        executors = _executors(visit, records)
        placed = [*executor_fields(executors), *QUEUE]
        return [
            NAMED,
            FieldGroup(Text("Values"), values),
            *await choice_groups(visit, company_id),
            OPERATED,
            ATTEMPTS,
            *action_groups(apps),
            notice_group(of_template=True),
            FieldGroup(Text("Executor and work pool"), placed, is_folded=True),
            *setting_groups(visit.translate, executors),
            retention_group(of_template=True),
            *([BLOCKS] if rights.may(NAME_BLOCKS, None) else []),
            FieldGroup(Text("Settings and labels for other programs"), ("labels",), is_folded=True),
        ]


def _wholes(template: Record | None, paths: Mapping[str, str]) -> list[WholeValue]:
    return [
        whole_settings(template),
        *whole_actions(template, paths),
        whole_notices(template),
        whole_retention(template),
    ]


def _executors(visit: Visit, records: TemplateRecords) -> list[str]:
    return possible_executors(records.app, may_any=visit.who.rights.system_wide)


def _facts(visit: Visit, records: TemplateRecords) -> list[tuple[str, AnyCell]]:
    return [
        (Text("Company"), text_cell(records.company["name"])),
        (Text("Application"), text_cell(name_of(records.app, visit.languages))),
    ]


PAGES = TemplatePages()
router = PAGES.router()


@router.post(f"{PAGES.item_path}/pause")
async def pause(runtemplate: int, visit: CurrentVisit) -> Response:
    """Pause a run template: it starts no jobs."""
    return await _set_active(visit, runtemplate, active=False)


@router.post(f"{PAGES.item_path}/resume")
async def resume(runtemplate: int, visit: CurrentVisit) -> Response:
    """Resume a run template: it starts jobs again."""
    return await _set_active(visit, runtemplate, active=True)


async def _set_active(visit: Visit, template_id: int, *, active: bool) -> Response:
    await visit.contract.write("POST", f"/runtemplate/{template_id}.json", {"active": active})
    done = "resumed" if active else "paused"
    return redirect_after(visit.request, page_of("runtemplate", template_id), done)
