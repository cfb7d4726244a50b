"""Calendars: shown, written, and referenced by other records."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, StringConstraints

from jobauto_prefect.compiler.scheduling.calendars import countries
from jobauto_prefect.compiler.scheduling.schedule import zone_of
from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import JsonObject, Labelled, serialize_fields
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.field_types import Boolean, parse_text
from jobauto_prefect.facade.http.requests import Body
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import Filter, Resource
from jobauto_prefect.facade.writes.base import (
    Id,
    LabelledBody,
    Name,
    RecordName,
    ShortText,
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
)
from jobauto_prefect.jobs.windows.closed_time import calendar_plan
from jobauto_prefect.jobs.windows.due_windows import recheck_closed_time
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.jobs import windows
from jobauto_prefect.ledger.queries.calendars import (
    Keeper,
    calendars_named,
    keepers_of,
)
from jobauto_prefect.ledger.queries.run_templates import templates_under
from jobauto_prefect.settings import Settings
from jobauto_prefect.text_patterns import matching


class Calendar(Labelled):
    """Times at which no job of a window starts."""

    name: str = Field(description="Its name.")
    timezone: str | None = Field(
        description="IANA name of the time zone of its days and times; null: each run template's "
        "own."
    )
    country: str | None = Field(
        description="Country whose public holidays are closed (ISO 3166-1); null: none."
    )
    subdivision: str | None = Field(
        description="Part of the country whose holidays are closed as well."
    )
    days: list[dict[str, Any]] = Field(
        description="Closed days: `date`, `until`, `yearly`, `title`."
    )
    times: list[dict[str, Any]] = Field(
        description="Closed times of day: `from`, `to`, `weekdays`, `title`."
    )
    periods: list[dict[str, Any]] = Field(
        description="One-off closed periods: `start`, `end`, `title`."
    )


PERMISSIONS = "applications"


CalendarRefs = Annotated[list[Id | Name], Field(max_length=20)]
"""Ids or names of calendars."""


Day = Annotated[
    str, matching(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "must be a date, such as 2026-12-24")
]


Clock = Annotated[
    str, matching(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be a time of day, such as 17:30")
]


Moment = Annotated[
    str,
    matching(
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?"
        r"(Z|[+-][0-9]{2}:[0-9]{2})?$",
        "must be a date and time, such as 2026-12-24T17:30",
    ),
]


Title = Annotated[
    Annotated[str, StringConstraints(max_length=255)] | None,
    Field(description="The reason, shown to people."),
]


Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


MAX_YEARLY_DAYS = 364  # days between the first and the last


class DaysBody(Body):
    """A day, or all days from `date` to `until`; `yearly`: every year."""

    date: Day = Field(description="The day, or the first of several days.")
    until: Day | None = Field(
        default=None, description="The last of the days; null: only the day `date`."
    )
    yearly: Boolean = Field(default=False, description="Whether the days are closed every year.")
    title: Title = None


class TimesBody(Body):
    """From one time of day to another. If `to` is not later than `from`, it is on the next day.

    `weekdays` are the days on which the closed time begins; none: every day.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    from_: Clock = Field(alias="from", description="Start, `HH:MM`.")
    to: Clock = Field(
        description="End, `HH:MM`. If it is not later than the start, it is on the next day."
    )
    weekdays: list[Weekday] = Field(
        default_factory=list,
        max_length=7,
        description="Days of the week on which the closed time begins; none: every day.",
    )
    title: Title = None


class PeriodBody(Body):
    """A one-off period. Times without an offset are in the calendar's time zone."""

    start: Moment = Field(description="Start.")
    end: Moment = Field(description="End.")
    title: Title = None


class CalendarBody(LabelledBody):
    """A calendar, identified by its name: times at which no job of a window starts.

    `timezone` null: the zone of each run template. `country` (ISO 3166-1) and `subdivision` add
    public holidays; this needs the extra `holidays`.
    """

    record: ClassVar = Calendar

    name: Annotated[RecordName | None, Shown("Name")] = None
    timezone: Annotated[
        ShortText | None,
        Shown("Time zone", "Leave empty to use the time zone of each run template."),
    ] = None
    country: Annotated[
        Annotated[str, matching(r"^[A-Z]{2}$", "must be two capital letters, such as CZ")] | None,
        Shown(
            "Country",
            "Country whose public holidays are closed, for example CZ. Leave empty for none.",
        ),
    ] = None
    subdivision: Annotated[ShortText | None, Shown("Region")] = None
    days: Annotated[
        list[DaysBody],
        Shown(
            "Closed days",
            "One per line, for example {example}",
            example="2026-12-24/2026-12-26 yearly Christmas",
        ),
    ] = Field(
        default_factory=list,
        max_length=1000,
        description="Closed days; they replace the current ones.",
    )
    times: Annotated[
        list[TimesBody],
        Shown(
            "Closed times",
            "One per line, for example {example}",
            example="22:00-06:00 sat,sun night",
        ),
    ] = Field(
        default_factory=list,
        max_length=100,
        description="Closed times of day; they replace the current ones.",
    )
    periods: Annotated[
        list[PeriodBody],
        Shown(
            "Closed periods",
            "One per line, for example {example}",
            example="2026-08-01T18:00/2026-08-03T06:00 move",
        ),
    ] = Field(
        default_factory=list,
        max_length=1000,
        description="One-off closed periods; they replace the current ones.",
    )


LISTS = ("days", "times", "periods")


def write_calendar(write: WriteRequest) -> WriteResult:
    """Write a calendar.

    Raises:
        InvalidInput: with every error.
    """
    body = parse_body(CalendarBody, write.fields)
    calendar = write.get_for_update(records.Calendar, PERMISSIONS)
    if calendar is None and write.record_id is None and body.name is not None:
        named = calendars_named(write.session, [body.name])
        calendar = write.authorize_update(named[0], PERMISSIONS) if named else None
    created = calendar is None
    if calendar is None:
        write.authorize_create(PERMISSIONS, None)
        require_fields(body, "name")
        calendar = records.Calendar()
        write.session.add(calendar)
    before = calendar.name
    apply_fields(calendar, body, except_for=frozenset(LISTS))
    for name in LISTS if created else body.model_fields_set.intersection(LISTS):
        given: Sequence[Body] = getattr(body, name)
        kept = [each.model_dump(by_alias=True, exclude_defaults=True) for each in given]
        setattr(calendar, name, kept)
    _require_valid(calendar)
    write.session.flush()
    # The records that use the calendar have its name and follow its new times.
    for keeper in () if created else keepers_of(write.session, before):
        if calendar.name != before:
            keeper.calendars = [calendar.name if each == before else each
                                for each in keeper.calendars]  # fmt: skip
        for template in templates_under(write.session, keeper):
            windows.lock_windows(write.session, template)
            recheck_closed_time(write.session, [template])
    return WriteResult(calendar, created)


def apply_calendars(write: WriteRequest, keeper: Keeper, given: Sequence[int | str]) -> bool:
    """Replace the calendars of a record; return whether they changed.

    Raises:
        InvalidInput: naming each that does not exist.
    """
    names = {each for each in given if isinstance(each, str)}
    known_names = {calendar.name for calendar in calendars_named(write.session, names)}
    calendar_names = [_find_name(write, each) if isinstance(each, int) else each for each in given]
    faults = [
        Fault(f"/calendars/{place}", "reference", f"there is no calendar {each!r}")
        for place, (name, each) in enumerate(zip(calendar_names, given, strict=True))
        if name is None or (isinstance(each, str) and name not in known_names)
    ]
    if faults:
        raise InvalidInput(faults)
    wanted = list(dict.fromkeys(name for name in calendar_names if name is not None))
    if wanted == (keeper.calendars or []):
        return False
    keeper.calendars = wanted
    return True


def _find_name(write: WriteRequest, record_id: int) -> str | None:
    calendar = write.session.get(records.Calendar, record_id)
    return calendar.name if calendar is not None and calendar.retired_at is None else None


def _require_valid(calendar: records.Calendar) -> None:
    """Check the rules for a calendar that no pattern can express.

    Raises:
        InvalidInput: with every error.
    """
    faults = [
        *_faults_of_days(calendar.days),
        *_faults_of_periods(calendar.periods),
        *_faults_of_country(calendar),
    ]
    zone_of(calendar.timezone or "UTC")
    if faults:
        raise InvalidInput(faults)
    for place, period in enumerate(calendar_plan(calendar, "UTC").periods):
        if period.end is None or period.end <= period.start:
            faults.append(Fault(f"/periods/{place}/end", "order", "it must end after its start"))
    if faults:
        raise InvalidInput(faults)


def _faults_of_days(days: Sequence[dict[str, Any]]) -> Iterable[Fault]:
    for place, day in enumerate(days):
        pointer = f"/days/{place}"
        first, last = (
            parse_iso(date, day["date"]),
            parse_iso(date, day.get("until") or day["date"]),
        )
        if first is None or last is None:
            wrong = "date" if first is None else "until"
            yield Fault(f"{pointer}/{wrong}", "date", "there is no such day")
        elif last < first:
            yield Fault(f"{pointer}/until", "order", "it must not be before `date`")
        elif day.get("yearly") and (last - first).days >= MAX_YEARLY_DAYS:
            yield Fault(f"{pointer}/until", "order", "at least one day of the year must stay open")


def _faults_of_periods(periods: Sequence[dict[str, Any]]) -> Iterable[Fault]:
    for place, period in enumerate(periods):
        for name in ("start", "end"):
            if parse_iso(datetime, period[name]) is None:
                yield Fault(f"/periods/{place}/{name}", "time", "there is no such time")


def _faults_of_country(calendar: records.Calendar) -> Iterable[Fault]:
    if calendar.country is None:
        if calendar.subdivision is not None:
            yield Fault("/subdivision", "required", "it needs a country; set country, too")
        return
    known_countries = countries()
    if known_countries is None:
        message = "public holidays need: pip install 'jobauto-prefect[holidays]'"
        yield Fault("/country", "missing", message)
    elif calendar.country not in known_countries:
        message = f"the public holidays of {calendar.country} are not known; list them in days"
        yield Fault("/country", "reference", message)
    elif calendar.subdivision not in (None, *known_countries[calendar.country]):
        listed = ", ".join(known_countries[calendar.country]) or "none"
        yield Fault("/subdivision", "reference", f"{calendar.country} has these parts: {listed}")


def parse_iso(kind: type[date] | type[datetime], text: str) -> Any:
    """Return a day or an instant as ISO 8601 writes it; None if there is none like this."""
    try:
        return kind.fromisoformat(text)
    except ValueError:
        return None


def serialize_calendar(calendar: records.Calendar, _settings: Settings) -> JsonObject:
    """Return a calendar as answers show it."""
    return serialize_fields(Calendar, calendar)


RESOURCE = Resource(
    KINDS["calendar"], records.Calendar, Calendar, serialize_calendar, write_calendar,
    filters={"country": Filter("country", parse_text)},
    body=CalendarBody,
)  # fmt: skip
