"""What pages say of a window: its time in words, and its state once."""

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from jobauto_prefect.facade.console.jobs.labels import Badge
from jobauto_prefect.facade.console.success_chart import MONTHS
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import TONES

TO = " \N{EN DASH} "


def tell_window(start: datetime, end: datetime, zone: ZoneInfo, translate: Translator) -> str:
    """Return when a window is, where clocks go by the zone: whole days without their hours."""
    start, end = start.astimezone(zone), end.astimezone(zone)
    if start.time() == end.time() == time():
        last = datetime.fromtimestamp(end.timestamp() - 1, zone)
        days = [tell_day(day, translate) for day in (start, last)]
        return days[0] if start.date() == last.date() else TO.join(days)
    first = f"{tell_day(start, translate)} {start:%H:%M}"
    if start.date() == end.date():
        return f"{first}{TO}{end:%H:%M}"
    return f"{first}{TO}{tell_day(end, translate)} {end:%H:%M}"


def tell_day(day: datetime, translate: Translator) -> str:
    """Return a day with its year: `23 Nov 2026`."""
    month = translate(MONTHS[day.month - 1])
    return f"{translate('{day} {month}', day=day.day, month=month)} {day.year}"


def badge_of(task: Mapping[str, Any], translate: Translator) -> Badge:
    """Return the state of a task; what is excused is no alarm."""
    text = tell_state(task["state"], translate)
    if task["excuse"]:
        return Badge(translate("{state}, excused", state=text), "")
    return Badge(text, TONES.get(task["state"], ""))


def tell_state(state: str, translate: Translator) -> str:
    """Return a state as words: `fulfilled late`."""
    return translate(state).replace("_", " ")
