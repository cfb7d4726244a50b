"""Schedules in words: intervals and common cron expressions."""

import re
from collections.abc import Mapping

from jobauto_prefect.compiler.scheduling.schedule import NICKNAMES
from jobauto_prefect.definitions.records.actions import UNSCHEDULED
from jobauto_prefect.facade.formats.html.page_language import Translator

INTERVALS: Mapping[str, str] = {
    "n": "on demand",
    "i": "each minute",
    "h": "each hour",
    "d": "each day at midnight",
    "w": "each Monday at midnight",
    "m": "on the first day of each month",
    "y": "on the first day of each year",
    "c": "Custom schedule (cron)",
}
"""By code, in English; pages translate them."""


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


_NUMBER = re.compile(r"[0-9]{1,2}")


_EVERY = re.compile(r"\*/([0-9]{1,2})")


_DAYS = re.compile(r"[0-7](?:[-,][0-7])*")


def describe_schedule(interval: str, cron: str | None, translate: Translator) -> str:
    """Describe when windows begin; an expression without simple words stays as it is."""
    if interval != "c":
        return translate(INTERVALS[interval])
    expression = " ".join((cron or "").split())
    expression = NICKNAMES.get(expression.lower(), expression)
    if not expression:
        return translate(INTERVALS[UNSCHEDULED])
    return _describe_cron(expression, translate) or translate("by {cron}", cron=expression)


def _describe_cron(expression: str, translate: Translator) -> str | None:
    """Describe an expression of five fields; None if there are no simple words for it."""
    minute, hour, day, month, weekday = expression.split()
    if month != "*":
        return None
    days = _describe_days(day, weekday, translate)
    time = _describe_time(minute, hour, translate)
    if hour == "*":
        return time if (day, weekday) == ("*", "*") else None
    return f"{days} {time}" if days and time else None


def _describe_days(day: str, weekday: str, translate: Translator) -> str | None:
    if (day, weekday) == ("*", "*"):
        return translate("each day")
    if weekday == "*" and day == "L":
        return translate("on the last day of each month")
    if weekday == "*" and _NUMBER.fullmatch(day):
        return translate("on day {day} of each month", day=int(day))
    if day == "*" and _DAYS.fullmatch(weekday):
        # Cron counts from Sunday, which is 0 and 7: `1-5` is Mon-Fri.
        named = re.sub("[0-7]", lambda match: translate(WEEKDAYS[int(match[0]) - 1]), weekday)
        named = named.replace(",", ", ").replace("-", "\N{EN DASH}")
        return translate("each {weekdays}", weekdays=named)
    return None


def _describe_time(minute: str, hour: str, translate: Translator) -> str | None:
    every = _EVERY.fullmatch(minute)
    if hour == "*" and minute == "*":
        return translate("each minute")
    if hour == "*" and every:
        return translate("every {number} minutes", number=int(every[1]))
    if not _NUMBER.fullmatch(minute):
        return None
    if hour == "*":
        return translate("each hour, {minute} minutes past", minute=int(minute))
    if not all(_NUMBER.fullmatch(part) for part in hour.split(",")):
        return None
    times = ", ".join(f"{int(part)}:{int(minute):02}" for part in hour.split(","))
    return translate("at {times}", times=times)
