"""Calendars, which define when jobs of windows do not start: list, page and form."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from jobauto_prefect.compiler.scheduling.calendars import WEEKDAYS
from jobauto_prefect.facade.console.records.cells import (
    AnyCell,
    Column,
    Draw,
    Record,
    has,
    name,
    text,
    text_cell,
    yes_or_no,
)
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField, TextForm, lines_of
from jobauto_prefect.facade.console.records.pages import Filter, RecordForm, RecordPages, Table
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import Cell
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.kinds.calendars import parse_iso
from jobauto_prefect.facade.kinds.registry import shown_fields
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
    if match is None or None in [parse_iso(date, day) for day in match.group(1, 2) if day]:
        raise ValueError(
            f"{line!r} is not a date; write, for example, 2026-12-24/2026-12-26 Christmas"
        )
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
        raise ValueError(f"{line!r} is not a time; write, for example, 22:00-06:00 sat,sun night")
    begin, end, days, why = match.groups()
    weekdays = [] if days in (None, DAILY) else days.split(",")
    return _said(**{"from": begin.zfill(5), "to": end.zfill(5)}, weekdays=weekdays, title=why)


def _write_period(closed: Closed) -> str:
    return _joined(f"{_moment(closed['start'])}/{_moment(closed['end'])}", _why(closed))


def _read_period(line: str) -> dict[str, Any]:
    match = _PERIOD.fullmatch(line)
    if match is None:
        raise ValueError(
            f"{line!r} is not a period; write, for example, 2026-08-01T18:00/2026-08-03T06:00 move"
        )
    start, end, why = match.groups()
    return _said(start=_moment(start), end=_moment(end), title=why)


def _why(closed: Closed) -> str:
    return " ".join((closed.get("title") or "").split())


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _said(**members: Any) -> dict[str, Any]:
    """Return the members that are set."""
    return {name: value for name, value in members.items() if value}


def _moment(text: str) -> str:
    return text.replace(" ", "T", 1)


def _by_lines(write: Callable[[Closed], str], read: Callable[[str], dict[str, Any]]) -> TextForm:
    """Return the text form of a list with one element per line."""

    def write_all(closed: Sequence[Closed]) -> str:
        return "\n".join(map(write, closed))

    def read_all(text: str) -> list[dict[str, Any]]:
        return [read(" ".join(line.split())) for line in lines_of(text)]

    return TextForm(write_all, read_all)


DAYS = _by_lines(_write_days, _read_days)
"""`2026-12-24/2026-12-26 yearly Christmas`: the last day, `yearly` and the title are optional."""


TIMES = _by_lines(_write_times, _read_times)
"""`22:00-06:00 sat,sun night`: the days on which it begins and the title are optional."""


PERIODS = _by_lines(_write_period, _read_period)
"""`2026-08-01T18:00/2026-08-03T06:00 move`: the title is optional."""


LISTS: Mapping[str, TextForm] = {"days": DAYS, "times": TIMES, "periods": PERIODS}
WHY = Column(Text("Reason"), text("title"))


def holidays(calendar: Record, _visit: Visit) -> AnyCell:
    """Draw the country, and its part, whose public holidays are closed."""
    named = (calendar["country"], calendar["subdivision"])
    return text_cell(" ".join(part for part in named if part))


def _how_many(field: str) -> Draw:
    return lambda calendar, _: Cell("number", str(len(calendar[field])))


def _weekdays(closed: Record, visit: Visit) -> AnyCell:
    days = closed.get("weekdays")
    if not days:
        return text_cell(visit.translate("each day"))
    return text_cell(", ".join(visit.translate(str(day).capitalize()) for day in days))


def _closed(field: str, *columns: Column) -> Table:
    """Return the table of a kind of closed time."""
    title, empty = shown_fields("calendar")[field].label, Text("None.")
    return Table(field, title, lambda calendar, _: calendar[field], (*columns, WHY), empty)


class CalendarPages(RecordPages):
    """The pages of calendars."""

    kind, new = KINDS["calendar"], Text("New calendar")
    columns = (
        name("calendar"),
        Column(Text("Public holidays"), holidays),
        *(Column(shown_fields("calendar")[field].label, _how_many(field)) for field in LISTS),
        "timezone",
    )
    filters = (Filter("country", Text("Country")),)
    empty = Text(
        "There are no calendars yet. A calendar defines when jobs of windows do not start."
    )
    about = (holidays,)
    facts = (
        Column(
            Text("Time zone"),
            lambda calendar, visit: text_cell(
                calendar["timezone"] or visit.translate("time zone of each run template")
            ),
        ),
        Column(Text("Public holidays"), holidays, when=has("country")),
    )
    tables = (
        _closed(
            "days",
            Column(Text("First day"), text("date")),
            Column(Text("Last day"), text("until")),
            Column(Text("Each year"), lambda closed, visit: yes_or_no(closed.get("yearly"), visit)),
        ),
        _closed(
            "times",
            Column(Text("Begin"), text("from")),
            Column(Text("End"), text("to")),
            Column(Text("Days"), _weekdays),
        ),
        _closed(
            "periods",
            Column(Text("Begin"), text("start")),
            Column(Text("End"), text("end")),
        ),
    )
    form = (
        FieldGroup(Text("Calendar"), ("name", "timezone", "country", "subdivision")),
        FieldGroup(Text("Other closed times"), tuple(LISTS)),
    )

    def control(self, field: str) -> FormField:
        """Return the control of a field; closed time is entered line by line."""
        control = super().control(field)
        return replace(control, kind="long", form=LISTS[field]) if field in LISTS else control

    async def edit_form(self, visit: Visit) -> RecordForm:
        """Return the form; the permission comes first, so that nothing tells which ids exist."""
        self.require(visit, "update", {})
        return await super().edit_form(visit)


router = CalendarPages().router()
