"""Messages about texts that do not match a pattern."""

import pytest

from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.facade.http.requests import parse
from jobauto_prefect.facade.kinds.calendars import CalendarBody
from jobauto_prefect.runtime.executors.registry import setting_faults
from jobauto_prefect.settings import load_settings


def test_a_body_s_errors_say_what_is_expected() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(CalendarBody, {"name": "a\0b", "country": "cz"})
    assert {fault.pointer: fault.message for fault in refused.value.faults} == {
        "/name": "must not contain NUL characters",
        "/country": "must be two capital letters, such as CZ",
    }


def test_a_setting_s_error_says_what_is_expected() -> None:
    with pytest.raises(InvalidInput, match="smtp_from: must be a mail address, such as eva@"):
        load_settings([], smtp_from="eva")


def test_an_executor_setting_s_error_says_what_is_expected() -> None:
    (fault,) = setting_faults({"memory": "much"})
    assert fault.message == "must be a number of bytes, or one with k, m or g, such as 512m"
