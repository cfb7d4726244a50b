"""Schedules in words, and where values come from."""

import pytest

from jobauto_prefect.compiler.scheduling.schedule import CODES
from jobauto_prefect.definitions import parse
from jobauto_prefect.facade.console.run_templates.schedules import INTERVALS, describe_schedule
from jobauto_prefect.facade.console.run_templates.values import (
    ValueSource,
    credential_source,
    default_source,
    resolve_values,
)
from jobauto_prefect.facade.formats.html.page_language import Text, translator
from tests.support.definitions import PROBE


@pytest.mark.parametrize(
    ("cron", "english", "czech"),
    [
        ("30 6 * * *", "each day at 6:30", "každý den v 6:30"),
        ("0 6,18 * * *", "each day at 6:00, 18:00", "každý den v 6:00, 18:00"),
        ("5 22 * * 1-5", "each Mon\N{EN DASH}Fri at 22:05", "vždy po\N{EN DASH}pá v 22:05"),
        ("0 0 * * 0,6", "each Sun, Sat at 0:00", "vždy ne, so v 0:00"),
        ("0 0 * * 7", "each Sun at 0:00", "vždy ne v 0:00"),
        ("0 4 1 * *", "on day 1 of each month at 4:00", "1. den každého měsíce v 4:00"),
        (
            "0 4 L * *",
            "on the last day of each month at 4:00",
            "poslední den každého měsíce v 4:00",
        ),
        ("*/15 * * * *", "every 15 minutes", "vždy po 15 minutách"),
        ("* * * * *", "each minute", "každou minutu"),
        ("7 * * * *", "each hour, 7 minutes past", "každou hodinu v 7. minutě"),
        ("*/5 * * * 1", "by */5 * * * 1", "podle výrazu */5 * * * 1"),
        ("@daily", "each day at 0:00", "každý den v 0:00"),
        ("0 0 1 1 *", "by 0 0 1 1 *", "podle výrazu 0 0 1 1 *"),
        ("0 9 * * 1#2", "by 0 9 * * 1#2", "podle výrazu 0 9 * * 1#2"),
        ("0 9 1 * 1", "by 0 9 1 * 1", "podle výrazu 0 9 1 * 1"),
        ("*/7 8-18 * * *", "by */7 8-18 * * *", "podle výrazu */7 8-18 * * *"),
        ("  ", "on demand", "jen na vyžádání"),
    ],
)
def test_an_expression_of_cron_is_told_in_words(cron: str, english: str, czech: str) -> None:
    assert describe_schedule("c", cron, translator("en")) == english
    assert describe_schedule("c", cron, translator("cs")) == czech


def test_each_interval_has_words() -> None:
    assert set(INTERVALS) == set(CODES)
    assert describe_schedule("d", "1 1 * * *", translator("en")) == "each day at midnight"


def test_a_value_comes_from_the_last_source_that_has_it() -> None:
    definition = parse(PROBE)
    fields = [{"keyword": "COUNT"}, {"keyword": "TARGET", "default_value": "typed"}]
    credential = {"name": "bank", "values": {"COUNT": "4", "GONE": "x"}}
    sources = [
        default_source(definition),
        ValueSource(Text("company"), {"GREETING": "dear", "COUNT": "2", "OTHERS": "x"}),
        credential_source(credential, fields, "/bank"),
        ValueSource(Text("template"), {"GREETING": "hi", "EXTRA": "1"}, is_own=True),
    ]
    values = {value.key: value for value in resolve_values(definition, sources)}
    told = {
        key: (value.text, value.source and str(value.source.label)) for key, value in values.items()
    }
    assert told == {
        "GREETING": ("hi", "template"),
        "TARGET": ("typed", "credential {name}"),
        "COUNT": ("4", "credential {name}"),
        "LOUD": ("false", "application default"),
        "PASSWORD": ("", None),
        "RESULT_FILE": ("result.json", "application default"),
        "COMPANY_TOWN": ("Prague", "application default"),
        "EXTRA": ("1", "template"),
    }


def test_a_secret_default_is_masked() -> None:
    environment = {"KEY": {"type": "password", "defval": "open"}}
    definition = parse({**PROBE, "environment": environment})
    (value,) = resolve_values(definition, [default_source(definition)])
    assert value.is_masked
