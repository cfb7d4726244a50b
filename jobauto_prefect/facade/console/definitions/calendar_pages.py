"""Calendars: when the jobs of windows do not start. A list, a page, and a form."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from jobauto_prefect.compiler.scheduling.calendars import WEEKDAYS
from jobauto_prefect.facade.console.records.declared import (
    Column,
    Draw,
    Narrowing,
    Part,
    Record,
    RecordPages,
    has,
    record_link,
    text,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, TextForm, lines_of
from jobauto_prefect.facade.console.records.pages import AnyCell, RecordForm, text_cell
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.kinds import KINDS

Closed = Mapping[str, Any]


YEARLY, ONCE, DAILY = "yearly", "once", "daily"


_DAY = r"\d{4}-\d{2}-\d{2}"


_DAYS = re.compile(rf"({_DAY})(?:/({_DAY}))?(?: ({YEARLY}|{ONCE})(?= |$))?(?: (.*))?")


_CLOCK = r"\d{1,2}:\d{2}"


_NAMED_DAYS = rf"{DAILY}|(?:{'|'.join(WEEKDAYS)})(?:,(?:{'|'.join(WEEKDAYS)}))*"


_TIMES = re.compile(rf"({_CLOCK})-({_CLOCK})(?: ({_NAMED_DAYS})(?= |$))?(?: (.*))?")


_MOMENT = rf"{_DAY}[T ]{_CLOCK}(?::\d{{2}})?(?:Z|[+-]\d{{2}}:\d{{2}})?"


_PERIOD = re.compile(rf"({_MOMENT})/({_MOMENT})(?: (.*))?")


def _write_days(closed: Closed) -> str:
    until, why = closed.get("until"), _why(closed)
    often = YEARLY if closed.get("yearly") else ""
    if not often and why.partition(" ")[0] in (YEARLY, ONCE):
        often = ONCE
    return _joined(f"{closed['date']}/{until}" if until else closed["date"], often, why)


def _read_days(line: str) -> dict[str, Any]:
    match = _DAYS.fullmatch(line)
    if match is None or not all(_is_day(day) for day in match.group(1, 2) if day):
        raise ValueError(f"{line!r} says no day; write such as 2026-12-24/2026-12-26 Christmas")
    first, until, often, why = match.groups()
    return _said(date=first, until=until, yearly=often == YEARLY, title=why)


def _write_times(closed: Closed) -> str:
    why, days = _why(closed), ",".join(closed.get("weekdays") or ())
    if not days and re.fullmatch(_NAMED_DAYS, why.partition(" ")[0]):
        days = DAILY
    return _joined(f"{closed['from']}-{closed['to']}", days, why)


def _read_times(line: str) -> dict[str, Any]:
    match = _TIMES.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} says no time; write such as 22:00-06:00 sat,sun night")
    begin, end, days, why = match.groups()
    weekdays = [] if days in (None, DAILY) else days.split(",")
    return _said(**{"from": begin.zfill(5), "to": end.zfill(5)}, weekdays=weekdays, title=why)


def _write_period(closed: Closed) -> str:
    return _joined(f"{_moment(closed['start'])}/{_moment(closed['end'])}", _why(closed))


def _read_period(line: str) -> dict[str, Any]:
    match = _PERIOD.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{line!r} says no period; write such as 2026-08-01T18:00/2026-08-03T06:00 move"
        )
    start, end, why = match.groups()
    return _said(start=_moment(start), end=_moment(end), title=why)


def _why(closed: Closed) -> str:
    return " ".join((closed.get("title") or "").split())


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _said(**members: Any) -> dict[str, Any]:
    """Return the members that say something."""
    return {name: value for name, value in members.items() if value}


def _moment(text: str) -> str:
    return text.replace(" ", "T", 1)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _by_lines(write: Callable[[Closed], str], read: Callable[[str], dict[str, Any]]) -> TextForm:
    """Return the form of a list whose elements are written on a line each."""

    def write_all(closed: Sequence[Closed]) -> str:
        return "\n".join(map(write, closed))

    def read_all(text: str) -> list[dict[str, Any]]:
        return [read(" ".join(line.split())) for line in lines_of(text)]

    return TextForm(write_all, read_all)


DAYS = _by_lines(_write_days, _read_days)
"""`2026-12-24/2026-12-26 yearly Christmas`: until when, `yearly` and why may be left out."""


TIMES = _by_lines(_write_times, _read_times)
"""`22:00-06:00 sat,sun night`: on which days it begins, and why, may be left out."""


PERIODS = _by_lines(_write_period, _read_period)
"""`2026-08-01T18:00/2026-08-03T06:00 move`: why may be left out."""


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
