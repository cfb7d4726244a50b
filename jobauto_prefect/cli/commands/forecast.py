"""`jobauto forecast`: which jobs will run, and when."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from jobauto_prefect.cli.options import Json, Url
from jobauto_prefect.cli.output.terminal import print_hint, print_json, print_table
from jobauto_prefect.cli.records.lookup import find_id

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client

Record = Mapping[str, Any]
COLUMNS = ("starts", "run template", "window", "until", "deadline", "zone")
MINUTES, SECONDS = "%a %Y-%m-%d %H:%M", "%a %Y-%m-%d %H:%M:%S"


def forecast(
    days: Annotated[
        int,
        typer.Option("--days", min=1, max=3660, metavar="N", help="How many days to look ahead."),
    ] = 7,
    template: Annotated[
        list[str] | None,
        typer.Option(
            "--template",
            metavar="TEMPLATE",
            help="Only this run template: its number, or company/name.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=10_000, help="Show at most this many, the first ones."),
    ] = 100,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Show the coming windows of active run templates, by start time.

    Example: jobauto forecast --days 2 --template acme/Nightly
    """
    from jobauto_prefect.cli.connection.client import call_facade

    async def ask(client: "Client") -> tuple[dict[str, Any], Mapping[str, Mapping[int, Record]]]:
        ids = [str(await find_id(client, "runtemplate", word)) for word in template or ()]
        chosen = {"runtemplate_id": ",".join(ids)} if ids else {}
        forecast_ = await client.get("/forecast.json", days=days, limit=limit, **chosen)
        names = {name: await client.list(name) for name in ("companies", "runtemplates")}
        return forecast_, {} if as_json else names

    forecast_, names = call_facade(url, ask)
    if as_json:
        print_json(forecast_)
    else:
        _print_forecast(forecast_, names)


def _print_forecast(
    forecast_: Mapping[str, Any], names: Mapping[str, Mapping[int, Record]]
) -> None:
    from jobauto_prefect.cli.records.lists import template_column

    title = template_column("runtemplate_id")
    windows: Sequence[Record] = forecast_["windows"]
    if not windows:
        print_hint(f"nothing is due until {forecast_['until']}")
        return
    notes = [_window_note(window) for window in windows]
    rows = []
    for window in windows:
        zone, times = window["timezone"], ("launch_at", "window_start", "window_end", "deadline")
        launch, *others = (_wall_time(window[name], zone) for name in times)
        rows.append((launch, title(window, names), *others, zone))
    if any(notes):
        noted = [(*row, note) for row, note in zip(rows, notes, strict=True)]
        print_table((*COLUMNS, "note"), noted)
    else:
        print_table(COLUMNS, rows)
    if forecast_["more"]:
        print_hint(f"these are the first {len(windows)}; there are more, see --limit")


def _window_note(window: Record) -> str:
    if window["closed"] is None:
        return ""
    if window["excused"]:
        return f"excused: {window['closed']}"
    if window["moved_from"] is None:
        return f"waits for the end: {window['closed']}"
    return f"moved from {_wall_time(window['moved_from'], window['timezone'])}: {window['closed']}"


def _wall_time(text: str, zone: str) -> str:
    """Format a time by the clock of the schedule's time zone."""
    shown = datetime.fromisoformat(text).astimezone(ZoneInfo(zone))
    return shown.strftime(SECONDS if shown.second else MINUTES)
