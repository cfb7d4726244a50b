"""What will run when, over REST and on the command line."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from jobauto_prefect.cli.commands.forecast import COLUMNS
from jobauto_prefect.compiler import schedule_of, windows_between
from jobauto_prefect.settings import Settings
from tests.support.definitions import PROBE
from tests.support.homes import InProcessHome


@pytest.fixture
def templates(rest: httpx.Client) -> dict[str, int]:
    """Ids by name: one in the company's zone, a delayed one, and two that start nothing."""
    app = rest.post("/app/", json=PROBE).json()["id"]
    company = {"slug": "acme", "name": "Acme", "timezone": "Asia/Tokyo"}
    company_id = rest.post("/company/", json=company).json()["id"]
    common = {"app_id": app, "company_id": company_id}
    made = {}
    kinds: dict[str, dict[str, Any]] = {
        "daily": {"interv": "d", "deadline_offset": "06:00"},
        "late": {"interv": "d", "timezone": "UTC", "delay": 3600},
        "off": {"interv": "i", "active": False},
        "never": {},
    }
    for name, members in kinds.items():
        answer = rest.post("/runtemplate/", json=common | {"name": name} | members)
        assert answer.status_code < 300, answer.text
        made[name] = answer.json()["id"]
    return made


def of(template: int, found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in found["windows"] if one["runtemplate_id"] == template]


def test_a_forecast_has_the_windows_of_what_is_on(
    rest: httpx.Client, templates: dict[str, int]
) -> None:
    found = rest.get("/forecast.json", params={"days": 3}).json()

    after, until = (datetime.fromisoformat(found[name]) for name in ("from", "until"))
    assert until - after == timedelta(days=3)
    tokyo = schedule_of("d", None, "Asia/Tokyo")
    assert tokyo is not None
    expected = [window.start.isoformat() for window in windows_between(tokyo, after, until)]
    mine = of(templates["daily"], found)
    assert [one["launch_at"] for one in mine] == expected
    assert {one["timezone"] for one in mine} == {"Asia/Tokyo"}
    for one in mine:
        begun, deadline = (datetime.fromisoformat(one[m]) for m in ("window_start", "deadline"))
        assert deadline - begun == timedelta(hours=6)
    assert {one["runtemplate_id"] for one in found["windows"]} == {
        templates["daily"],
        templates["late"],
    }
    launches = [one["launch_at"] for one in found["windows"]]
    assert launches == sorted(launches)
    assert not found["more"]


def test_a_delay_shifts_the_launch_and_not_the_window(
    rest: httpx.Client, templates: dict[str, int]
) -> None:
    query: dict[str, str | int] = {
        "days": 2,
        "runtemplate_id": f"{templates['late']},{templates['never']}",
    }
    found = rest.get("/forecast.json", params=query).json()

    assert found["windows"] == of(templates["late"], found)
    for one in found["windows"]:
        launch, start = (datetime.fromisoformat(one[m]) for m in ("launch_at", "window_start"))
        assert launch - start == timedelta(hours=1)
        assert start.astimezone(UTC).hour == 0


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("suffix", ["html", "xml", "yaml"])
def test_it_is_spoken_in_every_format_of_records(rest: httpx.Client, suffix: str) -> None:
    answer = rest.get(f"/forecast.{suffix}", params={"days": 2})
    assert answer.status_code == 200
    assert "Asia/Tokyo" in answer.text


@pytest.mark.usefixtures("templates")
def test_it_says_that_there_is_more(rest: httpx.Client) -> None:
    found = rest.get("/forecast.json", params={"days": 9, "limit": 2}).json()

    assert len(found["windows"]) == 2
    assert found["more"]


@pytest.mark.parametrize("query", [{"days": 0}, {"days": "x"}, {"runtemplate_id": "1,,2"}])
def test_what_can_not_be_asked_is_an_error(rest: httpx.Client, query: dict[str, Any]) -> None:
    answer = rest.get("/forecast.json", params=query)
    assert answer.status_code == 400
    assert answer.json()["details"][0]["pointer"] == f"/{next(iter(query))}"


def test_the_command_line_shows_the_wall_clock_of_each_schedule(
    ledger_settings: Settings, templates: dict[str, int]
) -> None:
    def ask(*words: str) -> str:
        told = {
            "JOBAUTO_HOME": str(ledger_settings.home),
            "JOBAUTO_CONFIG_DIR": str(ledger_settings.home),
            "JOBAUTO_DATABASE_URL": str(ledger_settings.database_url),
        }
        ran = InProcessHome(ledger_settings.home).run("forecast", "--days", "2", *words, **told)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    head, *rows = ask("--template", "acme/daily").splitlines()
    assert head.split()[0] == COLUMNS[0]
    assert len(rows) == 2
    assert all("acme/daily" in row and " 00:00 " in row and "Asia/Tokyo" in row for row in rows)
    found = json.loads(ask("--json"))
    assert {one["runtemplate_id"] for one in found["windows"]} == {
        templates["daily"],
        templates["late"],
    }
