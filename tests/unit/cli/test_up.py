"""What `jobauto up` tells people."""

from pathlib import Path

import pytest

from jobauto_prefect.cli.commands.up import _ready_lines
from jobauto_prefect.settings import Settings


@pytest.mark.parametrize(
    ("run_as", "text"),
    [
        ((), "in /srv/home/work, as this user"),
        (
            ("7=anna", "nobody"),
            "in /var/lib/jobauto-jobs, outside of the home, as 7=anna, nobody",
        ),
    ],
)
def test_it_says_where_the_directories_of_jobs_are(run_as: tuple[str, ...], text: str) -> None:
    lines = _ready_lines(Settings(home=Path("/srv/home"), run_as=run_as))
    assert f"  Jobs         {text}" in lines


def test_it_says_the_addresses_that_people_open() -> None:
    lines = _ready_lines(Settings(home=Path("/srv/home"), url="https://jobs.example.org"))

    assert "  Console      https://jobs.example.org/" in lines
    assert "  Pages        https://jobs.example.org/api/v1/index.html" in lines
    assert "  REST docs    https://jobs.example.org/docs" in lines
