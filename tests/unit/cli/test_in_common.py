"""What many have in common is said once."""

import pytest

from jobauto_prefect.cli.output import terminal


@pytest.fixture(autouse=True)
def fresh_console() -> None:
    terminal.error_console.cache_clear()


def test_what_many_have_in_common_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    apps = [("application", f"A{number}", "there is no type AbraFlexi") for number in range(50)]
    others = [("company", "acme", "has no zone"), ("company", "other", "has no zone")]
    alone = [("run template", "acme/Nightly", "PIN is short")]

    terminal.print_grouped_hints([*apps, *others, *alone])

    assert capsys.readouterr().err.splitlines() == [
        "warning: 50 applications (A0, A1, A2 and 47 more): there is no type AbraFlexi",
        "warning: 2 companies (acme, other): has no zone",
        "warning: run template acme/Nightly: PIN is short",
    ]
