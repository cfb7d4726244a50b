"""Calendars: when the jobs of windows do not start. A list, a page, and a form."""

from jobauto_prefect.definitions.kinds import KINDS
from jobauto_prefect.facade.console.definitions.closed_time_texts import DAYS, PERIODS, TIMES
from jobauto_prefect.facade.console.records.columns import (
    Column,
    Draw,
    Record,
    has,
    record_link,
    text,
)
from jobauto_prefect.facade.console.records.form_fields import FieldGroup, FormField
from jobauto_prefect.facade.console.records.page_parts import AnyCell, text_cell
from jobauto_prefect.facade.console.records.record_pages import Narrowing, Part, RecordPages
from jobauto_prefect.facade.console.records.record_views import RecordForm
from jobauto_prefect.facade.console.records.text_forms import TextForm
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Text

WHY = Column(Text("Why"), text("title"))


def holidays(calendar: Record, _view: View, _visit: Visit) -> AnyCell:
    """Draw whose public holidays are closed."""
    named = (calendar["country"], calendar["subdivision"])
    return text_cell(" ".join(part for part in named if part))


def _how_many(field: str) -> Draw:
    return lambda calendar, _view, _visit: Cell("number", str(len(calendar[field])))


def _zone(calendar: Record, _view: View, visit: Visit) -> AnyCell:
    return text_cell(calendar["timezone"] or visit.translate("that of each run template"))


def _yearly(closed: Record, _view: View, visit: Visit) -> AnyCell:
    return text_cell(visit.translate("yes") if closed.get("yearly") else visit.translate("no"))


def _weekdays(closed: Record, _view: View, visit: Visit) -> AnyCell:
    days = closed.get("weekdays")
    if not days:
        return text_cell(visit.translate("each day"))
    return text_cell(", ".join(visit.translate(str(day).capitalize()) for day in days))


def _closed(name: str, label: Text, example: str, form: TextForm) -> FormField:
    hint = Text("Each on its line, such as: {example}", example=example)
    return FormField(f"/{name}", label, "long", hint, blank=[], form=form)


class CalendarPages(RecordPages):
    """The pages of calendars."""

    kind, here, new = KINDS["calendar"], "Run templates", Text("New calendar")
    columns = (
        Column(Text("Name"), record_link("calendars")),
        Column(Text("Public holidays"), holidays),
        Column(Text("Closed days"), _how_many("days")),
        Column(Text("Closed times"), _how_many("times")),
        Column(Text("Closed periods"), _how_many("periods")),
        Column(Text("Time zone"), text("timezone")),
    )
    filters = (Narrowing("country", Text("Country")),)
    empty = Text("There is no calendar yet. One says when the jobs of windows do not start.")
    about = (holidays,)
    facts = (
        Column(Text("Time zone"), _zone),
        Column(Text("Public holidays"), holidays, when=has("country")),
    )
    tables = (
        Part(
            "days",
            Text("Closed days"),
            lambda calendar, _: calendar["days"],
            (
                Column(Text("First day"), text("date")),
                Column(Text("Last day"), text("until")),
                Column(Text("Each year"), _yearly),
                WHY,
            ),
            Text("It has none."),
        ),
        Part(
            "times",
            Text("Closed times"),
            lambda calendar, _: calendar["times"],
            (
                Column(Text("Begins"), text("from")),
                Column(Text("Is over"), text("to")),
                Column(Text("On"), _weekdays),
                WHY,
            ),
            Text("It has none."),
        ),
        Part(
            "periods",
            Text("Closed periods"),
            lambda calendar, _: calendar["periods"],
            (
                Column(Text("Begins"), text("start")),
                Column(Text("Is over"), text("end")),
                WHY,
            ),
            Text("It has none."),
        ),
    )
    form = (
        FieldGroup(
            Text("Calendar"),
            [
                FormField("/name", Text("Name"), is_required=True),
                FormField(
                    "/timezone",
                    Text("Time zone"),
                    hint=Text("Empty means that of each run template."),
                ),
                FormField(
                    "/country",
                    Text("Country"),
                    hint=Text("Whose public holidays are closed, such as CZ; empty: none."),
                ),
                FormField("/subdivision", Text("Part of the country")),
            ],
        ),
        FieldGroup(
            Text("Closed, besides"),
            [
                _closed(
                    "days", Text("Closed days"), "2026-12-24/2026-12-26 yearly Christmas", DAYS
                ),
                _closed("times", Text("Closed times"), "22:00-06:00 sat,sun night", TIMES),
                _closed(
                    "periods",
                    Text("Closed periods"),
                    "2026-08-01T18:00/2026-08-03T06:00 move",
                    PERIODS,
                ),
            ],
        ),
    )

    async def edit_form(self, visit: Visit, number: int) -> RecordForm:
        """Return the form of a calendar; who may change none is not told which there are."""
        self.require(visit.who, "update", {})
        return await super().edit_form(visit, number)


router = CalendarPages().router()
