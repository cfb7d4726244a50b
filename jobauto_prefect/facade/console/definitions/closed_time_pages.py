"""Calendars: when the jobs of windows do not start. A list, a page, and a form."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.definitions.closed_time_texts import (
    DAYS,
    PERIODS,
    TIMES,
)
from jobauto_prefect.facade.console.definitions.definition_owners import CREATE, UPDATE
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.page_parts import (
    NOTHING,
    Action,
    AnyCell,
    RecordPage,
    Section,
    link,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListFilter,
    ListPage,
    RecordForm,
    add_form_routes,
    language_parts,
    list_query,
    read_list,
    require,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT

ADDRESS = f"{CONSOLE}/calendars"
HERE = "Run templates"
CLOSED = ("days", "times", "periods")
"""The lists of a calendar."""

Calendar = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_calendars(request: Request, contract: CurrentContract) -> Response:
    """List calendars."""
    translate, _ = language_parts(request)
    view = await read_list(contract, "calendars", list_query(request, ("country",)))
    new = Action(translate("New calendar"), f"{ADDRESS}/new", is_main=True)
    page = ListPage(
        collection="calendars",
        title="Calendars",
        here=HERE,
        heads=[
            translate("Name"),
            translate("Public holidays"),
            translate("Closed days"),
            translate("Closed times"),
            translate("Closed periods"),
            translate("Time zone"),
        ],
        rows=[
            [
                link(calendar["name"], f"{ADDRESS}/{calendar['id']}"),
                text_cell(_holidays(calendar)),
                *(Cell("number", str(len(calendar[name]))) for name in CLOSED),
                text_cell(calendar["timezone"] or ""),
            ]
            for calendar in view.data.values()
        ],
        filters=[ListFilter("country", translate("Country"))],
        empty=translate(
            "There is no calendar yet. One says when the jobs of windows do not start."
        ),
        actions=[new] if contract.who.rights.may(CREATE, None) else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{calendar:int}}")
async def show_calendar(calendar: int, request: Request, contract: CurrentContract) -> Response:
    """Show what a calendar closes."""
    translate, _ = language_parts(request)
    shown = (await contract.read(f"/calendar/{calendar}")).data
    edit = Action(translate("Edit"), f"{ADDRESS}/{calendar}/edit", is_main=True)
    page = RecordPage(
        title=shown["name"],
        about=[text_cell(_holidays(shown))] if shown["country"] else [],
        badges=[],
        actions=[edit] if contract.who.rights.may(UPDATE, None) else [],
        facts=list(_facts(shown, translate)),
        sections=[
            _days(shown, translate),
            _times(shown, translate),
            _periods(shown, translate),
        ],
        contract_href=f"{CONTRACT}/calendar/{calendar}.html",
    )
    return respond_with_record(request, contract.who, page, here=HERE)


def _holidays(calendar: Calendar) -> str:
    return " ".join(part for part in (calendar["country"], calendar["subdivision"]) if part)


def _facts(calendar: Calendar, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    zone = calendar["timezone"] or translate("that of each run template")
    yield translate("Time zone"), text_cell(zone)
    if calendar["country"]:
        yield translate("Public holidays"), text_cell(_holidays(calendar))


def _days(calendar: Calendar, translate: Translator) -> Section:
    heads = [translate("First day"), translate("Last day"), translate("Each year"),
             translate("Why")]  # fmt: skip
    rows = [
        [
            text_cell(closed["date"]),
            text_cell(closed.get("until") or ""),
            text_cell(translate("yes") if closed.get("yearly") else translate("no")),
            text_cell(closed.get("title") or ""),
        ]
        for closed in calendar["days"]
    ]
    return Section("days", translate("Closed days"), heads, rows, translate("It has none."))


def _times(calendar: Calendar, translate: Translator) -> Section:
    heads = [translate("Begins"), translate("Is over"), translate("On"), translate("Why")]
    rows = [
        [
            text_cell(closed["from"]),
            text_cell(closed["to"]),
            _weekdays(closed, translate),
            text_cell(closed.get("title") or ""),
        ]
        for closed in calendar["times"]
    ]
    return Section("times", translate("Closed times"), heads, rows, translate("It has none."))


def _weekdays(closed: Mapping[str, Any], translate: Translator) -> Cell:
    days = closed.get("weekdays")
    if not days:
        return text_cell(translate("each day"))
    return text_cell(", ".join(translate(str(day).capitalize()) for day in days))


def _periods(calendar: Calendar, translate: Translator) -> Section:
    heads = [translate("Begins"), translate("Is over"), translate("Why")]
    rows = [
        [
            text_cell(closed["start"]),
            text_cell(closed["end"]),
            text_cell(closed["title"]) if closed.get("title") else NOTHING,
        ]
        for closed in calendar["periods"]
    ]
    return Section("periods", translate("Closed periods"), heads, rows, translate("It has none."))


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    return await _form(request, contract, None)


async def _form(request: Request, contract: Contract, calendar_id: int | None) -> RecordForm:
    """Return the form of a calendar; None: of a new one."""
    translate, _ = language_parts(request)
    require(contract.who, CREATE if calendar_id is None else UPDATE, None)
    groups = _groups(translate)
    record: Calendar | None = None
    title, back, target = translate("New calendar"), ADDRESS, "/calendar/"
    action = f"{ADDRESS}/new"
    if calendar_id is not None:
        record = (await contract.read(f"/calendar/{calendar_id}")).data
        title = translate("Edit {name}", name=record["name"])
        back, target = f"{ADDRESS}/{calendar_id}", f"/calendar/{calendar_id}.json"
        action = f"{back}/edit"
    return RecordForm(
        title=title,
        here=HERE,
        action=action,
        target=target,
        collection="calendars",
        groups=groups,
        values=values_of(fields_of(groups), record),
        back=back,
        submit=translate("Save"),
    )


def _line(translate: Translator, example: str) -> str:
    return translate("Each on its line, such as: {example}", example=example)


def _groups(translate: Translator) -> list[FieldGroup]:
    return [
        FieldGroup(
            translate("Calendar"),
            [
                FormField("/name", translate("Name"), is_required=True),
                FormField(
                    "/timezone",
                    translate("Time zone"),
                    hint=translate("Empty means that of each run template."),
                ),
                FormField(
                    "/country",
                    translate("Country"),
                    hint=translate("Whose public holidays are closed, such as CZ; empty: none."),
                ),
                FormField("/subdivision", translate("Part of the country")),
            ],
        ),
        FieldGroup(
            translate("Closed, besides"),
            [
                FormField(
                    "/days",
                    translate("Closed days"),
                    "long",
                    _line(translate, "2026-12-24/2026-12-26 yearly Christmas"),
                    blank=[],
                    form=DAYS,
                ),
                FormField(
                    "/times",
                    translate("Closed times"),
                    "long",
                    _line(translate, "22:00-06:00 sat,sun night"),
                    blank=[],
                    form=TIMES,
                ),
                FormField(
                    "/periods",
                    translate("Closed periods"),
                    "long",
                    _line(translate, "2026-08-01T18:00/2026-08-03T06:00 move"),
                    blank=[],
                    form=PERIODS,
                ),
            ],
        ),
    ]


add_form_routes(router, ADDRESS, "calendar", _form, _new_form)
